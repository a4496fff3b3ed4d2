"""The body of a request with parameters: one JSON object, of limited size and known keys.

Each error has an answer of its own, with the expected form.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

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
