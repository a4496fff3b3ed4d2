"""The messages of OpenAI Realtime's clients, checked against its published types.

Written from openai 3.54, `types/realtime` (client events, session, response). `check` finds errors
that the service answers with an `error`; codes and words are those of public reports
(`unknown_parameter`, `invalid_value`, `missing_required_parameter`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Shape: TypeAlias = Callable[[Any, str], None]
MODELS = frozenset(
    {
        *("gpt-realtime", "gpt-realtime-1.5", "gpt-realtime-2", "gpt-realtime-2.1"),
        *("gpt-realtime-2.1-mini", "gpt-realtime-mini", "gpt-realtime-2025-08-28"),
    }
)
REASONING_MODELS = frozenset({"gpt-realtime-2", "gpt-realtime-2.1", "gpt-realtime-2.1-mini"})
VOICES = (
    *("alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar"),
)
TRANSCRIBERS = (
    *("whisper-1", "gpt-transcribe", "gpt-live-transcribe", "gpt-4o-mini-transcribe"),
    *("gpt-4o-transcribe", "gpt-4o-transcribe-diarize", "gpt-realtime-whisper"),
)
MAX_APPEND = 15 * 1024 * 1024


class Refused(Exception):
    """The service answers with an error."""

    def __init__(self, code: str, message: str, param: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


def _wrong(path: str, expected: str) -> Refused:
    message = f"Invalid value: '{path}'. Supported values are: {expected}."
    return Refused("invalid_value", message, path)


def text(most: int = 1_000_000) -> Shape:
    def check_text(value: Any, path: str) -> None:
        if not isinstance(value, str) or len(value) > most:
            raise _wrong(path, f"a string of at most {most} characters")

    return check_text


def number(low: float, high: float, *, whole: bool = False) -> Shape:
    def check_number(value: Any, path: str) -> None:
        kind = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            raise _wrong(path, f"a number from {low} to {high}")

    return check_number


def one_of(*values: Any) -> Shape:
    def check_one(value: Any, path: str) -> None:
        if isinstance(value, (dict, list)) or value not in values:
            raise _wrong(path, "one of " + ", ".join(map(repr, values)))

    return check_one


def either(*shapes: Shape) -> Shape:
    def check_either(value: Any, path: str) -> None:
        problems = []
        for shape in shapes:
            try:
                shape(value, path)
            except Refused as refused:
                problems.append(refused)
            else:
                return
        raise problems[-1]

    return check_either


def list_of(shape: Shape, most: int = 10_000) -> Shape:
    def check_list(value: Any, path: str) -> None:
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(path, f"a list of at most {most}")
        for place, entry in enumerate(value):
            shape(entry, f"{path}[{place}]")

    return check_list


def fields(required: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    known = {**required, **(optional or {})}

    def check_fields(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(path, "an object")
        for name in value:
            if name not in known:
                full = f"{path}.{name}".lstrip(".")
                raise Refused("unknown_parameter", f"Unknown parameter: '{full}'.", full)
        for name in required:
            if name not in value:
                full = f"{path}.{name}".lstrip(".")
                words = f"Missing required parameter: '{full}'."
                raise Refused("missing_required_parameter", words, full)
        for name, entry in value.items():
            known[name](entry, f"{path}.{name}".lstrip("."))

    return check_fields


def by_type(shapes: Mapping[str, Shape]) -> Shape:
    def check_type(value: Any, path: str) -> None:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in shapes:
            raise _wrong(f"{path}.type".lstrip("."), "one of " + ", ".join(map(repr, shapes)))
        shapes[kind](value, path)

    return check_type


def sound(value: Any, path: str) -> None:
    """Base64, no longer than the service accepts in one message."""
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        data = b""
    if not data or len(data) > MAX_APPEND:
        words = f"Invalid '{path}'. Expected base64-encoded audio bytes."
        raise Refused("invalid_value", words, path)


def schema(value: Any, path: str) -> None:
    """The parameters of a function."""
    if not isinstance(value, dict) or value.get("type") != "object":
        raise Refused("invalid_function_parameters", f"Invalid schema for function: {path}", path)


def name(value: Any, path: str) -> None:
    """A function's name."""
    letters = isinstance(value, str) and value.replace("_", "a").replace("-", "a")
    if not letters or not letters.isascii() or not letters.isalnum() or len(letters) > 64:
        words = f"Invalid '{path}': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        raise Refused("invalid_value", words, path)


null = one_of(None)
flag = one_of(True, False)


def _metadata(value: Any, path: str) -> None:
    if value is None:
        return
    list_of(text(64), 16)(list(value) if isinstance(value, dict) else None, path)
    list_of(text(512))(list(value.values()), path)


