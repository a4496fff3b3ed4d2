"""When the MCP SDK is loaded: with the first servers that start, not with the engine.

Importing it takes 0.4 s of a core (it brings an MCP server and two revisions of the protocol, and
a client needs all of it), which is a fifth of the time until calls can be answered. So no module
that `cordboard.runtime.engine` imports may import `mcp` or, of this room, `connection` or
`stdio.transport` (tests/mcp/test_sdk.py); `mcp_types` may be.

An engine calls `load_sdk` in a thread before its servers start. Where the garbage collector passes
over what was there before (`gc.freeze`), a 20 ms timer of the event loop is then at most 8 to 12 ms
late (six times measured); else a collection holds the loop for 0.1 s. Elsewhere the SDK comes by
itself, with the first server that starts.
"""

from __future__ import annotations

import importlib


def load_sdk() -> None:
    """Import it. Blocks."""
    for module in ("connection", "stdio.transport"):
        importlib.import_module(f"cordboard.mcp.{module}")
