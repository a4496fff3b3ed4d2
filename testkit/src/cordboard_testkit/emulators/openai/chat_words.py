"""OpenAI's Chat Completions, emulated: refusals and streamed answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.requests import Request

from cordboard_testkit.emulators.http_service import Refused, only
from cordboard_testkit.emulators.openai.words import (
    EFFORTS,
    OpenAIWords,
    as_json,
    check_common,
    check_function,
    framed,
    spoken,
    text_of,
)
from cordboard_testkit.emulators.text_service import Event, Reply, Wanted, in_words, pieces, tokens

_CHAT = frozenset(
    "messages model audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens "
    "metadata modalities moderation n parallel_tool_calls prediction presence_penalty "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format "
    "safety_identifier seed service_tier stop store stream stream_options temperature tool_choice "
    "tools top_logprobs top_p user verbosity web_search_options".split()
)


class ChatWords(OpenAIWords):
    """Implements `Language`."""

    def check(self, request: Request, body: Any) -> Wanted:
        word = "Unrecognized request argument supplied: {name}"
        body = only(body, _CHAT, "", word)
        model = self.model(request, body.get("model"))
        if model.startswith(("gpt-5", "gpt-6")) and "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            raise Refused(400, message + "'max_completion_tokens' instead.")
        if body.get("reasoning_effort") not in EFFORTS:
            raise Refused(400, "Invalid value for 'reasoning_effort'.")
        if "stream_options" in body and not body.get("stream"):
            raise Refused(400, "The 'stream_options' parameter is only allowed when 'stream' is.")
        check_common(body)
        for at, tool in enumerate(body.get("tools") or ()):
            only(tool, frozenset(("type", "function")), f"tools[{at}]", word)
            allowed = "name description parameters strict"
            check_function(tool.get("function"), allowed, f"tools[{at}].function")
        results = _check_messages(body.get("messages"))
        said = sum(message["role"] == "user" for message in body["messages"])
        asks = body.get("tools") and body.get("tool_choice") != "none"
        return Wanted(said, results, bool(body.get("stream")), bool(asks))

    def events(self, body: dict[str, Any], reply: Reply) -> Iterable[Event]:
        base = {
            "id": self.next_id("chatcmpl-"),
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
        }
        usage = bool((body.get("stream_options") or {}).get("include_usage"))

        def chunk(delta: dict[str, Any], why: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": why}
            rest = {"usage": None} if usage else {}
            return framed({**base, "choices": [choice], **rest})

        yield Event("start", chunk({"role": "assistant", "content": "", "refusal": None}))
        for word in in_words(reply.text):
            yield Event("text", chunk({"content": word}))
        for index, ask in enumerate(reply.asks):
            function = {"name": ask.name, "arguments": ""}
            call = {"index": index, "id": self.next_id("call_"), "type": "function"}
            yield Event("start", chunk({"tool_calls": [{**call, "function": function}]}))
            for piece in pieces(as_json(ask.arguments)):
                part = {"index": index, "function": {"arguments": piece}}
                yield Event("start", chunk({"tool_calls": [part]}))
        why = "tool_calls" if reply.asks else "stop"
        yield Event("ask" if reply.asks else "end", chunk({}, why))
        if usage:
            yield Event("end", framed({**base, "choices": [], "usage": _usage(body, reply)}))
        yield Event("end", b"data: [DONE]\n\n")

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        message["refusal"] = None
        if reply.asks:
            message["tool_calls"] = [
                {
                    "id": self.next_id("call_"),
                    "type": "function",
                    "function": {"name": ask.name, "arguments": as_json(ask.arguments)},
                }
                for ask in reply.asks
            ]
        why = "tool_calls" if reply.asks else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": why}
        return {
            "id": self.next_id("chatcmpl-"),
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [choice],
            "usage": _usage(body, reply),
        }

    def error_event(self, code: int | str) -> bytes:
        error = {"message": "emulated fault", "type": "server_error", "code": code or None}
        return framed({"error": {**error, "param": None}})


_ROLES = {
    "system": "role content name",
    "developer": "role content name",
    "user": "role content name",
    "assistant": "role content name tool_calls refusal audio",
    "tool": "role content tool_call_id",
}


def _check_messages(messages: Any) -> tuple[str, ...]:
    """Return the results at the end."""
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "Invalid 'messages': empty array. Expected at least 1 message.")
    open_ids: list[str] = []
    results: list[str] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        if role not in _ROLES:
            raise Refused(400, f"Invalid value: '{role}'. Supported values are: {list(_ROLES)}.")
        word = "Unknown parameter: '{where}'."
        only(message, frozenset(_ROLES[role].split()), f"messages[{at}]", word)
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                told = "Invalid parameter: messages with role 'tool' must be a response to a "
                raise Refused(400, told + "preceeding message with 'tool_calls'.")
            open_ids.remove(message["tool_call_id"])
            results.append(text_of(message.get("content"), at))
            continue
        _none_open(open_ids)
        results = []
        calls = message.get("tool_calls")
        if calls is not None and not calls:
            raise Refused(400, f"Invalid 'messages[{at}].tool_calls': empty array.")
        if message.get("content") is not None or not calls:
            text_of(message.get("content"), at)
        open_ids = [call["id"] for call in calls or ()]
    _none_open(open_ids)
    return tuple(results)


def _none_open(ids: list[str]) -> None:
    if ids:
        told = "An assistant message with 'tool_calls' must be followed by tool messages responding"
        names = ", ".join(ids)
        message = f" to each 'tool_call_id'. The following did not have response messages: {names}"
        raise Refused(400, told + message)


def _usage(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    prompt, answer = tokens(as_json(body["messages"])), spoken(reply)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": prompt // 2, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
