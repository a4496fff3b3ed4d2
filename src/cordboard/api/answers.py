"""JSON answers that hold whatever a hostile MCP server may have listed.

orjson is quick (1 MB in about 1 ms) but refuses what is nested deeper than 254 levels, whole
numbers beyond 64 bits and half surrogates. Such a value is written the slow way, or, when that
fails too, left out with a word about it; one bad tool never hides the others.
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
        """Bytes are a body that is written already."""
        return content if isinstance(content, bytes) else to_json(content)


def to_json(value: Any) -> bytes:
    """JSON of anything made of what JSON knows. Never raises for odd content."""
    try:
        return orjson.dumps(value)
    except TypeError:  # also orjson.JSONEncodeError
        try:
            return json.dumps(value).encode()
        except (TypeError, ValueError, RecursionError):
            return UNWRITABLE


def list_to_json(name: str, items: list[Any]) -> bytes:
    """`{name: items}`, item by item: for long lists, in a thread, where each item lets go of the
    interpreter for a moment."""
    return b'{"' + name.encode() + b'":[' + b",".join(to_json(item) for item in items) + b"]}"
