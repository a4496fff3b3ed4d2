"""When the MCP SDK is loaded: with the first server that starts, not with the engine.

Importing it takes 0.4 s of a core (it brings an MCP server and two revisions of the protocol, and
a client needs all of it), which is a fifth of the time until calls can be answered. So no module
that the engine imports at its start may import `mcp` or, of this room, `connection` or `transport`
(tests/mcp/test_sdk.py); `mcp_types` may be.

An engine calls `load_sdk` in a thread before its servers start, so that the import does not hold
the event loop; elsewhere it comes by itself.
"""

from __future__ import annotations

import importlib


def load_sdk() -> None:
    """Import it. Blocks."""
    for module in ("connection", "transport"):
        importlib.import_module(f"cordboard.mcp.{module}")
