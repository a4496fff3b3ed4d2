"""Anthropic's Messages, emulated.

Refusals and their words follow the types of anthropic 2.12 and error messages in public
reports: unknown fields, a missing version, a wrong key, tools with bad names or schemas, results
that are missing, late or without a call, empty texts, conversations that do not end with the
caller, missing thoughts of earlier turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cordboard_testkit.emulators.http_service import Refused, only
from cordboard_testkit.emulators.script import Script
from cordboard_testkit.emulators.text_service import (
    KEY,
    Event,
    Reply,
    TextEmulator,
    Wanted,
    in_words,
    pieces,
    tokens,
)

MODELS = ("claude-haiku-5-5", "claude-sonnet-5-5")
_BODY = frozenset(
    "max_tokens messages model cache_control container inference_geo metadata output_config "
    "service_tier speed stop_sequences stream system thinking tool_choice tools".split()
)
_EXTRA = "{where}: Extra inputs are not permitted"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z")
_TOOL = frozenset("name description input_schema type cache_control strict".split())
_BLOCKS = {
    "text": frozenset(("type", "text", "cache_control", "citations")),
    "server_tool_use": frozenset(("type", "id", "name", "input")),
    "web_search_tool_result": frozenset(("type", "tool_use_id", "content")),
    "tool_use": frozenset(("type", "id", "name", "input", "cache_control")),
    "tool_result": frozenset(("type", "tool_use_id", "content", "is_error", "cache_control")),
    "thinking": frozenset(("type", "thinking", "signature")),
}
_THINKING = {
    "enabled": frozenset(("type", "budget_tokens", "display")),
    "adaptive": frozenset(("type", "display")),
    "between_tools": frozenset(("type", "display")),
    "disabled": frozenset(("type",)),
}
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
THOUGHT = {"type": "thinking", "thinking": "What do they want?", "signature": "sealed"}


class AnthropicEmulator(TextEmulator):
    """`/v1/messages`, `/v1/models/{model}`."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        key: str = KEY,
        port: int = 0,
        models: tuple[str, ...] = MODELS,
        retry_after: float = 1,
        pauses: bool = False,
    ) -> None:
        """`pauses`: it searches the web itself before each answer, and pauses in the middle."""
        words = _Words(key, models, pauses=pauses)

        async def answer(request: Request) -> Response:
            return await self.answer(request, words)

        async def one_model(request: Request) -> Response:
            return self.look(request, words, request.path_params["model"], _model)

        routes = [
            Route("/v1/messages", answer, methods=["POST"]),
            Route("/v1/models/{model}", one_model),
        ]
        super().__init__(script or Script(), routes, retry_after, port)


def _model(name: str) -> dict[str, Any]:
    found = {"id": name, "type": "model", "display_name": name}
    return {**found, "created_at": "2026-01-01T00:00:00Z"}


