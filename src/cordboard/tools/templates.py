"""Filling the `{placeholders}` of data that is sent: URLs, bodies, arguments.

The language is `cordboard.config.templates`; `cordboard.tools.speech.template` fills spoken texts.
Values are data: each is put in once, escaped by the place in which it stands, and never searched
for placeholders or `${VAR}`. A missing value is its default; without one it is an empty text, and
a text that is nothing but the placeholder is left out of its object. Pure functions that never
raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from cordboard.config.templates import JsonTemplate, Path, Placeholder, Template, only_placeholder

MISSING: Final = object()
"""Stands for a value that is not there and has no default."""
_INDEX = re.compile(r"-?[0-9]{1,6}")


def look_up(data: Any, path: Path) -> Any:
    """The value at a path; `MISSING` when there is none."""
    value = data
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and _INDEX.fullmatch(part):
            index = int(part)
            if not -len(value) <= index < len(value):
                return MISSING
            value = value[index]
        else:
            return MISSING
    return value


def value_of(placeholder: Placeholder, scope: Mapping[str, Any]) -> Any:
    """The value, else the default, else `MISSING`. What is null counts as not there."""
    value = look_up(scope, placeholder.path)
    if value is MISSING or value is None:
        return MISSING if placeholder.default is None else placeholder.default
    return value


def fill_json(template: JsonTemplate, scope: Mapping[str, Any]) -> Any:
    """A JSON value with its placeholders filled in; `MISSING` when all of it is one that is."""
    if isinstance(template, tuple):
        only = only_placeholder(template)
        return fill_text(template, scope) if only is None else value_of(only, scope)
    if isinstance(template, dict):
        members = ((key, fill_json(item, scope)) for key, item in template.items())
        return {key: value for key, value in members if value is not MISSING}
    if isinstance(template, list):
        values = (fill_json(item, scope) for item in template)
        return [value for value in values if value is not MISSING]
    return template


def fill_text(
    template: Template,
    scope: Mapping[str, Any],
    escape: Callable[[str], str] = lambda text: text,
) -> str:
    """A text with its placeholders filled in, each value escaped."""
    pieces = (
        piece if isinstance(piece, str) else escape(as_text(value_of(piece, scope)))
        for piece in template
    )
    return "".join(pieces)


def as_text(value: Any) -> str:
    """A value within a text: as JSON writes it, a text as it is, nothing as nothing."""
    if isinstance(value, str):
        return value
    if value is MISSING or value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # an integer over 64 bits, a lone surrogate
        return str(value)
