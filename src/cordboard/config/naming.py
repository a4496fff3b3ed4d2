"""The name under which an agent sees an MCP tool.

Pure text, no state: the configuration needs the rule to say at load time that two tools would
share a name, the tools room needs it to offer them. Every provider accepts the names made here:
only `[a-z0-9_]`, beginning with a letter, at most 64 characters.
"""

from __future__ import annotations

import hashlib
import re

LONGEST_NAME = 64
"""The shortest of the providers' limits (OpenAI functions)."""
_HASH_DIGITS = 8


def exposed_name(server: str, tool: str) -> str:
    """`mcp_{server}_{tool}`, in lower case, with `_` in place of what providers do not accept.

    A name that would be too long keeps its head and ends in 8 hex digits of a hash of the whole, so
    that it is readable, stable between runs, and differs from its neighbours'. Names that differ
    only in case or punctuation do collide; the operator then chooses one with `expose_as`.
    """
    whole = f"mcp_{server}_{tool}"
    name = re.sub(r"[^a-z0-9_]", "_", whole.lower())
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_HASH_DIGITS]
    head = name[: LONGEST_NAME - _HASH_DIGITS - 1].rstrip("_")
    return f"{head}_{digest}"


def exposed_prefix(server: str) -> str:
    """What the names of all of a server's tools begin with, unless `expose_as` says otherwise."""
    return exposed_name(server, "")
