"""One websocket to Asterisk's chan_websocket as the media of one call.

`connect` opens it; from MEDIA_START on it is used as `calls.offer.Media`. `websocket_messages`
defines the messages, `websocket_playout` decides when to send; the socket is
`cordboard.net.websocket`. Each arriving frame goes straight to the call by a function call.

Dead peers: a phone on hold or muted sends nothing, and then neither does Asterisk. The media
therefore requests Asterisk's status; `PeerTimes` limits the time until Asterisk sends anything at
all or reads what is sent.

An unreadable control message is counted and ignored: the audio does not need it. Invalid audio
ends the media: half a sample, more than real time allows, frames that are not websocket frames.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from cordboard.audio.format import AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.errors import MediaError
from cordboard.net.websocket import WebsocketConnection
from cordboard.telephony.asterisk import websocket_messages as messages
from cordboard.telephony.asterisk.websocket_messages import (
    Dtmf,
    Flow,
    Malformed,
    MarkProcessed,
    MediaStart,
    Refusal,
    Status,
)
from cordboard.telephony.asterisk.websocket_playout import AHEAD_SECONDS, RemotePlayout
from cordboard.telephony.line_media import ArrivalMeter, LineMediaBase

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PeerTimes:
    """Times of the check that Asterisk is alive, in seconds."""

    ask: float = 3.0
    """Interval of status requests."""
    answer: float = 10.0
    """Timeout after a request until any message at all."""
    stalled: float = 2.0
    """Timeout until Asterisk reads something while much is to be sent."""


class WebsocketMedia(LineMediaBase):
    """The media of one call over one connection (implements `media_path.LineMedia`)."""

    def __init__(
        self,
        connection: WebsocketConnection,
        audio_format: AudioFormat,
        pacer: Pacer,
        counts: Counter[str],
        *,
        ahead_seconds: float = AHEAD_SECONDS,
        times: PeerTimes = PeerTimes(),
    ) -> None:
        """`counts` counts errors, by reason."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self.format = audio_format
        self._pacer = pacer
        self._counts = counts
        self._times = times
        self._playout = RemotePlayout(audio_format, self, ahead_seconds=ahead_seconds)
        self._started: asyncio.Future[MediaStart] = self._loop.create_future()
        self._on_gone: Callable[[WebsocketMedia], None] | None = None
        self._heard_at = self._loop.time()
        self._arrivals = ArrivalMeter(self._heard_at)
        self._bytes_per_second = audio_format.bytes_per_ms * 1000
        self._asked_at: float | None = None
        """Start of the wait for an answer; None while no request is open."""
        self._ask_next_at = self._heard_at + times.ask
        self._questions: deque[bool] = deque()
        """Unanswered GET_STATUS: for each, whether it followed a pause that is still in force."""
        self._stalled_at: float | None = None
        self._full = False
        self._messages = 0

    # For the path and the line.

    async def connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> MediaStart:
        """Open the connection and wait for MEDIA_START, without a timeout. Raises MediaError."""
        try:
            await self._connection.open(self, host, port, tls)
        except OSError as error:
            self.failed("refused")
            raise MediaError(f"cannot connect to {host}:{port}: {error}") from error
        return await self._started

    @property
    def problem(self) -> str:
        """Fault of the connection, for the log; empty when there was none."""
        return self._connection.problem

    def on_gone(self, callback: Callable[[WebsocketMedia], None]) -> None:
        """Have `callback` called when the connection is gone, whichever side ended it."""
        self._on_gone = callback
        if not self._connection.connected:
            callback(self)

    def claim(self, on_lost: Callable[[str], None]) -> None:
        """Take it for a call. `on_lost(problem)` is called when it is lost."""
        self._on_lost = on_lost
        if self._connection.connected:
            self._pacer.register(self, self._pacer_failed)
        else:
            on_lost(self.problem)

    def take_key(self, key: str) -> None:
        """Do nothing: the websocket brings each key itself (DTMF_END)."""

    def abort(self) -> None:
        """Drop the connection at once."""
        self._pacer.unregister(self)
        self._connection.abort()

    # calls.offer.Media

    def write(self, pcm: bytes) -> None:
        if self._in_use:
            self._playout.write(pcm, self._loop.time())
            self._connection.transmit()

    def mark(self, callback: Callable[[], None]) -> None:
        if self._in_use:
            self._playout.mark(callback)

    def hold(self) -> None:
        self._playout.hold(self._loop.time())
        self._connection.transmit()

    def resume(self) -> None:
        self._playout.resume(self._loop.time())
        self._connection.transmit()

    def flush(self) -> int:
        heard_ms = self._playout.flush(self._loop.time())
        self._connection.transmit()
        return heard_ms

    @property
    def heard_ms(self) -> int:
        return self._playout.heard_ms(self._loop.time())

    @property
    def queued_ms(self) -> int:
        return self._playout.queued_ms(self._loop.time())

    async def close(self) -> None:
        self._begin_closing()
        self._stop_sound()
        await self._connection.close()

    # websocket_playout.AsteriskQueue

    def send_sound(self, frames: bytes) -> None:
        self._connection.send_sound(frames)

    def send_mark(self, mark: int) -> None:
        self._connection.send_text(messages.encode_mark(mark))

    def send_flush(self) -> None:
        self._connection.send_text(messages.encode_command("FLUSH_MEDIA"))

    def send_pause(self) -> None:
        self._connection.send_text(messages.encode_command("PAUSE_MEDIA"))
        self._ask(about_pause=True)

    def send_continue(self) -> None:
        self._connection.send_text(messages.encode_command("CONTINUE_MEDIA"))
        # Answers to open requests describe the state before.
        self._questions = deque(False for _ in self._questions)

    # audio.pacer.Outlet

    def tick(self, count: int) -> None:
        """Send what is due, and check that Asterisk is alive."""
        if not self._connection.sending:
            return
        now = self._loop.time()
        if self._stalled_at is not None and now - self._stalled_at > self._times.stalled:
            self._connection.fail(
                "stalled", f"Asterisk has read nothing for {self._times.stalled:g} s"
            )
        elif now - self._heard_at > self.idle_seconds:
            self._connection.fail("idle", f"no frame from Asterisk for {self.idle_seconds:g} s")
        elif self._asked_at is not None and now - self._asked_at > self._times.answer:
            self._connection.fail(
                "no_answer", f"Asterisk has not answered for {self._times.answer:g} s"
            )
        else:
            self._playout.tick(now)
            if now >= self._ask_next_at and not self._questions:
                self._ask(about_pause=False)
            self._connection.transmit()
            if self._on_sent is not None:
                self._playout.show(now, count, self._on_sent)

    # cordboard.net.websocket.ConnectionOwner

    def opened(self) -> None:
        """Do nothing: MEDIA_START is awaited now."""

    def text_received(self, text: bytes) -> None:
        now = self._loop.time()
        if not self._heard(now):
            return
        event = messages.decode(text)
        if isinstance(event, MarkProcessed):
            self._playout.processed(event.mark, now)
            self._connection.transmit()
        else:
            self._take(event)

    def sound_received(self, data: bytes) -> None:
        now = self._loop.time()
        if not self._heard(now):
            return
        if not self._started.done():
            self._connection.fail("no_media_start", "sound came before MEDIA_START")
            return
        if len(data) % self.format.bytes_per_sample:
            self._connection.fail(
                "half_sample", f"a frame of {len(data)} bytes ends in the middle of a sample"
            )
            return
        if not self._arrivals.takes_sound(len(data) / self._bytes_per_second, now):
            self._connection.fail("flood", "sound comes faster than real time")
        elif self._on_audio is not None and data:
            self._on_audio(data)

    def writable(self, yes: bool) -> None:
        self._stalled_at = None if yes else self._loop.time()
        self._block()

    def failed(self, reason: str) -> None:
        self._counts[reason] += 1

    def lost(self, problem: str) -> None:
        self._stop_sound()
        if not self._started.done():
            what = problem or "Asterisk closed the connection"
            self._started.set_exception(MediaError(f"no sound by websocket: {what}"))
            self._started.exception()  # retrieved: the waiter may be gone
        if self._on_gone is not None:
            self._on_gone(self)
        self._tell_lost(problem)

    # Inside.

    def _heard(self, now: float) -> bool:
        """Note a message; return False when they come in a flood."""
        self._heard_at = now
        self._asked_at = None
        self._messages += 1
        if self._arrivals.takes_messages(self._messages, now):
            return True
        self._connection.fail("flood", "messages come in a flood")
        return False

    def _take(self, event: messages.Event) -> None:
        match event:
            case Status():
                if self._questions and self._questions.popleft():
                    self._playout.paused(event.queue_frames)
            case Dtmf():
                if self._on_dtmf is not None:
                    self._on_dtmf(event.digit)
            case Flow():
                self._full = event.stop
                self._block()
            case MediaStart():
                if not self._started.done():
                    self._started.set_result(event)
            case Malformed():
                self.failed("malformed_message")
                log.warning("websocket_message_malformed", problem=event.problem)
            case Refusal():
                self.failed("command_refused")
                log.warning("websocket_command_refused", problem=event.problem)

    def _block(self) -> None:
        self._playout.blocked = self._full or self._stalled_at is not None

    def _ask(self, *, about_pause: bool) -> None:
        now = self._loop.time()
        self._questions.append(about_pause)
        self._ask_next_at = now + self._times.ask
        if self._asked_at is None:
            self._asked_at = now
        self._connection.send_text(messages.encode_command("GET_STATUS"))

    def _pacer_failed(self, error: Exception) -> None:
        self._connection.fail("sending", f"sending failed: {error!r}")

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self._playout.flush(self._loop.time())
        self._connection.transmit()
