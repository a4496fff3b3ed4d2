"""When the MCP SDK is loaded: beside the offline models, not before them.

Importing it takes 0.4 s of a core (it brings an MCP server and two revisions of the protocol, and
a client needs all of it), which is a fifth of the time until calls can be answered. So no module
that `cordboard.engine` imports may import `mcp` or, of this room, `connection` or `transport`
(tests/mcp/test_sdk.py); `mcp_types` may be.

A starting engine calls `load_sdk` in a thread while its models load, and has it done before calls
come in: single steps of the import hold the event loop for 0.1 s. Elsewhere it comes by itself,
with the first server that starts.
"""

from __future__ import annotations

import importlib


def load_sdk() -> None:
    """Import it. Blocks."""
    for module in ("connection", "transport"):
        importlib.import_module(f"cordboard.mcp.{module}")
