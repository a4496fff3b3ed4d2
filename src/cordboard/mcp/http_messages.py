"""JSON-RPC messages out of HTTP bodies and events, and our own words in the place of a lost answer.

Pure. All that arrives is untrusted; what cannot be read raises `McpError`. A failure that we put in
the place of an answer carries the `McpError` itself as its data (`lost`), by which
`cordboard.mcp.connection` tells it from any error that a server could send.
"""

from __future__ import annotations

import mcp_types as types
from mcp.shared.message import SessionMessage

from cordboard.errors import McpError, McpTimeout, McpUnavailable


def read_message(text: bytes | str) -> types.JSONRPCMessage:
    """One message. Raises `McpError`; its words say nothing of the content."""
    try:
        return types.jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        pass
    start = text[:64].lstrip()
    looks_like = start.startswith(b"{") if isinstance(start, bytes) else start.startswith("{")
    raise McpError(f"its answer is {'no JSON-RPC message' if looks_like else 'not JSON'}")


def read_answer(body: bytes, request_id: types.RequestId) -> types.JSONRPCMessage:
    """The answer to a request, as the whole of a body. Raises `McpError`."""
    message = read_message(body)
    if not is_answer(message):
        raise McpError("its answer is no JSON-RPC answer")
    if not answers(message, request_id):
        raise McpError("its answer is to another request")
    return with_id(message, request_id)


def is_answer(message: types.JSONRPCMessage) -> bool:
    """Whether it is a result or an error."""
    return isinstance(message, (types.JSONRPCResponse, types.JSONRPCError))


def answers(message: types.JSONRPCMessage, request_id: types.RequestId) -> bool:
    """Whether an answer is to this request; an error may name none, "2" may stand for 2."""
    if isinstance(message, types.JSONRPCError) and message.id is None:
        return True
    return is_answer(message) and str(getattr(message, "id", None)) == str(request_id)


def with_id(message: types.JSONRPCMessage, request_id: types.RequestId) -> types.JSONRPCMessage:
    """The same answer, with the id exactly as we wrote it."""
    if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
        message.id = request_id
    return message


def lost(request_id: types.RequestId, error: McpError) -> SessionMessage:
    """A failure in the place of the answer that will not come."""
    code = types.INTERNAL_ERROR
    if isinstance(error, McpUnavailable):
        code = types.CONNECTION_CLOSED
    elif isinstance(error, McpTimeout):
        code = types.REQUEST_TIMEOUT
    data = types.ErrorData(code=code, message=str(error), data=error)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=data))
