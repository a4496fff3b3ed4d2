"""One page's websocket as the media of one call.

`BrowserMedia` is the engine's end of the protocol `cordboard.call.v1` (`browser.messages`): frames
of the page go straight to the call by a function call, `browser.playout` decides what is sent when.
The socket belongs to the admin port; it is a `PageLink` here.

A page that breaks the protocol is closed with a code that says why: what is malformed, out of
order, too large, too much, or claims more than was sent. Dead pages: a page sends its microphone
every 20 ms, muted or not, so `IDLE_SECONDS` without a frame is a lost page; one that reads nothing
for `STALLED_SECONDS`, or plays nothing of what it has, is given up too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import structlog

from cordboard.audio.format import FRAME_MS
from cordboard.audio.pacer import Pacer
from cordboard.telephony.browser import messages
from cordboard.telephony.browser.messages import (
    FORMATS,
    Flush,
    FormatName,
    HangupByPage,
    Hold,
    MarkDone,
    MarkHere,
    Message,
    Over,
    PageStats,
    Played,
    PressedKey,
    Ready,
    Resume,
    Violation,
)
from cordboard.telephony.browser.playout import AHEAD_SECONDS, PagePlayout
from cordboard.telephony.line_media import ArrivalMeter, LineMediaBase

log = structlog.get_logger()

IDLE_SECONDS = 10.0
STALLED_SECONDS = 4.0
"""A page on a bad network reads again within seconds, or is gone."""
MOST_WAITING_BYTES = 65_536
"""Bytes that may wait for a page that does not read: two seconds of slin16."""
NORMAL = 1000
"""Close code of RFC 6455."""


class PageLink(Protocol):
    """The websocket to the page. Its owner calls `received` and `gone` of the media."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the page has not taken yet."""

    def send(self, frame: str | bytes) -> None:
        """Queue a frame; returns at once."""

    def close(self, code: int, reason: str) -> None:
        """Close the socket, after the queued frames. Idempotent."""

    async def closed(self) -> None:
        """Wait until the socket is gone."""


