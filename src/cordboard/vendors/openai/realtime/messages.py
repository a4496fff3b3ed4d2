"""Messages to OpenAI Realtime, as bytes, and plain readers of its messages.

Pure functions. Shapes: openai 3.54, `types/realtime` (the GA protocol). Texts that are not valid
Unicode (half a character from a tool) are repaired here, so that encoding never raises.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agents.extra_settings import with_extra
from cordboard.config.section import Section
from cordboard.config.sections.service import Service
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import DATA_NOTE
from cordboard.tools.provider_schema import for_provider_list
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.limits import OPENAI_REALTIME

BASE_URL = "https://api.openai.com/v1"
MAX_HISTORY = 100
"""Last sentences of the conversation so far that a new session gets."""
CANNOT_HELP: Final = (
    "Say in one short sentence, in the language of the conversation, that you cannot help with "
    "that, and ask what else you can do."
)
_APPEND: Final = b'{"type":"input_audio_buffer.append","audio":"%b"}'
_FORMATS: Final = {"ulaw": "audio/pcmu", "alaw": "audio/pcma"}


def encoded(message: JsonObject) -> bytes:
    """Return a message in its wire form."""
    try:
        return orjson.dumps(message)
    except TypeError:  # half a character, or a number beyond 64 bits
        text = json.dumps(message, ensure_ascii=False, default=str)
        return text.encode("utf-8", "replace")


def address_of(settings: Service, model: str, key: str) -> Address:
    """Return the address of a session with that model."""
    base = (settings.base_url or BASE_URL).rstrip("/")
    url = f"ws{base.removeprefix('http')}/realtime?model={quote(model, safe='')}"
    return Address(url, settings.request_headers(key))


def append(sound: bytes) -> bytes:
    """Return a frame of the caller's sound."""
    return _APPEND % binascii.b2a_base64(sound, newline=False)


def session_object(
    settings: OpenAIRealtimeProvider, session: AgentSession, *, answering: bool
) -> JsonObject:
    """Return the whole session for `session.update`. `answering`: True if the model answers the
    caller's turns by itself. The model is not included: it is in the address, and cannot change."""
    encoding = {"type": _FORMATS[session.format.encoding]}
    noise = settings.noise_reduction
    voice = {"id": settings.voice} if settings.voice.startswith("voice_") else settings.voice
    whole: JsonObject = {
        "type": "realtime",
        "output_modalities": ["audio"],
        "instructions": instructions(session),
        "max_output_tokens": settings.max_output_tokens,
        "truncation": _plain(settings.truncation),
        "audio": {
            "input": {
                "format": encoding,
                "noise_reduction": None if noise is None else _plain(noise),
                "transcription": _plain(settings.transcription),
                "turn_detection": turn_detection(settings, answering=answering),
            },
            "output": {"format": encoding, "voice": voice, "speed": settings.speed},
        },
    }
    tools = declared_tools(session)
    if tools:
        whole["tools"] = tools
        whole["tool_choice"] = _plain(settings.tool_choice)
        if settings.parallel_tool_calls is not None:
            whole["parallel_tool_calls"] = settings.parallel_tool_calls
    if settings.reasoning is not None:
        whole["reasoning"] = _plain(settings.reasoning)
    return with_extra(whole, settings.extra)


def instructions(session: AgentSession) -> str:
    return f"{session.prompt}\n\n{DATA_NOTE}" if session.toolbox else session.prompt


def declared_tools(session: AgentSession) -> list[JsonObject]:
    tools, _ = for_provider_list(session.toolbox, OPENAI_REALTIME)
    return [{"type": "function", **tool.declared()} for tool in tools]


def turn_detection(settings: OpenAIRealtimeProvider, *, answering: bool) -> JsonObject:
    wanted: JsonObject = _plain(settings.turn_detection)
    wanted["create_response"] = answering
    wanted["interrupt_response"] = answering and settings.turn_detection.interrupt_response
    return wanted


def only_turn_detection(settings: OpenAIRealtimeProvider, *, answering: bool) -> JsonObject:
    """Return the part of the session that `listen_aside` changes."""
    own = settings.extra.get("audio", {})
    own = own.get("input", {}) if isinstance(own, Mapping) else {}
    own = own.get("turn_detection") if isinstance(own, Mapping) else None
    detection = with_extra(
        turn_detection(settings, answering=answering), own if isinstance(own, Mapping) else {}
    )
    return {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}


def answers_turns(message: JsonObject, before: bool) -> bool:
    """True if the service, by its `session.updated`, answers the caller's turns by itself."""
    audio = object_of(object_of(message.get("session")).get("audio"))
    detection = object_of(object_of(audio.get("input")).get("turn_detection"))
    value = detection.get("create_response")
    return value if isinstance(value, bool) else before


def message_item(said: Said) -> JsonObject:
    """Return a sentence of the conversation so far. The service does not accept its own sound, so
    the agent's sentences are given as text."""
    if said.who == "caller":
        return user_item(said.text)
    return _message("assistant", "output_text", said.text)


