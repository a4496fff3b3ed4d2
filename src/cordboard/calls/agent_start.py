"""The start of an agent, which prepares while the caller's sound comes up."""

from __future__ import annotations

import asyncio
import contextlib

from cordboard.agent_api.agent import Agent, AgentSession
from cordboard.errors import AgentError

AGENT_START_LIMIT = 15.0
"""Timeout in seconds of an agent's start; the caller hears nothing meanwhile."""


class AgentStart:
    """The start of one agent: it prepares while the media comes up, and is then started.

    A failure during preparation is not reported here: `Agent.start` raises the same error again.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._preparing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Have the agent prepare; returns at once."""
        self._preparing = asyncio.get_running_loop().create_task(self._prepare(), name="prepare")

    async def start(self, session: AgentSession) -> None:
        """Start the agent. Raises `AgentError` when it fails, or takes too long."""
        try:
            async with asyncio.timeout(AGENT_START_LIMIT):
                await self._agent.start(session)
        except TimeoutError:
            message = f"the agent did not start within {AGENT_START_LIMIT:g} s"
            raise AgentError(message, "connect") from None

    async def close(self) -> None:
        """Cancel a running preparation, and close the agent."""
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait((self._preparing,))
        await self._agent.close()

    async def _prepare(self) -> None:
        with contextlib.suppress(AgentError):
            await self._agent.prepare()
