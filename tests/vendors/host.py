"""The shell, as protocols see it, for tests: it keeps what it is told and sends nothing
anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import ULAW_8K, AudioFormat
from cordboard.errors import FailureKind
from cordboard.tools.tool import JsonObject, ToolSpec


class RecordingHost:
    """Implements `protocol.ProtocolHost`. `told` has each report as a tuple: its name, its
    values."""

    def __init__(self) -> None:
        self.clock = 1000.0
        self.turn = 0
        self.sent: list[dict[str, Any]] = []
        """Each text message, parsed."""
        self.sound: list[bytes] = []
        """Each binary message."""
        self.told: list[tuple[Any, ...]] = []

    def all(self, name: str) -> list[tuple[Any, ...]]:
        """The values of all reports of that name."""
        return [entry[1:] for entry in self.told if entry[0] == name]

    def sent_of(self, kind: str) -> list[dict[str, Any]]:
        """The messages of that `type`."""
        return [message for message in self.sent if message.get("type") == kind]

    def now(self) -> float:
        return self.clock

    def send_text(self, message: bytes) -> None:
        self.sent.append(json.loads(message))

    def send_binary(self, data: bytes) -> None:
        self.sound.append(data)

    def ready(self) -> None:
        self.told.append(("ready",))

    def reconnect(self, reason: str) -> None:
        self.told.append(("reconnect", reason))

    def failed(self, kind: FailureKind, reason: str) -> None:
        self.told.append(("failed", kind, reason))

    def ended(self, reason: str) -> None:
        self.told.append(("ended", reason))

    def ignored(self, why: str, detail: str = "") -> None:
        self.told.append(("ignored", why, detail))

    def caller_started(self, at: float | None = None) -> None:
        self.told.append(("caller_started", at))

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        self.turn += 1
        self.told.append(("caller_stopped", last_speech_at))
        return self.turn

    def caller_partial(self, text: str) -> None:
        self.told.append(("caller_partial", text))

    def caller_text(self, text: str, turn: int | None = None) -> None:
        self.told.append(("caller_text", text, turn))

    def agent_words(self, text: str) -> None:
        self.told.append(("agent_words", text))

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        self.told.append(("agent_sound", sound, item))

    def waiting_sound(self, sound: bytes) -> None:
        self.told.append(("waiting_sound", sound))

    def agent_speech(self, speech: Speech | None) -> None:
        if speech is not None:
            self.told.append(("agent_speech", speech.text))

    def unsaid(self, speech: Speech) -> None:
        self.told.append(("unsaid", speech.text))

    def answer_done(self) -> None:
        self.told.append(("answer_done",))

    def answer_broke(self) -> None:
        self.told.append(("answer_broke",))

    def interrupted(self) -> None:
        self.told.append(("interrupted",))

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        self.told.append(("tool_asked", call_id, name, arguments))

    def tool_cancelled(self, call_id: str) -> None:
        self.told.append(("tool_cancelled", call_id))

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        self.told.append(("used", model, dict(amounts)))


def a_session(
    *,
    prompt: str = "You are a helpful telephone agent.",
    greeting: str = "Hello!",
    toolbox: tuple[ToolSpec, ...] = (),
    audio_format: AudioFormat = ULAW_8K,
    history: tuple[Said, ...] = (),
) -> AgentSession:
    """A call's session for a protocol under test."""
    return AgentSession(
        call_id="call-1",
        context_name="demo",
        prompt=prompt,
        greeting=greeting,
        toolbox=toolbox,
        format=audio_format,
        emit=lambda event: None,
        speaking=lambda: False,
        history=history,
    )
