"""OpenAI's Chat Completions, and all that speak like it (Ollama, vLLM, llama.cpp). Pure.

After the types of openai 3.54 (`ChatCompletionChunk`, `completion_create_params`). Compatible
services differ, and are understood all the same: they leave out ids, indexes, usage or the reason
of the end, use one index for all calls (Ollama before 0.21, ollama/ollama#15457), give arguments as
an object or text as a list of parts (Mistral), or send the whole answer at once.
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
from cordboard.agents.llm.messages import CALL_BEGINS
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
    "eos_token": "stop",  # text-generation-inference
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
        # The templates of some open models (Gemma, Mistral) fail unless the caller speaks first.
        first = request.messages[0] if request.messages else None
        if settings.base_url is not None and isinstance(first, AgentSaid):
            messages.append(_message(CallerSaid(CALL_BEGINS)))
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
        whole = with_extra(body, settings.extra)
        # Null means "not set" here; Mistral refuses settings that it does not know, also as null.
        return {name: value for name, value in whole.items() if value is not None}

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
        self._wishes: list[_Wish] = []
        self._at: dict[int, _Wish] = {}
        """The last call of each index."""
        self._any_text = False
        self._reason: Reason | None = None
        self._amounts: dict[str, float] = {}

    def read(self, data: JsonObject) -> Iterator[Read]:
        if data.get("error") or data.get("object") == "error":
            yield broken_of(data.get("error") or data)
            return
        if data.get("usage") is not None:
            self._amounts = _amounts(object_of(data["usage"]))
        choices = list_of(data.get("choices"))
        self.alive += 1
        for choice in choices[:1]:
            delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
            text = _text(delta.get("content")) or text_of(delta.get("refusal"))
            reason = text_of(choice.get("finish_reason"))
            calls = delta.get("tool_calls")
            self._note_wishes(list_of([calls] if isinstance(calls, dict) else calls))
            if text:
                self._any_text = True
                yield TextPiece(text)
            if reason:
                self._reason = _REASONS.get(reason, "other")

    def end(self) -> list[Read]:
        """End the answer. Usage comes after the reason, and the end after both. Snowflake gives no
        reason: there the mark of the end is enough."""
        wishes: list[Read] = [
            ToolWish(wish.wish_id, wish.name, wish.arguments or "{}")
            for wish in self._wishes
            if wish.name
        ]
        reason = self._reason
        if reason is None and self.done and (wishes or self._any_text):
            reason = "stop"
        if reason is None:
            return []
        if wishes and reason == "stop":
            reason = "tools"
        return [*wishes, Finished(reason, self._amounts)]

    def _note_wishes(self, deltas: list[JsonObject]) -> None:
        for delta in deltas:
            function = object_of(delta.get("function"))
            wish_id = text_of(delta.get("id")) or text_of(function.get("id"))
            name = text_of(function.get("name"))
            arguments = function.get("arguments")
            if isinstance(arguments, dict):
                arguments = orjson.dumps(arguments).decode()
            words = text_of(arguments)
            wish = self._wish(delta.get("index"), wish_id, name)
            wish.wish_id = wish_id or wish.wish_id
            wish.name = name or wish.name
            wish.arguments += words

    def _wish(self, index: object, wish_id: str, name: str) -> _Wish:
        """Return the call that a delta belongs to."""
        last = self._wishes[-1] if self._wishes else None
        if isinstance(index, int) and not isinstance(index, bool):
            wish = self._at.get(index)
            another = wish is not None and wish.name and name
            if wish is not None and not (another and wish_id and wish_id != wish.wish_id):
                return wish
        else:
            index = len(self._at)
            same = last and (wish_id == last.wish_id if wish_id else not (name and last.name))
            if last is not None and same:
                return last
        if len(self._wishes) >= MOST_WISHES:
            raise ValueError
        wish = self._at[index] = _Wish()
        self._wishes.append(wish)
        return wish


def _text(content: Any) -> str:
    """Return the text of a message's content: a text, or parts of which some are thoughts."""
    if not isinstance(content, list):
        return text_of(content)
    texts = (text_of(part.get("text")) for part in list_of(content) if part.get("type") == "text")
    return "".join(texts)


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
