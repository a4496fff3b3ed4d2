"""The messages of an ElevenLabs agent's clients, checked against its AsyncAPI document.

`problem_of` finds the errors for which the service closes the connection; `permitted` checks the
overrides of a conversation, with the service's words ("Override for field 'voice_id' is not allowed
by config."). Fields that the SDK sends but the document lacks are accepted too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TEXT, _NUMBER, _FLAG, _OBJECT, _LIST, _INTEGER = "text", "number", "flag", "object", "list", "int"

MESSAGES: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "pong": {"event_id": (_INTEGER, True)},
    "user_message": {"text": (_TEXT, False), "rich_content_id": (_TEXT, False)},
    "user_activity": {},
    "feedback": {"event_id": (_INTEGER, True), "score": (_TEXT, True)},
    "client_tool_result": {
        "tool_call_id": (_TEXT, True),
        "result": (_TEXT, True),
        "is_error": (_FLAG, True),
    },
    "mcp_tool_approval_result": {"tool_call_id": (_TEXT, True), "is_approved": (_FLAG, True)},
    "contextual_update": {"text": (_TEXT, True)},
    "multimodal_message": {"text": (_OBJECT, False), "file": (_OBJECT, False)},
    "conversation_initiation_client_data": {
        "conversation_config_override": (_OBJECT, False),
        "custom_llm_extra_body": (_OBJECT, False),
        "dynamic_variables": (_OBJECT, False),
        "user_id": (_TEXT, False),
        "source_info": (_OBJECT, False),
        "tool_mock_config": (_OBJECT, False),
    },
}
"""By type: each field's kind, and whether it is required."""

OVERRIDES: Mapping[str, Any] = {
    "agent": {
        "first_message": _TEXT,
        "language": _TEXT,
        "max_conversation_duration_message": _TEXT,
        "native_mcp_server_ids": _LIST,
        "prompt": {
            "prompt": _TEXT,
            "llm": _TEXT,
            "reasoning_effort": _TEXT,
            "tool_ids": _LIST,
            "tool_ids_strict": _FLAG,
            "native_mcp_server_ids": _LIST,
            "knowledge_base": _LIST,
        },
    },
    "asr": {"keywords": _LIST},
    "tts": {
        "voice_id": _TEXT,
        "model_id": _TEXT,
        "stability": _NUMBER,
        "speed": _NUMBER,
        "similarity_boost": _NUMBER,
    },
    "conversation": {"text_only": _FLAG, "max_duration_seconds": _INTEGER, "client_events": _LIST},
}
LLMS = frozenset(
    (
        "gpt-4o-mini gpt-4o gpt-4 gpt-4-turbo gpt-4.1 gpt-4.1-mini gpt-4.1-nano gpt-5 gpt-5.1 "
        "gpt-5.2 gpt-5.2-chat-latest gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.5 gpt-5.6-sol "
        "gpt-5.6-terra gpt-5.6-luna gpt-6-astra gpt-6-sol gpt-6-luna gpt-6.1-sol gpt-6.1-terra "
        "gpt-5-mini gpt-5-nano gpt-3.5-turbo gemini-1.5-pro gemini-1.5-flash gemini-2.0-flash "
        "gemini-2.0-flash-lite gemini-2.5-flash-lite gemini-2.5-flash gemini-3-pro-preview "
        "gemini-3-flash-preview gemini-3.1-pro-preview gemini-3.1-flash-lite-preview "
        "gemini-3.1-flash-lite gemini-3.5-flash gemini-3.5-flash-lite gemini-3.6-flash "
        "gemini-3.7-flash gemini-3.8-flash gemini-4-argon claude-sonnet-4-5 claude-opus-4-6 "
        "claude-opus-4-7 claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-sonnet-4-6 "
        "claude-sonnet-5 claude-sonnet-5-5 claude-sonnet-4 claude-haiku-4-5 claude-haiku-5-5 "
        "claude-3-7-sonnet claude-3-5-sonnet claude-3-5-sonnet-v1 claude-3-haiku grok-beta "
        "custom-llm qwen3-4b qwen3-30b-a3b qwen36-35b-a3b qwen35-397b-a17b gpt-oss-20b "
        "gpt-oss-120b glm-45-air-fp8 glm-52 deepseek-v41-flash nemotron-35-super-vl-nvfp4 "
        "gemini-2.5-flash-preview-09-2025 gemini-2.5-flash-lite-preview-09-2025 "
        "gemini-2.5-flash-preview-05-20 gemini-2.5-flash-preview-04-17 "
        "gemini-2.5-flash-lite-preview-06-17 gemini-2.0-flash-lite-001 gemini-2.0-flash-001 "
        "gemini-1.5-flash-002 gemini-1.5-flash-001 gemini-1.5-pro-002 gemini-1.5-pro-001 "
        "claude-sonnet-4@20250514 claude-sonnet-4-5@20250929 claude-haiku-4-5@20251001 "
        "claude-3-7-sonnet@20250219 claude-3-5-sonnet@20240620 claude-3-5-sonnet-v2@20241022 "
        "claude-3-haiku@20240307 gpt-5-2025-08-07 gpt-5.1-2025-11-13 gpt-5.2-2025-12-11 "
        "gpt-5.4-2026-03-05 gpt-5.4-mini-2026-03-17 gpt-5.4-nano-2026-03-17 gpt-5.5-2026-04-23 "
        "gpt-5-mini-2025-08-07 gpt-5-nano-2025-08-07 gpt-4.1-2025-04-14 gpt-4.1-mini-2025-04-14 "
        "gpt-4.1-nano-2025-04-14 gpt-4o-mini-2024-07-18 gpt-4o-2024-11-20 gpt-4o-2024-08-06 "
        "gpt-4o-2024-05-13 gpt-4-0613 gpt-4-0314 gpt-4-turbo-2024-04-09 gpt-3.5-turbo-0125 "
        "gpt-3.5-turbo-1106 watt-tool-8b watt-tool-70b"
    ).split()
)
"""Of the SDK elevenlabs 2.78."""
_RANGES = {"stability": (0.0, 1.0), "speed": (0.7, 1.2), "similarity_boost": (0.0, 1.0)}
_PLACE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def problem_of(message: Any, sound_step: int) -> str:
    """Return the error of a client's message, or an empty string. `sound_step`: bytes of one
    sample of the audio that the client sends."""
    if not isinstance(message, dict):
        return "Invalid message received"
    if "user_audio_chunk" in message:
        return _sound_problem(message, sound_step)
    kind = message.get("type")
    fields = MESSAGES.get(kind) if isinstance(kind, str) else None
    if fields is None:
        return f"Invalid message received: unknown type {kind!r}"
    for name, value in message.items():
        if name != "type" and name not in fields:
            return f"Invalid message received: {kind} has no field {name!r}"
        if name != "type" and value is not None and not _is(value, fields[name][0]):
            return f"Invalid message received: {kind}.{name} is no {fields[name][0]}"
    missing = [name for name, (_, needed) in fields.items() if needed and message.get(name) is None]
    if missing:
        return f"Missing required fields: {', '.join(missing)}"
    if kind == "conversation_initiation_client_data":
        return _initiation_problem(message)
    return ""