def items_of(response: JsonObject) -> list[JsonObject]:
    """Return the items of a response."""
    output = response.get("output")
    return [object_of(item) for item in output] if isinstance(output, list) else []


def written_text(item: JsonObject) -> str:
    """Return the text that an item of a response holds in place of sound."""
    content = item.get("content")
    parts = [object_of(part) for part in content] if isinstance(content, list) else []
    texts = [text_of(part, "text") for part in parts if part.get("type") == "output_text"]
    return " ".join(filter(None, map(str.strip, texts)))


def user_item(text: str) -> JsonObject:
    return _message("user", "input_text", text)


def greeting_item(greeting: str) -> JsonObject:
    """Return the greeting that another voice spoke."""
    return message_item(Said("agent", greeting))


def history_items(history: Sequence[Said]) -> list[JsonObject]:
    return [message_item(said) for said in history[-MAX_HISTORY:] if said.text.strip()]


def function_call_item(call_id: str, name: str, arguments: str) -> JsonObject:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def function_output_item(call_id: str, output: str) -> JsonObject:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def verbatim(text: str) -> JsonObject:
    """Return the parameters of a response that says these words and no others. The model may not
    obey."""
    return {
        "instructions": "Say exactly the words after the blank line, all of them, word for word, "
        "in their language. Add nothing, leave out nothing, and do not answer them.\n\n" + text,
        "tool_choice": "none",
    }


def notice(text: str) -> JsonObject:
    """Return a notice of the engine that the model must pass on to the caller. Not a system
    message, because it may contain a tool's answer."""
    return user_item(
        "[A notice of the telephone system, not said by the caller: tell the caller what it says.] "
        + text
    )


def operator_item(text: str) -> JsonObject:
    """Return a note of an operator. Role `system`: no caller and no tool has written it (openai
    3.54, `types/realtime/realtime_conversation_item_system_message.py`)."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "system", "content": content}


def tool_notice(name: str, output: str) -> JsonObject:
    """Return the result of a tool, where the service does not accept it as one."""
    return user_item(f"[What the tool {name} has answered, not said by the caller:] {output}")


def usage_amounts(usage: JsonObject) -> dict[str, float]:
    """Return the tokens of one response in the units of `agent_api.agent.Usage`.

    The service counts cached tokens among the input tokens, and gives totals beside the parts;
    tokens that belong to no part (pictures, reasoning) count as text. The sum is the service's
    `total_tokens`.
    """
    given = object_of(usage.get("input_token_details"))
    kept = object_of(given.get("cached_tokens_details"))
    made = object_of(usage.get("output_token_details"))
    audio = _count(given, "audio_tokens")
    text = max(_count(usage, "input_tokens") - audio, _count(given, "text_tokens"))
    cached_audio = min(_count(kept, "audio_tokens"), audio)
    cached = max(_count(given, "cached_tokens"), cached_audio + _count(kept, "text_tokens"))
    cached_text = min(cached - cached_audio, text)
    if not kept:  # only a sum is known: the rest must be sound
        cached_audio = min(cached - cached_text, audio)
    spoken = _count(made, "audio_tokens")
    amounts = {
        "input_text_tokens": text - cached_text,
        "input_audio_tokens": audio - cached_audio,
        "cached_text_tokens": cached_text,
        "cached_audio_tokens": cached_audio,
        "output_text_tokens": max(
            _count(usage, "output_tokens") - spoken, _count(made, "text_tokens")
        ),
        "output_audio_tokens": spoken,
    }
    return {unit: float(amount) for unit, amount in amounts.items() if amount > 0}


def transcription_amounts(usage: JsonObject) -> dict[str, float]:
    """Return the usage of one transcription: tokens or seconds, depending on the model."""
    seconds = usage.get("seconds")
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e6:
        return {"seconds": float(seconds)}
    details = {"input_token_details": object_of(usage.get("input_token_details"))}
    return usage_amounts({**usage, **details})


def _plain(value: Any) -> Any:
    """Return a setting as JSON, without values that are left to the service."""
    if not isinstance(value, Section):
        return value
    return value.model_dump(mode="json", exclude_none=True, exclude={"languages", "keywords"}) | {
        name: list(words)
        for name in ("languages", "keywords")
        if (words := getattr(value, name, ()))
    }


def _message(role: str, kind: str, text: str) -> JsonObject:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def json_object(text: str | bytes) -> JsonObject | None:
    """Return the object that a text holds; None if it holds none."""
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def object_of(value: object) -> JsonObject:
    """Return an object of a message; empty if it is missing or malformed."""
    return value if isinstance(value, dict) else {}


def text_of(message: JsonObject, name: str) -> str:
    """Return a text of a message; empty if it is missing or malformed."""
    value = message.get(name)
    return value if isinstance(value, str) else ""


def ms_of(message: JsonObject, name: str) -> int | None:
    """Return a position in the caller's sound."""
    value = message.get(name)
    sane = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9
    return int(value) if sane and value is not None else None


def _count(counts: JsonObject, name: str) -> int:
    value = counts.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return min(max(0, int(value)), 2**53) if whole and value is not None else 0
