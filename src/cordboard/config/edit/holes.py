"""Literal secrets of a configuration's text, replaced by holes: `token: «secret:1»`.

A text with holes can be shown, compared and edited. Publishing it puts the secrets back: a hole may
be moved to another secret field or deleted, but not copied, invented, or moved to a place where its
value would be shown or spoken. References (`${NAME}`) are no secrets and stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from cordboard.config.edit.tree import Node, read_tree
from cordboard.config.load import read
from cordboard.config.plugins import Plugins
from cordboard.config.secrets import SHORTEST_SECRET, names_a_secret
from cordboard.config.yaml_document import parse
from cordboard.errors import ConfigError, EditRefused

HOLE = re.compile(r"«secret:(\d+)»")
_NO_SECRET = re.compile(r"(?i)|~|null|true|false|[-+.\d_]+|https?://[^?]*")
"""Values under a name such as `max_tokens` or `token_url` that are no secrets."""
_SHORTEST_PART = 8
"""Characters of a secret that is searched for inside other texts, such as an address."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A text with holes."""

    text: str
    secrets: tuple[str, ...]
    """The source of each hole, quotes included; hole 1 is the first."""
    spans: tuple[tuple[int, int], ...]
    """Where they are in the original text."""


def hide(text: str, known: Collection[str] | None) -> Hidden:
    """Replace the literal secrets of a text. `known`: its secret values (`secret_values`); None =
    unknown, because the text cannot be loaded: then the names of the keys decide. Raises
    `ConfigError` for a text that is not YAML."""
    bom = text.startswith("\ufeff")
    parse(text[bom:], "")
    spans: list[tuple[int, int]] = []
    for node, name in _texts(read_tree(text[bom:]), ""):
        spans += [
            (start + bom, end + bom) for start, end in _secrets(node, name, text[bom:], known)
        ]
    shown, at = [], 0
    for number, (start, end) in enumerate(spans, 1):
        shown += [text[at:start], f"«secret:{number}»"]
        at = end
    sources = tuple(text[start:end] for start, end in spans)
    return Hidden("".join(shown) + text[at:], sources, tuple(spans))


def secret_values(
    text: str, path: Path, environ: Mapping[str, str], plugins: Plugins | None = None
) -> frozenset[str] | None:
    """Return the secret values of a text; None if it cannot be loaded. `path` names its file."""
    try:
        loaded = read(text.removeprefix("\ufeff"), path, environ, plugins)
    except ConfigError:
        return None
    return loaded.secrets | loaded.config.secrets


def put_back(text: str, original: Hidden, known: Callable[[str], Collection[str] | None]) -> str:
    """Return a text with the secrets of `original` in its holes. `known` returns the secret values
    of the result. Raises `EditRefused`, and `ConfigError` for a text that is not YAML."""
    result, at, placed = "", 0, []
    used: set[int] = set()
    for hole in HOLE.finditer(text):
        number = int(hole[1])
        if not 1 <= number <= len(original.secrets):
            raise EditRefused(f"{hole[0]} is not a secret of this file; write the value itself")
        if number in used:
            raise EditRefused(f"{hole[0]} appears twice; a secret can be moved, not copied")
        used.add(number)
        result += text[at : hole.start()]
        placed.append((len(result), hole[0]))
        result += original.secrets[number - 1]
        at = hole.end()
    result += text[at:]
    again = hide(result, known(result)) if placed else None
    for start, name in placed:
        if again is None or not any(one <= start < end for one, end in again.spans):
            line = result.count("\n", 0, start) + 1
            raise EditRefused(f"line {line}: {name} would be visible there; it is no secret field")
    return result


def _texts(node: Node, name: str) -> list[tuple[Node, str]]:
    """Return the scalars that are values, each with the key that names it."""
    if node.kind == "scalar":
        return [(node, name)]
    found: list[tuple[Node, str]] = []
    for entry in node.entries:
        found += _texts(entry.value, entry.key.value if entry.key is not None else name)
    return found


def _secrets(
    node: Node, name: str, text: str, known: Collection[str] | None
) -> list[tuple[int, int]]:
    """Return the secret spans of a scalar: all of it, or parts."""
    value = node.value.replace("$$", "$")
    if not value or "${" in node.value.replace("$$", ""):
        return []
    by_name = known is None and names_a_secret(name) and not _NO_SECRET.fullmatch(node.value)
    if by_name or (known is not None and len(value) >= SHORTEST_SECRET and value in known):
        return [(node.start, node.end)]
    parts = [part for part in known or () if len(part) >= _SHORTEST_PART and part in node.value]
    if not parts:
        return []
    pattern = "|".join(re.escape(part) for part in sorted(parts, key=len, reverse=True))
    return [match.span() for match in re.compile(pattern).finditer(text, node.start, node.end)]
