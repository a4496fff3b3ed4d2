"""Deepgram's speech synthesis, `/v1/speak`: texts in, raw sound out, over kept connections.

A text that is given up is cancelled with `Clear`, which the service answers with `Cleared`.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncGenerator
from urllib.parse import urlencode

from cordboard.agents.pipeline.kept_connections import KeptConnections, SpeakingConnection
from cordboard.agents.pipeline.pcm_stream import PcmStream
from cordboard.agents.pipeline.service_voice import PaidBy, ServiceVoice
from cordboard.errors import VoiceError
from cordboard.net.failures import connection_gone
from cordboard.net.service_websocket import (
    Address,
    NotConnected,
    ServiceConnection,
    websocket_url,
)
from cordboard.net.tls import load_trusted
from cordboard.vendors.deepgram import tts_wire as wire
from cordboard.vendors.deepgram.config import DeepgramTts
from cordboard.vendors.deepgram.stt import further
from cordboard.vendors.deepgram.tts_wire import Told

BASE_URL = "wss://api.deepgram.com"
RATES = (8000, 16000, 24000, 32000, 48000)
"""Sample rates of the service; other rates are converted from the next higher one."""
MOST_CHARACTERS = 2000
"""Most characters of one Speak message (Deepgram's limit)."""
FLUSHES, FLUSHES_WITHIN = 18, 60.0
"""Flushes of one connection, within seconds: the service allows 20 in 60 s; then another connection
is used."""
_SERVICE = "Deepgram's speech synthesis"
_MOST_MALFORMED = 20


class _Mouthpiece(SpeakingConnection):
    """One connection."""

    def __init__(self, connection: ServiceConnection, rate: int) -> None:
        super().__init__(connection, rate)
        self._malformed = 0
        self._flushes: deque[float] = deque(maxlen=FLUSHES)
        connection.take(self)

    @property
    def usable(self) -> bool:
        flushes = self._flushes
        rested = len(flushes) < FLUSHES or self._loop.time() - flushes[0] > FLUSHES_WITHIN
        return super().usable and rested

    def _request(self, text: str) -> None:
        self._flushes.append(self._loop.time())
        for start in range(0, len(text), MOST_CHARACTERS):
            speak, flush = wire.speak_messages(text[start : start + MOST_CHARACTERS])
            self._connection.send_text(speak)
        self._connection.send_text(flush)

    def _take_back(self) -> None:
        self._connection.send_text(wire.CLEAR)

    async def close(self) -> None:
        if self._connection.alive:
            self._connection.send_text(wire.CLOSE)
        await super().close()

    def receive_text(self, message: bytes) -> None:
        told, words = wire.read(message)
        match told:
            case Told.FLUSHED if not self._clearing:
                self._spoken = True
            case Told.CLEARED:
                self._clearing = False
            case Told.REFUSED:
                self._fail(f"{_SERVICE}: {words}", "refused")
            case Told.BUSY if not self._clearing:
                self._fail(f"{_SERVICE}: {words}", "quota")
            case Told.MALFORMED:
                self._malformed += 1
                if self._malformed >= _MOST_MALFORMED:
                    self._fail(f"{_SERVICE} sends malformed messages", "garbage")
        self._news.set()

    def receive_binary(self, data: bytes) -> None:
        self._heard(data)

    def connection_lost(self, code: int | None, problem: str) -> None:
        refused = code in (1007, 1008)
        reason = connection_gone(_SERVICE, code, problem)
        self._fail(reason, "refused" if refused else "dropped")


class DeepgramSynthesis:
    """Implements `Synthesis`."""

    paid_by: PaidBy = "characters"

    def __init__(self, settings: DeepgramTts, key: str) -> None:
        self._settings = settings
        self.provider = settings.type
        self.model = settings.model
        self._headers = settings.request_headers(key)
        self._tls: ssl.SSLContext | None = None
        self._kept = KeptConnections(self._connected)

    def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`."""
        source_rate = next((made for made in RATES if made >= rate), RATES[-1])
        sound = PcmStream(source_rate, rate)
        return self._kept.spoken(source_rate, lambda mouth: mouth.speak(text), sound)

    async def close(self) -> None:
        """Close the idle connections now, and the speaking ones when they have finished."""
        await self._kept.close()

    def address(self, rate: int) -> Address:
        """Return the address to connect to."""
        settings = self._settings
        query = [("model", settings.model), ("encoding", "linear16"), ("sample_rate", str(rate))]
        if settings.speed is not None:
            query.append(("speed", str(settings.speed)))
        if settings.mip_opt_out:
            query.append(("mip_opt_out", "true"))
        query += further(settings.extra)
        url = websocket_url(settings.base_url or BASE_URL, "/v1/speak")
        return Address(f"{url}?{urlencode(query)}", self._headers, max_message_bytes=2**20)

    async def _connected(self, rate: int) -> _Mouthpiece:
        if self._tls is None:
            self._tls = await load_trusted()
        connection = ServiceConnection(self.address(rate), _SERVICE)
        try:
            await connection.open(self._tls, self._settings.connect_timeout_ms / 1000)
        except NotConnected as error:
            raise VoiceError(str(error), error.kind) from error
        return _Mouthpiece(connection, rate)


def deepgram_voice(settings: DeepgramTts, key: str) -> ServiceVoice:
    """The voice, for all calls."""
    return ServiceVoice(DeepgramSynthesis(settings, key))
