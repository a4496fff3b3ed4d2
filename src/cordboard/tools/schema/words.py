"""Expresses constraints in words, for the description, if a provider's schema language cannot.

The arguments are always checked against the original schema (`cordboard.tools.schema`); without the
words a model would learn of a constraint only by a refusal. Pure functions, short texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from cordboard.tools.schema.safety import depth_of

MAX_WORDS = 300
"""Maximum characters for all constraints of one sub-schema together."""
MAX_VALUE = 120
"""Maximum characters of one constraint's value."""

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
    """Return a constraint in words, such as "at least 1"; empty if it is too long."""
    if keyword == "enum" and isinstance(value, list):
        return f"one of {', '.join(map(_plain, value))}" if len(_json(value)) <= MAX_WORDS else ""
    text = _plain(value)
    if not text or len(text) > MAX_VALUE:
        return ""
    phrase = _PHRASES.get(keyword)
    return phrase.format(text) if phrase else f"{keyword}: {text}"


def described(description: str, words: Iterable[str], most: int) -> str:
    """Return a description followed by constraints in brackets, at most `most` characters.

    If that is too long, the description is cut first; constraints appear whole or not at all.
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
    except TypeError:  # a number beyond 64 bits, or not JSON
        return ""
