"""OpenAI's voice over Realtime: a model that reads given words aloud, over kept websockets.

Each sentence is a response outside of the conversation, without any input (`conversation: none`,
`input: []`; openai 3.54, `types/realtime/realtime_response_create_params.py`), so none knows the
others. The model may say other words: its transcript is compared with the text, a difference is
logged, and that sound is not kept for the next time.
"""

from __future__ import annotations

import binascii
import re
import ssl
from collections.abc import AsyncGenerator, Callable

import structlog

from cordboard.agents.extra_settings import with_extra
from cordboard.agents.pipeline.kept_connections import KeptConnections, SpeakingConnection
from cordboard.agents.pipeline.pcm_stream import PcmStream, UlawStream
from cordboard.agents.pipeline.service_voice import PaidBy, Rendering
from cordboard.errors import FailureKind, VoiceError
from cordboard.net.service_websocket import NotConnected, ServiceConnection
from cordboard.net.tls import load_trusted
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.config import OpenAITts
from cordboard.vendors.openai.realtime import messages
from cordboard.vendors.openai.realtime.errors import Trouble, lost, trouble_of
from cordboard.vendors.openai.realtime.messages import object_of, text_of

log = structlog.get_logger()

PCM_RATE = 24000
TELEPHONE_RATE = 8000
MOST_CHARACTERS = 4096
LONGEST_USE = 55 * 60.0
"""Seconds after which a connection takes no more texts: a session lives for an hour."""
_SERVICE = "OpenAI's voice"
_PROMPT = "You read texts aloud on the telephone, word for word."
_MOST_MALFORMED = 20
_NOT_SPOKEN = re.compile(r"[\W_]+")


class _Mouthpiece(SpeakingConnection):
    """One connection, with one session."""

    def __init__(
        self, connection: ServiceConnection, rate: int, settings: OpenAITts, key: str
    ) -> None:
        super().__init__(connection, rate)
        self._settings = settings
        self._key = key
        self._use_until = self._loop.time() + LONGEST_USE
        self._rendering = Rendering(lambda _: None)
        self._text = ""
        self._response = ""
        """The response that speaks the text; empty until it has begun."""
        self._sounded = False
        self._malformed = 0
        self._handlers: dict[str, Callable[[JsonObject], None]] = {
            "response.created": self._begun,
            "response.output_audio.delta": self._sound,
            "response.output_audio_transcript.done": self._words,
            "response.done": self._done,
            "error": self._error,
        }
        self._send({"type": "session.update", "session": session_of(settings, rate)}, "session")
        connection.take(self)

    @property
    def usable(self) -> bool:
        return super().usable and self._loop.time() < self._use_until

    def render(self, text: str, rendering: Rendering) -> AsyncGenerator[bytes, None]:
        """Yield the sound of a text as it arrives. Raises `VoiceError`."""
        self._text, self._rendering = text[:MOST_CHARACTERS], rendering
        return self.speak(self._text)

    def _request(self, text: str) -> None:
        self._response, self._sounded = "", False
        spoken = messages.verbatim(text)
        if self._settings.instructions:
            spoken["instructions"] = f"{self._settings.instructions}\n\n{spoken['instructions']}"
        aside = {"conversation": "none", "input": [], "output_modalities": ["audio"], **spoken}
        self._send({"type": "response.create", "response": aside}, "response")

    def _take_back(self) -> None:
        if self._response:
            self._send({"type": "response.cancel", "response_id": self._response}, "cancel")

    def _send(self, message: JsonObject, event_id: str) -> None:
        self._connection.send_text(messages.encoded({**message, "event_id": event_id}))

    # service_websocket.Receiver

    def receive_binary(self, data: bytes) -> None:
        """Ignore it: the service sends texts."""

    def receive_text(self, message: bytes) -> None:
        read = messages.json_object(message)
        if read is None:
            self._malformed += 1
            if self._malformed >= _MOST_MALFORMED:
                self._fail(f"{_SERVICE} sends malformed messages", "garbage")
            return
        handler = self._handlers.get(text_of(read, "type"))
        if handler is not None:
            handler(read)
            self._news.set()

    def connection_lost(self, code: int | None, problem: str) -> None:
        told = lost(None, code, problem, self._key)
        self._fail(told.reason, told.kind)

    # The response.

    def _begun(self, event: JsonObject) -> None:
        self._response = text_of(object_of(event.get("response")), "id")
        if self._clearing:
            self._take_back()

    def _sound(self, event: JsonObject) -> None:
        try:
            sound = binascii.a2b_base64(text_of(event, "delta"))
        except ValueError:
            return
        if text_of(event, "response_id") == self._response:
            self._sounded = True
            self._heard(sound)

    def _words(self, event: JsonObject) -> None:
        said = text_of(event, "transcript")
        if self._clearing or not said or _letters(said) == _letters(self._text):
            return
        self._rendering.exact = False
        text, said = self._text[:200], said[:200]
        log.warning("voice_said_other_words", provider="openai", text=text, said=said)

    def _done(self, event: JsonObject) -> None:
        response = object_of(event.get("response"))
        amounts = messages.usage_amounts(object_of(response.get("usage")))
        if amounts:
            self._rendering.used(amounts)
        if self._clearing:
            self._clearing = False
            return
        status = text_of(response, "status")
        details = object_of(response.get("status_details"))
        if status == "failed":
            self._refused(trouble_of(object_of(details.get("error")), self._key))
        elif status == "completed" and self._sounded:
            self._spoken = True
        else:
            self._fail(f"{_SERVICE} was {status[:20]} without all its sound", "dropped")

    def _error(self, event: JsonObject) -> None:
        error = object_of(event.get("error"))
        told = trouble_of(error, self._key)
        ours = text_of(error, "event_id") in ("session", "response")
        if told.meaning != "harmless":
            self._refused(told)
        elif ours:
            self._fail(told.reason, "refused")

    def _refused(self, told: Trouble) -> None:
        passing: dict[str, FailureKind] = {"server": "dropped", "expired": "dropped"}
        self._fail(told.reason, passing.get(told.meaning, told.kind))


