"""The workflows of a configuration as tools, made again when the tools around them change.

The effects of a workflow are the strongest effects of its steps' tools at that time, unless the
operator states them. A missing tool, for example of an MCP server that has not answered yet, counts
as destructive. A workflow itself asks for no approval unless its `approval` says so: its steps ask
for their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cordboard.config.checks.workflows import order_of
from cordboard.config.tools.entry import ToolEntry
from cordboard.config.tools.parameters import parameters_schema
from cordboard.config.tools.workflow_tool import WorkflowTool as WorkflowConfig
from cordboard.tools.rules import apply_rules
from cordboard.tools.tool import Effects, Limits, Speech, ToolSpec
from cordboard.tools.workflow.plan import Plan, read_plan
from cordboard.tools.workflow.tool import WorkflowTool

TIMEOUT_MS = 60_000
"""Timeout of a workflow that states none; each of its steps has a timeout of its own."""

_STRENGTH = (Effects.READ_ONLY, Effects.IDEMPOTENT, Effects.DESTRUCTIVE)


class WorkflowMaker:
    """Makes the workflow tools of one configuration."""

    def __init__(self, tools: Mapping[str, ToolEntry]) -> None:
        workflows = {
            name: entry for name, entry in tools.items() if isinstance(entry, WorkflowConfig)
        }
        self._plans = {
            name: (workflows[name], read_plan(workflows[name])) for name in order_of(workflows)
        }
        self._made: dict[str, WorkflowTool] = {}

    def made(self, specs: Mapping[str, ToolSpec]) -> tuple[WorkflowTool, ...]:
        """Return the workflows for these other tools, by exposed name. An unchanged workflow is the
        same object as before."""
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
    # The workflow makes its own spoken text, because the text may refer to the steps.
    return replace(ruled, speech=Speech(errors=ruled.speech.errors))
