"""The door to the administration of the engine, for the HTTP port: `administration.py`.

Only protocols, so that this layer knows nothing of the engine above it. All times are Unix seconds;
all texts are free of secrets, because the implementation has masked them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cordboard.errors import ConfigProblem
from cordboard.generation.tool_listing import ToolListing
from cordboard.mcp.supervision.status import ServerStatus


class TestReportView(Protocol):
    """Result of a server's test: handshake and tools."""

    @property
    def ok(self) -> bool: ...
    @property
    def error(self) -> str:
        """Reason of the failure; empty when `ok`."""
        ...

    @property
    def took_ms(self) -> int: ...
    @property
    def protocol(self) -> str: ...
    @property
    def tools(self) -> Sequence[str]:
        """Names from the server."""
        ...

    @property
    def stderr(self) -> Sequence[str]:
        """The server's last lines on stderr."""
        ...


class DeferredView(Protocol):
    """A change that is not in force yet."""

    @property
    def what(self) -> str: ...
    @property
    def until(self) -> str: ...


class ReloadReportView(Protocol):
    """Result of a reload."""

    @property
    def applied(self) -> bool:
        """False: the file is bad and nothing has changed."""
        ...

    @property
    def generation(self) -> int:
        """Number of the generation for new calls."""
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
    """An operator's actions on a running engine.

    Methods with a server name raise `KeyError` when the configuration has no such server, and a
    `CordboardError` when the action is impossible.
    """

    def mcp_status(self) -> Sequence[ServerStatus]:
        """Return a snapshot of every server, at once."""
        ...

    def mcp_tools(self) -> Sequence[Mapping[str, Any]]:
        """Return every listed tool at once: `exposed`, `origin`, `server`, `tool`, `description`,
        `parameters`, `offered`, `why_not` (empty when offered), `quarantined` (it waits for
        acceptance), `diff` (its differences from the accepted definition)."""
        ...

    def tools(self, context: str | None = None) -> ToolListing:
        """Return every tool of every kind, or those of a context, at once. Raises `NotThere`."""
        ...

    async def mcp_test(self, server_id: str) -> TestReportView:
        """Request a handshake and the tools from a server, within its start timeout. If it is not
        running, it is started aside for the test, and stopped again."""
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
