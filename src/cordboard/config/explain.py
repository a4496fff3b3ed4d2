"""Messages for schema errors: file, line, key, the found and the expected value.

    ai-agent.yaml:12: health.port: expected a whole number from 0 to 65535, found the text "http"

Values are shown only when they cannot be secret: never from the environment, never of a secret
field, never under `env` or under a key that sounds like a password.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from heapq import nlargest
from itertools import takewhile
from typing import Any

from pydantic import ValidationError

from cordboard.config.plugins import Plugins
from cordboard.config.shape import Shape
from cordboard.config.tools.entry import BUILTIN_TOOLS
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

_SOUNDS_SECRET = re.compile(r"pass|secret|token|key|credential|auth|env$", re.IGNORECASE)
_LONGEST_SHOWN = 60
MOST_EXPLAINED = 100
"""Limit of explained problems: the search for a suggestion takes about a millisecond each."""
_OWN_WORDS = ("value_error", "assertion_error")
"""Error types whose message was written in this project."""
_LEADING_KEY = re.compile(r"(?P<key>[A-Za-z_][\w.\[\]]*): (?P<rest>.+)", re.DOTALL)

_USER_IN_URL = re.compile(r"//[^/@\s]*@")
"""User and password in a URL: never shown."""


MOST_KNOWN = 50
"""Names listed in a hint."""
MOST_COMPARED = 200
"""Names that a wrong word is compared with: each takes some 15 us, and a file may have thousands.
If there are more, those with the most similar beginning are used."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a trailing hint for a wrong word: the nearest known names, else the known names, up to
    `MOST_KNOWN`."""
    known = sorted(known)
    likely = nlargest(MOST_COMPARED, known, key=lambda name: _alike_from_the_start(word, name))
    near = get_close_matches(word, likely, n=2, cutoff=0.6)
    if len(near) == 2 and get_close_matches(word, near, n=2, cutoff=0.85) == near[:1]:
        near = near[:1]  # so near that the other is not a plausible guess
    if near:
        return f"; did you mean {' or '.join(near)}?"
    more = f" and {len(known) - MOST_KNOWN} more" if len(known) > MOST_KNOWN else ""
    return f"; known here: {', '.join(known[:MOST_KNOWN])}{more}" if known else ""


def _alike_from_the_start(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def explain(
    error: ValidationError, document: Document, expanded: Collection[KeyPath], plugins: Plugins
) -> dict[KeyPath, ConfigProblem]:
    """Return the problems in `error`, by their places in the file; at most `MOST_EXPLAINED`.

    `expanded` are the places whose values contain something from the environment; `plugins` are the
    parts that the file may name.
    """
    explainer = _Explainer(document, expanded, plugins)
    found: dict[KeyPath, ConfigProblem] = {}
    for details in error.errors(include_url=False, include_input=False)[:MOST_EXPLAINED]:
        path, problem = explainer.problem(details)
        found.setdefault(path, problem)
    containers = {path[:length] for path in found for length in range(len(path))}
    return {
        path: problem
        for path, problem in found.items()
        if path not in containers or not isinstance(document.get(path), (dict, list))
    }


class _Explainer:
    def __init__(self, document: Document, expanded: Collection[KeyPath], plugins: Plugins) -> None:
        self._document = document
        self._expanded = expanded
        self._shape = Shape.of_file(plugins)

    def problem(self, details: Mapping[str, Any]) -> tuple[KeyPath, ConfigProblem]:
        kind = str(details["type"])
        path = self._path(details["loc"], missing=kind == "missing")
        if kind in _OWN_WORDS:
            path, message = self._own_words(path, str(details["ctx"]["error"]))
        elif kind == "union_tag_not_found":
            path, message = self._no_kind(path)
        elif kind == "union_tag_invalid":
            path, message = self._wrong_kind(path)
        elif kind == "missing":
            message = self._missing(path)
        elif kind == "extra_forbidden":
            message = self._unknown_key(path)
        elif details["loc"][-1:] == ("[key]",):
            message = self._bad_name(path)
        else:
            message = self._wrong_value(path)
        return path, self._document.problem(path, message)

    def _path(self, location: Iterable[str | int], *, missing: bool) -> KeyPath:
        """Return the place in the file, without pydantic's additions (names of alternatives)."""
        parts = list(location)
        path: KeyPath = ()
        of_a_kind: KeyPath | None = None
        for position, part in enumerate(parts):
            last = position == len(parts) - 1
            if path != of_a_kind and part in self._named_kinds_at(path):
                of_a_kind = path  # pydantic names the kind here; the file has no such key
            elif self._document.has((*path, part)) or (missing and last):
                path = (*path, part)
        return path

    def _at(self, path: KeyPath) -> Shape | None:
        """Return the shape at a place; for a section with kinds, the shape of its kind."""
        return self._shape.at(path, self._kind)

    def _kinds_at(self, path: KeyPath) -> dict[str, Shape]:
        shape = self._at(path)
        return shape.kinds() if shape is not None else {}

    def _named_kinds_at(self, path: KeyPath) -> Collection[str]:
        shape = self._at(path)
        return shape.kinds() if shape is not None and shape.names_kind else ()

    def _kind_key(self, path: KeyPath) -> str:
        """Return the key that names the kind of the section at a place: `kind`, `type`."""
        shape = self._at(path)
        return (shape.kind_key if shape is not None else "") or "kind"

    def _kind(self, path: KeyPath) -> str:
        for key in ("kind", "type"):
            stated = self._document.get((*path, key))
            if isinstance(stated, str):
                return stated
        if path[-1] in BUILTIN_TOOLS:
            return "builtin"  # the default kind
        bare = self._document.get(path)
        return bare if isinstance(bare, str) else ""

    def _no_kind(self, path: KeyPath) -> tuple[KeyPath, str]:
        if not isinstance(self._document.get(path), dict):
            return path, self._wrong_value(path)
        key = self._kind_key(path)
        if self._document.has((*path, key)):
            return self._wrong_kind(path)
        name, kinds = str(path[-1]), self._kinds_at(path)
        near = get_close_matches(name, BUILTIN_TOOLS, n=1, cutoff=0.7) if key == "kind" else []
        hint = f"; did you mean the built-in tool {near[0]}?" if near else ""
        return (*path, key), f"missing; expected one of {', '.join(kinds)}{hint}"

    def _wrong_kind(self, path: KeyPath) -> tuple[KeyPath, str]:
        kinds, place = self._kinds_at(path), (*path, self._kind_key(path))
        if isinstance(self._document.get(path), str):
            place = path  # named by its kind alone
        value = self._document.get(place)
        near = get_close_matches(value, kinds, n=1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]}?" if near else ""
        expected = f"one of {', '.join(kinds)}"
        return place, f"expected {expected}, found {self._found(place, value)}{hint}"

    def _own_words(self, path: KeyPath, message: str) -> tuple[KeyPath, str]:
        """Return the key at the message's start (`slots.x: ...`) as the place, if it is one."""
        match = _LEADING_KEY.match(message)
        if match is None:
            return path, message
        inner = inner_path(match["key"])
        deeper = (*path, *inner)
        if not self._document.has(deeper):
            return path, message
        return deeper, match["rest"]

    def _missing(self, path: KeyPath) -> str:
        shape = self._at(path)
        if shape is None:
            return "missing"
        purpose = f" ({shape.description.rstrip('.')})" if shape.description else ""
        return f"missing; expected {shape.expected()}{purpose}"

    def _unknown_key(self, path: KeyPath) -> str:
        parent, key = self._at(path[:-1]), str(path[-1])
        kinds = self._kinds_at(path[:-1])
        kind = self._kind(path[:-1]) if kinds else ""
        tables = {name: shape.keys() for name, shape in kinds.items()}
        kind_key = self._kind_key(path[:-1])
        others = [f"`{kind_key}: {name}`" for name, keys in tables.items() if key in keys]
        if others:
            what = "a tool of " if kind_key == "kind" else ""
            known = " and ".join(others)
            return f"unknown key of {what}`{kind_key}: {kind}`; it is one of {known}"
        parent = kinds.get(kind, parent)
        return "unknown key" + suggestion(key, parent.keys() if parent else ())

    def _bad_name(self, path: KeyPath) -> str:
        parent = self._at(path[:-1])
        entry = parent.entry() if parent else None
        return f"expected {entry[0] if entry else 'another name'}"

    def _wrong_value(self, path: KeyPath) -> str:
        shape = self._at(path)
        value = self._document.get(path)
        expected = shape.expected() if shape else "another value"
        message = f"expected {expected}, found {self._found(path, value)}"
        choices = shape.choices() if shape else []
        if isinstance(value, str) and self._may_show(path) and len(choices) > 1:
            near = get_close_matches(value, choices, n=1)
            return f"{message}; did you mean {near[0]}?" if near else message
        types = {found.schema.get("type") for found in shape.alternatives()} if shape else set()
        if "string" in types and not choices and isinstance(value, (int, float)):
            message += "; put it in quotes"
        elif "array" in types and isinstance(value, str) and self._may_show(path):
            message += "; a list is written [one, two], or as lines that begin with -"
        return message

    def _found(self, path: KeyPath, value: Any) -> str:
        match value:
            case None:
                return "nothing"
            case dict():
                return "an empty mapping" if not value else "a mapping"
            case list():
                return "an empty list" if not value else "a list"
        kind = "" if isinstance(value, bool) else "a text" if isinstance(value, str) else "a number"
        if path in self._expanded:
            return f"{kind} from outside the file (not shown)"
        if not self._may_show(path):
            return f"{kind or 'true or false'} (not shown)"
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str):
            return f"the number {value}"
        shown = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."
        shown = _USER_IN_URL.sub("//***@", shown)
        return f'the text "{shown}"' if "\n" not in shown else "a text of several lines"

    def _may_show(self, path: KeyPath) -> bool:
        if path in self._expanded:
            return False
        if any(isinstance(part, str) and _SOUNDS_SECRET.search(part) for part in path):
            return False
        shape = self._at(path)
        return shape is not None and not shape.secret


def inner_path(key: str) -> KeyPath:
    """Return the path of a dotted key such as `slots.x.ask[2]`; the opposite of `dotted`."""
    parts = re.findall(r"[^.\[\]]+|\[\d+\]", key)
    return tuple(int(part[1:-1]) if part.startswith("[") else part for part in parts)
