"""A long answer of a server, parsed in a worker thread and passed around the SDK's own checks.

The SDK parses and validates an answer on the event loop, twice, and would block it for up to a
second with 5 MB of many small parts (mcp 2.3.0, measured). So a message longer than `LARGE_BYTES`
is parsed off the loop (`cordboard.tools.large_json`). The SDK gets an empty stand-in for a tool's
result, which carries the complete result in its `_meta`, where `whole_result` finds it. No server
can forge that: parsed JSON never contains an object of this class.
"""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from cordboard.tools.large_json import parse_large, shallow
from cordboard.tools.schema.safety import depth_of

LARGE_BYTES = 32 * 1024
"""Shorter messages occupy the loop for a few ms at most."""
MAX_OTHER_BYTES = 2 * 1024 * 1024
"""Maximum size of a message that is neither a tool's result nor a listing."""
MAX_BLOCKS = 1_000
"""Maximum number of parts in the content of a long result."""

MAX_LISTING_DEPTH = 100
"""Levels of a listing that are parsed; schemas over `MAX_SCHEMA_DEPTH` are refused."""

_KEY = "cordboard/whole"
_OF_LISTING = ("tools", "nextCursor", "resultType", "ttlMs", "cacheScope")
_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


class _Whole(str):
    """A result disguised as an empty string: the SDK serialises models part by part."""

    result: types.CallToolResult


def read_large(line: bytes, tool_calls: Container[int]) -> types.JSONRPCMessage | None:
    """Return the message in a long line; `tool_calls` are the ids of the running tool calls.

    Returns None for messages that can be ignored: a notification, or an answer to no request.
    Raises `ValueError` for an unreadable line. Takes up to 2 s, but holds the GIL only for moments.
    Run it in a worker thread.
    """
    message = _parsed(_mended(line))
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ValueError("it is not a message")
    if "method" in message:
        return _request(message, len(line))
    request_id = message.get("id")
    if isinstance(request_id, str) and request_id.isascii() and request_id.isdigit():
        request_id = int(request_id)
    if not isinstance(request_id, int) or isinstance(request_id, bool):
        return None
    if isinstance(message.get("result"), dict):
        return _answer(request_id, message["result"], request_id in tool_calls, len(line))
    error = message.get("error")
    if not isinstance(error, dict):
        raise ValueError("it is not an answer")
    return _error(request_id, error.get("code"), str(error.get("message", ""))[:1_000])


def whole_result(result: types.CallToolResult) -> types.CallToolResult:
    """Return the result itself, or the one that it stands in for."""
    return carried(result.meta) or result


def carried(meta: object) -> types.CallToolResult | None:
    """Return the result that an answer with this `_meta` stands in for; None if it does not."""
    whole = meta.get(_KEY) if isinstance(meta, dict) else None
    return whole.result if isinstance(whole, _Whole) else None


def _parsed(line: bytes) -> Any:
    """Return the JSON of a line. Raises `ValueError`.

    A listing with a schema nested too deep for a parser or for the SDK is cut at that depth, so
    that only that tool is lost."""
    with suppress(ValueError):
        message = parse_large(line)
        if not _is_listing(message) or depth_of(message, MAX_LISTING_DEPTH) <= MAX_LISTING_DEPTH:
            return message
    message = parse_large(shallow(line, MAX_LISTING_DEPTH))
    if not _is_listing(message):
        raise ValueError("it is nested too deep")
    return message


def _is_listing(message: Any) -> bool:
    result = message.get("result") if isinstance(message, dict) else None
    return isinstance(result, dict) and "tools" in result and "content" not in result


def _request(message: dict[str, Any], size: int) -> types.JSONRPCRequest | None:
    if "id" not in message or size > MAX_OTHER_BYTES:
        return None
    return types.JSONRPCRequest.model_validate(message)


def _answer(
    request_id: int, result: dict[str, Any], of_tool: bool, size: int
) -> types.JSONRPCMessage:
    if not of_tool or result.get("resultType", "complete") != "complete":
        if "tools" in result:
            result = {name: result[name] for name in _OF_LISTING if name in result}
        elif size > MAX_OTHER_BYTES:
            return _error(request_id, None, "the server's answer is too long")
        return types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
    content = result.get("content")
    if isinstance(content, list) and len(content) > MAX_BLOCKS:
        return _error(request_id, None, f"the server's answer has more than {MAX_BLOCKS} parts")
    try:
        whole = types.CallToolResult.model_construct(
            content=[_BLOCK.validate_python(block, by_name=False) for block in _list(content)],
            structured_content=result.get("structuredContent"),
            is_error=_boolean(result.get("isError", False)),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]["msg"]
        return _error(request_id, None, f"the server's answer has the wrong shape ({first})")
    except TypeError:
        return _error(request_id, None, "the server's answer has the wrong shape")
    carrier = _Whole()
    carrier.result = whole
    stand_in = {"content": [], "isError": whole.is_error, "_meta": {_KEY: carrier}}
    if "resultType" in result:
        stand_in["resultType"] = "complete"
    return types.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=stand_in)


def _error(request_id: int, code: object, words: str) -> types.JSONRPCError:
    number = code if isinstance(code, int) else types.INTERNAL_ERROR
    error = types.ErrorData(code=number, message=words)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _mended(line: bytes) -> bytes:
    """Replace bytes that are not UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
