"""Names of tools: what may be exposed to a provider, and the internal ids behind it.

Pure text, no state: the configuration needs the rule to say at load time that two tools would
share a name, the tools room needs it to offer them. Every provider accepts the names made here:
only `[a-z0-9_]`, beginning with a letter, at most 64 characters. Different tools that meet in one
name (`get-atis`, `get_atis`) are refused where a catalogue is built (`cordboard.tools.catalogue`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

EXPOSED_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z")
"""Every provider accepts it as the name of a function."""
LONGEST_NAME = 64
"""The shortest of the providers' limits (OpenAI functions)."""
_HASH_DIGITS = (8, 16, 32)
"""Of the first try, and of the next ones where a server sees to it that names meet again."""
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ILLEGAL = re.compile(r"[^a-z0-9]+")


def exposed_name(server: str, tool: str) -> str:
    """`mcp_{server}_{tool}` in snake case: `get-atis` and `getAtis` are `mcp_…_get_atis`.

    A name that would be too long keeps its head and ends in 8 hex digits of a hash of the whole, so
    that it is readable, stable between runs, and differs from its neighbours'; a tool name without
    any usable character is a hash. Names that differ only in case or punctuation do collide: see
    `exposed_names`.
    """
    readable = _snake_case(tool)
    name = exposed_prefix(server) + readable
    if readable and len(name) <= LONGEST_NAME:
        return name
    return _hashed(server, tool, _HASH_DIGITS[0])


def exposed_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Tool → exposed name for all tools that a server offers; no two of them share one.

    Tools whose names collide (`get.a`, `get-a`) all get names that end in a hash, whatever their
    order: which of them had the plain name otherwise would be for the server to choose.
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
    """What the names of all of a server's tools begin with, unless `expose_as` says otherwise."""
    return f"mcp_{_snake_case(server)}_"


def _snake_case(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _ILLEGAL.sub("_", _WORD_BORDER.sub("_", plain).lower()).strip("_")


def mcp_origin(server: str, tool: str) -> str:
    """The internal id of a server's tool in logs, ledger and pages."""
    return f"mcp:{server}:{tool}"
