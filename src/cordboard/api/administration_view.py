"""What the HTTP port needs of whoever administers the engine: the door to `administration.py`.

Only shapes, so that this floor knows nothing of the engine above it. All times are Unix seconds,
all texts free of secrets: whoever implements this has masked them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cordboard.errors import ConfigProblem
from cordboard.generation.tool_listing import ToolListing
from cordboard.mcp.supervision.status import ServerStatus


class TestReportView(Protocol):
    """How a server did when it was asked for a handshake and its tools."""

    @property
    def ok(self) -> bool: ...
    @property
    def error(self) -> str:
        """Why not; empty when `ok`."""
        ...

    @property
    def took_ms(self) -> int: ...
    @property
    def protocol(self) -> str: ...
    @property
    def tools(self) -> Sequence[str]:
        """Names as the server gives them."""
        ...

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines the server wrote there."""
        ...


class DeferredView(Protocol):
    """A change that is not in force yet."""

    @property
    def what(self) -> str: ...
    @property
    def until(self) -> str: ...


class ReloadReportView(Protocol):
    """What became of a reload."""

    @property
    def applied(self) -> bool:
        """False: the file is bad and nothing has changed."""
        ...

    @property
    def generation(self) -> int:
        """The number of the generation that new calls get now."""
        ...

    @property
    def changed(self) -> Sequence[str]:
        """Dotted keys."""
        ...

    @property
    def deferred(self) -> Sequence[DeferredView]: ...
    @property
    def problems(self) -> Sequence[ConfigProblem]: ...


class Administration(Protocol):
    """What an operator may ask of a running engine.

    The methods that name a server raise `KeyError` when the configuration has none of that name,
    and a `CordboardError` when what was asked cannot be done.
    """

    def mcp_status(self) -> Sequence[ServerStatus]:
        """A snapshot of every server, at once."""
        ...

    def mcp_tools(self) -> Sequence[Mapping[str, Any]]:
        """Every listed tool: `exposed`, `origin`, `server`, `tool`, `description`, `parameters`,
        `offered`, `why_not` (empty when offered), `quarantined` (it waits for being accepted),
        `diff` (what in it is not as it was accepted). At once."""
        ...

    def tools(self, context: str | None = None) -> ToolListing:
        """Every tool of every kind, or those of a context, at once. Raises `NotThere`."""
        ...

    async def mcp_test(self, server_id: str) -> TestReportView:
        """Ask a server for a handshake and its tools, within its start timeout. One that is not
        running is started aside for it, and stopped again."""
        ...

    async def mcp_start(self, server_id: str) -> ServerStatus:
        """Begin to start a server that is stopped or was given up."""
        ...

    async def mcp_stop(self, server_id: str) -> ServerStatus:
        """Stop a server until it is started again."""
        ...

    async def mcp_restart(self, server_id: str) -> ServerStatus:
        """Stop a server and begin to start it again."""
        ...

    async def reload(self) -> ReloadReportView:
        """Read the file again and put it into force. A bad file is a report, not an error."""
        ...
