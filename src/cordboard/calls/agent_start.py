"""How a call's agent begins: it prepares itself while the media comes up, and is then started.

What a preparation fails with, `Agent.start` fails with again, so it is not told here.
"""

from __future__ import annotations

import asyncio
import contextlib

from cordboard.agent_api.agent import Agent, AgentSession
from cordboard.errors import AgentError

AGENT_START_LIMIT = 15.0
"""Longest time an agent may take to start; the caller hears nothing meanwhile."""


class AgentStart:
    """The beginning of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._preparing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have it prepare itself; returns at once."""
        self._preparing = asyncio.get_running_loop().create_task(self._prepare(), name="prepare")

    async def start(self, session: AgentSession) -> None:
        """Start it. Raises `AgentError` when it cannot, or takes too long."""
        try:
            async with asyncio.timeout(AGENT_START_LIMIT):
                await self._agent.start(session)
        except TimeoutError:
            message = f"the agent did not start within {AGENT_START_LIMIT:g} s"
            raise AgentError(message, "connect") from None

    async def close(self) -> None:
        """Give up what still prepares, and close the agent."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait((self._preparing,))
        await self._agent.close()

    async def _prepare(self) -> None:
        with contextlib.suppress(AgentError):
            await self._agent.prepare()
