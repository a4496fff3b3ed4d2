"""A conversation in writing held in this process: the configuration's contexts, tools and MCP
servers without telephones and without models, so that it begins within a second or two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.services import CallServices
from cordboard.chat.sessions import ChatSessions, known_context
from cordboard.config.schema import Config
from cordboard.mcp.pool import ServerPool
from cordboard.observe.degradation import Degradation
from cordboard.observe.metrics import Metrics
from cordboard.succession import Succession

SETTLE_SECONDS = 30.0
"""How long the first start of the MCP servers is waited for."""


@asynccontextmanager
async def chat_here(config: Config, folder: Path, context: str) -> AsyncIterator[ChatSessions]:
    """Conversations over a configuration, once its MCP servers have started or failed.

    `folder`: where relative paths of the file begin. Raises a `CordboardError`; at the end nothing
    is left of it.
    """
    known_context(config, context)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        writer = LedgerWriter()
        stack.callback(writer.close)
        succession = Succession(config, ServerPool(metrics), _no_models, Degradation(), folder)
        stack.push_async_callback(succession.close)
        await succession.begin()
        await succession.generation.fleet.wait_settled(SETTLE_SECONDS)
        services = CallServices(writer, metrics, config.calls.directory)
        sessions = ChatSessions(lambda: succession.generation, succession.brain, services)
        stack.push_async_callback(sessions.close)
        yield sessions


async def _no_models(_: Config) -> None:
    """Who writes needs no ears."""
