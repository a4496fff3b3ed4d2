"""Anthropic's Messages. Pure.

After the types of anthropic 2.12 (`message_create_params`, `raw_message_stream_event`). There the
caller speaks first, and turns alternate; tool results begin the caller's next message. Thoughts are
sealed and go back with the message that contains the tool calls. Where the service runs tools of
its own (by `extra`), it may pause (`pause_turn`): then the message goes back whole, and it goes on.
The version, and the header of the key, are those of the SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from cordboard.agent_api.language_model import (
    AgentSaid,
    CallerSaid,
    Finished,
    Kept,
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
    arguments_of,
    count_of,
    object_of,
    settled,
    text_of,
)
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject
from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.anthropic.limits import ANTHROPIC, PAYLOAD

BASE_URL = "https://api.anthropic.com"
VERSION = "2026-10-21"
_REASONS: Mapping[str, Reason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
    "pause_turn": "paused",
}
_BUSY = ("overloaded_error", "rate_limit_error")
_MOST_BLOCKS = 128
_THOUGHTS = ("thinking", "redacted_thinking")


class AnthropicWire:
    """Implements `Wire`."""

    provider = "anthropic"
    schemas = ANTHROPIC
    payload = PAYLOAD
    path = "/v1/messages"

    def __init__(self, settings: AnthropicBrain) -> None:
        self._settings = settings
        self.model = settings.model
        self.base_url = settings.base_url or BASE_URL
        self.models_path = f"/v1/models/{settings.model}"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"anthropic-version": VERSION, **self._settings.request_headers(key)}

    def body(self, request: ModelRequest) -> JsonObject:
        settings = self._settings
        thinking, output = settings.thinking, settings.output_config
        body: JsonObject = {
            "model": settings.model,
            "max_tokens": settings.max_tokens,
            "messages": _messages(request.messages),
            "stream": True,
            **settled(
                system=request.system or None,
                thinking=thinking.model_dump(exclude_none=True) if thinking else None,
                output_config=output.model_dump(exclude_none=True) if output else None,
                service_tier=settings.service_tier,
            ),
        }
        if settings.cache_prompt:
            body["cache_control"] = {"type": "ephemeral"}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_ask:
                body["tool_choice"] = {"type": "none"}
            elif settings.parallel_tool_calls is not None:
                several = settings.parallel_tool_calls
                body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not several}
        return with_extra(body, settings.extra)

    def reader(self) -> MessagesReader:
        return MessagesReader()


def _messages(messages: tuple[Message, ...]) -> list[JsonObject]:
    """Return the messages in alternate turns, the caller's first."""
    turns: list[JsonObject] = []
    for message in messages:
        role = "assistant" if isinstance(message, AgentSaid) else "user"
        blocks = _blocks(message)
        if not blocks:
            continue
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [{"type": "text", "text": CALL_BEGINS}]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[JsonObject]:
    match message:
        case CallerSaid(text):
            return [{"type": "text", "text": text}] if text.strip() else []
        case ToolAnswered(wish_id, _, payload, failed):
            content = orjson.dumps(payload).decode()
            result = {"type": "tool_result", "tool_use_id": wish_id, "content": content}
            return [{**result, "is_error": True} if failed else result]
        case AgentSaid(text, wishes, kept):
            if any(block.get("type") == "text" for block in kept):
                return [*kept, *map(_use, wishes)]  # paused: as it was, word for word
            said = [{"type": "text", "text": text.rstrip()}] if text.strip() else []
            return [*kept, *said, *map(_use, wishes)]


def _use(wish: ToolWish) -> JsonObject:
    given = arguments_of(wish) or {}
    return {"type": "tool_use", "id": wish.wish_id, "name": wish.name, "input": given}


def _tool(tool: ProviderTool) -> JsonObject:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters or {"type": "object", "properties": {}},
    }


@dataclass(slots=True)
class _Block:
    """A content block that is still being written."""

    kind: str
    wish_id: str = ""
    name: str = ""
    given: JsonObject = field(default_factory=dict)
    json: str = ""
    whole: JsonObject = field(default_factory=dict)


