"""What the operator and the metrics may know of a supervised MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cordboard.mcp.supervision.breaker import BreakerState


class ServerState(StrEnum):
    """Where a server is in its life."""

    IDLE = "idle"
    """A lazy one that nobody has needed yet. Nothing is wrong with it."""
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    """Given up. `SupervisedServer.restart` tries afresh."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What the operator may know of a server at one moment."""

    server: str
    state: ServerState
    since: float
    """Unix time of the last change of state."""
    pid: int | None
    protocol: str
    tools: tuple[str, ...]
    """Names as the server gives them."""
    restarts: int
    """Lives after the first, since the engine runs."""
    last_error: str
    stderr: tuple[str, ...]
    """The last lines the server wrote there."""
    breaker: BreakerState = BreakerState.CLOSED
    """Whether calls pass. Open: refused at once, because the last ones were not answered."""
    quarantined: tuple[str, ...] = ()
    """Tools that are not offered until they are accepted (`mcp.lock: enforce`)."""


class ServerObserver(Protocol):
    """What metrics want to know. Called on the event loop; must return at once."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """The server became ready, or is no longer."""
        ...

    def mcp_server_restarted(self, server: str) -> None:
        """A new life of the server begins."""
        ...

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Calls to the server are refused from now on, or pass again."""
        ...

    def internal_error(self, where: str) -> None:
        """A mistake of ours was caught; `where` is a fixed word."""
        ...


class SilentServerObserver:
    """A `ServerObserver` that wants to know nothing."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Ignore it."""

    def mcp_server_restarted(self, server: str) -> None:
        """Ignore it."""

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Ignore it."""

    def internal_error(self, where: str) -> None:
        """Ignore it."""
