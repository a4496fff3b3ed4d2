"""A workflow as a `Tool`: runs the steps of its plan through the desk of the call.

Each step is a tool call like any other: a tool outside the call's toolbox is refused, a destructive
one asks the caller first, its own limits, timeout and speech apply. Steps of one block run at the
same time, and all of them finish, even if one fails. Cancelling the workflow cancels its running
steps.

The workflows of a configuration are made again when the tools around them change. The effects of a
workflow are the strongest effects of its steps' tools at that time, unless the operator states
them. A missing tool, for example of an MCP server that has not answered yet, counts as destructive.
A workflow itself asks for no approval unless its `approval` says so: its steps ask for their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from cordboard.config.checks.workflows import order_of
from cordboard.config.tools.entry import ToolEntry
from cordboard.config.tools.parameters import parameters_schema
from cordboard.config.tools.workflow_tool import WorkflowTool as WorkflowConfig
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Limits,
    Speech,
    ToolResult,
    ToolRun,
    ToolSpec,
)
from cordboard.tools.workflow.plan import Answers, Plan, PlannedStep, read_plan

TIMEOUT_MS = 60_000
"""Of a workflow that states none: each of its steps has a timeout of its own."""

_STRENGTH = (Effects.READ_ONLY, Effects.IDEMPOTENT, Effects.DESTRUCTIVE)


class WorkflowTool:
    """One workflow."""

    def __init__(self, spec: ToolSpec, plan: Plan) -> None:
        self.spec = spec
        self._plan = plan

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Run the steps. A failing step does not raise."""
        answers = Answers.begin(self._plan, arguments, run.line.variables)
        for block in self._plan.blocks:
            due = answers.due(block)
            if len(due) == 1:
                step, given = due[0]
                answers.take(step, await run.step(step.tool, given))
            elif due:
                for step, result in await _together(due, run):
                    answers.take(step, result)
            if answers.failed:
                break
        return answers.result()


async def _together(
    due: tuple[tuple[PlannedStep, JsonObject], ...], run: ToolRun
) -> list[tuple[PlannedStep, ToolResult]]:
    """Run the steps at the same time; return their results in the order of the file."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            (step, group.create_task(run.step(step.tool, given), name=f"step {step.id}"))
            for step, given in due
        ]
    return [(step, task.result()) for step, task in tasks]


class WorkflowMaker:
    """Makes the workflows of one configuration."""

    def __init__(self, tools: Mapping[str, ToolEntry]) -> None:
        workflows = {
            name: entry for name, entry in tools.items() if isinstance(entry, WorkflowConfig)
        }
        self._plans = {
            name: (workflows[name], read_plan(workflows[name])) for name in order_of(workflows)
        }
        self._made: dict[str, WorkflowTool] = {}

    def made(self, specs: Mapping[str, ToolSpec]) -> tuple[WorkflowTool, ...]:
        """The workflows, given all other tools by their exposed names. One that would be as before
        is the same object."""
        known = dict(specs)
        for name, (config, plan) in self._plans.items():
            spec = _spec(name, config, plan, known)
            earlier = self._made.get(name)
            if earlier is None or earlier.spec != spec:
                self._made[name] = WorkflowTool(spec, plan)
            known[name] = spec
        return tuple(self._made.values())


def _spec(name: str, config: WorkflowConfig, plan: Plan, known: Mapping[str, ToolSpec]) -> ToolSpec:
    effects = [known[tool].effects if tool in known else Effects.DESTRUCTIVE for tool in plan.tools]
    spec = ToolSpec(
        name=name,
        kind="workflow",
        description=config.description,
        parameters=parameters_schema(config.parameters),
        origin=f"workflow:{name}",
        limits=Limits(timeout_ms=TIMEOUT_MS),
        effects=max(effects, key=_STRENGTH.index, default=Effects.READ_ONLY),
        secret_arguments=frozenset(
            key for key, schema in config.parameters.items() if schema.get("secret") is True
        ),
    )
    ruled = apply_rules(spec, config)
    # What is spoken it says itself, since it may name the steps.
    return replace(ruled, speech=Speech(errors=ruled.speech.errors))
