"""State of an OpenAI Realtime session: its settings, its conversation, the part that was heard.

It has no socket and no clock. Anything that the service would refuse raises `Refused`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard_testkit.emulators.openai.realtime_wire import REASONING_MODELS, Refused
from cordboard_testkit.emulators.script import Answer

Event = dict[str, Any]


@dataclass(slots=True)
class Work:
    """The work on one turn of the caller; it outlives a connection."""

    answer: Answer
    said: bool = False
    """True when its first part was spoken to the end and its tools were requested."""
    calls: list[str] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)
    """The messages of its tools, by call."""
    telling: int = 0
    """The connection on which a response speaks, or spoke, about the results."""
    told: bool = False
    """True when that response has ended."""

    @property
    def missing(self) -> bool:
        return any(call not in self.results for call in self.calls)

    def ripe(self, connection: int) -> bool:
        """True if all results have arrived and no response has spoken about them."""
        ready = self.said and bool(self.calls) and not self.missing
        return ready and not self.told and self.telling != connection


class Conversation:
    """The items of one connection."""

    def __init__(self) -> None:
        self.items: dict[str, Event] = {}
        """By id, in order."""
        self.made_ms: dict[str, int] = {}
        """Amount of the model's audio in an item."""
        self.truncated: dict[str, int] = {}
        self.unanswered: set[str] = set()
        """Calls without output."""
        self._cached = (0, 0)
        self.heard_ms = 0
        """The caller's committed audio."""

    @property
    def last_id(self) -> str | None:
        return next(reversed(self.items), None)

    def add(self, item: Event) -> Event:
        """Put an item at the end; returns it as the service shows it."""
        kind, item_id = item["type"], item["id"]
        if item_id in self.items:
            raise Refused("item_create_duplicate_id", f"Item with id '{item_id}' already exists.")
        if kind == "function_call":
            self.unanswered.add(item["call_id"])
        elif kind == "function_call_output":
            self._take_output(item["call_id"])
        shown = {"object": "realtime.item", "status": "completed", **item}
        self.items[item_id] = shown
        return shown

    def _take_output(self, call_id: str) -> None:
        known = {i.get("call_id") for i in self.items.values() if i["type"] == "function_call"}
        if call_id not in known:
            words = f"Tool call ID '{call_id}' not found in conversation."
            raise Refused("invalid_tool_call_id", words, "item.call_id")
        if call_id not in self.unanswered:
            words = f"Tool call ID '{call_id}' has an output already."
            raise Refused("duplicate_tool_call_output", words, "item.call_id")
        self.unanswered.discard(call_id)

    def truncate(self, item_id: str, audio_end_ms: int) -> None:
        item = self.items.get(item_id)
        if item is None:
            words = f"Item with item_id not found: '{item_id}'."
            raise Refused("item_truncate_invalid_item_id", words, "item_id")
        if item.get("role") != "assistant" or item_id not in self.made_ms:
            words = "Only model output audio messages can be truncated"
            raise Refused("invalid_value", words, "item_id")
        made = min(self.made_ms[item_id], self.truncated.get(item_id, self.made_ms[item_id]))
        if audio_end_ms > made:
            words = f"Audio content of {made}ms is already shorter than {audio_end_ms}ms"
            raise Refused("invalid_value", words, "audio_end_ms")
        self.truncated[item_id] = audio_end_ms
        item["content"] = [{"type": "output_audio", "transcript": ""}]

    def asked_in_writing(self) -> str:
        """The last item, if it is a user's text."""
        item = self.items[self.last_id] if self.last_id else {}
        content = item.get("content", [{}])
        if item.get("role") != "user" or content[0].get("type") != "input_text":
            return ""
        return str(content[0]["text"]).split("] ", 1)[-1]

    def usage(self, instructions: str, said: str, sound_ms: int, calls: int) -> Event:
        """Tokens of one response: one per word, per 100 ms heard and per 50 ms spoken. Everything
        that was there at the previous response is cached."""
        words = len(instructions.split()) + sum(_words(item) for item in self.items.values())
        heard = self.heard_ms // 100
        cached_text, cached_audio = self._cached
        cached_text, cached_audio = min(cached_text, words), min(cached_audio, heard)
        self._cached = (words, heard)
        out_text, out_audio = len(said.split()) + 10 * calls, sound_ms // 50
        return {
            "total_tokens": words + heard + out_text + out_audio,
            "input_tokens": words + heard,
            "output_tokens": out_text + out_audio,
            "input_token_details": {
                "text_tokens": words,
                "audio_tokens": heard,
                "image_tokens": 0,
                "cached_tokens": cached_text + cached_audio,
                "cached_tokens_details": {
                    "text_tokens": cached_text,
                    "audio_tokens": cached_audio,
                    "image_tokens": 0,
                },
            },
            "output_token_details": {"text_tokens": out_text, "audio_tokens": out_audio},
        }


def message_of(output: str) -> str:
    """Return the words of a tool's output."""
    try:
        value = json.loads(output)
    except ValueError:
        return output
    return str(value.get("message", "")) if isinstance(value, dict) else output


def _words(item: Event) -> int:
    parts = item.get("content") or [{}]
    texts = [part.get("text") or part.get("transcript") or "" for part in parts]
    return len(" ".join([*texts, item.get("output", "")]).split())


def default_session(model: str) -> dict[str, Any]:
    """The session as it is before `session.update`."""
    pcm = {"type": "audio/pcm", "rate": 24000}
    return {
        "type": "realtime",
        "object": "realtime.session",
        "model": model,
        "output_modalities": ["audio"],
        "instructions": "You are a helpful assistant.",
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "truncation": "auto",
        "tracing": None,
        "include": None,
        "prompt": None,
        "audio": {
            "input": {
                "format": pcm,
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "idle_timeout_ms": None,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": pcm, "voice": "marin", "speed": 1.0},
        },
    }


def updated(session: dict[str, Any], changes: Mapping[str, Any], *, spoken: bool) -> dict[str, Any]:
    """The session after an update; a detector or format is replaced whole. Raises `Refused`."""
    if "model" in changes and changes["model"] != session["model"]:
        raise Refused("invalid_value", "The model of a session cannot be changed.", "session.model")
    reasoning = {"reasoning", "parallel_tool_calls"} & set(changes)
    if reasoning and session["model"] not in REASONING_MODELS:
        words = f"Unsupported option for this model: '{reasoning.pop()}'."
        raise Refused("unsupported_parameter", words)
    whole = _merged(session, changes)
    before, after = session["audio"]["output"]["voice"], whole["audio"]["output"]["voice"]
    if spoken and before != after:
        words = "Cannot update a conversation's voice if assistant audio is present."
        raise Refused("cannot_update_voice", words, "session.audio.output.voice")
    return whole


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(base)
    for key, value in over.items():
        before = whole.get(key)
        inner = isinstance(before, dict) and isinstance(value, dict) and "type" not in value
        whole[key] = _merged(before, value) if inner and before is not None else value
    return whole
