"""Checks of the workflows: steps, paths, tools, and no workflow within itself.

    a.yaml:12: tools.book.steps[1].arguments.table: there is no step fre; did you mean free?

All problems are mistakes in the file and fatal. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cordboard.config.explain import suggestion
from cordboard.config.templates import (
    Path,
    Placeholder,
    placeholders_in,
    read_json_template,
    read_path,
    read_template,
)
from cordboard.config.tools.workflow_tool import Condition, WorkflowTool
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]

STEP_ANSWER = ("data", "message", "status", "ok")
"""Fields of a finished step, under `steps.<id>`."""


def check_workflows(
    workflows: Mapping[str, WorkflowTool], variables: Collection[str], document: Document
) -> Problems:
    """Yield all problems. `variables` are the call variables of all contexts."""
    for name, workflow in workflows.items():
        yield from _Workflow(workflow, variables, ("tools", name), document).problems()
    yield from _circles(workflows, document)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names that a text at one place may use."""

    parameters: Collection[str]
    variables: Collection[str]
    earlier: Collection[str]
    """Steps that have answered."""
    later: Collection[str]
    """Steps that have not answered yet."""
    result: Collection[str] | None = None
    """Keys of `result`, where they may be named."""

    def problem(self, path: Path) -> str:
        """Return the problem of a path; empty if there is none."""
        first, rest = path[0], path[1:]
        if first == "args":
            return self._named("parameter", rest, self.parameters)
        if first == "call":
            return self._named("call variable", rest, self.variables)
        if first == "result" and self.result is not None:
            return self._named("key in `result`:", rest, self.result)
        if first == "steps":
            return self._step(rest)
        begin = (
            "args., steps. or call." if self.result is None else "args., steps., result. or call."
        )
        return f"there is no value {'.'.join(path)}; expected one that begins with {begin}"

    def _named(self, kind: str, rest: Path, known: Collection[str]) -> str:
        if not rest:
            return f"expected the name of a {kind.split()[0]} after it"
        return (
            "" if rest[0] in known else f"there is no {kind} {rest[0]}{suggestion(rest[0], known)}"
        )

    def _step(self, rest: Path) -> str:
        if not rest:
            return "expected the id of a step after steps."
        step = rest[0]
        if step in self.later:
            return f"the step {step} has no answer yet here; only steps before this one have"
        if step not in self.earlier:
            return f"there is no step {step}{suggestion(step, self.earlier)}"
        if len(rest) < 2 or rest[1] not in STEP_ANSWER:
            return f"expected one of {', '.join(STEP_ANSWER)} after steps.{step}."
        return ""


class _Workflow:
    """The checks of one workflow."""

    def __init__(
        self, tool: WorkflowTool, variables: Collection[str], place: KeyPath, document: Document
    ) -> None:
        self._tool = tool
        self._variables = variables
        self._place = place
        self._document = document

    def problems(self) -> Problems:
        ids = [step.id for _, step in self._tool.tool_steps()]
        yield from self._doubles()
        earlier: list[str] = []
        for index, step in enumerate(self._tool.steps):
            later = [name for name in ids if name not in earlier]
            scope = _Scope(self._tool.parameters, self._variables, tuple(earlier), later)
            place: KeyPath = ("steps", index)
            if step.when is not None:
                yield from self._condition(step.when, (*place, "when"), scope)
            for path, inner in step.tool_steps():
                here = (*place, *path)
                yield from self._template(inner.arguments, (*here, "arguments"), scope)
                if inner.when is not None:
                    yield from self._condition(inner.when, (*here, "when"), scope)
                earlier.append(inner.id)
        scope = _Scope(self._tool.parameters, self._variables, earlier, ())
        yield from self._template(self._tool.result, ("result",), scope)
        yield from self._spoken(earlier)

    def _doubles(self) -> Problems:
        seen: set[str] = set()
        for path, step in self._tool.tool_steps():
            if step.id in seen:
                words = f"another step is called {step.id} already; each needs an id of its own"
                yield self._problem((*path, "id"), words)
            seen.add(step.id)

    def _spoken(self, steps: Collection[str]) -> Problems:
        template = self._tool.speech_template
        if template is None:
            return
        scope = _Scope(self._tool.parameters, self._variables, steps, (), self._tool.result)
        for piece in read_template(template):
            if isinstance(piece, Placeholder) and (words := scope.problem(piece.path)):
                yield self._problem(("speech_template",), words)

    def _template(self, value: object, place: KeyPath, scope: _Scope) -> Problems:
        for path, placeholder in placeholders_in(read_json_template(value)):
            if words := scope.problem(placeholder.path):
                yield self._problem((*place, *path), words)

    def _condition(self, condition: Condition, place: KeyPath, scope: _Scope) -> Problems:
        if condition.path is not None and (words := scope.problem(read_path(condition.path))):
            yield self._problem((*place, "path"), words)
        if condition.ok is not None and (words := scope.problem(("steps", condition.ok, "ok"))):
            yield self._problem((*place, "ok"), words)
        for key, value in condition.compared.items():
            yield from self._template(value, (*place, key), scope)
        for path, inner in condition.inner():
            yield from self._condition(inner, (*place, *path), scope)

    def _problem(self, path: KeyPath, words: str) -> ConfigProblem:
        return self._document.problem((*self._place, *path), words)


def _circles(workflows: Mapping[str, WorkflowTool], document: Document) -> Problems:
    """Yield each circle once, where the file first enters it."""
    told: set[frozenset[str]] = set()
    for name in workflows:
        for path, circle in _ways_back(name, workflows):
            if frozenset(circle) not in told:
                told.add(frozenset(circle))
                way = " → ".join((*circle, name))
                words = f"the workflow would run itself: {way}"
                yield document.problem(("tools", name, *path, "tool"), words)


def _ways_back(
    name: str, workflows: Mapping[str, WorkflowTool]
) -> Iterator[tuple[KeyPath, tuple[str, ...]]]:
    """Yield the steps that lead back to the workflow, and the workflows on a shortest way."""
    for path, step in workflows[name].tool_steps():
        ways: list[tuple[str, ...]] = [(name, step.tool)] if step.tool in workflows else []
        seen = {step.tool}
        while ways:
            way = ways.pop(0)
            if way[-1] == name:
                yield path, way[:-1]
                break
            for _, inner in workflows[way[-1]].tool_steps():
                if inner.tool in workflows and inner.tool not in seen:
                    seen.add(inner.tool)
                    ways.append((*way, inner.tool))


def order_of(workflows: Mapping[str, WorkflowTool]) -> Iterable[str]:
    """Return the workflows, each after those that it uses; those in a circle in any order."""
    done: dict[str, None] = {}
    waiting = list(workflows)
    while waiting:
        ready = [
            name
            for name in waiting
            if all(
                step.tool in done or step.tool not in workflows
                for _, step in workflows[name].tool_steps()
            )
        ]
        for name in ready or waiting:
            done[name] = None
        waiting = [name for name in waiting if name not in done]
    return done
