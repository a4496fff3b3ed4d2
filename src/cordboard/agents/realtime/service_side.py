"""The protocol's view of the shell: its `ProtocolHost`. Passes each call to the responsible
part."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from cordboard.agent_api.agent import AgentEnded, AgentEvent
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.engine_speech import EngineSpeech
from cordboard.agents.realtime.reconnecting import ServiceLink
from cordboard.agents.realtime.turns import Turns
from cordboard.errors import FailureKind
from cordboard.tools.tool import JsonObject


class Behind(Protocol):
    """The agent behind it."""

    def emit(self, event: AgentEvent) -> None: ...

    def session_accepted(self) -> None:
        """Note that the service takes sound and results from now on."""
        ...

    def caller_said(self, text: str) -> None:
        """Note that the service has understood these words."""
        ...

    def ignored(self, why: str, detail: str = "") -> None: ...


class ServiceSide:
    """Implements `agent_api.service_protocol.ProtocolHost`."""

    def __init__(self, link: ServiceLink, talk: Turns, own: EngineSpeech, behind: Behind) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._talk = talk
        self._own = own
        self._behind = behind

    def now(self) -> float:
        return self._loop.time()

    def send_text(self, message: bytes) -> None:
        self._link.send_text(message)

    def send_binary(self, data: bytes) -> None:
        self._link.send_binary(data)

    def ready(self) -> None:
        self._link.accepted()
        self._behind.session_accepted()

    def reconnect(self, reason: str) -> None:
        self._link.replace(reason)

    def failed(self, kind: FailureKind, reason: str) -> None:
        self._link.give_up(kind, reason)

    def ended(self, reason: str) -> None:
        self._behind.emit(AgentEnded(reason))

    def ignored(self, why: str, detail: str = "") -> None:
        self._behind.ignored(why, detail)

    def caller_started(self, at: float | None = None) -> None:
        self._own.drop_needless()
        self._own.service_stopped()
        self._talk.caller_started(at)

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        return self._talk.caller_stopped(last_speech_at)

    def caller_text(self, text: str, turn: int | None = None) -> None:
        self._talk.caller_text(text, turn)
        if text.strip():
            self._behind.caller_said(text)

    def agent_words(self, text: str) -> None:
        self._talk.agent_words(text)

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        self._talk.agent_sound(sound, item)

    def agent_speech(self, speech: Speech | None) -> None:
        self._talk.agent_speech(speech)

    def unsaid(self, speech: Speech) -> None:
        self._own.service_refused(speech)

    def answer_done(self) -> None:
        self._own.service_stopped()
        self._talk.answer_done()

    def interrupted(self) -> None:
        self._own.service_stopped()
        self._talk.cut()

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        self._talk.tool_asked(call_id, name, arguments)

    def tool_cancelled(self, call_id: str) -> None:
        self._talk.tool_cancelled(call_id)

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        self._talk.used(model, amounts)
