"""The state of a supervised MCP server for the operator and the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cordboard.mcp.supervision.breaker import BreakerState


class ServerState(StrEnum):
    """The states of a supervised server."""

    IDLE = "idle"
    """A lazy server that has not been needed yet. Not an error."""
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    """Given up. `SupervisedServer.restart` tries again."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A snapshot of a server for the operator."""

    server: str
    state: ServerState
    since: float
    """Unix time of the last change of state."""
    pid: int | None
    protocol: str
    tools: tuple[str, ...]
    """Names as the server lists them."""
    restarts: int
    """Number of lives after the first, since the engine started."""
    last_error: str
    stderr: tuple[str, ...]
    """The last lines of its stderr."""
    breaker: BreakerState = BreakerState.CLOSED
    """State of the breaker. Open: calls are refused at once, the last ones were not answered."""
    capabilities: tuple[str, ...] = ()
    """As MCP names them; empty unless it is ready."""
    again_at: float | None = None
    """Unix time of the next start by itself, during the pause after a failure."""
    quarantined: tuple[str, ...] = ()
    """Tools that are not offered until they are accepted (`mcp.lock: enforce`)."""
    runs_at: str = ""
    """Engine of the cluster that runs it for this one; empty: this engine."""
    breaker_reported_by: tuple[str, ...] = ()
    """Other engines of the cluster whose breaker of this server is open."""


class ServerObserver(Protocol):
    """Receives the events for metrics. Called on the event loop; must return at once."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """The server became ready (`up`), or is no longer ready."""

    def mcp_server_restarted(self, server: str) -> None:
        """A new life of the server begins."""

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """The breaker has opened or closed."""

    def internal_error(self, where: str) -> None:
        """An internal error was caught; `where` is a fixed word."""

    def mcp_server_gone(self, server: str) -> None:
        """The last server of that name has ended."""


class SilentServerObserver:
    """A `ServerObserver` that ignores everything."""

    def mcp_server_up(self, server: str, up: bool) -> None:
        """Ignore the event."""

    def mcp_server_restarted(self, server: str) -> None:
        """Ignore the event."""

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Ignore the event."""

    def internal_error(self, where: str) -> None:
        """Ignore the event."""

    def mcp_server_gone(self, server: str) -> None:
        """Ignore the event."""
