"""One call's connection to one of Deepgram's streaming recognisers.

Sound is sent as it arrives, in pieces of 80 ms (Deepgram's advice for Flux). A request for text is
answered from the service's results as soon as they reach far enough, or after a bounded wait with
the results so far. A lost connection is opened again and gets the sound that was not yet
understood; one that is lost during silence is opened again when there is sound.

A `ListenWire` writes and reads the messages; it holds no socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

import structlog

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.stt import (
    NO_HINTS,
    ListenedCall,
    SpeechHints,
    Transcript,
    TurnVerdict,
)
from cordboard.audio.vad import RATE
from cordboard.errors import FailureKind, RecogniserError
from cordboard.net.failures import connection_gone
from cordboard.net.service_websocket import Address, NotConnected, ServiceConnection
from cordboard.net.tls import trusted

log = structlog.get_logger()

CHUNK_BYTES = 2 * RATE * 80 // 1000
KEEP_BYTES = 2 * RATE * 20
"""Most sound that a new connection gets: 20 s."""
GOES_ON_SECONDS = 0.12
"""Seconds of waiting for the words of a voice that continues: the agent's speech is held
meanwhile."""
IDLE_SECONDS = 4.0
"""Seconds without sound after which a keep-alive is sent (the service waits for 10 s)."""
QUIET_SECONDS = 1.0
"""A connection that is lost after this many seconds without sound is not needed now."""
BACKOFF = (0.0, 0.25, 0.5, 1.0)
"""Seconds before each attempt to connect; after the last one the recogniser has failed."""
MOST_LOSSES, LOSSES_WITHIN = 5, 60.0
USAGE_SECONDS = 10.0
"""Seconds of sound after which usage is reported; also reported at each request for text."""
MALFORMED_MOST = 20
"""Malformed messages in a row after which the service counts as broken."""
_REFUSED_CODES = {1008: "refused"}
"""1008 (DATA-0000): the sound does not match its announced format; another connection does not
help."""


class ListenWire(Protocol):
    """The messages of one version of `listen`. Positions are samples at 8 kHz since the call
    began."""

    @property
    def covered(self) -> int: ...

    @property
    def problem(self) -> str: ...

    @property
    def keep_alive(self) -> bytes:
        """Return the keep-alive message; empty when there is none."""
        ...

    @property
    def patience(self) -> float:
        """Seconds within which an answer must arrive."""
        ...

    @property
    def tells_steadily(self) -> bool:
        """True if the service sends results for all sound, also without a request."""
        ...

    def connected(self, base: int) -> None: ...

    def read(self, message: bytes) -> bool: ...

    def ask(self, end: int) -> bytes:
        """Return the message that requests the text up to a sample; empty when none is needed."""
        ...

    def is_answered(self, end: int, number: int) -> bool:
        """True if the text up to a sample is complete. `number`: the number of the request on this
        connection (from 1); 0: it was not sent on the wire."""
        ...

    def text(self, begin: int, end: int) -> tuple[str, float]: ...

    def take_verdict(self) -> TurnVerdict | None:
        """Return the last message's verdict about the caller's turn."""
        ...


@dataclass(frozen=True, slots=True)
class ListenService:
    """The service's address and parameters."""

    provider: str
    """The part's type, as in the configuration."""
    model: str
    url: str
    """The address without its query."""
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str] = field(repr=False)
    connect_seconds: float
    tls: Callable[[], ssl.SSLContext] = trusted
    """Returns the TLS context. Blocks."""

    @property
    def address(self) -> Address:
        return Address(f"{self.url}?{urlencode(self.query)}", self.headers, max_message_bytes=2**20)


@dataclass(eq=False, slots=True)
class _Question:
    """A pending request for text."""

    end: int
    goes_on: bool
    answered: asyncio.Future[None]
    number: int = 0
    """Number of the request on the current connection; 0: it was not sent on the wire."""


