"""Converts an MCP result to a tool result. Pure, except `read_any_result`.

The data comes from `structuredContent`, else from JSON in the text, else it is the text itself. A
result that is only a sentence is also the message.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import mcp_types as types
import orjson

from cordboard.mcp.large_result import LARGE_BYTES
from cordboard.tools.large_json import parse_large
from cordboard.tools.speech import speech
from cordboard.tools.tool import Status, ToolResult

_SDK_PREFIX = re.compile(r"Error executing tool [^\s:]+: ")
"""The prefix that the official server SDKs put before a tool's own error text."""


async def read_any_result(
    result: types.CallToolResult, mask: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """Like `read_result` for any length: JSON in a long text is parsed off the event loop."""
    text = _text(result)
    is_long = len(text) > LARGE_BYTES and result.structured_content is None
    if not is_long or result.is_error or not _looks_like_json(text):
        return read_result(result, mask)
    data = await asyncio.to_thread(_large_json_in, text)
    return _plain(result, text) if data is None else ToolResult(Status.OK, _only_text(data), data)


def read_result(
    result: types.CallToolResult, mask: Callable[[str], str] = lambda text: text
) -> ToolResult:
    """Read a result. `isError` makes it an error regardless of its other content. The error text is
    masked by `mask`, because a server's message about a failed login often quotes the secret."""
    text = _text(result)
    if result.is_error:
        own_words = mask(_SDK_PREFIX.sub("", text, count=1))
        return ToolResult(Status.ERROR, speech.spoken_error(own_words), {"error": own_words})
    data = result.structured_content
    if data is None:
        data = _json_in(text)
    if data is None:
        return _plain(result, text)
    return ToolResult(Status.OK, _only_text(data), data)


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def _plain(result: types.CallToolResult, text: str) -> ToolResult:
    if text.strip() == "null":
        return ToolResult(Status.OK, "", {"result": None})
    data = _content(text, result.content)
    return ToolResult(Status.OK, text or _words(data), data)


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in {"{", "["}


def _large_json_in(text: str) -> Any:
    try:
        return parse_large(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _json_in(text: str) -> Any:
    """Return the object or list in a text; None if it is plain text."""
    if not _looks_like_json(text):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _only_text(data: Any) -> str:
    """Return the text of a result that is only a sentence: SDKs wrap it as `{"result": …}`."""
    if isinstance(data, dict) and len(data) == 1 and isinstance(data.get("result"), str):
        return str(data["result"])
    return ""


def _content(text: str, blocks: list[types.ContentBlock]) -> dict[str, Any]:
    """Return plain text, resources and their links; of other content only what it is, in words: a
    phone can neither show nor play it."""
    data: dict[str, Any] = {"text": text} if text else {}
    for block in blocks:
        if isinstance(block, types.ResourceLink):
            link = {"uri": str(block.uri), "name": block.title or block.name}
            told = {"description": block.description} if block.description else {}
            data.setdefault("links", []).append(link | told)
        elif isinstance(block, types.EmbeddedResource):
            resource = block.resource
            kept = {"uri": str(resource.uri)}
            if isinstance(resource, types.TextResourceContents):
                kept["text"] = resource.text
            else:
                kept["not_text"] = f"a file ({resource.mime_type or 'of an unknown kind'})"
            data.setdefault("resources", []).append(kept)
        elif isinstance(block, types.ImageContent | types.AudioContent):
            data.setdefault("not_text", []).append(_named(block))
    return data


def _named(block: types.ImageContent | types.AudioContent) -> str:
    what = "a picture" if isinstance(block, types.ImageContent) else "a sound"
    return f"{what} ({block.mime_type})"


def _words(data: dict[str, Any]) -> str:
    """Return the sentence for a result without text of its own."""
    texts = [kept["text"] for kept in data.get("resources", ()) if "text" in kept]
    if texts:
        return "\n".join(texts)
    if "not_text" in data:
        what = " and ".join(name.partition(" (")[0] for name in data["not_text"])
        return f"The answer is {what}, which I cannot give you on the phone."
    return ""
