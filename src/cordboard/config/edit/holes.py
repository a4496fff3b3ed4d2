"""Literal secrets of a configuration's text, replaced by holes: `token: «secret:1»`.

A text with holes can be shown, compared and edited. Publishing it puts the secrets back: a hole may
be moved to another secret field or deleted, but not copied, invented, or moved to a place where its
value would be shown or spoken. References (`${NAME}`) are no secrets and stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from cordboard.config.edit.tree import Node, parse_tree
from cordboard.config.load import decoded, read
from cordboard.config.plugins import Plugins
from cordboard.config.remote_url import path_secrets
from cordboard.config.secrets import SHORTEST_SECRET, is_ordinary, names_a_secret
from cordboard.config.shape import Shape
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigError, EditRefused

HOLE = re.compile(r"«secret:(\d+)»")
_INVENTED = "is not a secret of this file; write the value itself"
_COPIED = "appears twice; a secret can be moved, not copied"
VISIBLE = "would be visible there; it is no secret field"
_NO_SECRET = re.compile(r"(?i)|~|null|true|false")
"""Values under the name of a secret that are none."""
_NUMBER = re.compile(r"[-+.\d_]+")
_OF_NUMBERS = re.compile(r"(?i)tokens|_m?s$")
"""Names of numbers that are no secrets, such as `max_tokens` and `token_lifetime_s`."""
_ADDRESS = re.compile(r"[a-z]+://\S*")
_SHORTEST_PART = 8
"""Characters of a secret that is searched for inside other texts, such as an address."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A text with holes."""

    text: str
    secrets: tuple[str, ...] = field(repr=False)
    """The source of each hole, quotes included; hole 1 is the first."""
    values: tuple[str, ...] = field(repr=False)
    """The text that each source stands for."""
    spans: tuple[tuple[int, int], ...]
    """Where they are in the original text."""
    by_names: bool = False
    """True if the text could not be loaded: there may be more secrets in it."""


def hide(
    text: str,
    known: Collection[str] | None,
    elsewhere: Collection[str] = frozenset(),
    earlier: Collection[tuple[int, int]] = (),
) -> Hidden:
    """Replace the literal secrets of a text, also in comments. `known`: its secret values
    (`secret_values`); None = unknown, because the text cannot be loaded: then the names of the keys
    and the schema decide. `elsewhere`: secret values of a text that is shown beside this one.
    `earlier`: spans of this text that are holes already, and keep their numbers. Raises
    `ConfigError` for a text that is not YAML."""
    bom = text.startswith("\ufeff")
    body = text[bom:]
    _, root = parse_tree(body, "")
    parts = [part for part in {*(known or ()), *elsewhere} if len(part) >= _SHORTEST_PART]
    first = [(start - bom, end - bom) for start, end in earlier]
    found = [
        node
        for node, name, holder in _texts(root, "", "")
        if (node.start, node.end) in first
        or _is_secret(node, name, holder, known)
        or any(part in node.value and part not in body[node.start : node.end] for part in parts)
    ]
    whole = {(node.start, node.end): node.value for node in found}
    keys = [(key.start, key.end) for key in _keys(root)]
    places = sorted([*whole, *_found(body, parts, [*whole, *keys])])
    spans = [*first, *(place for place in places if place not in first)]
    numbers = {span: number for number, span in enumerate(spans, 1)}
    shown, at = ["\ufeff" * bom], 0
    for start, end in places:
        shown += [body[at:start], f"«secret:{numbers[start, end]}»"]
        at = end
    sources = tuple(body[start:end] for start, end in spans)
    values = tuple(whole.get(span, source) for span, source in zip(spans, sources, strict=True))
    original = tuple((start + bom, end + bom) for start, end in spans)
    return Hidden("".join(shown) + body[at:], sources, values, original, known is None)


def hide_both(
    before: str, after: str, path: Path, environ: Mapping[str, str], plugins: Plugins | None = None
) -> tuple[str, str]:
    """Return two texts of a file with holes for the secrets of both: one that is a comment in the
    new text may still be in use. Raises `ConfigError` for a text that is not YAML."""
    known = [secret_values(text, path, environ, plugins) for text in (before, after)]
    every = frozenset().union(*(secrets or () for secrets in known))
    return hide(before, known[0], every).text, hide(after, known[1], every).text


def secret_values(
    text: str, path: Path, environ: Mapping[str, str], plugins: Plugins | None = None
) -> frozenset[str] | None:
    """Return the secret values of a text; None if it cannot be loaded. `path` names its file."""
    try:
        loaded = read(text.removeprefix("\ufeff"), path, environ, plugins)
    except ConfigError:
        return None
    return loaded.secrets | loaded.config.secrets


