"""Deepgram's speech synthesis, `/v1/speak`: texts in, raw sound out, over kept connections.

A connection speaks one text at a time. A text that is given up is cancelled with `Clear`; the
connection is used again when the service has answered `Cleared`. So the calls share a few
connections, and a sentence need not wait for a handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from urllib.parse import urlencode

from cordboard.agents.pipeline.pcm_stream import PcmStream
from cordboard.agents.pipeline.service_voice import PaidBy, ServiceVoice
from cordboard.errors import FailureKind, VoiceError
from cordboard.net.failures import kind_of_status
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
MOST_IDLE = 8
IDLE_SECONDS = 50.0
"""Seconds for which an unused connection is kept."""
_MOST_MALFORMED = 20


class _Mouthpiece:
    """One connection. Implements `service_websocket.Receiver`."""

    def __init__(self, connection: ServiceConnection, source_rate: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self.source_rate = source_rate
        self._pieces: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._flushed = False
        self._clearing = False
        self._problem: VoiceError | None = None
        self._malformed = 0
        self._flushes: deque[float] = deque(maxlen=FLUSHES)
        self.idle_since = self._loop.time()
        connection.take(self)

    @property
    def usable(self) -> bool:
        """True if it can take the next text."""
        if self._problem is not None or not self._connection.alive or self._clearing:
            return False
        flushes = self._flushes
        return len(flushes) < FLUSHES or self._loop.time() - flushes[0] > FLUSHES_WITHIN

    @property
    def lives(self) -> bool:
        return self._problem is None and self._connection.alive

    async def speak(self, text: str) -> AsyncGenerator[bytes, None]:
        """Yield the sound of a text as it arrives. Raises `VoiceError`."""
        self._pieces.clear()
        self._flushed = False
        self._flushes.append(self._loop.time())
        for start in range(0, len(text), MOST_CHARACTERS):
            speak, flush = wire.speak_messages(text[start : start + MOST_CHARACTERS])
            self._connection.send_text(speak)
        self._connection.send_text(flush)
        try:
            while True:
                while self._pieces:
                    yield self._pieces.popleft()
                if self._flushed:
                    return
                if self._problem is not None:
                    raise self._problem
                self._news.clear()
                await self._news.wait()
        finally:
            self.idle_since = self._loop.time()
            if not self._flushed and self.lives:
                self._clearing = True
                self._connection.send_text(wire.CLEAR)

    async def close(self) -> None:
        if self._connection.alive:
            self._connection.send_text(wire.CLOSE)
        await self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    def receive_text(self, message: bytes) -> None:
        told, words = wire.read(message)
        match told:
            case Told.FLUSHED if not self._clearing:
                self._flushed = True
            case Told.CLEARED:
                self._clearing = False
            case Told.REFUSED:
                self._fail(f"the service says: {words}", "refused")
            case Told.BUSY if not self._clearing:
                self._fail(f"the service says: {words}", "quota")
            case Told.MALFORMED:
                self._malformed += 1
                if self._malformed >= _MOST_MALFORMED:
                    self._fail("sends malformed messages", "garbage")
        self._news.set()

    def receive_binary(self, data: bytes) -> None:
        if not self._clearing:
            self._pieces.append(data)
            self._news.set()

    def connection_lost(self, code: int | None, problem: str) -> None:
        refused = code in (1007, 1008)
        self._fail(problem, "refused" if refused else "dropped")

    def _fail(self, problem: str, kind: FailureKind) -> None:
        if self._problem is None:
            self._problem = VoiceError(f"Deepgram's speech synthesis: {problem}", kind)
            self._connection.abort()
        self._news.set()


class DeepgramSynthesis:
    """Implements `Synthesis`."""

    paid_by: PaidBy = "characters"

    def __init__(self, settings: DeepgramTts, key: str) -> None:
        self._settings = settings
        self.provider = settings.type
        self.model = settings.model
        self._headers = settings.request_headers(key)
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Mouthpiece] = []
        self._look: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def speak(self, text: str, rate: int) -> AsyncGenerator[bytes, None]:
        """See `Synthesis.speak`."""
        source_rate = next((made for made in RATES if made >= rate), RATES[-1])
        mouthpiece = self._taken(source_rate) or await self._connected(source_rate)
        sound = PcmStream(source_rate, rate)
        spoken = mouthpiece.speak(text)
        try:
            async for piece in spoken:
                yield sound.feed(piece)
            yield sound.flush()
        finally:
            await spoken.aclose()
            self._give_back(mouthpiece)

    async def close(self) -> None:
        """Close the idle connections now, and the speaking ones when they have finished."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(mouthpiece.close() for mouthpiece in idle), *self._closing)

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

    # Connections.

    def _taken(self, rate: int) -> _Mouthpiece | None:
        """Return the most recently used connection, so that unneeded ones can expire."""
        for mouthpiece in reversed(self._idle):
            if mouthpiece.source_rate == rate and mouthpiece.usable:
                self._idle.remove(mouthpiece)
                return mouthpiece
        return None

    async def _connected(self, rate: int) -> _Mouthpiece:
        if self._tls is None:
            self._tls = await load_trusted()
        connection = ServiceConnection(self.address(rate), "Deepgram's speech synthesis")
        try:
            await connection.open(self._tls, self._settings.connect_timeout_ms / 1000)
        except NotConnected as error:
            kind = "connect" if error.status is None else kind_of_status(error.status)
            raise VoiceError(error.problem, kind) from error
        return _Mouthpiece(connection, rate)

    def _give_back(self, mouthpiece: _Mouthpiece) -> None:
        if not mouthpiece.lives:
            mouthpiece.abort()
        elif self._closed or len(self._idle) >= MOST_IDLE:
            self._drop(mouthpiece)
        else:
            self._idle.append(mouthpiece)
            if self._look is None:
                self._look = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_old)

    def _drop(self, mouthpiece: _Mouthpiece) -> None:
        task = asyncio.get_running_loop().create_task(mouthpiece.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _drop_old(self) -> None:
        self._look = None
        loop = asyncio.get_running_loop()
        kept: list[_Mouthpiece] = []
        for mouthpiece in self._idle:
            if mouthpiece.lives and loop.time() - mouthpiece.idle_since < IDLE_SECONDS:
                kept.append(mouthpiece)
            else:
                self._drop(mouthpiece)
        self._idle = kept
        if kept:
            self._look = loop.call_later(IDLE_SECONDS, self._drop_old)


def deepgram_voice(settings: DeepgramTts, key: str) -> ServiceVoice:
    """The voice, for all calls."""
    return ServiceVoice(DeepgramSynthesis(settings, key))
