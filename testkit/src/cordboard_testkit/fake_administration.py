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
from cordboard.errors import LockChanged, NotThere
from cordboard.generation.tool_listing import ToolListing
from cordboard.mcp.definitions.acceptance import Comparison
from cordboard.mcp.message_log import LoggedMessage, Tail, tail_after
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


MESSAGE = LoggedMessage(1_795_275_374.5, "sent", "request", "1", "tools/list", "{}", False)
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
        self.messages = [MESSAGE]
        self.compared = [Comparison("atis", "changed", ("mcp:atis:get_metar (new)",), "0" * 64)]
        """The comparison of its server with the lock file."""
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

    def mcp_stderr(self, server_id: str, after: int) -> Tail[str]:
        self._known(server_id)
        return tail_after(self.status.stderr, len(self.status.stderr), after)

    async def mcp_protocol(self, server_id: str, after: int) -> Tail[LoggedMessage]:
        self._known(server_id)
        return tail_after(self.messages, len(self.messages), after)

    async def mcp_lock(self) -> Sequence[Comparison]:
        return self.compared

    async def mcp_accept(self, server_id: str, digest: str) -> None:
        await self._asked("accept", server_id)
        if digest != self.compared[0].digest:
            raise LockChanged("the tools are no longer those that you have seen")

    async def reload(self) -> ReloadReport:
        self.asked.append("reload")
        return self.reloaded

    async def _asked(self, what: str, server_id: str) -> ServerStatus:
        self.asked.append(f"{what} {server_id}")
        if self.hold is not None:
            self.held.set()
            await self.hold.wait()
        self._known(server_id)
        if self.failure is not None:
            raise self.failure
        return self.status

    def _known(self, server_id: str) -> None:
        if server_id != "atis":
            raise KeyError(server_id)
