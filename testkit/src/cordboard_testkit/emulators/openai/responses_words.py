"""OpenAI's Responses, emulated: refusals and streamed answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

_RESPONSES = frozenset(
    "background context_management conversation include input instructions max_output_tokens "
    "max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt "
    "prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier "
    "service_tier store stream stream_options temperature text tool_choice tools top_logprobs "
    "top_p truncation user".split()
)
_ITEMS = {
    "message": frozenset("type role content id status phase".split()),
    "function_call": frozenset("type call_id name arguments id status".split()),
    "function_call_output": frozenset("type call_id output id status".split()),
    "reasoning": frozenset("type id summary content encrypted_content status".split()),
}


class ResponsesWords(OpenAIWords):
    """Implements `Language`."""

    def check(self, request: Request, body: Any) -> Wanted:
        word = "Unknown parameter: '{where}'."
        body = only(body, _RESPONSES, "", word)
        self.model(request, body.get("model"))
        only(
            body.get("reasoning") or {},
            frozenset("context effort generate_summary mode summary".split()),
            "reasoning",
            word,
        )
        if (body.get("reasoning") or {}).get("effort") not in EFFORTS:
            raise Refused(400, "Invalid value for 'reasoning.effort'.")
        only(body.get("text") or {}, frozenset(("format", "verbosity")), "text", word)
        check_common(body)
        for at, tool in enumerate(body.get("tools") or ()):
            if not isinstance(tool, dict) or tool.get("type") != "function":
                raise Refused(400, f"Invalid value for 'tools[{at}].type'.")
            if "strict" not in tool or "parameters" not in tool:
                raise Refused(400, f"Missing required parameter: 'tools[{at}].strict'.")
            allowed = "type name description parameters strict"
            check_function(tool, allowed, f"tools[{at}]")
        said, results = _check_input(body.get("input"))
        asks = body.get("tools") and body.get("tool_choice") != "none"
        return Wanted(said, results, bool(body.get("stream")), bool(asks))

    def events(self, body: dict[str, Any], reply: Reply) -> Iterable[Event]:
        number = iter(range(10_000))

        def event(kind: str, **fields: Any) -> bytes:
            data = {"type": kind, "sequence_number": next(number), **fields}
            return b"event: " + kind.encode() + b"\n" + framed(data)

        response = self._response(body)
        yield Event("start", event("response.created", response=response))
        yield Event("start", event("response.in_progress", response=response))
        items = self._output(body, reply)
        for index, item in enumerate(items):
            yield from _item_events(item, index, event)
        done = self._response(body, items, _response_usage(body, reply))
        yield Event("end", event("response.completed", response=done))

    def whole(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        return self._response(body, self._output(body, reply), _response_usage(body, reply))

    def error_event(self, code: int | str) -> bytes:
        error = {"code": str(code or "server_error"), "message": "emulated fault", "param": None}
        return b"event: error\n" + framed({"type": "error", "sequence_number": 99, **error})

    def _output(self, body: dict[str, Any], reply: Reply) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        if "reasoning.encrypted_content" in (body.get("include") or ()):
            items.append(
                {
                    "type": "reasoning",
                    "id": self.next_id("rs_"),
                    "summary": [],
                    "encrypted_content": "sealed",
                }
            )
        if reply.text:
            part = {"type": "output_text", "text": reply.text, "annotations": []}
            message = {"id": self.next_id("msg_"), "type": "message", "role": "assistant"}
            message["phase"] = "commentary" if reply.asks else "final_answer"
            items.append({**message, "status": "completed", "content": [part]})
        items += [
            {
                "id": self.next_id("fc_"),
                "type": "function_call",
                "status": "completed",
                "call_id": self.next_id("call_"),
                "name": ask.name,
                "arguments": as_json(ask.arguments),
            }
            for ask in reply.asks
        ]
        return items

    def _response(
        self,
        body: dict[str, Any],
        output: list[dict[str, Any]] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1.0,
            "status": "completed" if output is not None else "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": body.get("instructions"),
            "metadata": {},
            "model": body["model"],
            "output": output or [],
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "temperature": body.get("temperature", 1.0),
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "top_p": body.get("top_p", 1.0),
            "usage": usage,
        }


def _item_events(item: dict[str, Any], index: int, event: Any) -> Iterator[Event]:
    begun = {**item, "status": "in_progress"}
    if item["type"] == "reasoning":
        begun = item
    elif item["type"] == "message":
        begun["content"] = []
    else:
        begun["arguments"] = ""
    at = {"output_index": index}
    where = {"item_id": item["id"], **at}
    yield Event("start", event("response.output_item.added", item=begun, **at))
    if item["type"] == "message":
        text = item["content"][0]["text"]
        empty = {"type": "output_text", "text": "", "annotations": []}
        place = {**where, "content_index": 0}
        yield Event("start", event("response.content_part.added", part=empty, **place))
        for word in in_words(text):
            delta = event("response.output_text.delta", delta=word, logprobs=[], **place)
            yield Event("text", delta)
        yield Event("start", event("response.output_text.done", text=text, logprobs=[], **place))
        part = item["content"][0]
        yield Event("start", event("response.content_part.done", part=part, **place))
    elif item["type"] == "function_call":
        kind = "response.function_call_arguments"
        for piece in pieces(item["arguments"]):
            yield Event("start", event(f"{kind}.delta", delta=piece, **where))
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield Event("start", event(f"{kind}.done", **done, **where))
    part_of = "ask" if item["type"] == "function_call" else "start"
    yield Event(
        "ask" if part_of == "ask" else "start", event("response.output_item.done", item=item, **at)
    )


def _check_input(items: Any) -> tuple[int, tuple[str, ...]]:
    """Return the number of the caller's texts, and the results at the end."""
    if isinstance(items, str):
        return 1, ()
    if not isinstance(items, list) or not items:
        raise Refused(400, "Missing required parameter: 'input'.")
    open_ids: list[str] = []
    results: list[str] = []
    said = 0
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind not in _ITEMS:
            raise Refused(400, f"Invalid value: '{kind}'. (input[{at}].type)")
        only(item, _ITEMS[kind], f"input[{at}]", "Unknown parameter: '{where}'.")
        if kind == "function_call_output":
            if item.get("call_id") not in open_ids:
                told = f"No tool call found for function call output with call_id {item['call_id']}"
                raise Refused(400, told + ".")
            open_ids.remove(item["call_id"])
            results.append(str(item.get("output")))
            continue
        if kind == "function_call":
            open_ids.append(item["call_id"])
        elif open_ids:
            raise Refused(400, f"No tool output found for function call {open_ids[0]}.")
        elif kind == "reasoning" and at + 1 == len(items):
            told = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
            raise Refused(400, told + "following item.")
        elif kind == "message":
            results = []
            text_of(item.get("content"), at)
            said += item.get("role") == "user"
    if open_ids:
        raise Refused(400, f"No tool output found for function call {open_ids[0]}.")
    return said, tuple(results)


def _response_usage(body: dict[str, Any], reply: Reply) -> dict[str, Any]:
    prompt, answer = tokens(as_json(body["input"])), spoken(reply)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": prompt // 2, "cache_write_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + answer,
    }