class DeepgramListening:
    """Implements `agent_api.stt.Listening`."""

    def __init__(self, service: ListenService, wire: ListenWire, call: ListenedCall) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._wire = wire
        self._call = call
        self._connection: ServiceConnection | None = None
        self._up = asyncio.Event()
        """There is a connection, or there will be none."""
        self._failure: RecogniserError | None = None
        self._closed = False
        self._heard = 0
        """Samples heard since the call began."""
        self._kept = bytearray()
        """The last sound, starting with the part that is not yet understood."""
        self._unsent = 0
        """Bytes at the end of `_kept` that the connection has not received."""
        self._heard_at = self._loop.time()
        self._asked = 0
        """Number of requests for text on this connection."""
        self._questions: list[_Question] = []
        self._messages = 0
        self._malformed = 0
        self._losses: list[float] = []
        self._unpaid = 0
        """Samples sent and not yet reported as usage."""
        self._opening = self._loop.create_task(self._connect())
        self._idle = self._loop.call_later(IDLE_SECONDS, self._look_if_idle)

    def hear(self, pcm_8k: bytes) -> None:
        """See `Listening.hear`."""
        if self._closed or self._failure is not None:
            return
        self._heard += len(pcm_8k) // 2
        self._heard_at = self._loop.time()
        self._kept += pcm_8k
        self._unsent += len(pcm_8k)
        if self._connection is None:
            self._forget(len(self._kept) - KEEP_BYTES)
            self._connect_if_needed()
        elif self._unsent >= CHUNK_BYTES:
            self._send_sound()

    async def transcribe(
        self,
        pcm_8k: bytes,
        hints: SpeechHints = NO_HINTS,
        *,
        speculative: bool = False,
        goes_on: bool = False,
    ) -> Transcript:
        """See `Listening.transcribe`. Hints are not passed on: the service has heard the sound
        already."""
        began = self._loop.time()
        end = self._heard
        begin = end - len(pcm_8k) // 2
        question = _Question(end, goes_on, self._loop.create_future())
        self._questions.append(question)
        try:
            self._connect_if_needed()
            if self._connection is not None:
                self._put(question)
            await self._answer(question)
        finally:
            self._questions.remove(question)
            self._account()
        text, confidence = self._wire.text(begin, end)
        took_ms = (self._loop.time() - began) * 1000
        return Transcript(text, 0.0 if text else 1.0, confidence, took_ms)

    async def close(self) -> None:
        """See `Listening.close`."""
        if self._closed:
            return
        self._closed = True
        self._account()
        self._idle.cancel()
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.send_text(b'{"type":"CloseStream"}')
            await connection.close()

    # Requests for text.

    def _put(self, question: _Question) -> None:
        """Send the request on the wire, if that is needed."""
        self._send_sound()
        ask = b"" if question.goes_on else self._wire.ask(question.end)
        if ask and self._connection is not None:
            self._asked += 1
            question.number = self._asked
            self._connection.send_text(ask)
        self._look_at(question)

    async def _answer(self, question: _Question) -> None:
        """Wait until the text is complete, or for as long as that is useful. Raises
        `RecogniserError`."""
        patience = GOES_ON_SECONDS if question.goes_on else self._wire.patience
        reopened = False
        while True:
            await self._up.wait()
            if self._failure is not None:
                raise self._failure
            messages = self._messages
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await asyncio.shield(question.answered)
            if self._failure is not None:
                raise self._failure
            if question.answered.done():
                return
            if not self._up.is_set():
                continue  # lost meanwhile: another connection gets the sound again
            expected = question.number or self._wire.tells_steadily
            if question.goes_on or messages != self._messages or not expected:
                return  # with the text so far
            if reopened:
                reason = f"{self._service.provider} is connected and says nothing"
                raise RecogniserError(reason, "stalled")
            reopened = True
            self._lost(None, "it has fallen silent")

    def _look_at(self, question: _Question) -> None:
        if not question.answered.done() and self._wire.is_answered(question.end, question.number):
            question.answered.set_result(None)

    # The connection. Implements `service_websocket.Receiver`.

    def receive_text(self, message: bytes) -> None:
        wire = self._wire
        if not wire.read(message):
            self._malformed += 1
            log.warning("recogniser_message_malformed", call_id=self._call.call_id)
            if self._malformed >= MALFORMED_MOST:
                reason = f"{self._service.provider} sends malformed messages"
                self._fail(reason, "garbage")
            return
        self._malformed = 0
        self._messages += 1
        if wire.problem:
            self._lost(None, wire.problem)
            return
        self._forget((wire.covered - (self._heard - len(self._kept) // 2)) * 2)
        for question in self._questions:
            self._look_at(question)
        verdict = wire.take_verdict()
        if verdict is not None:
            self._call.verdict(verdict)

    def receive_binary(self, data: bytes) -> None:
        """Ignore it: no sound is expected."""

    def connection_lost(self, code: int | None, problem: str) -> None:
        if code in _REFUSED_CODES and not self._messages:
            self._fail(connection_gone(self._service.provider, code, problem), "refused")
        else:
            self._lost(code, problem)

    def _lost(self, code: int | None, problem: str) -> None:
        connection, self._connection = self._connection, None
        if connection is None or self._closed:
            return
        connection.abort()
        now = self._loop.time()
        quiet = now - self._heard_at > QUIET_SECONDS and not self._questions
        log.info("recogniser_lost", call_id=self._call.call_id, code=code, problem=problem)
        self._up.clear()
        if quiet:
            return
        self._losses = [at for at in self._losses if now - at < LOSSES_WITHIN] + [now]
        if len(self._losses) > MOST_LOSSES:
            reason = f"{self._service.provider} loses its connection again and again"
            self._fail(f"{reason}{f': {problem}' if problem else ''}", "dropped")
        else:
            self._connect_if_needed()

    def _connect_if_needed(self) -> None:
        if self._connection is None and self._opening.done() and self._failure is None:
            self._opening = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        """Connect within a few attempts, or fail for good."""
        try:
            tls = await asyncio.to_thread(self._service.tls)
            refused = NotConnected(f"{self._service.provider} closes each connection at once")
            for pause in BACKOFF:
                await asyncio.sleep(pause)
                connection = ServiceConnection(self._service.address, self._service.provider)
                try:
                    await connection.open(tls, self._service.connect_seconds)
                except NotConnected as error:
                    refused = error
                    if error.status is not None and error.status < 500 and error.status != 429:
                        break
                    continue
                if self._introduce(connection):
                    return
            self._fail(str(refused), refused.kind)
        except OSError as error:  # of the trusted certificates
            self._fail(f"the trusted certificates cannot be read: {error}", "internal")

    def _introduce(self, connection: ServiceConnection) -> bool:
        """Send a new connection the sound that is not yet understood, and repeat the requests. True
        if it is still open."""
        self._connection = connection
        self._asked = 0
        self._wire.connected(self._heard - len(self._kept) // 2)
        self._unsent = len(self._kept)
        self._messages = 0
        connection.take(self)
        if self._connection is not connection:
            return False
        self._up.set()
        self._send_sound()
        for question in self._questions:
            question.number = 0
            self._put(question)
        return True

    def _fail(self, reason: str, kind: FailureKind) -> None:
        if self._failure is not None or self._closed:
            return
        self._failure = RecogniserError(reason, kind)
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._up.set()
        for question in self._questions:
            if not question.answered.done():
                question.answered.set_result(None)
        self._call.failed(self._failure)

    # Sound.

    def _send_sound(self) -> None:
        connection = self._connection
        if connection is None or not self._unsent:
            return
        if not connection.congested:
            connection.send_binary(bytes(self._kept[len(self._kept) - self._unsent :]))
            self._unpaid += self._unsent // 2
            self._unsent = 0
        if self._unpaid >= USAGE_SECONDS * RATE:
            self._account()
        self._forget(len(self._kept) - KEEP_BYTES)

    def _forget(self, count: int) -> None:
        """Drop the first `count` bytes of the sound."""
        if count > 0:
            del self._kept[: min(count - count % 2, len(self._kept))]
            self._unsent = min(self._unsent, len(self._kept))

    def _look_if_idle(self) -> None:
        self._idle = self._loop.call_later(IDLE_SECONDS, self._look_if_idle)
        silent = self._loop.time() - self._heard_at >= IDLE_SECONDS
        if silent and self._connection is not None and self._wire.keep_alive:
            self._connection.send_text(self._wire.keep_alive)

    def _account(self) -> None:
        samples, self._unpaid = self._unpaid, 0
        if samples:
            amounts = {"seconds": samples / RATE}
            self._call.used(Usage(self._service.provider, self._service.model, amounts))
