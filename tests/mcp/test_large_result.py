from __future__ import annotations

import json
from typing import Any

import mcp_types as types
import pytest

from cordboard.errors import McpError
from cordboard.mcp.large_result import MAX_BLOCKS, read_large, whole_result
from cordboard.mcp.remote.http_messages import read_any
from cordboard.tools.schema.safety import MAX_SCHEMA_DEPTH, depth_of

CALL = 7


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()


def text_block(text: str = "x") -> dict[str, Any]:
    return {"type": "text", "text": text}


def read(**message: Any) -> types.JSONRPCMessage | None:
    return read_large(line(**message), {CALL})


def failure(message: types.JSONRPCMessage | None) -> str:
    assert isinstance(message, types.JSONRPCError)
    assert message.id == CALL
    return message.error.message


def test_a_tools_result_comes_through_whole_past_the_sdk() -> None:
    rows = [{"n": number} for number in range(9_000)]
    message = read(
        id=CALL, result={"content": [text_block("ü" * 90_000)], "structuredContent": {"rows": rows}}
    )
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result["content"] == []
    seen_by_the_sdk = types.CallToolResult.model_validate(message.result, by_name=False)
    whole = whole_result(seen_by_the_sdk)
    assert whole.structured_content == {"rows": rows}
    assert isinstance(whole.content[0], types.TextContent)
    assert whole.content[0].text == "ü" * 90_000
    assert whole.is_error is False


def test_no_server_can_forge_it() -> None:
    forged = {"content": [text_block()], "_meta": {"cordboard/whole": {"content": []}}}
    result = types.CallToolResult.model_validate(forged, by_name=False)
    assert whole_result(result) is result


def test_an_error_of_the_tool_stays_one() -> None:
    message = read(id=str(CALL), result={"content": [text_block()], "isError": True})
    assert isinstance(message, types.JSONRPCResponse)
    assert whole_result(types.CallToolResult.model_validate(message.result)).is_error


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": "text"},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "hologram"}]},
        {"content": [], "isError": 7},
    ],
)
def test_a_wrong_shape_is_the_calls_error(result: dict[str, Any]) -> None:
    assert "wrong shape" in failure(read(id=CALL, result=result))


def test_too_many_parts_are_the_calls_error() -> None:
    blocks = [text_block()] * (MAX_BLOCKS + 1)
    assert f"more than {MAX_BLOCKS} parts" in failure(read(id=CALL, result={"content": blocks}))


def test_a_long_error_loses_its_data() -> None:
    error = {"code": -32602, "message": "no such thing", "data": "x" * 90_000}
    message = read(id=CALL, error=error)
    assert failure(message) == "no such thing"
    assert isinstance(message, types.JSONRPCError)
    assert (message.error.code, message.error.data) == (-32602, None)


def test_a_long_listing_passes_and_other_long_answers_do_not() -> None:
    tools = [{"name": "a", "description": "x" * 3_000_000, "inputSchema": {}}]
    message = read(id=1, result={"tools": tools, "nextCursor": "2", "_meta": {"x": 1}})
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"tools": tools, "nextCursor": "2"}
    refused = read(id=1, result={"serverInfo": "x" * 3_000_000})
    assert isinstance(refused, types.JSONRPCError)


def test_a_request_passes_and_a_notification_does_not() -> None:
    asked = {"method": "sampling/createMessage", "params": {"x": "y" * 90_000}}
    assert isinstance(read(id=3, **asked), types.JSONRPCRequest)
    assert read(**asked) is None
    assert read(id=None, error={"code": 1, "message": "x"}) is None


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"jsonrpc":"2.0","id":7}', b"{", b'"a"'])
def test_what_is_no_message_cannot_be_read(text: bytes) -> None:
    with pytest.raises(ValueError, match=" "):
        read_large(text, {CALL})


def test_bytes_that_are_no_utf8_lose_only_themselves() -> None:
    raw = line(id=CALL, result={"content": [text_block("caf@")]}).replace(b"@", b"\xe9")
    message = read_large(raw, {CALL})
    assert isinstance(message, types.JSONRPCResponse)
    (block,) = whole_result(types.CallToolResult.model_validate(message.result)).content
    assert isinstance(block, types.TextContent)
    assert block.text == "caf\ufffd"


@pytest.mark.parametrize("levels", [600, 20_000])
async def test_a_listing_is_read_but_for_what_is_nested_too_deep(levels: int) -> None:
    deep = "[" * levels + '"]}"' + "]" * levels
    tools = f'[{{"name":"a","inputSchema":{deep}}},{{"name":"b"}}]'
    listing = f'{{"jsonrpc":"2.0","id":1,"result":{{"tools":{tools}}}}}'
    message = await read_any(listing)
    assert isinstance(message, types.JSONRPCResponse)
    deep_one, other = message.result["tools"]
    assert depth_of(deep_one, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH, "so it is refused"
    assert other == {"name": "b"}
    answer = listing.replace('"tools"', '"content"')
    with pytest.raises(McpError):
        await read_any(answer, {1})
