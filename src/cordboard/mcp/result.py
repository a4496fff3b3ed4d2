"""From an MCP result to a tool result: data from `structuredContent`, else JSON in the text, else
the text; and words, where the result itself is a sentence. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import mcp_types as types
import orjson

from cordboard.tools import speech
from cordboard.tools.tool import Status, ToolResult

_SDK_PREFIX = re.compile(r"Error executing tool [^\s:]+: ")
"""What the official server SDKs put before a tool's own error text."""


def read_result(
    result: types.CallToolResult, mask: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """Read a result; `isError` is an error whatever else it holds, and is `mask`ed: a server's
    complaint that a login failed often quotes it."""
    text = "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
    if result.is_error:
        own_words = mask(_SDK_PREFIX.sub("", text, count=1))
        return ToolResult(Status.ERROR, speech.spoken_error(own_words), {"error": own_words})
    data = result.structured_content
    if data is None:
        data = _json_in(text)
    if data is None:
        return ToolResult(Status.OK, text, _content(text, result.content))
    return ToolResult(Status.OK, _only_text(data), data)


def _json_in(text: str) -> Any:
    """The object or list a text holds, None when it is just text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _only_text(data: Any) -> str:
    """The sentence of a result that is nothing else: the SDKs wrap a string as `{"result": …}`."""
    if isinstance(data, dict) and len(data) == 1 and isinstance(data.get("result"), str):
        return str(data["result"])
    return ""


def _content(text: str, blocks: list[types.ContentBlock]) -> dict[str, Any]:
    """Plain text, and what else came along, by kind: a phone can neither show nor play it."""
    data: dict[str, Any] = {"text": text} if text else {}
    others = [block.type for block in blocks if not isinstance(block, types.TextContent)]
    if others:
        data["not_text"] = others
    return data
