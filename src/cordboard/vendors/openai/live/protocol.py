"""OpenAI Live as a `ServiceProtocol`: G.711 both ways, tools by a delegated Responses model.

The model talks and decides when to delegate a task; a model of Responses, run by OpenAI within the
session, does it and calls our tools. `turns` finds turns and answers, `delegations` follows the
tasks. Protocol: openai 3.54, `types/live`; behaviour as pydantic-ai has recorded it
(`realtime/openai_live.py`, 2026-10).
"""

from __future__ import annotations

import binascii
import time
from collections.abc import Callable, Iterator

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.extra_settings import with_extra
from cordboard.agents.realtime.typed_message import typed_message
from cordboard.audio.format import ALAW_8K, ULAW_8K, AudioFormat
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import as_payload
from cordboard.tools.tool import JsonObject, ToolReply
from cordboard.vendors.openai.config import OpenAILiveProvider
from cordboard.vendors.openai.limits import REALTIME_PAYLOAD
from cordboard.vendors.openai.live.delegations import Delegations
from cordboard.vendors.openai.live.turns import LiveTurns
from cordboard.vendors.openai.realtime import messages
from cordboard.vendors.openai.realtime.errors import lost, trouble_of
from cordboard.vendors.openai.realtime.messages import ms_of, object_of, text_of

MAX_HISTORY = 128
"""Messages that a session takes at its start."""
MOST_HISTORY_CHARACTERS = 8_000
"""A session takes 8,192 tokens of history, and some scripts need a token for each character."""
MOST_CONTEXT_BYTES = 500
"""UTF-8 bytes of one piece of context that is added later: the service takes 500 tokens (openai
3.54, `types/live/commentary_append_event.py`), and a token is at least one byte."""
_RENEW_BEFORE = 5 * 60
_APPEND = b'{"type":"session.input_audio.append","audio":"%b"}'
_FORMATS = {"ulaw": "audio/pcmu", "alaw": "audio/pcma"}
_DELEGATE = (
    "Delegate each task for which you lack information or a tool, and pass on what comes back. "
    "Keep your sentences short: this is a telephone call."
)
_OWED = "The caller waits for an answer to their last words: give it now."
_SILENT_TYPES = frozenset(
    {
        *("session.updated", "session.commentary.appended", "session.thinking.appended"),
        *("session.instructions.appended", "session.input_audio.muted", "info"),
        "session.input_audio.unmuted",
    }
)
"""Messages that are ignored."""


