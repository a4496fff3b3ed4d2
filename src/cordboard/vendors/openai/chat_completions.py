"""OpenAI's Chat Completions, and all that speak like it (Ollama, vLLM, llama.cpp). Pure.

After the types of openai 3.54 (`ChatCompletionChunk`, `completion_create_params`). Compatible
services leave out ids, indexes and usage, or give arguments as an object: that is understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Finished,
    Message,
    ModelRequest,
    Reason,
    TextPiece,
    ToolAnswered,
    ToolWish,
)
from cordboard.agents.extra_settings import with_extra
from cordboard.agents.llm.wire import (
    Broken,
    Read,
    Reader,
    amounts,
    count_of,
    list_of,
    object_of,
    settled,
    text_of,
)
from cordboard.errors import FailureKind
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard.vendors.openai.limits import CHAT_PAYLOAD, OPENAI_CHAT

BASE_URL = "https://api.openai.com/v1"
_REASONS: Mapping[str, Reason] = {
    "stop": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}
MOST_WISHES = 64
"""Most tool calls of one answer; further ones are ignored."""


class OpenAIChatWire:
    """Implements `Wire`."""

    provider = "openai_chat"
    schemas = OPENAI_CHAT
    payload = CHAT_PAYLOAD
    path = "/chat/completions"

    def __init__(self, settings: OpenAIChatBrain) -> None:
        self._settings = settings
        self.model = settings.model
        self.base_url = settings.base_url or BASE_URL
        self.models_path = f"/models/{settings.model}"

    def headers(self, key: str) -> Mapping[str, str]:
        return self._settings.request_headers(key)

    def body(self, request: ModelRequest) -> JsonObject:
        settings = self._settings
        messages: list[JsonObject] = []
        if request.system:
            messages.append({"role": "system", "content": request.system})
        messages += map(_message, request.messages)
        body: JsonObject = {
            "model": settings.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **settled(
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_completion_tokens=settings.max_completion_tokens,
                max_tokens=settings.max_tokens,
                reasoning_effort=settings.reasoning_effort,
                verbosity=settings.verbosity,
                service_tier=settings.service_tier,
            ),
        }
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_ask:
                body["tool_choice"] = "none"
            elif settings.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = settings.parallel_tool_calls
        return with_extra(body, settings.extra)

    def reader(self) -> ChatReader:
        return ChatReader()


def _message(message: Message) -> JsonObject:
    match message:
        case CallerSaid(text):
            return {"role": "user", "content": text}
        case ToolAnswered(wish_id, _, payload, _):
            content = orjson.dumps(payload).decode()
            return {"role": "tool", "tool_call_id": wish_id, "content": content}
        case AgentSaid(text, wishes, _):
            said: JsonObject = {"role": "assistant", "content": text or None}
            if wishes:
                said["tool_calls"] = [_call(wish) for wish in wishes]
            elif not text:
                said["content"] = ""
            return said


def _call(wish: ToolWish) -> JsonObject:
    function = {"name": wish.name, "arguments": wish.arguments}
    return {"id": wish.wish_id, "type": "function", "function": function}


def _tool(tool: ProviderTool) -> JsonObject:
    return {"type": "function", "function": tool.declared()}


@dataclass(slots=True)
class _Wish:
    """A tool call that is still being written."""

    wish_id: str = ""
    name: str = ""
    arguments: str = ""


class ChatReader(Reader):
    """Implements `AnswerReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._wishes: dict[int, _Wish] = {}
        self._reason: Reason | None = None
        self._amounts: dict[str, float] = {}

    def read(self, data: JsonObject) -> Iterator[Read]:
        if data.get("error"):
            yield broken_of(data["error"])
            return
        if data.get("usage") is not None:
            self._amounts = _amounts(object_of(data["usage"]))
        choices = list_of(data.get("choices"))
        self.alive += 1
        for choice in choices[:1]:
            delta = object_of(choice.get("delta"))
            text = text_of(delta.get("content")) or text_of(delta.get("refusal"))
            reason = text_of(choice.get("finish_reason"))
            self._note_wishes(list_of(delta.get("tool_calls")))
            if text:
                yield TextPiece(text)
            if reason:
                self._reason = _REASONS.get(reason, "other")

    def end(self) -> list[Read]:
        """End the answer. Usage comes after the reason, and the end after both."""
        if self._reason is None:
            return []
        wishes: list[Read] = [
            ToolWish(wish.wish_id, wish.name, wish.arguments or "{}")
            for _, wish in sorted(self._wishes.items())
            if wish.name
        ]
        reason: Reason = "tools" if wishes and self._reason == "stop" else self._reason
        return [*wishes, Finished(reason, self._amounts)]

    def _note_wishes(self, deltas: list[JsonObject]) -> None:
        for delta in deltas:
            index = delta.get("index")
            wish_id = text_of(delta.get("id"))
            if not isinstance(index, int) or isinstance(index, bool):
                index = len(self._wishes) if wish_id or not self._wishes else max(self._wishes)
            function = object_of(delta.get("function"))
            name = text_of(function.get("name"))
            arguments = function.get("arguments")
            if isinstance(arguments, dict):
                arguments = orjson.dumps(arguments).decode()
            words = text_of(arguments)
            if index not in self._wishes and len(self._wishes) >= MOST_WISHES:
                raise ValueError
            wish = self._wishes.setdefault(index, _Wish())
            wish.wish_id = wish_id or wish.wish_id
            wish.name = name or wish.name
            wish.arguments += words


def broken_of(error: Any) -> Broken:
    """Return the meaning of OpenAI's error object in the middle of a stream."""
    if not isinstance(error, dict):
        return Broken("dropped", str(error or "no reason given")[:200], again=True)
    kinds = f"{error.get('type')} {error.get('code')}"
    message = str(error.get("message") or kinds)[:200]
    kind: FailureKind = "dropped"
    if "quota" in kinds or "rate_limit" in kinds or "overloaded" in kinds:
        kind = "quota"
    elif "invalid" in kinds:
        kind = "refused"
    return Broken(kind, message, again=kind == "dropped" or "rate_limit" in kinds)


def _amounts(usage: JsonObject) -> dict[str, float]:
    """Return the usage. Cached and written tokens are included in `prompt_tokens`, so they are
    subtracted from it."""
    details = object_of(usage.get("prompt_tokens_details"))
    cached = count_of(details.get("cached_tokens"))
    written = count_of(details.get("cache_write_tokens"))
    whole = count_of(usage.get("prompt_tokens"))
    return amounts(
        input_text_tokens=max(0.0, whole - cached - written),
        cached_text_tokens=cached,
        cache_write_tokens=written,
        output_text_tokens=count_of(usage.get("completion_tokens")),
    )
