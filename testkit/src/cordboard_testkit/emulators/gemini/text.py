"""Gemini's `generateContent` and `streamGenerateContent`, emulated.

Refusals and their words follow the types of google-genai 3.4 and error messages in
public reports: unknown names (at their place), a wrong key (with 400), unknown models, tools
outside the OpenAPI subset, calls and results that do not match, a missing seal of an earlier
call. Names are accepted as `camelCase` and as `snake_case`, as the service does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cordboard_testkit.emulators.http_service import Refused
from cordboard_testkit.emulators.script import Script
from cordboard_testkit.emulators.text_service import (
    KEY,
    Event,
    Reply,
    TextEmulator,
    Wanted,
    in_words,
    tokens,
)

MODELS = ("gemini-3.8-flash", "gemini-2.5-flash")
SEAL = "c2VhbGVk"
NO_SEAL = "skip_thought_signature_validator"
_BODY = (
    "contents systemInstruction generationConfig tools toolConfig safetySettings cachedContent "
    "serviceTier store"
)
_CONFIG = (
    "temperature topP topK candidateCount maxOutputTokens stopSequences responseMimeType "
    "responseSchema responseJsonSchema presencePenalty frequencyPenalty seed responseLogprobs "
    "logprobs responseModalities speechConfig thinkingConfig mediaResolution"
)
_PART = "text thought thoughtSignature functionCall functionResponse inlineData fileData"
_DECLARATION = "name description parameters parametersJsonSchema behavior response"
_SCHEMA = (
    "type format title description nullable enum items properties required minItems maxItems "
    "minProperties maxProperties minimum maximum minLength maxLength pattern anyOf "
    "propertyOrdering default example additionalProperties $defs $ref"
)
_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}\Z")
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiTextEmulator(TextEmulator):
    """`/v1beta/models/{model}` (and `/v1`), `:generateContent`, `:streamGenerateContent`."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        models: tuple[str, ...] = MODELS,
        retry_after: float = 1,
    ) -> None:
        words = _Words(key, models)

        async def answer(request: Request) -> Response:
            method = request.path_params["method"]
            if method not in ("generateContent", "streamGenerateContent"):
                return JSONResponse({"error": {"code": 404, "status": "NOT_FOUND"}}, 404)
            if method.startswith("stream") and request.query_params.get("alt") != "sse":
                refused = Refused(400, "the emulator streams with alt=sse only")
                return self.refuse(words, refused)
            return await self.answer(request, words)

        async def one_model(request: Request) -> Response:
            name = request.path_params["model"]
            return self.look(
                request, words, name, lambda m: {"name": f"models/{m}", "displayName": m}
            )

        routes = [
            Route("/{version:str}/models/{model:str}:{method:str}", answer, methods=["POST"]),
            Route("/{version:str}/models/{model:str}", one_model),
        ]
        super().__init__(script or Script(), routes, retry_after, port)


