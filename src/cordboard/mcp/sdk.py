"""Loads the MCP SDK with the first servers that start, not with the engine.

The import takes 0.4 s of a core (it brings an MCP server and two revisions of the protocol, and a
client needs all of it), a fifth of the engine's start-up time. So modules that
`cordboard.runtime.engine` imports must not import `mcp` or, from this package, `connection` or
`stdio.transport` (tests/mcp/test_sdk.py); `mcp_types` is allowed.

An engine calls `load_sdk` in a thread before its servers start. If the garbage collector skips
older objects (`gc.freeze`), a 20 ms timer of the event loop is then at most 8 to 12 ms late
(measured six times); otherwise a collection blocks the loop for 0.1 s. Without that call the SDK is
imported with the first server that starts.
"""

from __future__ import annotations

import importlib


def load_sdk() -> None:
    """Import the SDK. Blocks."""
    for module in ("connection", "stdio.transport"):
        importlib.import_module(f"cordboard.mcp.{module}")