class MessagesReader(Reader):
    """Implements `AnswerReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._usage: JsonObject = {}
        self._reason: Reason | None = None

    def read(self, data: JsonObject) -> Iterator[Read]:
        kind = text_of(data.get("type"))
        match kind:
            case "message_start":
                self._usage |= object_of(object_of(data.get("message")).get("usage"))
            case "content_block_start":
                yield from self._begun(_index(data), object_of(data.get("content_block")))
            case "content_block_delta":
                yield from self._grown(_index(data), object_of(data.get("delta")))
            case "content_block_stop":
                yield from self._whole(_index(data))
            case "message_delta":
                told = object_of(data.get("usage"))
                self._usage |= {name: count for name, count in told.items() if count is not None}
                reason = text_of(object_of(data.get("delta")).get("stop_reason"))
                if reason:
                    self._reason = _REASONS.get(reason, "other")
            case "message_stop":
                if self._reason is None:
                    raise ValueError
                yield from self._kept(paused=self._reason == "paused")
                yield Finished(self._reason, _amounts(self._usage))
            case "error":
                yield _broken(object_of(data.get("error")))
            case "ping":
                return
            case "":
                raise ValueError
        self.alive += 1

    def _begun(self, index: int, block: JsonObject) -> Iterator[Read]:
        if index in self._blocks or len(self._blocks) >= _MOST_BLOCKS:
            raise ValueError
        kind = text_of(block.get("type"))
        begun = _Block(kind, whole=dict(block))
        if kind == "tool_use":
            begun.wish_id, begun.name = text_of(block.get("id")), text_of(block.get("name"))
            begun.given = object_of(block.get("input"))
        self._blocks[index] = begun
        if kind == "text" and (text := text_of(block.get("text"))):
            yield TextPiece(text)

    def _grown(self, index: int, delta: JsonObject) -> Iterator[Read]:
        block = self._blocks[index]
        match text_of(delta.get("type")), block.kind:
            case "text_delta", "text":
                text = text_of(delta.get("text"))
                block.whole["text"] = text_of(block.whole.get("text")) + text
                if text:
                    yield TextPiece(text)
            case "input_json_delta", kind if kind != "text" and kind not in _THOUGHTS:
                if kind == "over":
                    raise ValueError
                block.json += text_of(delta.get("partial_json"))
            case "thinking_delta", "thinking":
                thought = text_of(delta.get("thinking"))
                block.whole["thinking"] = text_of(block.whole.get("thinking")) + thought
            case "signature_delta", "thinking":
                seal = text_of(delta.get("signature"))
                block.whole["signature"] = text_of(block.whole.get("signature")) + seal
            case (("text_delta" | "input_json_delta" | "thinking_delta" | "signature_delta"), _):
                raise ValueError

    def _whole(self, index: int) -> Iterator[Read]:
        block = self._blocks[index]
        kind, block.kind = block.kind, "over"
        if kind == "over":
            raise ValueError
        if kind == "tool_use":
            if not block.name:
                raise ValueError
            arguments = block.json or orjson.dumps(block.given).decode()
            yield ToolWish(block.wish_id, block.name, arguments)
        elif block.json:  # a tool of the service's own
            block.whole["input"] = object_of(orjson.loads(block.json))

    def _kept(self, *, paused: bool) -> Iterator[Read]:
        """Return what must go back: the thoughts; of a paused answer everything, in its order."""
        for block in self._blocks.values():
            kind = block.whole.get("type")
            empty = kind == "text" and not text_of(block.whole.get("text")).strip()
            if kind in _THOUGHTS or (paused and kind != "tool_use" and not empty):
                yield Kept(block.whole)


def _index(data: JsonObject) -> int:
    index = data["index"]
    if not isinstance(index, int):
        raise TypeError
    return index


def _broken(error: JsonObject) -> Broken:
    kind = str(error.get("type"))
    message = str(error.get("message") or kind)[:200]
    if kind in _BUSY:
        return Broken("quota", message, again=True)
    if kind == "invalid_request_error":
        return Broken("refused", message)
    return Broken("dropped", message, again=True)


def _amounts(usage: JsonObject) -> dict[str, float]:
    """Return the usage. Here cached tokens are not among `input_tokens`."""
    return amounts(
        input_text_tokens=count_of(usage.get("input_tokens")),
        cached_text_tokens=count_of(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count_of(usage.get("cache_creation_input_tokens")),
        output_text_tokens=count_of(usage.get("output_tokens")),
    )
