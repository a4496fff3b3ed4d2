"""The door to the other engines of a cluster, as the pool of servers sees them.

`cordboard.cluster.mcp_servers` implements it; an engine that is alone has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from cordboard.mcp.supervision.server import SupervisedServer

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from cordboard.mcp.connection import Transport
    from cordboard.mcp.stdio.transport import StdioTransport


class ServerSharing(Protocol):
    """The other engines. Called on the event loop; returns at once."""

    def transport(
        self, server: SupervisedServer, run_here: Callable[[], StdioTransport]
    ) -> Transport:
        """Make the transport of one life of a server that runs once in the cluster. `run_here`
        makes the transport of its process, if this engine is the one to run it."""

    def changed(self, server: SupervisedServer, *, breaker_open: bool) -> None:
        """The state of the newest server of its name may have changed."""

    def reported_by(self, server_id: str) -> tuple[str, ...]:
        """Return the other engines whose breaker of that server is open."""
