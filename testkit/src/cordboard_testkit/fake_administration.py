"""An administration without an engine, for clients of the HTTP port.

It knows one MCP server, `atis`, does nothing, returns the configured answers, and records its
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cordboard.api.administration_view import ReloadReport
from cordboard.config.versions import Author
from cordboard.errors import NotThere
from cordboard.generation.tool_listing import ToolListing
from cordboard.mcp.supervision.breaker import BreakerState
from cordboard.mcp.supervision.status import ServerState, ServerStatus
from cordboard.mcp.trial import TestReport

ATIS = ServerStatus(
    server="atis",
    state=ServerState.READY,
    since=1_795_275_374.25,
    pid=4711,
    protocol="2025-11-25",
    tools=("get_atis", "get_metar"),
    restarts=2,
    last_error="it ended with status 1",
    stderr=tuple(f"line {number}" for number in range(50)),
    breaker=BreakerState.OPEN,
    quarantined=("get_metar",),
)


Report = partial(TestReport, ok=True, took_ms=312, protocol="2025-11-25", tools=("get_atis",))
"""The result of a test; a good one, unless told otherwise."""
Reloaded = partial(ReloadReport, applied=True, generation=2)
"""The result of a reload; a good one, unless told otherwise."""


class FakeAdministration:
    """An `api.administration_view.Administration`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """`restart atis`, `reload`, ..., in order."""
        self.status = ATIS
        """The status of its server, which no command changes."""
        self.mcp_listing: list[Mapping[str, Any]] = []
        self.listing = ToolListing(None, (), ())
        self.report = Report()
        self.reloaded = Reloaded()
        self.failure: Exception | None = None
        """Raised by every command for the server."""
        self.hold: asyncio.Event | None = None
        """Every command for the server waits for it."""
        self.held = asyncio.Event()
        """Set when a command waits."""

    def mcp_status(self) -> Sequence[ServerStatus]:
        return [self.status]

    def mcp_tools(self) -> Sequence[Mapping[str, Any]]:
        return self.mcp_listing

    def tools(self, context: str | None = None) -> ToolListing:
        if context not in (None, self.listing.context):
            raise NotThere(f"there is no context {context!r}")
        return self.listing

    async def publish(self, text: str, base: str, author: Author) -> ReloadReport:
        self.asked.append(f"publish {base}")
        return self.reloaded

    async def mcp_test(self, server_id: str) -> TestReport:
        await self._asked("test", server_id)
        return self.report

    async def mcp_start(self, server_id: str) -> ServerStatus:
        return await self._asked("start", server_id)

    async def mcp_stop(self, server_id: str) -> ServerStatus:
        return await self._asked("stop", server_id)

    async def mcp_restart(self, server_id: str) -> ServerStatus:
        return await self._asked("restart", server_id)

    async def reload(self) -> ReloadReport:
        self.asked.append("reload")
        return self.reloaded

    async def _asked(self, what: str, server_id: str) -> ServerStatus:
        self.asked.append(f"{what} {server_id}")
        if self.hold is not None:
            self.held.set()
            await self.hold.wait()
        if server_id != "atis":
            raise KeyError(server_id)
        if self.failure is not None:
            raise self.failure
        return self.status
