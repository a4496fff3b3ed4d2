"""Parses JSON-RPC messages from HTTP bodies and events; creates the error for a lost answer.

No sockets. All input is untrusted; unreadable input raises `McpError`. The error that replaces a
lost answer carries the `McpError` itself as its data (`lost`), so that `cordboard.mcp.connection`
can tell it from any error that a server could send.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Container
from contextlib import suppress

import mcp_types as types
from mcp.shared.message import SessionMessage

from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.mcp.large_result import LARGE_BYTES, read_large

_ID = re.compile(r'"id"\s*:\s*"?([0-9]{1,18})"?\s*[,}]')
_SEARCHED = 512


def read_message(text: bytes | str) -> types.JSONRPCMessage:
    """Parse one message. Raises `McpError`, whose text does not quote the content."""
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        pass
    start = text[:64].lstrip()
    looks_like = start.startswith(b"{") if isinstance(start, bytes) else start.startswith("{")
    raise McpError(f"its answer is not {'a JSON-RPC message' if looks_like else 'JSON'}")


def read_refusal(body: bytes) -> types.JSONRPCMessage:
    """Parse the message in the body of an HTTP error. Raises `McpError`.

    The id may be missing: servers based on the TypeScript SDK's example answer an unknown session
    with 400 and an error without id (server-everything 2026.8.31, measured).
    """
    with suppress(ValueError, RecursionError):
        content = json.loads(body)
        if isinstance(content, dict):
            message = {"id": None, **content}
            return types.jsonrpc_message_adapter.validate_python(message, by_name=False)
    raise McpError("its answer is not a JSON-RPC message")


async def read_any(
    text: bytes | str, tool_calls: Container[int] = ()
) -> types.JSONRPCMessage | None:
    """Parse one message of any size; a long one is parsed off the event loop. Raises `McpError`.

    `tool_calls` are the ids of the running tool calls. Returns None for a long message that can be
    ignored.
    """
    if len(text) <= LARGE_BYTES:
        try:
            return read_message(text)
        except McpError:
            if not _may_be_listing(text):
                raise
    try:
        return await asyncio.to_thread(_read_large, text, tool_calls)
    except (ValueError, RecursionError) as error:
        raise McpError("its answer is not a JSON-RPC message") from error


def _may_be_listing(text: bytes | str) -> bool:
    return '"tools"' in text if isinstance(text, str) else b'"tools"' in text


def _read_large(text: bytes | str, tool_calls: Container[int]) -> types.JSONRPCMessage | None:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return read_large(data, tool_calls)


def checked_answer(
    message: types.JSONRPCMessage | None, request_id: types.RequestId
) -> types.JSONRPCMessage:
    """Return the message if it answers this request. Raises `McpError` otherwise."""
    if message is None or not is_answer(message):
        raise McpError("its answer is not a JSON-RPC answer")
    if not answers(message, request_id):
        raise McpError("its answer is to another request")
    return with_id(message, request_id)


def claimed_id(text: str) -> str:
    """Return the request id found in an unreadable answer; empty if there is none."""
    match = _ID.search(text[:_SEARCHED]) or _ID.search(text[-_SEARCHED:])
    return match[1] if match else ""


def is_answer(message: types.JSONRPCMessage) -> bool:
    """True for a result or an error."""
    return isinstance(message, (types.JSONRPCResponse, types.JSONRPCError))


def answers(message: types.JSONRPCMessage, request_id: types.RequestId) -> bool:
    """True if it answers this request; an error may have no id, and "2" may stand for 2."""
    if isinstance(message, types.JSONRPCError) and message.id is None:
        return True
    return is_answer(message) and str(getattr(message, "id", None)) == str(request_id)


def with_id(message: types.JSONRPCMessage, request_id: types.RequestId) -> types.JSONRPCMessage:
    """Return the same answer, with the id exactly as the request had it."""
    if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
        message.id = request_id
    return message


def lost(request_id: types.RequestId, error: McpError) -> SessionMessage:
    """Return the error that replaces an answer which will not arrive."""
    code = types.INTERNAL_ERROR
    if isinstance(error, McpUnavailable):
        code = types.CONNECTION_CLOSED
    elif isinstance(error, McpTimeout):
        code = types.REQUEST_TIMEOUT
    data = types.ErrorData(code=code, message=str(error), data=error)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=data))
