"""Constraints in words: what a provider's schema language cannot say stands in the description.

The arguments are always checked against the original schema (`cordboard.tools.schema`), so a model
that is not told of a constraint only learns of it by a refusal. Pure functions, short texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from cordboard.tools.schema.safety import depth_of

MAX_WORDS = 300
"""Characters for all constraints of one sub-schema together."""
MAX_VALUE = 120
"""Characters of one constraint's value."""

_PHRASES = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} properties",
    "maxProperties": "at most {} properties",
    "format": "format {}",
    "pattern": "matches {}",
    "default": "default {}",
    "uniqueItems": "no item twice",
}


def said(keyword: str, value: Any) -> str:
    """A constraint in words, as in "at least 1"; empty when it is too long to be told."""
    if keyword == "enum" and isinstance(value, list):
        return f"one of {', '.join(map(_plain, value))}" if len(_json(value)) <= MAX_WORDS else ""
    text = _plain(value)
    if not text or len(text) > MAX_VALUE:
        return ""
    phrase = _PHRASES.get(keyword)
    return phrase.format(text) if phrase else f"{keyword}: {text}"


def described(description: str, words: Iterable[str], most: int) -> str:
    """A description with constraints after it in brackets, at most `most` characters.

    Where there is too much, the description is cut first; constraints are told whole or not at all.
    """
    room = min(MAX_WORDS, most // 2)
    kept: list[str] = []
    for word in dict.fromkeys(words):
        if word and word not in description and len(word) + 2 <= room:
            kept.append(word)
            room -= len(word) + 2
    told = f"({'; '.join(kept)})" if kept else ""
    clean = description.strip()
    if not told:
        return _cut(clean, most)
    return f"{_cut(clean, most - len(told) - 1)} {told}" if clean else told


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) and value else _json(value)


def _json(value: Any) -> str:
    if depth_of(value, 16) > 16:
        return ""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a number beyond 64 bits, or no JSON
        return ""
