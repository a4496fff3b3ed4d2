"""A long answer of a server, read in a worker thread and carried past the SDK's own checks.

The SDK parses and validates an answer on the event loop, twice, and would hold it for up to a
second with 5 MB of many small parts (mcp 2.3.0, measured). So whatever is longer than
`LARGE_BYTES` is parsed beside the loop (`cordboard.tools.large_json`); the SDK gets an empty
stand-in for a tool's result, which carries the whole in its `_meta`, where `whole_result` finds it.
No server can forge that: what comes as JSON is never an object of ours.
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
"""Shorter messages cost the loop at most a few ms."""
MAX_OTHER_BYTES = 2 * 1024 * 1024
"""Longest message that is neither a tool's result nor a listing (`mcp.definitions.listing`)."""
MAX_BLOCKS = 1_000
"""Most parts that the content of a long result may have."""

MAX_LISTING_DEPTH = 100
"""Levels of a listing that are read; a schema of more than `MAX_SCHEMA_DEPTH` is refused."""

_KEY = "cordboard/whole"
_OF_LISTING = ("tools", "nextCursor", "resultType", "ttlMs", "cacheScope")
_BLOCK: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


class _Whole(str):
    """A result, disguised as an empty text: the SDK dumps what it checks, a model part by part."""

    result: types.CallToolResult


def read_large(line: bytes, tool_calls: Container[int]) -> types.JSONRPCMessage | None:
    """The message in a long line; `tool_calls` are the ids of the tool calls under way.

    None for what nobody needs: a notification, an answer to nothing. Raises `ValueError` for what
    cannot be read. Takes up to 2 s; holds Python's lock only for moments. For a worker thread.
    """
    message = _parsed(_mended(line))
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ValueError("it is no message")
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
        raise ValueError("it is no answer")
    return _error(request_id, error.get("code"), str(error.get("message", ""))[:1_000])


def whole_result(result: types.CallToolResult) -> types.CallToolResult:
    """The result itself, or the one that it stands in for."""
    carried = (result.meta or {}).get(_KEY)
    return carried.result if isinstance(carried, _Whole) else result


def _parsed(line: bytes) -> Any:
    """The JSON of a line; of a listing with a schema nested too deep for a parser, or for the SDK,
    what is above that depth, so that the listing costs that tool only. Raises `ValueError`."""
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
    """The line with what is no UTF-8 replaced."""
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