class BrowserMedia(LineMediaBase):
    """The media of one call over one page's socket (implements `calls.offer.Media`)."""

    def __init__(
        self,
        link: PageLink,
        format_name: FormatName,
        pacer: Pacer,
        counts: Counter[str],
        *,
        ahead_seconds: float = AHEAD_SECONDS,
    ) -> None:
        """`counts` counts faults, by reason."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._format_name = format_name
        self.format = FORMATS[format_name]
        self._pacer = pacer
        self._counts = counts
        now = self._loop.time()
        self._playout = PagePlayout(self.format, self, now, ahead=ahead_seconds)
        self.idle_seconds = IDLE_SECONDS
        self._arrivals = ArrivalMeter(now)
        self._heard_at = now
        self._stalled_at: float | None = None
        self._frames = 0
        """Frames of any kind that have arrived."""
        self._seq = 0
        """Number of the next sound frame of the page."""
        self._sent_seq = 0
        self._ready = False
        self._stats: PageStats | None = None
        self.connected = True
        """False once the socket is gone or given up."""

    # For the source of the call.

    def claim(self, call_id: str) -> None:
        """Take it for a call: the page may send its microphone from now on."""
        self._ready = True
        self._heard_at = self._loop.time()
        self._pacer.register(self, self._pacer_failed)
        rate = self.format.rate
        ready = Ready(call=call_id, format=self._format_name, rate=rate, frame_ms=FRAME_MS)
        self._send(ready)

    def hang_up(self, reason: str, code: int = NORMAL) -> None:
        """Say goodbye to the page and close the socket. The first reason counts."""
        self._stop_sound()
        if self.connected:
            self._send(Over(reason=reason))
            self.connected = False
            self._link.close(code, reason)

    def send_keys(self, keys: str) -> None:
        """Show keys to the person at the page."""
        self._send(messages.ShowKeys(keys=keys))

    # For the owner of the socket.

    def received(self, frame: str | bytes) -> None:
        """Take a frame of the page."""
        if not self.connected:
            return  # frames after the end no longer count
        now = self._heard_at = self._loop.time()
        self._frames += 1
        if not self._arrivals.takes_messages(self._frames, now):
            self._fail("flood", messages.FLOOD, "frames come in a flood")
        elif isinstance(frame, str):
            self._text(frame, now)
        else:
            self._sound(frame, now)

    def gone(self, problem: str = "") -> None:
        """Note that the socket is gone, whichever side ended it. Empty: it was simply closed."""
        self.connected = False
        self._stop_sound()
        if self._stats is not None:
            output_ms, late = self._stats.output_ms, self._stats.late
            underruns = self._playout.underruns
            log.info("browser_page", output_ms=output_ms, late=late, underruns=underruns)
        if problem and self._in_use:
            self._counts["broken"] += 1
            log.warning("browser_call_broke", problem=problem)
        self.end("media_lost" if problem else "caller_hangup")

    # calls.offer.Media

    def write(self, pcm: bytes) -> None:
        if self._in_use:
            self._playout.write(pcm, self._loop.time())

    def mark(self, callback: Callable[[], None]) -> None:
        if self._in_use:
            self._playout.mark(callback, self._loop.time())

    def hold(self) -> None:
        if self._in_use:
            self._playout.hold(self._loop.time())

    def resume(self) -> None:
        if self._in_use:
            self._playout.resume(self._loop.time())

    def flush(self) -> int:
        if self._in_use:
            return self._playout.flush(self._loop.time())
        return self.heard_ms

    @property
    def heard_ms(self) -> int:
        return self._playout.heard_ms(self._loop.time())

    @property
    def queued_ms(self) -> int:
        return self._playout.queued_ms(self._loop.time()) if self._in_use else 0

    async def close(self) -> None:
        self._begin_closing()
        self.hang_up("hangup")
        await self._link.closed()

    # browser.playout.PageQueue

    def send_sound(self, at_ms: int, sound: bytes) -> None:
        self._link.send(messages.encode_sound(self._sent_seq, at_ms, sound))
        self._sent_seq += 1
        self._check_reading()

    def send_mark(self, name: int) -> None:
        self._send(MarkHere(name=name))

    def send_flush(self, flush: int) -> None:
        self._send(Flush(flush=flush))

    def send_hold(self) -> None:
        self._send(Hold())

    def send_resume(self) -> None:
        self._send(Resume())

    # audio.pacer.Outlet

    def tick(self, count: int) -> None:
        """Send what is due, and check that the page is alive."""
        now = self._loop.time()
        self._check_reading()
        if self._stalled_at is not None and now - self._stalled_at > STALLED_SECONDS:
            self._lose("stalled", f"the page has read nothing for {STALLED_SECONDS:g} s")
        elif now - self._heard_at > self.idle_seconds:
            self._lose("idle", f"no frame from the page for {self.idle_seconds:g} s")
        elif self._playout.stuck(now):
            self._lose("silent", "the page plays nothing of the sound that it has")
        else:
            self._playout.tick(now)
            if self._on_sent is not None:
                self._playout.show(now, count, self._on_sent)

    # Inside.

    def _sound(self, frame: bytes, now: float) -> None:
        sound = messages.decode_sound(frame, self._seq, self.format)
        if isinstance(sound, Violation):
            self._fail("protocol", sound.code, sound.problem)
        elif not self._ready:
            self._fail("early", messages.BAD_FRAME, "sound came before `ready`")
        elif not self._arrivals.takes_sound(FRAME_MS / 1000, now):
            self._fail("flood", messages.FLOOD, "sound comes faster than real time")
        else:
            self._seq += 1
            if self._on_audio is not None:
                self._on_audio(sound.pcm)

    def _text(self, text: str, now: float) -> None:
        message = messages.decode_text(text)
        problem = ""
        match message:
            case Violation():
                self._fail("protocol", message.code, message.problem)
            case Played():
                problem = self._playout.played(message, now)
            case MarkDone():
                problem = self._playout.mark_done(message.name, now)
            case PressedKey():
                if self._on_dtmf is not None:
                    self._on_dtmf(message.digit)
            case HangupByPage():
                self.hang_up("caller_hangup")
                self.end("caller_hangup")
            case PageStats():
                self._stats = message
        if problem:
            self._fail("untrue", messages.BAD_FRAME, problem)

    def _send(self, message: Message) -> None:
        if self.connected:
            self._link.send(message.model_dump_json())

    def _check_reading(self) -> None:
        if self._link.waiting_bytes > MOST_WAITING_BYTES:
            self._playout.blocked = True
            if self._stalled_at is None:
                self._stalled_at = self._loop.time()
        elif self._stalled_at is not None:
            self._playout.blocked, self._stalled_at = False, None

    def _lose(self, fault: str, problem: str) -> None:
        self._fail(fault, messages.SILENT, problem)

    def _fail(self, fault: str, code: int, problem: str) -> None:
        """Close the socket with this code, and end the call."""
        self._counts[fault] += 1
        log.warning("browser_call_broke", fault=fault, problem=problem)
        self._stop_sound()
        self.connected = False
        self._link.close(code, problem)
        self.end("media_lost")

    def _pacer_failed(self, error: Exception) -> None:
        self._fail("sending", 1011, f"sending failed: {error!r}")

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self._playout.stop()