class _Words:
    """Implements `Language`."""

    def __init__(self, key: str, models: tuple[str, ...]) -> None:
        self._key = key
        self._models = models
        self._number = 0

    def model(self, request: Request, name: Any) -> str:
        given = request.headers.get("x-goog-api-key") or request.query_params.get("key")
        if not given:
            told = "Method doesn't allow unregistered callers (callers without established "
            raise Refused(403, told + "identity).")
        if given != self._key:
            raise Refused(400, "API key not valid. Please pass a valid API key.", "API_KEY_INVALID")
        if name not in self._models:
            told = f"models/{name} is not found for API version v1beta, or is not supported"
            raise Refused(404, told + " for generateContent.")
        return str(name)

    def check(self, request: Request, body: Any) -> Wanted:
        self.model(request, request.path_params["model"])
        body = _names(body, _BODY, "")
        config = _names(body.get("generationConfig") or {}, _CONFIG, "generation_config")
        where = "generation_config.thinking_config"
        thinking = config.get("thinkingConfig") or {}
        thinking = _names(thinking, "includeThoughts thinkingBudget thinkingLevel", where)
        level = thinking.get("thinkingLevel")
        if level is not None and str(level).upper() not in _LEVELS:
            raise Refused(400, f"Invalid value at '{where}.thinking_level', \"{level}\"")
        if level is not None and thinking.get("thinkingBudget") is not None:
            raise Refused(400, "You can only set one of thinking_budget and thinking_level.")
        declared = 0
        for at, tool in enumerate(body.get("tools") or ()):
            tool = _names(tool, "functionDeclarations", f"tools[{at}]")
            for number, function in enumerate(tool.get("functionDeclarations") or ()):
                declared += 1
                _check_function(function, f"tools[{at}].function_declarations[{number}]")
        if declared > 512:
            raise Refused(400, "At most 512 function declarations are allowed.")
        choice = _names(body.get("toolConfig") or {}, "functionCallingConfig", "tool_config")
        where = "tool_config.function_calling_config"
        calling = _names(
            choice.get("functionCallingConfig") or {}, "mode allowedFunctionNames", where
        )
        seals = request.path_params["model"].startswith("gemini-3")
        said, results = _check_contents(body.get("contents"), seals=seals)
        stream = request.path_params["method"].startswith("stream")
        return Wanted(said, results, stream, declared > 0 and calling.get("mode") != "NONE")

    def events(self, body: dict[str, Any], reply: Reply) -> Iterable[Event]:
        for word in in_words(reply.text):
            yield Event("text", self._event(body, [{"text": word}], reply))
        calls = self._calls(reply)
        for at, call in enumerate(calls):
            last = at == len(calls) - 1
            why = "STOP" if last else None
            yield Event("ask" if last else "start", self._event(body, [call], reply, why))
        if not calls:
            yield Event("end", self._event(body, [{"text": ""}], reply, "STOP"))

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        parts = [{"text": reply.text}] if reply.text else []
        return self._response(body, [*parts, *self._calls(reply)], reply, "STOP")

    def refusal(self, refused: Refused) -> tuple[int, dict[str, Any]]:
        status = _STATUS.get(refused.status, "INTERNAL")
        error: dict[str, Any] = {"code": refused.status, "message": refused.message}
        error["status"] = status
        if refused.code:
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            error["details"] = [{"@type": kind, "reason": refused.code}]
        return refused.status, {"error": error}

    def error_event(self, code: int | str) -> bytes:
        error = {"code": 503, "message": "emulated fault", "status": "UNAVAILABLE"}
        return b"data: " + orjson.dumps({"error": error}) + b"\r\n\r\n"

    def _calls(self, reply: Reply) -> list[dict[str, Any]]:
        """The first of several calls in one answer carries the seal."""
        calls: list[dict[str, Any]] = []
        for at, ask in enumerate(reply.asks):
            self._number += 1
            call = {"id": f"fc{self._number:04x}", "name": ask.name, "args": ask.arguments}
            seal = {"thoughtSignature": SEAL} if at == 0 else {}
            calls.append({"functionCall": call, **seal})
        return calls

    def _event(
        self, body: dict[str, Any], parts: list[Any], reply: Reply, why: str | None = None
    ) -> bytes:
        return b"data: " + orjson.dumps(self._response(body, parts, reply, why)) + b"\r\n\r\n"

    @staticmethod
    def _response(
        body: dict[str, Any], parts: list[Any], reply: Reply, why: str | None
    ) -> dict[str, Any]:
        prompt = tokens(orjson.dumps(body["contents"]).decode())
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        usage = {"promptTokenCount": prompt, "totalTokenCount": prompt}
        if why is not None:
            candidate["finishReason"] = why
            usage |= {"candidatesTokenCount": tokens(reply.text), "thoughtsTokenCount": 2}
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "emulated",
            "responseId": "r1",
        }


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _names(value: Any, allowed: str, where: str) -> dict[str, Any]:
    """An object of these names, in camelCase."""
    if not isinstance(value, dict):
        raise Refused(400, f"Invalid value at '{where}': expected an object")
    known = {_camel(name): one for name, one in value.items()}
    for name, camel in zip(value, known, strict=True):
        if camel not in allowed.split():
            at = f" at '{where}'" if where else ""
            told = f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.'
            raise Refused(400, told)
    return known


