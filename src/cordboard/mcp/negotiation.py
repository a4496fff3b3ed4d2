"""Negotiates the protocol revision with a server and remembers it between the server's lives.

There are two kinds (mcp 2.3.0, client/session.py): up to 2025-11-25 a connection begins with the
`initialize` handshake; 2026-07-28 has no handshake, and `server/discover` returns the server's
capabilities. `auto` tries the likelier kind first, then the other. Over stdio that is the
handshake, because old servers leave `server/discover` unanswered, which would cost the whole
timeout. Over HTTP it is `server/discover`, because every request is answered. The result is reused
for the next connection, which then costs no round trip with a modern server. It is forgotten when a
start with it fails.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import mcp_types as types
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from cordboard.errors import McpError, McpLoginFailed

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from mcp import ClientSession
    from mcp.shared.exceptions import MCPError

PROBE_SECONDS = 3.0
"""Timeout for `server/discover` before the handshake is tried."""

_NO_HANDSHAKE = {
    types.METHOD_NOT_FOUND,
    types.INVALID_REQUEST,
    types.INVALID_PARAMS,
    types.UNSUPPORTED_PROTOCOL_VERSION,
}
"""Error codes with which servers of 2026-07-28 and later reject `initialize`."""


class Negotiation:
    """The protocol kind of one server, once it is known."""

    def __init__(
        self,
        choice: Literal["auto", "legacy", "2026-07-28"] = "auto",
        *,
        handshake_first: bool = True,
    ) -> None:
        """`choice` comes from the operator; `handshake_first` is the order that `auto` tries."""
        self._choice = choice
        self._handshake_first = handshake_first
        self._known: types.DiscoverResult | Literal["handshake"] | None = None

    def forget(self) -> None:
        """Negotiate again next time, because a start with the remembered result has failed."""
        self._known = None

    async def run(self, session: ClientSession) -> None:
        """Agree on a revision. Raises the SDK's error if there is none in common."""
        if isinstance(self._known, types.DiscoverResult):
            session.adopt(self._known)
            return
        if self._choice == "legacy":
            await session.initialize()
        elif self._choice == "2026-07-28":
            await session.discover()
        elif self._handshake_first or self._known == "handshake":
            await _handshake_else_discover(session)
        else:
            await _discover_else_handshake(session)
        self._known = session.discover_result or "handshake"


async def _handshake_else_discover(session: ClientSession) -> None:
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in _NO_HANDSHAKE:
            raise
        await session.discover()


async def _discover_else_handshake(session: ClientSession) -> None:
    from mcp.shared.exceptions import MCPError

    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await session.discover()
        return
    except MCPError as error:
        if is_closed(error) or isinstance(error.error.data, McpLoginFailed) or _modern_only(error):
            raise
    except (TimeoutError, RuntimeError, ValidationError):
        pass  # silent, no common revision, or malformed: the handshake may work
    await session.initialize()


def is_closed(error: MCPError) -> bool:
    """True if the connection has ended.

    The code alone is not enough: it is -32000, which old servers send for any error (the TypeScript
    SDK's, with "Server not initialized", to a `server/discover`).
    """
    if error.code != types.CONNECTION_CLOSED:
        return False
    return error.message == "Connection closed" or isinstance(error.error.data, McpError)


def _modern_only(error: MCPError) -> bool:
    """True if a server supports only revisions without handshake, and none of ours."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    try:
        data = types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data)
    except ValidationError:
        return False
    return not set(data.supported) & set(HANDSHAKE_PROTOCOL_VERSIONS)