def _sound_problem(message: Mapping[str, Any], step: int) -> str:
    coded = message["user_audio_chunk"]
    if len(message) > 1 or not isinstance(coded, str):
        return "Invalid message received: user_audio_chunk is a text alone"
    try:
        sound = base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        return "Invalid message received: user_audio_chunk is not base64"
    return "Invalid message received: half a sample" if len(sound) % step else ""


def _initiation_problem(message: Mapping[str, Any]) -> str:
    problem = _override_problem(message.get("conversation_config_override") or {}, OVERRIDES, "")
    if problem:
        return problem
    for name, value in (message.get("dynamic_variables") or {}).items():
        if not isinstance(value, (str, int, float, bool)):
            return f"Invalid message received: dynamic variable {name!r} is not a plain value"
    return ""


def _override_problem(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> str:
    for name, value in given.items():
        place = f"{where}{name}"
        kind = known.get(name)
        if kind is None:
            return f"Invalid override: unknown field '{place}'"
        if isinstance(kind, Mapping):
            if not isinstance(value, dict):
                return f"Invalid override: '{place}' is not an object"
            problem = _override_problem(value, kind, f"{place}.")
            if problem:
                return problem
        elif value is not None and not _is(value, kind):
            return f"Invalid override: '{place}' is no {kind}"
        elif name == "llm" and value is not None and value not in LLMS:
            return f"Invalid override: '{place}' is not a language model"
        elif name in _RANGES and value is not None:
            least, most = _RANGES[name]
            if not least <= value <= most:
                return f"Invalid override: '{place}' is not from {least} to {most}"
    return ""


def permitted(overrides: Mapping[str, Any], permits: Mapping[str, Any]) -> str:
    """Return the reason why the agent forbids these overrides; empty if it permits them."""
    for path in _leaves(overrides, ()):
        level: Any = permits
        for name in path:
            level = level.get(name) if isinstance(level, dict) else None
        if level is not True:
            return f"Override for field '{path[-1]}' is not allowed by config."
    return ""


def _leaves(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(inner, (*path, name))
        elif inner is not None:
            yield (*path, name)


def missing_variables(texts: tuple[str, ...], given: Mapping[str, Any]) -> list[str]:
    """Placeholders in an agent's texts that have no value."""
    wanted = {name for text in texts for name in _PLACE.findall(text)}
    return sorted(name for name in wanted - set(given) if not name.startswith("system__"))


def filled(text: str, given: Mapping[str, Any]) -> str:
    """Return a text with its placeholders filled."""
    return _PLACE.sub(lambda match: str(given.get(match.group(1), "")), text)


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list)
    return isinstance(value, dict)
