"""OpenAI's Responses. Pure.

After the types of openai 3.54 (`openai.types.responses`). The whole conversation is sent each time
(`store: false`): it must be cut at the point the caller has heard, which the service cannot know.
Where the model reasons, its sealed reasoning goes back with the message it belongs to. The `phase`
of a message (`commentary` before a tool call, `final_answer`; gpt-5.4 and later) goes back with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
from cordboard.agents.llm.wire import (
    Read,
    Reader,
    amounts,
    count_of,
    object_of,
    settled,
    text_of,
)
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.chat_completions import BASE_URL, broken_of
from cordboard.vendors.openai.config import OpenAIResponsesBrain
from cordboard.vendors.openai.limits import CHAT_PAYLOAD, OPENAI_CHAT


class OpenAIResponsesWire:
    """Implements `Wire`."""

    provider = "openai_responses"
    schemas = OPENAI_CHAT
    payload = CHAT_PAYLOAD
    path = "/responses"

    def __init__(self, settings: OpenAIResponsesBrain) -> None:
        self._settings = settings
        self.model = settings.model
        self.base_url = settings.base_url or BASE_URL
        self.models_path = f"/models/{settings.model}"

    def headers(self, key: str) -> Mapping[str, str]:
        return self._settings.request_headers(key)

    def body(self, request: ModelRequest) -> JsonObject:
        settings = self._settings
        reasoning = settings.reasoning
        text = settings.text
        body: JsonObject = {
            "model": settings.model,
            "input": [item for message in request.messages for item in _items(message)],
            "stream": True,
            "store": settings.store,
            **settled(
                instructions=request.system or None,
                temperature=settings.temperature,
                top_p=settings.top_p,
                max_output_tokens=settings.max_output_tokens,
                reasoning=reasoning.model_dump(exclude_none=True) if reasoning else None,
                text=text.model_dump(exclude_none=True) if text else None,
                service_tier=settings.service_tier,
            ),
        }
        if reasoning is not None and reasoning.effort != "none" and not settings.store:
            body["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            if not request.may_ask:
                body["tool_choice"] = "none"
            elif settings.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = settings.parallel_tool_calls
        return with_extra(body, settings.extra)

    def reader(self) -> ResponsesReader:
        return ResponsesReader()


def _items(message: Message) -> Iterator[JsonObject]:
    match message:
        case CallerSaid(text):
            yield {"type": "message", "role": "user", "content": text}
        case ToolAnswered(wish_id, _, payload, _):
            output = orjson.dumps(payload).decode()
            yield {"type": "function_call_output", "call_id": wish_id, "output": output}
        case AgentSaid(text, wishes, kept, lasting):
            yield from kept
            if text:
                said: JsonObject = {"type": "message", "role": "assistant", "content": text}
                yield dict(said, **(lasting[0] if lasting else {}))
            for wish in wishes:
                yield {
                    "type": "function_call",
                    "call_id": wish.wish_id,
                    "name": wish.name,
                    "arguments": wish.arguments,
                }


def _tool(tool: ProviderTool) -> JsonObject:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


class ResponsesReader(Reader):
    """Implements `AnswerReader`. Text comes in pieces; calls and reasoning when they are
    complete."""

    def __init__(self) -> None:
        super().__init__()
        self._wished = False
        self._refused = False

    def read(self, data: JsonObject) -> Iterator[Read]:
        kind = text_of(data.get("type"))
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._refused = self._refused or kind == "response.refusal.delta"
                text = text_of(data.get("delta"))
                if text:
                    yield TextPiece(text)
            case "response.output_item.done":
                yield from self._item(object_of(data.get("item")))
            case "response.completed" | "response.incomplete":
                yield self._finished(object_of(data.get("response")))
            case "response.failed":
                yield broken_of(object_of(data.get("response")).get("error"))
            case "error":
                yield broken_of(data.get("error") or data)
            case _ if not kind.startswith("response."):
                raise ValueError
        self.alive += 1

    def _item(self, item: JsonObject) -> Iterator[Read]:
        match text_of(item.get("type")):
            case "function_call":
                name, wish_id = text_of(item.get("name")), text_of(item.get("call_id"))
                if not name:
                    raise ValueError
                self._wished = True
                yield ToolWish(wish_id, name, text_of(item.get("arguments")) or "{}")
            case "message" if item.get("phase"):
                yield Kept({"phase": text_of(item["phase"])}, lasting=True)
            case "reasoning" if item.get("encrypted_content"):
                kept = ("type", "id", "summary", "encrypted_content")
                yield Kept({name: item[name] for name in kept if name in item})

    def _finished(self, response: JsonObject) -> Finished:
        reason: Reason = "tools" if self._wished else "stop"
        why = text_of(object_of(response.get("incomplete_details")).get("reason"))
        if why:
            reason = "length" if why.startswith("max_") else "refused"
        elif self._refused and not self._wished:
            reason = "refused"
        return Finished(reason, _amounts(object_of(response.get("usage"))))


def _amounts(usage: JsonObject) -> dict[str, float]:
    """Return the usage. Cached and written tokens are included in `input_tokens`, so they are
    subtracted from it."""
    details = object_of(usage.get("input_tokens_details"))
    cached = count_of(details.get("cached_tokens"))
    written = count_of(details.get("cache_write_tokens"))
    whole = count_of(usage.get("input_tokens"))
    return amounts(
        input_text_tokens=max(0.0, whole - cached - written),
        cached_text_tokens=cached,
        cache_write_tokens=written,
        output_text_tokens=count_of(usage.get("output_tokens")),
    )
