"""Fills the `{placeholders}` of data that is sent: URLs, bodies, arguments.

Their syntax is in `cordboard.config.templates`; `cordboard.tools.speech.template` fills spoken
texts. Values are data: each is inserted once, escaped for its place, and never searched for
placeholders or `${VAR}`. A missing value becomes its default; without a default it becomes an empty
string, and a text that consists only of the placeholder is left out of its object. Pure functions
that never raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from cordboard.config.templates import JsonTemplate, Path, Placeholder, Template, only_placeholder

MISSING: Final = object()
"""Stands for a missing value without a default."""
_INDEX = re.compile(r"-?[0-9]{1,6}")


def look_up(data: Any, path: Path) -> Any:
    """Return the value at a path; `MISSING` if there is none."""
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
    """Return the value, else the default, else `MISSING`. Null counts as missing."""
    value = look_up(scope, placeholder.path)
    if value is MISSING or value is None:
        return MISSING if placeholder.default is None else placeholder.default
    return value


def fill_json(template: JsonTemplate, scope: Mapping[str, Any]) -> Any:
    """Return a JSON value with its placeholders filled; `MISSING` if it is one missing value."""
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
    """Return a text with its placeholders filled, each value escaped."""
    pieces = (
        piece if isinstance(piece, str) else escape(as_text(value_of(piece, scope)))
        for piece in template
    )
    return "".join(pieces)


def as_text(value: Any) -> str:
    """Return a value as text: strings unchanged, missing values empty, others as JSON."""
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