class RealtimeSynthesis:
    """Implements `ReportingSynthesis`."""

    paid_by: PaidBy = "tokens"

    def __init__(self, settings: OpenAITts, key: str) -> None:
        self._settings = settings
        self._key = key
        self.provider = settings.type
        self.model = settings.chosen_model
        self._tls: ssl.SSLContext | None = None
        self._kept = KeptConnections(self._connected)

    def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`."""
        return self.render(text, rate, Rendering(lambda _: None))

    def render(self, text: str, rate: int, rendering: Rendering) -> AsyncGenerator[bytes, None]:
        """See `ReportingSynthesis.render`."""
        telephone = rate == TELEPHONE_RATE
        return self._kept.spoken(
            TELEPHONE_RATE if telephone else PCM_RATE,
            lambda mouth: mouth.render(text, rendering),
            UlawStream() if telephone else PcmStream(PCM_RATE, rate),
        )

    async def close(self) -> None:
        """Close the idle connections now, and the speaking ones when they have finished."""
        await self._kept.close()

    async def _connected(self, rate: int) -> _Mouthpiece:
        if self._tls is None:
            self._tls = await load_trusted()
        address = messages.address_of(self._settings, self.model, self._key)
        connection = ServiceConnection(address, _SERVICE)
        try:
            await connection.open(self._tls, self._settings.connect_timeout_ms / 1000)
        except NotConnected as error:
            raise VoiceError(str(error), error.kind) from error
        return _Mouthpiece(connection, rate, self._settings, self._key)


def session_of(settings: OpenAITts, rate: int) -> JsonObject:
    """Return the session for `session.update`: it hears nothing; 8 kHz as u-law."""
    own = settings.voice.startswith("voice_")
    telephone = rate == TELEPHONE_RATE
    output: JsonObject = {
        "format": {"type": "audio/pcmu"} if telephone else {"type": "audio/pcm", "rate": PCM_RATE},
        "voice": {"id": settings.voice} if own else settings.voice,
        "speed": settings.speed,
    }
    session: JsonObject = {
        "type": "realtime",
        "output_modalities": ["audio"],
        "instructions": _PROMPT,
        "audio": {"input": {"turn_detection": None}, "output": output},
    }
    return with_extra(session, settings.extra)


def _letters(text: str) -> str:
    """Return the letters and figures of a text, to compare it with what was said."""
    return _NOT_SPOKEN.sub("", text).casefold()