def hidden_texts(contents: Sequence[bytes], path: Path, environ: Mapping[str, str]) -> list[str]:
    """Return texts that are shown beside each other, with holes for the secrets of all: one that is
    a comment in the new text may still be in use. Raises `ConfigError`."""
    bom = b"\xef\xbb\xbf"
    texts = ["\ufeff" * each.startswith(bom) + decoded(each, path) for each in contents]
    known = [secret_values(text, path, environ) for text in texts]
    every = frozenset().union(*(secrets or () for secrets in known))
    return [hide(text, own, every).text for text, own in zip(texts, known, strict=True)]


def put_back(text: str, original: Hidden, known: Callable[[str], Collection[str] | None]) -> str:
    """Return a text with the secrets of `original` in its holes. `known` returns the secret values
    of the result. Raises `EditRefused`, and `ConfigError` for a text that is not YAML."""
    result, at, placed = "", 0, []
    used: set[int] = set()
    for hole in HOLE.finditer(text):
        number = int(hole[1][:9])
        if not 1 <= number <= len(original.secrets):
            raise EditRefused(f"{hole[0]} {_INVENTED}")
        if number in used:
            raise EditRefused(f"{hole[0]} {_COPIED}")
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
            raise EditRefused(f"line {line}: {name} {VISIBLE}")
    return result


def fill(document: Document, original: Hidden) -> dict[KeyPath, str]:
    """Put the secrets of `original` into the holes of a parsed text, to check it. Return the place
    of each, with its secret. Holes that are invented or copied become problems of the document."""
    placed: dict[KeyPath, str] = {}
    used: set[int] = set()

    def filled(value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: filled(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item, (*path, index)) for index, item in enumerate(value)]
        return HOLE.sub(lambda hole: put(hole, path), value) if isinstance(value, str) else value

    def put(hole: re.Match[str], path: KeyPath) -> str:
        number = int(hole[1][:9])
        known = 1 <= number <= len(original.values)
        if not known or number in used:
            message = f"{hole[0]} {_COPIED if known else _INVENTED}"
            document.problems.append(document.problem(path, message))
            return ""
        used.add(number)
        placed[path] = original.values[number - 1]
        return placed[path]

    document.tree = filled(document.tree, ())
    document.from_outside.update(placed)
    return placed


def _texts(node: Node, name: str, holder: str) -> Iterator[tuple[Node, str, str]]:
    """Yield the scalars that are values, each with the key that names it and the key above."""
    if node.kind == "scalar":
        yield node, name, holder
    for entry in node.entries:
        if entry.key is not None:
            yield from _texts(entry.value, entry.key.value, name)
        else:
            yield from _texts(entry.value, name, holder)


def _keys(root: Node) -> Iterator[Node]:
    for node in root.walk():
        yield from (entry.key for entry in node.entries if entry.key is not None)


def _is_secret(node: Node, name: str, holder: str, known: Collection[str] | None) -> bool:
    """Return True if all of a scalar is a secret."""
    value = node.value.replace("$$", "$")
    if not value or "${" in node.value.replace("$$", ""):
        return False
    if known is not None:
        return len(value) >= SHORTEST_SECRET and value in known
    if name in _secret_fields() and _NO_SECRET.fullmatch(value) is None:
        return True
    if _ADDRESS.fullmatch(value):
        return "@" in value or "?" in value or bool(path_secrets(value))
    is_none = _NO_SECRET.fullmatch(value) or (
        _NUMBER.fullmatch(value)
        and (len(value) < SHORTEST_SECRET or _OF_NUMBERS.search(name) is not None)
    )
    by_name = names_a_secret(name) and not is_none
    return by_name or (holder in ("env", "headers") and not is_ordinary(value))


@cache
def _secret_fields() -> frozenset[str]:
    """Return the keys that hold a secret anywhere in the schema: a text that cannot be loaded may
    not have them at their place."""
    shape = Shape.of_file()
    sections = [shape, *(Shape(each, shape.definitions) for each in shape.definitions.values())]
    return frozenset(
        name for each in sections for name, value in each.keys().items() if value.secret
    )


def _found(
    text: str, parts: Collection[str], without: Collection[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the places of secrets in a text that do not touch the spans `without`."""
    if not parts:
        return
    pattern = "|".join(re.escape(part) for part in sorted(parts, key=len, reverse=True))
    for match in re.finditer(pattern, text):
        start, end = match.span()
        if all(end <= one or other <= start for one, other in without):
            yield start, end
