"""JSON answers for any data that a hostile MCP server may have listed.

orjson is quick (1 MB in about 1 ms) but refuses nesting deeper than 254 levels, integers beyond
64 bits and half surrogates. Such a value is written the slow way, or, if that fails too, replaced
by a short note; one bad tool never hides the others.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
from starlette.responses import Response

UNWRITABLE = b'{"error":"cannot be shown"}'


class JsonAnswer(Response):
    """A body written by `to_json`."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body; bytes are used unchanged."""
        return content if isinstance(content, bytes) else to_json(content)


def to_json(value: Any) -> bytes:
    """Return JSON of any JSON-like value. Never raises for odd content."""
    try:
        return orjson.dumps(value)
    except TypeError:  # also orjson.JSONEncodeError
        try:
            return json.dumps(value).encode()
        except (TypeError, ValueError, RecursionError):
            return UNWRITABLE


def list_to_json(name: str, items: list[Any]) -> bytes:
    """Return `{name: items}`, item by item: for long lists, in a thread, where each item releases
    the interpreter for a moment."""
    return b'{"' + name.encode() + b'":[' + b",".join(to_json(item) for item in items) + b"]}"
