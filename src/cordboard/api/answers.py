"""JSON answers for any data that a hostile MCP server may have listed.

orjson is quick (1 MB in about 1 ms) but refuses nesting deeper than 254 levels, integers beyond
64 bits and half surrogates. Such a value is written the slow way, or, if that fails too, replaced
by a short note; one bad tool never hides the others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
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


_KINDS = {str: "a text", bool: "true or false", dict: "an object", int: "a whole number"}


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """Read a body that comes within `seconds`. Raises `HTTPException`: 413 or 408."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise HTTPException(413, f"a body may have at most {most_bytes} bytes")
    except (TimeoutError, ClientDisconnect):
        raise HTTPException(408, "the body did not come") from None
    return bytes(body)


async def json_body(request: Request, most_bytes: int, seconds: float) -> dict[str, Any]:
    """Read a JSON object. Raises `HTTPException`: 415, 413, 408 or 400."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    body = await read_body(request, most_bytes, seconds)
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise HTTPException(400, "the body is not a JSON object")
    return content


def fields(content: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """Return the object's values of the known keys; a null counts as left out. Raises
    `HTTPException` 400 for other keys and for values of another kind."""
    for name, value in content.items():
        if name not in kinds:
            known = ", ".join(kinds)
            raise HTTPException(400, f"unknown key {name[:64]!r}; known: {known}")
        wanted = kinds[name]
        wrong = not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))
        if value is not None and wrong:
            raise HTTPException(400, f"{name}: expected {_KINDS[wanted]}")
    return {name: value for name, value in content.items() if value is not None}
