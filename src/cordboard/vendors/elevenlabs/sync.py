"""Write the needs of a configuration into an agent at ElevenLabs: `cordboard elevenlabs sync`.

First the changes are computed and can be shown (`Sync.plan`), then they are written (`Sync.apply`):
new tools, changed tools, the agent, and last the removals. Each step leaves a working agent, and
the next run finishes an aborted one. In the end everything is read again: a value that the service
has not kept is an error.
"""

from __future__ import annotations

from dataclasses import replace

from cordboard.errors import AgentError
from cordboard.tools.tool import JsonObject
from cordboard.vendors.elevenlabs.rest import ElevenLabsRest
from cordboard.vendors.elevenlabs.sync_plan import Plan, Wanted, plan_for, side_effects


class Sync:
    """Synchronises one agent. Raises `AgentError` for every failure."""

    def __init__(self, rest: ElevenLabsRest, wanted: Wanted) -> None:
        """`rest`: an open client."""
        self._rest = rest
        self._wanted = wanted
        self._agent: JsonObject = {}

    async def plan(self) -> Plan:
        """Return the changes to make now. Writes nothing."""
        self._agent = await self._rest.agent(self._wanted.settings.agent_id)
        return plan_for(self._agent, await self._rest.tools(), self._wanted)

    async def apply(self, plan: Plan) -> tuple[str, ...]:
        """Write the changes. Return the results that differ from the plan, in words; normally
        empty."""
        if plan.nothing:
            return ()
        before, agent_id = self._agent, plan.agent_id
        created = [await self._rest.create_tool(config) for config in plan.create]
        for change in plan.update:
            await self._rest.update_tool(change.tool_id, change.config)
        patch = plan.patch(created)
        if patch:
            await self._rest.patch_agent(agent_id, patch)
        for tool_id, _ in plan.remove:
            await self._rest.delete_tool(tool_id)
        self._wanted = replace(self._wanted, adopts=False)
        left = await self.plan()
        if not left.nothing:
            told = "; ".join(line.strip() for line in left.lines()[1:4])
            raise AgentError(f"ElevenLabs did not keep what was written: {told}", "refused")
        unmarked = [name for name in left.in_the_way if name not in plan.in_the_way]
        return (
            *(f"tool {name}: its mark was not kept; next time say --adopt" for name in unmarked),
            *(f"{place}: changed too" for place in side_effects(before, self._agent, patch)),
        )
