"""The name under which an agent sees an MCP tool.

Pure text, no state: the configuration needs the rule to say at load time that two tools would
share a name, the tools room needs it to offer them. Every provider accepts the names made here:
only `[a-z0-9_]`, beginning with a letter, at most 64 characters.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

LONGEST_NAME = 64
"""The shortest of the providers' limits (OpenAI functions)."""
_HASH_DIGITS = 8
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ILLEGAL = re.compile(r"[^a-z0-9]+")


def exposed_name(server: str, tool: str) -> str:
    """`mcp_{server}_{tool}` in snake case: `get-atis` and `getAtis` are `mcp_…_get_atis`.

    A name that would be too long keeps its head and ends in 8 hex digits of a hash of the whole, so
    that it is readable, stable between runs, and differs from its neighbours'; a tool name without
    any usable character is a hash. Names that differ only in case or punctuation do collide; the
    operator then chooses one with `expose_as`.
    """
    digest = hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:_HASH_DIGITS]
    name = exposed_prefix(server) + (_snake_case(tool) or digest)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - _HASH_DIGITS - 1].rstrip('_')}_{digest}"


def exposed_prefix(server: str) -> str:
    """What the names of all of a server's tools begin with, unless `expose_as` says otherwise."""
    return f"mcp_{_snake_case(server)}_"


def _snake_case(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ILLEGAL.sub("_", _WORD_BORDER.sub("_", plain).lower()).strip("_")
