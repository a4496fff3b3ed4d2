from __future__ import annotations

import mcp_types as types
import pytest

from cordboard.errors import McpError
from cordboard.mcp.remote.http_messages import read_refusal


@pytest.mark.parametrize("id_member", ["", ',"id":null', ',"id":7', ',"id":"7"'])
def test_the_error_in_a_refusal_is_read_with_and_without_an_id(id_member: str) -> None:
    """Without: server-everything 2026.8.31 (npm), to a session that it no longer knows."""
    error = '"error":{"code":-32000,"message":"No valid session ID"}'
    body = '{"jsonrpc":"2.0",' + error + id_member + "}"
    message = read_refusal(body.encode())
    assert isinstance(message, types.JSONRPCError)
    assert (message.error.code, message.error.message) == (-32000, "No valid session ID")


@pytest.mark.parametrize(
    "body", [b"", b"<html>no</html>", b"[]", b"{}", b'{"error":"no"}', b"[" * 5_000, b"\xff"]
)
def test_a_refusal_that_is_no_message_says_nothing_of_its_content(body: bytes) -> None:
    with pytest.raises(McpError, match=r"^its answer is not a JSON-RPC message$"):
        read_refusal(body)
