"""What a client may say to an ElevenLabs agent, checked as its AsyncAPI document has it.

`problem_of` finds what the service would close the connection for; `permitted` what an agent lets a
conversation override, in the words of the service ("Override for field 'voice_id' is not allowed by
config."). Where the SDK sends a field that the document does not have, it is taken too.
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
"""By type: each field's kind, and whether it must be there."""

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
_RANGES = {"stability": (0.0, 1.0), "speed": (0.7, 1.2), "similarity_boost": (0.0, 1.0)}
_PLACE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


def problem_of(message: Any, sound_step: int) -> str:
    """What is wrong with a client's message; empty when nothing is. `sound_step`: bytes of one
    sample of what it is to send."""
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
        return "Invalid message received: user_audio_chunk is no base64"
    return "Invalid message received: half a sample" if len(sound) % step else ""


def _initiation_problem(message: Mapping[str, Any]) -> str:
    problem = _override_problem(message.get("conversation_config_override") or {}, OVERRIDES, "")
    if problem:
        return problem
    for name, value in (message.get("dynamic_variables") or {}).items():
        if not isinstance(value, (str, int, float, bool)):
            return f"Invalid message received: dynamic variable {name!r} is no plain value"
    return ""


def _override_problem(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> str:
    for name, value in given.items():
        place = f"{where}{name}"
        kind = known.get(name)
        if kind is None:
            return f"Invalid override: unknown field '{place}'"
        if isinstance(kind, Mapping):
            if not isinstance(value, dict):
                return f"Invalid override: '{place}' is no object"
            problem = _override_problem(value, kind, f"{place}.")
            if problem:
                return problem
        elif value is not None and not _is(value, kind):
            return f"Invalid override: '{place}' is no {kind}"
        elif name in _RANGES and value is not None:
            least, most = _RANGES[name]
            if not least <= value <= most:
                return f"Invalid override: '{place}' is not from {least} to {most}"
    return ""


def permitted(overrides: Mapping[str, Any], permits: Mapping[str, Any]) -> str:
    """Why the agent does not let these be overridden; empty when it does."""
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
    """Places in an agent's texts that nothing fills."""
    wanted = {name for text in texts for name in _PLACE.findall(text)}
    return sorted(name for name in wanted - set(given) if not name.startswith("system__"))


def filled(text: str, given: Mapping[str, Any]) -> str:
    """A text with its places filled."""
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
