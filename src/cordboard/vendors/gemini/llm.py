"""Gemini's `streamGenerateContent`. Pure.

After the types of google-genai 3.4 (`GenerateContentConfig`, `GenerateContentResponse`). There the
caller speaks first. A function call has a signature (`thoughtSignature`) that must be sent back
with it; results have their call's id where it has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
from cordboard.agents.llm.messages import CALL_BEGINS, OWN_ID
from cordboard.agents.llm.wire import (
    Broken,
    Read,
    Reader,
    amounts,
    arguments_of,
    count_of,
    list_of,
    object_of,
    settled,
    text_of,
)
from cordboard.tools.payload import DEFAULT_LIMITS
from cordboard.tools.provider_schema import ProviderTool
from cordboard.tools.tool import JsonObject
from cordboard.vendors.gemini.config import GeminiBrain
from cordboard.vendors.gemini.limits import GEMINI

BASE_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1beta"
_REASONS: Mapping[str, Reason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
    "MODEL_ARMOR": "refused",
}
_MOST_WISHES = 64
_NO_SIGNATURE = "skip_thought_signature_validator"
"""Signature of a call that Gemini did not make itself, such as one that its model wrote as text
(ai.google.dev, thought signatures)."""


class GeminiWire:
    """Implements `Wire`."""

    provider = "gemini"
    schemas = GEMINI
    payload = DEFAULT_LIMITS

    def __init__(self, settings: GeminiBrain) -> None:
        self._settings = settings
        self.model = settings.model
        self.base_url = settings.base_url or BASE_URL
        name = settings.model.removeprefix("models/")
        # Vertex AI: the address has the version, the project and the publisher.
        version = "" if "/publishers/" in self.base_url else f"/{API_VERSION}"
        self.path = f"{version}/models/{name}:streamGenerateContent?alt=sse"
        self.models_path = f"{version}/models/{name}"

    def headers(self, key: str) -> Mapping[str, str]:
        return self._settings.request_headers(key)

    def body(self, request: ModelRequest) -> JsonObject:
        settings = self._settings
        thinking = settings.thinking_config
        config = settled(
            temperature=settings.temperature,
            topP=settings.top_p,
            topK=settings.top_k,
            maxOutputTokens=settings.max_output_tokens,
            thinkingConfig=settled(
                thinkingLevel=thinking.thinking_level and thinking.thinking_level.upper(),
                thinkingBudget=thinking.thinking_budget,
            )
            if thinking
            else None,
        )
        body: JsonObject = {"contents": _contents(request.messages)}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if config:
            body["generationConfig"] = config
        if request.tools:
            body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
            if not request.may_ask:
                body["toolConfig"] = {"functionCallingConfig": {"mode": "NONE"}}
        return with_extra(body, settings.extra)

    def reader(self) -> GeminiReader:
        return GeminiReader()


def _contents(messages: tuple[Message, ...]) -> list[JsonObject]:
    """Return the contents in alternate turns, the caller's first."""
    turns: list[JsonObject] = []
    for message in messages:
        role = "model" if isinstance(message, AgentSaid) else "user"
        parts = _parts(message)
        if not parts:
            continue
        if not turns and role == "model":
            turns.append({"role": "user", "parts": [{"text": CALL_BEGINS}]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        else:
            turns.append({"role": role, "parts": parts})
    return turns


def _parts(message: Message) -> list[JsonObject]:
    match message:
        case CallerSaid(text):
            return [{"text": text}] if text else []
        case ToolAnswered(wish_id, name, payload, _):
            response: JsonObject = {"name": name, "response": payload}
            return [{"functionResponse": _with_id(response, wish_id)}]
        case AgentSaid(text, wishes, _):
            said: list[JsonObject] = [{"text": text}] if text else []
            return [*said, *map(_call, wishes)]


def _call(wish: ToolWish) -> JsonObject:
    call: JsonObject = {"name": wish.name, "args": arguments_of(wish) or {}}
    part: JsonObject = {"functionCall": _with_id(call, wish.wish_id)}
    if wish.signature or wish.wish_id.startswith(OWN_ID):
        part["thoughtSignature"] = wish.signature or _NO_SIGNATURE
    return part


def _with_id(call: JsonObject, wish_id: str) -> JsonObject:
    return call if wish_id.startswith(OWN_ID) else {"id": wish_id, **call}


def _tool(tool: ProviderTool) -> JsonObject:
    return tool.declared()


class GeminiReader(Reader):
    """Implements `AnswerReader`. Each event is a whole response with some more parts."""

    def __init__(self) -> None:
        super().__init__()
        self._wishes = 0
        self._reason: Reason | None = None
        self._usage: JsonObject = {}

    def read(self, data: JsonObject) -> Iterator[Read]:
        if data.get("error"):
            yield _broken(object_of(data["error"]))
            return
        if data.get("usageMetadata"):
            self._usage = object_of(data["usageMetadata"])
        if object_of(data.get("promptFeedback")).get("blockReason"):
            self._reason = "refused"
        candidates = list_of(data.get("candidates"))
        known = ("candidates", "usageMetadata", "promptFeedback", "modelVersion", "responseId")
        if not any(name in data for name in known):
            raise ValueError
        self.alive += 1
        for candidate in candidates[:1]:
            for part in list_of(object_of(candidate.get("content")).get("parts")):
                yield from self._part(part)
            reason = text_of(candidate.get("finishReason"))
            if reason:
                self._reason = _REASONS.get(reason, "other")

    def end(self) -> list[Read]:
        """End the answer. The last event has reason and usage, but is not marked as the last."""
        if self._reason is None:
            return []
        reason: Reason = "tools" if self._wishes and self._reason == "stop" else self._reason
        return [Finished(reason, _amounts(self._usage))]

    def _part(self, part: JsonObject) -> Iterator[Read]:
        if part.get("functionCall") is not None:
            call = object_of(part["functionCall"])
            name = text_of(call.get("name"))
            if not name or self._wishes >= _MOST_WISHES:
                raise ValueError
            self._wishes += 1
            wish_id = text_of(call.get("id"))
            arguments = orjson.dumps(object_of(call.get("args"))).decode()
            yield ToolWish(wish_id, name, arguments, text_of(part.get("thoughtSignature")))
        elif part.get("thought") is not True and (text := text_of(part.get("text"))):
            yield TextPiece(text)


def _broken(error: JsonObject) -> Broken:
    code, status = error.get("code"), str(error.get("status"))
    message = str(error.get("message") or status)[:200]
    if code == 429 or status == "RESOURCE_EXHAUSTED":
        return Broken("quota", message, again=True)
    if status in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND"):
        return Broken("refused", message)
    return Broken("dropped", message, again=True)


def _amounts(usage: JsonObject) -> dict[str, float]:
    """Return the usage. Cached tokens are included in those of the prompt; thoughts are not
    included in the candidates'."""
    cached = count_of(usage.get("cachedContentTokenCount"))
    whole = count_of(usage.get("promptTokenCount")) + count_of(usage.get("toolUsePromptTokenCount"))
    spoken = count_of(usage.get("candidatesTokenCount"))
    return amounts(
        input_text_tokens=max(0.0, whole - cached),
        cached_text_tokens=cached,
        output_text_tokens=spoken + count_of(usage.get("thoughtsTokenCount")),
    )
