"""Names of tools: the exposed names for providers, and the internal ids behind them.

Pure text, no state: the configuration needs the rule to report two tools with the same name at load
time, the tools room needs it to offer them. Every provider accepts the names made here: only
`[a-z0-9_]`, beginning with a letter, at most 64 characters. Different tools with the same exposed
name (`get-atis`, `get_atis`) are refused where a catalogue is built (`cordboard.tools.catalogue`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")
"""Names that every provider accepts for a function."""
LONGEST_NAME = 64
"""The shortest of the providers' limits (OpenAI functions)."""
_HASH_DIGITS = (8, 16, 32)
"""Digits of the first try, and of the next ones if a server provokes further collisions."""
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ILLEGAL = re.compile(r"[^a-z0-9]+")


def exposed_name(server: str, tool: str) -> str:
    """Return `mcp_{server}_{tool}` in snake case: `get-atis` and `getAtis` are `mcp_…_get_atis`.

    A longer name keeps its head and ends in 8 hex digits of a hash of the whole, so that it is
    readable, stable between runs, and unique; a tool name without any usable character becomes a
    hash. Names that differ only in case or punctuation do collide: see `exposed_names`.
    """
    readable = _snake_case(tool)
    name = exposed_prefix(server) + readable
    if readable and len(name) <= LONGEST_NAME:
        return name
    return _hashed(server, tool, _HASH_DIGITS[0])


def exposed_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return tool → exposed name for all tools of a server; no two of them share one.

    Tools whose names collide (`get.a`, `get-a`) all get names that end in a hash, in any order:
    otherwise the server could choose which of them has the plain name.
    """
    names = {tool: exposed_name(server, tool) for tool in tools}
    for digits in _HASH_DIGITS:
        clashing = _sharing(names)
        if not clashing:
            break
        names |= {tool: _hashed(server, tool, digits) for tool in clashing}
    return names


def _sharing(names: dict[str, str]) -> list[str]:
    owners: dict[str, list[str]] = {}
    for tool, name in names.items():
        owners.setdefault(name, []).append(tool)
    return [tool for several in owners.values() if len(several) > 1 for tool in several]


def _hashed(server: str, tool: str, digits: int) -> str:
    whole = f"{server}\0{tool}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(whole).hexdigest()[:digits]
    readable = _snake_case(tool)
    if not readable and digits == _HASH_DIGITS[0]:
        return f"{exposed_prefix(server)}{digest}"
    head = f"{exposed_prefix(server)}{readable}"[: LONGEST_NAME - digits - 1]
    return f"{head.rstrip('_')}_{digest}"


def exposed_prefix(server: str) -> str:
    """Return the common beginning of a server's tool names, apart from `expose_as`."""
    return f"mcp_{_snake_case(server)}_"


def _snake_case(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ILLEGAL.sub("_", _WORD_BORDER.sub("_", plain).lower()).strip("_")


def tool_of_origin(origin: str) -> tuple[str, str] | None:
    """Return server and tool of an internal id; None for any other text."""
    kind, _, rest = origin.partition(":")
    server, separator, tool = rest.partition(":")
    return (server, tool) if kind == "mcp" and separator else None


def mcp_origin(server: str, tool: str) -> str:
    """Return the internal id of a server's tool in logs, ledger and pages."""
    return f"mcp:{server}:{tool}"
