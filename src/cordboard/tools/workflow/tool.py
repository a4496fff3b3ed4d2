"""A workflow as a `Tool`: runs the steps of its plan through the desk of the call.

Each step is a tool call like any other: a tool outside the call's toolbox is refused, a destructive
one asks the caller first, its own limits, timeout and speech apply. Steps of one block run at the
same time, and all of them finish, even if one fails. Cancelling the workflow cancels its running
steps.
"""

from __future__ import annotations

import asyncio

from cordboard.tools.tool import JsonObject, ToolResult, ToolRun, ToolSpec
from cordboard.tools.workflow.plan import Answers, Plan, PlannedStep


class WorkflowTool:
    """One workflow."""

    def __init__(self, spec: ToolSpec, plan: Plan) -> None:
        self._spec = spec
        self._plan = plan

    @property
    def spec(self) -> ToolSpec:
        return self._spec

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
