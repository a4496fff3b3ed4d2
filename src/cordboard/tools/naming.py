"""Exposed tool names: what a provider may see of `(server, tool)`, and back.

Every provider accepts `[a-z0-9_]` up to 64 characters that begin with a letter, MCP servers use
dots, hyphens, capitals and up to 128 characters. So an MCP tool is exposed as
`mcp_{server}_{tool}` in snake case; an over-long name keeps a readable head and ends in a short
hash of the whole. Different tools may still meet in one name (`get-atis`, `get_atis`): that is
never settled silently but refused by whoever builds a catalogue (`cordboard.tools.catalogue`),
which is what keeps the map from names to tools bijective.

Pure functions; anyone may call them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

MAX_NAME = 64
"""OpenAI's limit for function names, the shortest among the providers."""
HASH_DIGITS = 8
EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")

_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ILLEGAL = re.compile(r"[^a-z0-9]+")


def snake_case(text: str) -> str:
    """Write any text with `[a-z0-9_]` only: `getAtis.v2` → `get_atis_v2`. May be empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ILLEGAL.sub("_", _WORD_BORDER.sub("_", plain).lower()).strip("_")


def mcp_name(server: str, tool: str) -> str:
    """The exposed name of a server's tool: `[a-z][a-z0-9_]*`, at most 64 characters.

    A tool name without any usable character is written as a hash.
    """
    readable = snake_case(tool) or _digest(server, tool)
    name = f"mcp_{snake_case(server)}_{readable}"
    if len(name) <= MAX_NAME:
        return name
    head = name[: MAX_NAME - HASH_DIGITS - 1].rstrip("_")
    return f"{head}_{_digest(server, tool)}"


def mcp_origin(server: str, tool: str) -> str:
    """The internal id of a server's tool in logs, ledger and pages."""
    return f"mcp:{server}:{tool}"


def _digest(server: str, tool: str) -> str:
    return hashlib.sha256(f"{server}\0{tool}".encode()).hexdigest()[:HASH_DIGITS]
