"""A written conversation in this process: the configuration's contexts, tools and MCP
servers without telephones and without models, so that it begins within a second or two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.services import CallServices
from cordboard.chat.sessions import ChatSessions, known_context
from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.runtime.reload import Reloader

SETTLE_SECONDS = 30.0
"""Longest wait for the first start of the MCP servers."""


@asynccontextmanager
async def chat_here(config: Config, folder: Path, context: str) -> AsyncIterator[ChatSessions]:
    """Yield conversations with one context, once its tools are there or the servers that may have
    them have failed. Servers that it does not need are not started.

    `folder`: base of relative paths in the file. Raises a `CordboardError`; at the end everything
    is closed.
    """
    known_context(config, context)
    config = config.model_copy(update={"contexts": {context: config.contexts[context]}})
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        writer = LedgerWriter(vault=config.privacy.encryption.vault)
        stack.callback(writer.close)
        pool = ServerPool(metrics.servers, is_open=False)
        succession = Reloader(config, pool, _no_models, Degradation(), folder)
        stack.push_async_callback(succession.close)
        await succession.begin()
        if _missing(context, succession.generation):
            pool.open()
            await _tools_of(context, succession.generation)
        services = CallServices(
            writer,
            metrics,
            config.calls.directory,
            redactor=lambda: config.privacy.redact.redactor,
        )
        sessions = ChatSessions(lambda: succession.generation, succession.brain, services)
        stack.push_async_callback(sessions.close)
        yield sessions


async def _tools_of(context: str, generation: Generation) -> None:
    """Wait for the context's tools, and not for servers that have none of them."""
    servers = [lease.server for lease in generation.fleet.leases.values() if lease.begun]
    starting = {asyncio.ensure_future(server.settled.wait()) for server in servers}
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while starting and _missing(context, generation):
                _, starting = await asyncio.wait(starting, return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        pass  # the conversation reports missing ones
    finally:
        for waiting in starting:
            waiting.cancel()


def _missing(context: str, generation: Generation) -> bool:
    """Return True if any tool of the context, or of its look-ups, is missing."""
    steps = [step.tool for step in generation.config.contexts[context].pre_call]
    return bool(generation.phase_toolbox(steps, context).missing)


async def _no_models(_: Config) -> None:
    """Return no models: a written conversation needs none."""
