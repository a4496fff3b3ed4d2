"""A workflow without its execution: the order of steps, their arguments, and the final result.

`Plan` is made once from the configuration; `Answers` holds the state of one run. The shell
(`cordboard.tools.workflow.tool`) asks which steps of a block to run, with which arguments, and
hands in their results. Pure: no clock, no event loop, and nothing here raises, for any data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.templates import (
    JsonTemplate,
    Template,
    read_json_template,
    read_path,
    read_template,
)
from cordboard.config.tools.parameters import parameter_defaults
from cordboard.config.tools.workflow_tool import Condition, OnError, Step, WorkflowTool
from cordboard.tools.speech.template import as_words, fill
from cordboard.tools.templates import MISSING, fill_json, look_up
from cordboard.tools.tool import ErrorWords, JsonObject, Status, ToolResult

SKIPPED = "skipped"
"""The status of a step whose condition was false."""


def holds(condition: Condition, scope: Mapping[str, Any]) -> bool:
    """True if every part of the condition holds.

    A comparison with a missing value is always false, except `exists: false`.
    """
    if condition.path is not None:
        value = look_up(scope, read_path(condition.path))
        said = condition.compared.items()
        if not all(_is_so(value, key, _wanted(wanted, scope)) for key, wanted in said):
            return False
    if condition.ok is not None and not _was_ok(condition.ok, scope):
        return False
    return (
        all(holds(inner, scope) for inner in condition.all)
        and (not condition.any or any(holds(inner, scope) for inner in condition.any))
        and not any(holds(inner, scope) for inner in condition.none)
    )


def _wanted(value: Any, scope: Mapping[str, Any]) -> Any:
    """Return the value to compare with; it may contain placeholders."""
    if isinstance(value, tuple):
        return [_wanted(item, scope) for item in value]
    return fill_json(read_json_template(value), scope)


def _was_ok(step: str, scope: Mapping[str, Any]) -> bool:
    return bool(scope["steps"].get(step, {}).get("ok"))


def _is_so(value: Any, key: str, wanted: Any) -> bool:
    if key == "exists":
        return bool(wanted) is (value is not MISSING and value is not None)
    if value is MISSING or wanted is MISSING:
        return False
    match key:
        case "equals":
            return _same(value, wanted)
        case "not_equals":
            return not _same(value, wanted)
        case "in":
            return any(_same(value, item) for item in wanted)
        case "greater":
            return _comparable(value, wanted) and bool(value > wanted)
    return _comparable(value, wanted) and bool(value < wanted)


def _same(value: Any, other: Any) -> bool:
    """Compare as in JSON: true is not 1, but 1 is 1.0."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _comparable(value: Any, other: Any) -> bool:
    if isinstance(value, bool) or isinstance(other, bool):
        return False
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return numbers or (isinstance(value, str) and isinstance(other, str))


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One tool call of a workflow."""

    id: str
    tool: str
    arguments: JsonTemplate
    when: Condition | None
    on_error: OnError


@dataclass(frozen=True, slots=True)
class Block:
    """Steps that run at the same time; usually one."""

    steps: tuple[PlannedStep, ...]
    when: Condition | None


@dataclass(frozen=True, slots=True)
class Plan:
    """A parsed workflow."""

    blocks: tuple[Block, ...]
    defaults: JsonObject
    """Values of the parameters that are left out."""
    result: JsonTemplate | None
    template: Template | None
    field: tuple[str, ...] | None
    errors: ErrorWords

    @property
    def tools(self) -> tuple[str, ...]:
        """The exposed names of all tools that it may run."""
        return tuple(dict.fromkeys(step.tool for block in self.blocks for step in block.steps))


def read_plan(config: WorkflowTool) -> Plan:
    """Return the plan of a checked configuration."""
    words = config.error_messages
    return Plan(
        blocks=tuple(_block(step) for step in config.steps),
        defaults=parameter_defaults(config.parameters),
        result=read_json_template(config.result) if config.result else None,
        template=read_template(config.speech_template) if config.speech_template else None,
        field=read_path(config.speech_field) if config.speech_field else None,
        errors=ErrorWords(words.timeout, words.error, words.unavailable),
    )


def _block(step: Step) -> Block:
    return Block(
        tuple(
            PlannedStep(
                inner.id,
                inner.tool,
                read_json_template(inner.arguments),
                inner.when,
                inner.on_error,
            )
            for _, inner in step.tool_steps()
        ),
        step.when,
    )


@dataclass(slots=True)
class Answers:
    """The state of one run."""

    plan: Plan
    scope: JsonObject
    """The values that templates may use: `args`, `call`, `steps`."""
    last: tuple[str, ...] = ()
    """The successful steps of the last block that has any."""
    control: dict[str, bool] = field(default_factory=dict)
    _good: dict[str, ToolResult] = field(default_factory=dict)
    _block: tuple[str, ...] = ()
    """The steps of the current block."""
    _failure: tuple[str, ToolResult] | None = None

    @property
    def failed(self) -> bool:
        """True if a failed step has ended the run."""
        return self._failure is not None

    @classmethod
    def begin(cls, plan: Plan, arguments: JsonObject, variables: Mapping[str, str]) -> Answers:
        """Return the state of a run that begins."""
        args = plan.defaults | arguments
        return cls(plan, {"args": args, "call": dict(variables), "steps": {}})

    def due(self, block: Block) -> tuple[tuple[PlannedStep, JsonObject], ...]:
        """Return the steps of a block to run now, with their arguments; the other steps of the
        block become `skipped`."""
        together = block.when is None or holds(block.when, self.scope)
        due = tuple(
            (step, fill_json(step.arguments, self.scope))
            for step in block.steps
            if together and (step.when is None or holds(step.when, self.scope))
        )
        run = {step.id for step, _ in due}
        for step in block.steps:
            if step.id not in run:
                self.scope["steps"][step.id] = {"status": SKIPPED, "ok": False}
        self._block = tuple(step.id for step, _ in due)
        return due

    def take(self, step: PlannedStep, result: ToolResult) -> None:
        """Record the result of a step."""
        ok = result.status is Status.OK
        answer = {"status": str(result.status), "ok": ok, "message": result.message}
        if ok:
            answer["data"] = result.data
            self.control |= result.control
            self._good[step.id] = result
            self.last = tuple(step for step in self._block if step in self._good)
        self.scope["steps"][step.id] = answer
        if not ok and step.on_error == "stop" and self._failure is None:
            self._failure = step.id, result

    def result(self) -> ToolResult:
        """Return the result of the workflow: of its failure, or after all steps."""
        return self._success() if self._failure is None else self._failed(*self._failure)

    def _success(self) -> ToolResult:
        data = self._data()
        said = (self._good[step].message for step in self.last)
        # Steps without speech settings all report the same sentence: once is enough.
        spoken = self._spoken(data) or " ".join(dict.fromkeys(filter(None, said)))
        return ToolResult(Status.OK, spoken, data, self.control)

    def _data(self) -> Any:
        if self.plan.result is not None:
            return fill_json(self.plan.result, self.scope)
        if len(self.last) == 1:
            return self._good[self.last[0]].data
        return {step: self._good[step].data for step in self.last}

    def _spoken(self, data: Any) -> str:
        text = None
        if self.plan.template is not None:
            text = fill(self.plan.template, self.scope | {"result": data})
        if not text and self.plan.field is not None:
            text = as_words(look_up(data, self.plan.field))
        return text or ""

    def _failed(self, step: str, result: ToolResult) -> ToolResult:
        """Return the result of a failure. A refusal addresses the model, other failures the
        caller."""
        steps = {name: answer["status"] for name, answer in self.scope["steps"].items()}
        data = {"failed_step": step, "steps": steps}
        errors = self.plan.errors
        if result.status is Status.REFUSED:
            text = f"The step {step} was refused. {result.message}"
            return ToolResult(Status.REFUSED, text, data, self.control)
        if result.status is Status.TIMEOUT:
            words = errors.timeout or result.message
            return ToolResult(Status.TIMEOUT, words, data, self.control)
        return ToolResult(Status.ERROR, errors.error or result.message, data, self.control)
