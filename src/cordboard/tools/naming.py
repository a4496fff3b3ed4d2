"""Names of tools: what may be exposed to a provider, and the internal ids behind it.

How `(server, tool)` becomes an exposed name is `cordboard.config.naming.exposed_name`, since the
configuration is checked with it before any server runs. Different tools may meet in one name
(`get-atis`, `get_atis`): that is never settled silently but refused where a catalogue is built
(`cordboard.tools.catalogue`), which keeps the map from names to tools bijective.
"""

from __future__ import annotations

import re

from cordboard.config.naming import exposed_name

__all__ = ["EXPOSED_NAME", "exposed_name", "mcp_origin"]

EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")
"""What every provider accepts as a function's name."""


def mcp_origin(server: str, tool: str) -> str:
    """The internal id of a server's tool in logs, ledger and pages."""
    return f"mcp:{server}:{tool}"
