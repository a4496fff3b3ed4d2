"""A tool of `kind: workflow`: steps that are other tools of the toolbox.

    book:
      kind: workflow
      description: Book a table.
      parameters: {day: {type: string}, seats: {type: integer, default: 2}}
      steps:
        - {id: free, tool: find_tables, arguments: {day: "{args.day}", seats: "{args.seats}"}}
        - id: booked
          tool: book_table
          when: {path: steps.free.data.tables.0, exists: true}
          arguments: {table: "{steps.free.data.tables.0.id}", day: "{args.day}"}
      result: {table: "{steps.free.data.tables.0.name}"}
      speech_template: "I have booked {result.table}."

`config.checks.workflows` checks that the named tools, steps and parameters exist;
`cordboard.tools.workflow` runs the steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from pydantic import Field, model_validator

from cordboard.config.patterns import StepId, ToolName
from cordboard.config.section import Section
from cordboard.config.sections.tool import ToolSection
from cordboard.config.templates import JsonTemplateValue, PathText
from cordboard.config.tools.parameters import Parameters
from cordboard.config.yaml_document import KeyPath

OnError: TypeAlias = Literal["stop", "continue"]

COMPARISONS = ("equals", "not_equals", "in", "greater", "less", "exists")
"""Keys that compare the value at `path`."""
_GROUPS = ("all", "any", "none")


class Condition(Section):
    """Condition of a step. All of its keys must hold."""

    path: PathText | None = Field(
        None,
        description="The compared value, such as `steps.free.data.seats`, `args.day` or "
        "`call.caller_number`.",
    )
    equals: JsonTemplateValue = Field(None, description="It is this; also a text with {paths}.")
    not_equals: JsonTemplateValue = Field(None, description="It is there, and not this.")
    one_of: tuple[JsonTemplateValue, ...] | None = Field(
        None, alias="in", description="It is one of these."
    )
    greater: JsonTemplateValue = Field(
        None, description="It is more than this: two numbers, or two texts (dates as in ISO 8601)."
    )
    less: JsonTemplateValue = Field(None, description="It is less than this.")
    exists: bool | None = Field(
        None,
        description="`true`: the value exists and is not null; `false`: it does not.",
    )
    ok: StepId | None = Field(None, description="This step ran and did not fail.")
    all: tuple[Condition, ...] = Field((), description="All of these hold.")
    any: tuple[Condition, ...] = Field((), description="At least one of these holds.")
    none: tuple[Condition, ...] = Field((), description="None of these holds.")

    @property
    def compared(self) -> dict[str, Any]:
        """Return the comparisons of the value at `path`, by the keys of the file."""
        given = {
            "in" if name == "one_of" else name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set
        }
        return {key: value for key, value in given.items() if key in COMPARISONS}

    @model_validator(mode="after")
    def _says_something(self) -> Condition:
        compared = self.compared
        if self.path is None and compared:
            raise ValueError(f"`{next(iter(compared))}` needs a `path`: what it is said of")
        if self.path is not None and not compared:
            raise ValueError(f"`path` needs one of {', '.join(COMPARISONS)}")
        if self.path is None and self.ok is None and not (self.all or self.any or self.none):
            raise ValueError("a condition needs a `path`, `ok`, `all`, `any` or `none`")
        return self

    def inner(self) -> Iterator[tuple[KeyPath, Condition]]:
        """Yield the inner conditions, with their paths."""
        for key in _GROUPS:
            for index, condition in enumerate(getattr(self, key)):
                yield (key, index), condition


class ToolStep(Section):
    """One tool to run."""

    id: StepId = Field(
        description="Its name in the paths of later steps: `steps.<id>.data...`, "
        "`steps.<id>.message`, `steps.<id>.status`."
    )
    tool: ToolName = Field(description="Exposed name of a tool of the same context.")
    arguments: dict[str, JsonTemplateValue] = Field(
        default_factory=dict,
        description="Its arguments; texts may have {args.x}, {steps.id.data.path}, "
        "{steps.id.message} and {call.variable}.",
    )
    when: Condition | None = Field(
        None, description="Run it only if this holds; else it counts as skipped."
    )
    on_error: OnError = Field(
        "stop", description="On failure: `stop` = the workflow fails; `continue` = the next step."
    )


class Step(Section):
    """One tool to run, or several at the same time."""

    id: StepId | None = Field(
        None, description="As in `parallel`; every step with a `tool` has one."
    )
    tool: ToolName | None = Field(None, description="Exposed name of a tool of the same context.")
    arguments: dict[str, JsonTemplateValue] = Field(
        default_factory=dict, description="Its arguments: as in `parallel`."
    )
    when: Condition | None = Field(
        None, description="Run it, or all of them, only if this holds; else it counts as skipped."
    )
    on_error: OnError = Field("stop", description="On failure: as in `parallel`.")
    parallel: tuple[ToolStep, ...] = Field(
        (), description="In place of `tool`: steps that run at the same time.", max_length=20
    )

    @model_validator(mode="after")
    def _one_or_several(self) -> Step:
        if not self.parallel:
            if self.id is None or self.tool is None:
                raise ValueError("a step needs `id` and `tool`, or `parallel` with such steps")
            return self
        for name in ("id", "tool", "arguments", "on_error"):
            if name in self.model_fields_set:
                raise ValueError(
                    f"`{name}` does not go with `parallel`; each step there has its own"
                )
        return self

    def tool_steps(self) -> tuple[tuple[KeyPath, ToolStep], ...]:
        """Return the tools that it runs, with their paths."""
        if self.parallel:
            return tuple((("parallel", index), step) for index, step in enumerate(self.parallel))
        assert self.id is not None and self.tool is not None  # noqa: S101, PT018 - checked above
        # `when` belongs to the step: it is evaluated once for all its tools.
        alone = ToolStep.model_construct(
            id=self.id, tool=self.tool, arguments=self.arguments, on_error=self.on_error
        )
        return (((), alone),)


class WorkflowTool(ToolSection):
    """A tool made of others: its steps run in order, each by the rules of its own tool, and one
    answer is made of theirs."""

    kind: Literal["workflow"] = Field(description="The kind of tool.")
    description: str = Field(min_length=1, description="Description for the agent.")
    parameters: Parameters = Field(
        default_factory=dict,
        description="Its arguments: name → JSON Schema; required without a `default` or "
        "`required: false`.",
    )
    steps: tuple[Step, ...] = Field(
        min_length=1, max_length=50, description="The steps, in this order."
    )
    result: dict[str, JsonTemplateValue] = Field(
        default_factory=dict,
        description="The data of its answer; texts may have {paths}. Default: the data of the last "
        "step that ran.",
    )

    def tool_steps(self) -> Iterator[tuple[KeyPath, ToolStep]]:
        """Yield all tools that it may run, with their paths."""
        for index, step in enumerate(self.steps):
            for path, inner in step.tool_steps():
                yield ("steps", index, *path), inner