class _Words:
    """Implements `Language`."""

    def __init__(self, key: str, models: tuple[str, ...], *, pauses: bool = False) -> None:
        self._key = key
        self._models = models
        self._pauses = pauses
        self._paused: list[dict[str, Any]] | None = None
        """The message that it wants back."""
        self._number = 0

    def model(self, request: Request, name: Any) -> str:
        if request.headers.get("authorization") != f"Bearer {self._key}":
            raise Refused(401, "API key is invalid.")
        if not request.headers.get("anthropic-version"):
            raise Refused(400, "anthropic-version: header is required")
        if name not in self._models:
            raise Refused(404, f"model: {name}")
        return str(name)

    def check(self, request: Request, body: Any) -> Wanted:
        body = only(body, _BODY, "", _EXTRA)
        self.model(request, body.get("model"))
        for name in ("max_tokens", "messages"):
            if name not in body:
                raise Refused(400, f"{name}: Field required")
        if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1:
            raise Refused(400, "max_tokens: Input should be greater than or equal to 1")
        _check_thinking(body)
        only(
            body.get("output_config") or {},
            frozenset(("effort", "format")),
            "output_config",
            _EXTRA,
        )
        for at, tool in enumerate(body.get("tools") or ()):
            _check_tool(tool, at)
        choice = body.get("tool_choice")
        if choice is not None and not body.get("tools"):
            raise Refused(400, "tool_choice: may only be specified while providing tools")
        thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
        messages = body["messages"]
        goes_on = self._paused is not None and messages[-1]["content"] == self._paused
        self._paused = None if goes_on else self._paused
        said, results = _check_messages(messages[:-1] if goes_on else messages, thinks=thinks)
        if results and not body.get("tools"):
            raise Refused(
                400, "Requests which include `tool_use` or `tool_result` blocks must define tools."
            )
        may_ask = bool(body.get("tools")) and (choice or {}).get("type") != "none"
        return Wanted(said, results, bool(body.get("stream")), may_ask)

    def events(self, body: dict[str, Any], reply: Reply) -> Iterable[Event]:
        whole = self.whole(body, reply)
        usage = {**whole["usage"], "output_tokens": 1}
        start = {**whole, "content": [], "stop_reason": None, "usage": usage}
        yield Event("start", _event("message_start", message=start))
        yield Event("start", _event("ping"))
        for index, block in enumerate(whole["content"]):
            deltas: list[dict[str, Any]]
            begun = dict(block)
            match block["type"]:
                case "text":
                    begun["text"] = ""
                    deltas = [{"type": "text_delta", "text": w} for w in in_words(block["text"])]
                case "thinking":
                    begun |= {"thinking": "", "signature": ""}
                    deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                    deltas.append({"type": "signature_delta", "signature": block["signature"]})
                case "web_search_tool_result":
                    deltas = []
                case _:
                    begun["input"] = {}
                    written = ["", *pieces(orjson.dumps(block["input"]).decode())]
                    deltas = [{"type": "input_json_delta", "partial_json": p} for p in written]
            yield Event("start", _event("content_block_start", index=index, content_block=begun))
            for delta in deltas:
                part = _event("content_block_delta", index=index, delta=delta)
                yield Event("text" if block["type"] == "text" else "start", part)
            yield Event("start", _event("content_block_stop", index=index))
        delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        spent = {"output_tokens": whole["usage"]["output_tokens"]}
        end = _event("message_delta", delta=delta, usage=spent)
        yield Event("ask" if reply.asks else "end", end)
        yield Event("end", _event("message_stop"))

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
            content.append(dict(THOUGHT))
        if self._pauses and body["messages"][-1]["role"] == "user":
            search = {"name": "web_search", "input": {"query": "hours"}}
            content.append({"type": "text", "text": "Let me look. "})
            content.append({"type": "server_tool_use", "id": self._id("srvtoolu_"), **search})
            self._paused = content
            return self._message(body, content, "pause_turn")
        if self._pauses:
            use_id = body["messages"][-1]["content"][-1]["id"]
            found = {"type": "web_search_tool_result", "tool_use_id": use_id, "content": []}
            content.append(found)
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        content += [
            {"type": "tool_use", "id": self._id("toolu_"), "name": a.name, "input": a.arguments}
            for a in reply.asks
        ]
        return self._message(body, content, "tool_use" if reply.asks else "end_turn")

    def _message(
        self, body: dict[str, Any], content: list[dict[str, Any]], why: str
    ) -> dict[str, Any]:
        prompt = tokens(orjson.dumps(body["messages"]).decode())
        return {
            "id": self._id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": why,
            "stop_sequence": None,
            "usage": {
                "input_tokens": prompt,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 5,
                "output_tokens": tokens(orjson.dumps(content).decode()),
            },
        }

    def refusal(self, refused: Refused) -> tuple[int, dict[str, Any]]:
        kind = _KINDS.get(refused.status, "api_error")
        error = {"type": kind, "message": refused.message}
        return refused.status, {"type": "error", "error": error, "request_id": "req_1"}

    def error_event(self, code: int | str) -> bytes:
        kind = code if isinstance(code, str) and code else "overloaded_error"
        return _event("error", error={"type": kind, "message": "emulated fault"})

    def _id(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number:08x}"


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def _check_thinking(body: dict[str, Any]) -> None:
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in _THINKING:
        raise Refused(400, f"thinking.type: Input tag '{kind}' does not match any expected tags")
    only(thinking, _THINKING[kind], "thinking", _EXTRA)
    if kind == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise Refused(400, "thinking.enabled.budget_tokens: must be at least 1024")
        if budget >= body["max_tokens"]:
            raise Refused(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_tool(tool: Any, at: int) -> None:
    where = f"tools.{at}.custom"
    only(tool, _TOOL, where, _EXTRA)
    if not _NAME.match(str(tool.get("name"))):
        raise Refused(400, f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    schema = tool.get("input_schema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(400, f"{where}.input_schema.type: Input should be 'object'")
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            told = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            raise Refused(400, f"{where}.{told}")
    for name in schema.get("properties") or {}:
        if not _PROPERTY.match(name):
            told = "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
            raise Refused(400, f"{where}.input_schema.properties: {told}")


def _check_messages(messages: Any, *, thinks: bool) -> tuple[int, tuple[str, ...]]:
    """Return the number of the caller's texts, and the results at the end."""
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "messages: at least one message is required")
    said = 0
    open_ids: list[str] = []
    results: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        only(message, frozenset(("role", "content")), where, _EXTRA)
        role = message.get("role")
        if role not in ("user", "assistant"):
            raise Refused(400, f"{where}.role: Input should be 'user' or 'assistant'")
        if at == 0 and role != "user":
            raise Refused(400, 'messages: first message must use the "user" role')
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            raise Refused(400, f"{where}: all messages must have non-empty content")
        for number, block in enumerate(blocks):
            _check_block(block, role, f"{where}.content.{number}")
        if role == "assistant":
            _none_open(open_ids, at - 1)
            uses = [block for block in blocks if block["type"] == "tool_use"]
            open_ids = [use["id"] for use in uses]
            last_asks = at == len(messages) - 2 and bool(uses)
            if thinks and last_asks and blocks[0]["type"] != "thinking":
                told = "Expected `thinking` or `redacted_thinking`, but found"
                raise Refused(400, f"{where}.content.0.type: {told} `{blocks[0]['type']}`")
            continue
        results = _take_results(blocks, open_ids, at)
        said += sum(block["type"] == "text" for block in blocks)
        _none_open(open_ids, at - 1)
        open_ids = []
        if any(block["type"] == "text" for block in blocks):
            results = []
    if messages[-1]["role"] != "user":
        raise Refused(
            400,
            "This model does not support assistant message prefill. The "
            "conversation must end with a user message.",
        )
    return said, tuple(results)


def _check_block(block: Any, role: str, where: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in _BLOCKS:
        raise Refused(400, f"{where}: Input tag '{kind}' does not match any of the expected tags")
    only(block, _BLOCKS[kind], f"{where}.{kind}", _EXTRA)
    if kind == "text" and not block.get("text", "").strip():
        raise Refused(400, "messages: text content blocks must be non-empty")
    if (kind == "tool_result") != (role == "user") and kind != "text":
        raise Refused(400, f"{where}: `{kind}` blocks can not be in `{role}` messages")
    if kind == "tool_use" and not isinstance(block.get("input"), dict):
        raise Refused(400, f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "thinking" and block != THOUGHT:
        raise Refused(400, f"{where}: Invalid `signature` in `thinking` block")


def _take_results(blocks: list[dict[str, Any]], open_ids: list[str], at: int) -> list[str]:
    results: list[str] = []
    text_came = False
    for number, block in enumerate(blocks):
        if block["type"] == "text":
            text_came = True
            continue
        if text_came and open_ids:
            raise Refused(400, f"messages.{at}: `tool_result` blocks must come first")
        if block["tool_use_id"] not in open_ids:
            told = f"unexpected `tool_use_id` found in `tool_result` blocks: {block['tool_use_id']}"
            raise Refused(400, f"messages.{at}.content.{number}: {told}")
        open_ids.remove(block["tool_use_id"])
        results.append(str(block.get("content", "")))
    return results


def _none_open(ids: list[str], at: int) -> None:
    if ids:
        told = "`tool_use` ids were found without `tool_result` blocks immediately after"
        raise Refused(400, f"messages.{at}: {told}: {', '.join(ids)}")
