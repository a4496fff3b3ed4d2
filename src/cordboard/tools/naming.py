"""Names of tools: exposed names for providers, and the internal ids behind them.

`cordboard.config.naming.exposed_name` maps `(server, tool)` to an exposed name; it is there because
the configuration is checked with it before any server runs. Different tools may map to one name
(`get-atis`, `get_atis`): that is never resolved silently but refused when a catalogue is built
(`cordboard.tools.catalogue`), so the map from names to tools stays bijective.
"""

from __future__ import annotations

import re

from cordboard.config.naming import exposed_name

__all__ = ["EXPOSED_NAME", "exposed_name", "mcp_origin"]

EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")
"""Function names that every provider accepts."""


def mcp_origin(server: str, tool: str) -> str:
    """Return the internal id of a server's tool for logs, ledger and pages."""
    return f"mcp:{server}:{tool}"