_format = by_type(
    {
        "audio/pcm": fields({"type": text()}, {"rate": one_of(24000)}),
        "audio/pcmu": fields({"type": text()}),
        "audio/pcma": fields({"type": text()}),
    }
)
_voice = either(fields({"id": text(100)}), one_of(*VOICES))
_tools = list_of(
    fields(
        {"type": one_of("function"), "name": name},
        {"description": text(1024), "parameters": schema},
    ),
    128,
)
_tool_choice = either(
    one_of("auto", "none", "required"), fields({"type": one_of("function"), "name": name})
)
_max_tokens = either(one_of("inf"), number(1, 4096, whole=True))
_reasoning = fields({}, {"effort": one_of("minimal", "low", "medium", "high", "xhigh")})
_vad: dict[str, Shape] = {"create_response": flag, "interrupt_response": flag}
_turn_detection = by_type(
    {
        "server_vad": fields(
            {"type": text()},
            {
                **_vad,
                "threshold": number(0, 1),
                "prefix_padding_ms": number(0, 60_000, whole=True),
                "silence_duration_ms": number(0, 60_000, whole=True),
                "idle_timeout_ms": either(null, number(5_000, 30_000, whole=True)),
            },
        ),
        "semantic_vad": fields(
            {"type": text()}, {**_vad, "eagerness": one_of("low", "medium", "high", "auto")}
        ),
    }
)
_transcription = fields(
    {},
    {
        "model": one_of(*TRANSCRIBERS),
        "language": text(20),
        "languages": list_of(text(20)),
        "keywords": list_of(text()),
        "prompt": text(),
        "delay": one_of("minimal", "low", "medium", "high", "xhigh"),
    },
)
_session = fields(
    {"type": one_of("realtime")},
    {
        "output_modalities": list_of(one_of("audio", "text"), 1),
        "model": text(100),
        "instructions": text(),
        "tools": _tools,
        "tool_choice": _tool_choice,
        "max_output_tokens": _max_tokens,
        "parallel_tool_calls": flag,
        "reasoning": _reasoning,
        "tracing": either(null, one_of("auto"), fields({}, {"workflow_name": text()})),
        "include": list_of(one_of("item.input_audio_transcription.logprobs")),
        "truncation": either(
            one_of("auto", "disabled"),
            fields(
                {"type": one_of("retention_ratio"), "retention_ratio": number(0, 1)},
                {"token_limits": fields({}, {"post_instructions": number(0, 1e7, whole=True)})},
            ),
        ),
        "audio": fields(
            {},
            {
                "input": fields(
                    {},
                    {
                        "format": _format,
                        "noise_reduction": either(
                            null,
                            fields(
                                {},
                                {
                                    "type": one_of("near_field", "far_field"),
                                    "strength": number(0, 100),
                                },
                            ),
                        ),
                        "transcription": either(null, _transcription),
                        "turn_detection": either(null, _turn_detection),
                    },
                ),
                "output": fields(
                    {}, {"format": _format, "voice": _voice, "speed": number(0.25, 1.5)}
                ),
            },
        ),
    },
)


def _content(*kinds: str) -> Shape:
    one = fields({"type": one_of(*kinds)}, {"text": text(), "audio": sound, "transcript": text()})
    return list_of(one, 100)


_ids: dict[str, Shape] = {
    "id": text(64),
    "object": one_of("realtime.item"),
    "status": one_of("completed", "incomplete", "in_progress"),
}


def _message(role: str, *kinds: str) -> Shape:
    wanted = {"type": text(), "role": one_of(role), "content": _content(*kinds)}
    return fields(wanted, _ids)


_BY_ROLE = {
    "user": _message("user", "input_text", "input_audio"),
    "system": _message("system", "input_text"),
    "assistant": _message("assistant", "output_text"),
}
"""An assistant's audio cannot be inserted ("cannot populate assistant audio messages")."""


def _any_message(value: Any, path: str) -> None:
    role = value.get("role")
    if not isinstance(role, str) or role not in _BY_ROLE:
        raise _wrong(f"{path}.role", "one of 'user', 'system', 'assistant'")
    _BY_ROLE[role](value, path)


item = by_type(
    {
        "message": _any_message,
        "function_call": fields(
            {"type": text(), "name": name, "arguments": text()}, {**_ids, "call_id": text(64)}
        ),
        "function_call_output": fields(
            {"type": text(), "call_id": text(64), "output": text()}, _ids
        ),
    }
)
_response = fields(
    {},
    {
        "conversation": one_of("auto", "none"),
        "input": list_of(item),
        "instructions": text(),
        "max_output_tokens": _max_tokens,
        "metadata": _metadata,
        "output_modalities": list_of(one_of("audio", "text"), 1),
        "parallel_tool_calls": flag,
        "reasoning": _reasoning,
        "tool_choice": _tool_choice,
        "tools": _tools,
        "audio": fields({}, {"output": fields({}, {"format": _format, "voice": _voice})}),
    },
)
_event: dict[str, Shape] = {"event_id": text(512)}


def _client_event(required: Mapping[str, Shape], **optional: Shape) -> Shape:
    return fields({"type": text(), **required}, {**_event, **optional})


check: Shape = by_type(
    {
        "session.update": _client_event({"session": _session}),
        "input_audio_buffer.append": _client_event({"audio": sound}),
        "input_audio_buffer.commit": _client_event({}),
        "input_audio_buffer.clear": _client_event({}),
        "conversation.item.create": _client_event({"item": item}, previous_item_id=text(64)),
        "conversation.item.retrieve": _client_event({"item_id": text(64)}),
        "conversation.item.delete": _client_event({"item_id": text(64)}),
        "conversation.item.truncate": _client_event(
            {
                "item_id": text(64),
                "content_index": one_of(0),
                "audio_end_ms": number(0, 1e9, whole=True),
            }
        ),
        "response.create": _client_event({}, response=_response),
        "response.cancel": _client_event({}, response_id=text(64)),
    }
)
"""Raises `Refused` for messages that the service would not accept."""