def _check_function(function: Any, where: str) -> None:
    function = _names(function, _DECLARATION, where)
    if not _NAME.match(str(function.get("name"))):
        raise Refused(400, f"Invalid function name at '{where}.name'.")
    schema = function.get("parameters")
    if schema is None:
        return
    if str(schema.get("type", "")).upper() != "OBJECT":
        raise Refused(400, f"{where}.parameters: only OBJECT is allowed")
    _check_schema(schema, f"{where}.parameters")


def _check_schema(schema: Any, where: str) -> None:
    schema = _names(schema, _SCHEMA, where)
    kind = schema.get("type")
    if kind is not None and not isinstance(kind, str):
        told = f"Invalid value at '{where}.type': Proto field is not repeating, cannot start list."
        raise Refused(400, told)
    if str(kind).upper() == "OBJECT" and "properties" in schema and not schema["properties"]:
        raise Refused(400, f"{where}.properties: should be non-empty for OBJECT type")
    if str(kind).upper() == "ARRAY" and not schema.get("items"):
        raise Refused(400, f"{where}.items: missing field.")
    if any(not isinstance(one, str) or not one for one in schema.get("enum") or ()):
        raise Refused(400, f"{where}.enum: cannot be empty")
    for name in schema.get("required") or ():
        if name not in (schema.get("properties") or {}):
            raise Refused(400, f"{where}.required: property is not defined: {name}")
    for name, inner in (schema.get("properties") or {}).items():
        _check_schema(inner, f"{where}.properties[{name}]")
    if schema.get("items"):
        _check_schema(schema["items"], f"{where}.items")
    for number, one in enumerate(schema.get("anyOf") or ()):
        _check_schema(one, f"{where}.any_of[{number}]")


def _check_contents(contents: Any, *, seals: bool) -> tuple[int, tuple[str, ...]]:
    """Return the number of the caller's texts, and the results at the end."""
    if not isinstance(contents, list) or not contents:
        raise Refused(400, "* GenerateContentRequest.contents: contents is not specified")
    said = 0
    calls: list[str] = []
    results: list[str] = []
    before = ""
    for at, content in enumerate(contents):
        where = f"contents[{at}]"
        content = _names(content, "role parts", where)
        role = content.get("role", "user")
        if role not in ("user", "model"):
            raise Refused(400, "Please use a valid role: user, model.")
        parts = [_names(part, _PART, f"{where}.parts") for part in content.get("parts") or ()]
        if not parts:
            told = f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty."
            raise Refused(400, told)
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if answers or calls:
            _check_answers(answers, calls)
        results = [_result(answer) for answer in answers]
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if calls:
            if role != "model" or before != "user":
                told = "Please ensure that function call turn comes immediately after a user turn "
                raise Refused(400, told + "or after a function response turn.")
            first = next(part for part in parts if "functionCall" in part)
            if seals and first.get("thoughtSignature") not in (SEAL, NO_SEAL):
                told = "Function call is missing a thought_signature in functionCall parts."
                raise Refused(400, told)
        texts = [part for part in parts if part.get("text")]
        if role == "user":
            said += len(texts)
            results = [] if texts else results
        before = role
    if before != "user":
        raise Refused(400, "Please ensure that single turn requests end with a user role.")
    return said, tuple(results)


def _check_answers(answers: list[Any], calls: list[str]) -> None:
    if len(answers) != len(calls):
        told = "Please ensure that the number of function response parts is equal to the number of "
        raise Refused(400, told + "function call parts of the function call turn.")
    for answer, name in zip(answers, calls, strict=True):
        answer = _names(answer, "id name response willContinue scheduling", "function_response")
        if answer.get("name") != name or not isinstance(answer.get("response"), dict):
            raise Refused(400, "Please ensure that function responses match their calls.")


def _result(answer: dict[str, Any]) -> str:
    return orjson.dumps(answer.get("response")).decode()
