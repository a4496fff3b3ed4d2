"""OpenAI Realtime (GA) as a `ServiceProtocol`: G.711 both ways, no resampling.

The service finds the caller's turns and answers them by itself; we pass on sound and words, the
answers of tools, and how much of a cut answer was heard. `messages` builds the messages, `turns`
follows the caller's turns, `answers` the model's, `errors` interprets refusals. Protocol: openai
3.54, `types/realtime`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.typed_message import typed_message
from cordboard.audio.format import ALAW_8K, ULAW_8K, AudioFormat
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import as_payload
from cordboard.tools.tool import JsonObject, ToolReply
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.limits import REALTIME_PAYLOAD
from cordboard.vendors.openai.realtime import messages
from cordboard.vendors.openai.realtime.answers import BUSY_WAIT, Answers
from cordboard.vendors.openai.realtime.errors import Trouble, lost, trouble_of
from cordboard.vendors.openai.realtime.floor import Wish
from cordboard.vendors.openai.realtime.messages import object_of, text_of
from cordboard.vendors.openai.realtime.outbox import Outbox
from cordboard.vendors.openai.realtime.tools import ToolCalls
from cordboard.vendors.openai.realtime.turns import CallerTurns

RENEW_SECONDS = 55 * 60
"""A session lives for 60 minutes, unless the service states another end: after this time it is
replaced at the first quiet moment."""
_RENEW_BEFORE = 5 * 60
"""Seconds before the stated end of a session."""
_LONGEST_SESSION = 24 * 3600
_BYTES_PER_SECOND = 8000
_TRANSCRIPTION = "conversation.item.input_audio_transcription."
_SILENT_TYPES = frozenset(
    {
        *("rate_limits.updated", "conversation.created"),
        *("input_audio_buffer.committed", "input_audio_buffer.cleared"),
        *("conversation.item.deleted", "conversation.item.retrieved"),
        *("conversation.item.truncated", "response.output_audio.done"),
        *("response.output_item.added", "response.output_audio_transcript.done"),
        *("response.content_part.added", "response.content_part.done"),
        *("response.output_text.delta", "response.output_text.done"),
        *("response.function_call_arguments.delta", "response.function_call_arguments.done"),
        _TRANSCRIPTION + "segment",
    }
)
"""Messages that are ignored."""


class OpenAIProtocol:
    """One call's side of the protocol."""

    payload = REALTIME_PAYLOAD

    def __init__(self, settings: OpenAIRealtimeProvider, key: str) -> None:
        self._settings = settings
        self._key = key
        self._session: AgentSession
        self._answers: Answers
        self._begun = False
        self._calls = ToolCalls()
        self._aside = False

    def _fresh(self, host: ProtocolHost, resumed: Resumed | None) -> None:
        """Reset the state of one connection."""
        self._host = host
        self._resumed = resumed
        self._outbox = Outbox(host)
        self._caller = CallerTurns(self._settings, host)
        self._answers = Answers(host, self._outbox, self._calls, self._settings, self._key)
        self._answers.aside = self._aside
        self._renew_at = RENEW_SECONDS * _BYTES_PER_SECOND
        self._answering = not self._aside
        """The service answers turns by itself, as it last confirmed."""
        self._last_event = ""
        self._handlers: dict[str, Callable[[JsonObject], None]] = {
            "session.created": self._session_created,
            "session.updated": self._session_updated,
            "error": self._error,
            "input_audio_buffer.speech_started": self._speech_started,
            "input_audio_buffer.speech_stopped": self._speech_stopped,
            "input_audio_buffer.timeout_triggered": self._silence,
            _TRANSCRIPTION + "delta": self._caller.transcribed_in_part,
            _TRANSCRIPTION + "completed": self._caller.transcribed,
            _TRANSCRIPTION + "failed": self._caller.not_transcribed,
            **self._answers.handlers,
        }

    # The connection.

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (ULAW_8K, ALAW_8K)

    @property
    def speaks_greeting(self) -> bool:
        return self._settings.greeting == "provider"

    @property
    def keep_alive_s(self) -> float:
        return BUSY_WAIT if self._begun and self._answers.waits else 0.0

    def keep_alive(self) -> None:
        """Look at the retries, although the line gives no sound."""
        self._answers.look()

    def goodbye(self) -> None:
        """Do nothing: closing is enough."""

    async def address(self) -> Address:
        return messages.address_of(self._settings, self._settings.model, self._key)

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._session = session
        self._begun = True
        self._fresh(host, resumed)
        whole = messages.session_object(self._settings, session, answering=not self._aside)
        self._outbox.send({"type": "session.update", "session": whole}, "session")

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        return lost(status, code, problem, self._key)

    def _session_created(self, message: JsonObject) -> None:
        """Note the session's end. The two clocks may differ: an absurd end is ignored."""
        ends_at = object_of(message.get("session")).get("expires_at")
        if isinstance(ends_at, (int, float)) and not isinstance(ends_at, bool):
            seconds = ends_at - time.time() - _RENEW_BEFORE
            if _RENEW_BEFORE < seconds < _LONGEST_SESSION:
                self._renew_at = int(seconds * _BYTES_PER_SECOND)

    def _session_updated(self, message: JsonObject) -> None:
        self._answering = messages.answers_turns(message, self._answering)
        if self._answers.ready:
            return
        self._answers.ready = True
        session, resumed = self._session, self._resumed
        history = session.history if resumed is None else resumed.history
        finished, unfinished = self._calls.resumed()
        for item in (*finished, *messages.history_items(history), *unfinished):
            self._outbox.store(item)
        self._host.ready()
        owed = resumed.owes_answer if resumed else bool(history) and history[-1].who == "caller"
        if session.greeting and not history and (resumed is None or owed):
            self._greet(session.greeting)
        elif owed and not self._calls.waiting:
            self._answers.want(Wish())
        self._answers.respond()

    def _greet(self, greeting: str) -> None:
        if self.speaks_greeting:
            self._answers.want(Wish(messages.verbatim(greeting)))
        else:
            self._outbox.store(messages.greeting_item(greeting))

    # To the service.

    def hear(self, sound: bytes) -> None:
        self._host.send_text(messages.append(sound))
        caller = self._caller
        caller.sent_bytes += len(sound)
        self._answers.look()
        if caller.sent_bytes >= self._renew_at:
            self._renew()

    def _renew(self) -> None:
        self._renew_at = self._caller.sent_bytes + _BYTES_PER_SECOND
        busy = self._calls.waiting or self._calls.due or self._caller.textless or self._aside
        if self._answers.floor.free and not busy and not self._session.speaking():
            self._host.reconnect("the session is near its hour")

    def answer_tool(self, reply: ToolReply) -> None:
        output = messages.encoded(as_payload(reply)).decode()
        if not self._calls.answered(reply.ask_id, output):
            self._host.ignored("late", "an answer to an unknown call")
            return
        self._outbox.store(messages.function_output_item(reply.ask_id, output))
        self._answers.respond()

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        self._answers.cut(cut)

    def speak(self, speech: Speech) -> bool:
        answers = self._answers
        if self._settings.slow_response != "provider" or not answers.can_begin:
            return False
        aside = {"conversation": "none", "input": [], **messages.verbatim(speech.text)}
        answers.create(Wish(aside, speech=speech))
        return True

    def inform(self, text: str) -> bool:
        if self._aside or not self._answers.can_begin or self._calls.due:
            return False
        self._outbox.store(messages.notice(text))
        self._answers.want(Wish(insists=True))
        return True

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        if not self._answers.ready:
            return False
        self._outbox.store(messages.operator_item(text))
        return True

    def listen_aside(self, on: bool) -> bool:
        if on != self._aside:
            self._aside = self._answers.aside = on
            if self._answers.ready:
                part = messages.only_turn_detection(self._settings, answering=not on)
                self._outbox.send({"type": "session.update", "session": part})
            self._answers.respond()
        return True

    # From the service.

    def receive_binary(self, data: bytes) -> None:
        self._host.ignored("unknown", "a binary message")

    def receive_text(self, message: bytes) -> None:
        read = typed_message(message, self._host)
        if read is None:
            return
        kind, event = read
        event_id = event.get("event_id")
        if isinstance(event_id, str):
            if event_id == self._last_event:
                self._host.ignored("duplicate", kind[:80])
                return
            self._last_event = event_id
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event)
        elif kind not in _SILENT_TYPES:
            self._host.ignored("unknown", kind[:80])

    # The caller.

    def _speech_started(self, message: JsonObject) -> None:
        if not self._caller.started(message):
            return
        service_cuts = self._settings.turn_detection.interrupt_response
        self._answers.caller_started(cuts=self._answering and service_cuts)
        self._host.caller_started(self._caller.started_at(message))

    def _speech_stopped(self, message: JsonObject) -> None:
        if not self._caller.stopped(message):
            return
        answers = self._answers
        answers.floor.caller_stopped(answered=self._answering)
        if not self._answering and not self._aside:
            answers.floor.wish = Wish()
        answers.respond()

    def _silence(self, message: JsonObject) -> None:
        """Note that the service speaks because the caller is silent."""
        self._caller.silent_turn(text_of(message, "item_id"))
        self._answers.floor.caller_stopped(answered=self._answering)

    # Trouble.

    def _error(self, message: JsonObject) -> None:
        error = object_of(message.get("error"))
        event_id = text_of(error, "event_id")
        told, about = trouble_of(error, self._key), self._outbox.refused(event_id)
        if not event_id:  # the service refuses a result without naming our message
            about = self._calls.refused_output(text_of(error, "message"))
        floor = self._answers.floor
        mine = bool(floor.requested) and event_id in ("", floor.requested)
        if told.meaning in ("auth", "quota", "refused"):
            self._host.failed(told.kind, told.reason)
        elif told.meaning == "expired":
            self._host.reconnect(told.reason)
        elif told.meaning == "busy":
            self._host.ignored("warning", told.reason)
            if mine:
                self._answers.refused_as_busy(told)
        elif not self._answers.ready and about in ("", "session"):
            self._not_accepted(told)
        elif mine and (event_id or told.meaning == "pace"):
            self._answers.failed(told, floor.refused(busy=False))
        elif about.startswith("output "):
            self._answers.output_refused(about.removeprefix("output "), told)
        else:
            self._host.ignored("warning", told.reason)

    def _not_accepted(self, told: Trouble) -> None:
        if told.meaning == "server":
            self._host.reconnect(told.reason)
        else:
            self._host.failed(told.kind, told.reason)