class OpenAILiveProtocol:
    """One call's side of the protocol."""

    payload = REALTIME_PAYLOAD

    def __init__(self, settings: OpenAILiveProvider, key: str) -> None:
        self._settings = settings
        self._key = key
        self._session: AgentSession
        self._delegations = Delegations(settings.delegation.model)

    # The connection.

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (ULAW_8K, ALAW_8K)

    @property
    def speaks_greeting(self) -> bool:
        return self._settings.greeting == "provider"

    @property
    def keep_alive_s(self) -> float:
        return 0.0  # there is always sound

    def keep_alive(self) -> None:
        """Do nothing: there is always sound."""

    def goodbye(self) -> None:
        self._send({"type": "session.close"})

    async def address(self) -> Address:
        base = (self._settings.base_url or messages.BASE_URL).rstrip("/")
        url = f"ws{base.removeprefix('http')}/live/sessions"
        return Address(url, self._settings.request_headers(self._key))

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._session, self._host, self._resumed = session, host, resumed
        self._ready = False
        self._seconds = 0.0
        """Seconds of the session that have been reported."""
        self._renew_ms = float("inf")
        self._turns = LiveTurns(host, session.format)
        self._delegations.connect(host, self._send)
        self._handlers: dict[str, Callable[[JsonObject], None]] = {
            "session.started": self._started,
            "session.output_audio.delta": self._sound,
            "session.output_transcript.delta": self._agent_words,
            "session.input_transcript.delta": self._caller_words,
            "session.delegation.created": self._delegations.created,
            "response.event": self._delegations.event,
            "session.usage.updated": self._used,
            "session.closed": self._closed,
            "error": self._error,
        }
        history = session.history if resumed is None else resumed.history
        greeted = session.greeting and not history and not self.speaks_greeting
        said = [Said("agent", session.greeting)] if greeted else list(history)
        self._send({"type": "session.start", "session": self._session_object(session, said)})

    def _session_object(self, session: AgentSession, said: list[Said]) -> JsonObject:
        settings = self._settings
        own = settings.voice.startswith("voice_")
        whole: JsonObject = {
            "model": settings.model,
            "instructions": f"{session.prompt}\n\n{settings.instructions or _DELEGATE}",
            "audio": {
                "format": {"type": _FORMATS[session.format.encoding], "rate": 8000},
                "output": {"voice": {"id": settings.voice} if own else settings.voice},
            },
            "input": _history(said),
            "delegation": {
                "type": "responses",
                "responses": {
                    "instructions": messages.instructions(session),
                    "tools": messages.declared_tools(session),
                    **settings.delegation.model_dump(mode="json", exclude_none=True),
                },
            },
        }
        return with_extra(whole, settings.extra)

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        return lost(status, code, problem, self._key)

    def _started(self, message: JsonObject) -> None:
        if self._ready:
            self._host.ignored("duplicate", "session.started")
            return
        self._ready = True
        ends_at = object_of(message.get("session")).get("expires_at")
        if isinstance(ends_at, (int, float)) and not isinstance(ends_at, bool):
            seconds = ends_at - time.time() - _RENEW_BEFORE
            if seconds > _RENEW_BEFORE:  # otherwise the two clocks differ
                self._renew_ms = seconds * 1000
        self._host.ready()
        resumed, session = self._resumed, self._session
        owed = resumed is None or resumed.owes_answer
        if session.greeting and self.speaks_greeting and owed and not self._history_known:
            self._add(f"Greet the caller now, with exactly these words:\n\n{session.greeting}")
        elif resumed is not None and resumed.owes_answer and not self._delegations.unanswered:
            self._add(_OWED)

    @property
    def _history_known(self) -> bool:
        resumed = self._resumed
        return bool(self._session.history if resumed is None else resumed.history)

    # To the service.

    def _send(self, message: JsonObject) -> None:
        self._host.send_text(messages.encoded(message))

    def _add(self, text: str, kind: str = "session.commentary.append") -> None:
        """Give the model a text to speak about, a long one in several pieces."""
        for piece in _pieces(text):
            self._send({"type": kind, "delegation_id": None, "content": piece})

    def hear(self, sound: bytes) -> None:
        self._host.send_text(_APPEND % binascii.b2a_base64(sound, newline=False))
        self._turns.sent(len(sound))
        self._turns.working = self._delegations.look(self._turns.sent_ms)
        if self._turns.sent_ms >= self._renew_ms and not self._busy:
            self._renew_ms = float("inf")
            self._host.reconnect("the session is near its end")

    @property
    def _busy(self) -> bool:
        return bool(self._turns.answering or self._turns.working or self._session.speaking())

    def answer_tool(self, reply: ToolReply) -> None:
        output = messages.encoded(as_payload(reply)).decode()
        if not self._delegations.answered(reply.ask_id, output):
            # Its connection is gone, and the new one's model does not know the call.
            self._add(f"[What the tool {reply.name} has answered:] {output}")

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """Do nothing: the model hears itself being interrupted, and takes no positions."""

    def speak(self, speech: Speech) -> bool:
        return False  # it cannot be held to given words, and does not say when it begins them

    def inform(self, text: str) -> bool:
        if not self._ready or self._busy:
            return False
        self._add(f"Tell the caller now: {text}")
        return True

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        if not self._ready:
            return False
        self._add(text, "session.instructions.append")
        return True

    def listen_aside(self, on: bool) -> bool:
        return False  # it transcribes only what it may answer

    # From the service.

    def receive_binary(self, data: bytes) -> None:
        self._host.ignored("unknown", "a binary message")

    def receive_text(self, message: bytes) -> None:
        read = typed_message(message, self._host)
        if read is None:
            return
        kind, event = read
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event)
            self._turns.working = self._delegations.open
        elif kind not in _SILENT_TYPES:
            self._host.ignored("unknown", kind[:80])

    def _sound(self, message: JsonObject) -> None:
        try:
            sound = binascii.a2b_base64(text_of(message, "delta"))
        except ValueError:
            sound = b""
        if sound:
            self._turns.sound(sound)
        else:
            self._host.ignored("malformed", "session.output_audio.delta")

    def _agent_words(self, message: JsonObject) -> None:
        if delta := text_of(message, "delta"):
            self._turns.agent_words(delta)

    def _caller_words(self, message: JsonObject) -> None:
        start, end = ms_of(message, "start_ms"), ms_of(message, "end_ms")
        delta = text_of(message, "delta")
        if not delta or start is None or end is None:
            self._host.ignored("malformed", "session.input_transcript.delta")
            return
        self._turns.caller_words(delta, start, end)

    def _used(self, message: JsonObject) -> None:
        """Report the seconds since the last report: the service states the session's sum."""
        seconds = object_of(message.get("usage")).get("seconds")
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            more = seconds - self._seconds
            if 0 < more < 1e6:
                self._seconds = seconds
                self._host.used(self._settings.model, {"seconds": more})

    def _closed(self, message: JsonObject) -> None:
        self._used(message)
        reason = text_of(message, "reason")
        if reason in ("expired", "connection_lost"):
            self._host.reconnect(f"OpenAI closed the session: {reason}")
        elif reason == "content":
            self._host.failed("refused", "OpenAI closed the session: its safety filter")
        else:
            self._host.ended(f"OpenAI closed the session: {reason[:40]}")

    def _error(self, message: JsonObject) -> None:
        error = object_of(message.get("error"))
        told = trouble_of(error, self._key)
        words = text_of(error, "message")
        backend = f"`{self._settings.delegation.model}`" in words
        if told.meaning in ("auth", "quota", "refused") or backend:
            self._host.failed(told.kind, told.reason)
        elif told.meaning == "expired":
            self._host.reconnect(told.reason)
        elif not self._ready:
            self._host.failed(told.kind, told.reason)
        else:
            self._host.ignored("warning", told.reason)
            self._delegations.refused(words)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces that the service takes, cut at spaces where there are any."""
    left = text.encode("utf-8", "replace")
    while len(left) > MOST_CONTEXT_BYTES:
        cut = left.rfind(b" ", 1, MOST_CONTEXT_BYTES + 1)
        if cut < 0:
            cut = MOST_CONTEXT_BYTES
            while left[cut] & 0xC0 == 0x80:  # in the middle of a character
                cut -= 1
        yield left[:cut].decode()
        left = left[cut:]
    yield left.decode()


def _history(said: list[Said]) -> list[JsonObject]:
    """Return the last sentences that a session takes at its start."""
    items: list[JsonObject] = []
    room = MOST_HISTORY_CHARACTERS
    for one in reversed(said[-MAX_HISTORY:]):
        text = one.text.strip()
        room -= len(text)
        if room < 0:
            break
        if text:
            caller = one.who == "caller"
            kind = "input_text" if caller else "output_text"
            role = "user" if caller else "assistant"
            items.append({"role": role, "content": [{"type": kind, "text": text}]})
    return items[::-1]
