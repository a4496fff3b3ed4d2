"""Outgoing audio of a call whose playout clock is the page's. No I/O; the time is passed in.

Sound is sent ahead, at most `AHEAD_SECONDS` of it, and the page reports how much of it has left the
loudspeaker. Between two reports the clock counts, but only while the page plays, no further than
`COUNTED_SECONDS` and never past what was sent: what the page has not played is not heard.

A page that holds or drops its sound reports at once how far it came. So the position is exact to
the sample when a held sentence is taken back (a barge-in); without a hold before it, a flush counts
up to the estimate of that moment, which is late by the network's delay at most.

Each flush begins a new count: the page's reports name the flush that they count from, and reports
from before the last one are ignored. A report that cannot be true is returned as a problem.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from cordboard.audio.format import AudioFormat
from cordboard.telephony.browser.messages import Played
from cordboard.telephony.outgoing import HeardFrames

AHEAD_SECONDS = 5.0
"""A stall of the engine or of the network up to this length is not heard."""
COUNTED_SECONDS = 0.2
"""Two intervals of the page's reports: later ones show that it is stuck."""
STUCK_SECONDS = 5.0
LEAST_SECONDS = 1.0
"""A page that has sound plays at least so much of it within `STUCK_SECONDS`, or is given up."""
_REST_SECONDS = 0.04
"""Wait of an incomplete frame for more audio."""


class PageQueue(Protocol):
    """The connection to the page's queue. Messages arrive in the order of the calls."""

    def send_sound(self, at_ms: int, sound: bytes) -> None:
        """`at_ms`: position of its beginning, counted from the last flush."""

    def send_mark(self, name: int) -> None: ...

    def send_flush(self, flush: int) -> None: ...

    def send_hold(self) -> None: ...

    def send_resume(self) -> None: ...


class PagePlayout:
    """The written audio: how much of it the page has, and how much the caller has heard.

    Positions are bytes, counted from the last flush.
    """

    def __init__(
        self,
        audio_format: AudioFormat,
        page: PageQueue,
        now: float,
        *,
        ahead: float = AHEAD_SECONDS,
    ) -> None:
        self._page = page
        self._format = audio_format
        self._frame_bytes = audio_format.frame_bytes
        self._bytes_per_ms = audio_format.bytes_per_ms
        self._ahead = audio_format.bytes_for(ahead * 1000)
        self._least = audio_format.bytes_for(LEAST_SECONDS * 1000)
        self._counted = audio_format.bytes_for(COUNTED_SECONDS * 1000)
        self._unsent = bytearray()
        self._wishes: deque[tuple[int, Callable[[], None]]] = deque()
        """The call's unsent marks by position."""
        self._marks: deque[tuple[int, int, Callable[[], None]]] = deque()
        """Name, position and callback of the marks that are sent and not reported."""
        self._last_mark = 0
        self._flush = 0
        """Number of the last flush."""
        self._before = 0
        """Bytes heard before the last flush."""
        self._sent = 0
        self._reported = 0
        """Position of the page's last report."""
        self._counts_from: float | None = None
        """Loop time of that report; None while the page does not play."""
        self._held_at: int | None = None
        """Position of a hold, until the page reports where it stopped."""
        self._held = False
        self._wrote_at = self._watched_from = now
        self._played_then = 0
        """Position of the page's report at that time."""
        self._shown = HeardFrames(audio_format)
        self.underruns = 0
        """Number of times for which the page ran dry in the middle of sound."""
        self.blocked = False
        """True while nothing may be sent: the page does not read."""

    # For the call.

    def write(self, pcm: bytes, now: float) -> None:
        """Append audio of any length, even half a sample (the rest is expected to follow)."""
        self._unsent += pcm
        self._wrote_at = now
        self._send_due(now)

    def mark(self, callback: Callable[[], None], now: float) -> None:
        """Call back when the audio before the mark has been played, and that behind it begins."""
        self._wishes.append((self._sent + len(self._unsent), callback))
        self._send_due(now)

    def hold(self, now: float) -> None:
        """Have the page fall silent and keep its queue, until `resume` or `flush`."""
        if not self._held:
            self._held_at, self._held = self._position(now), True
            self._page.send_hold()

    def resume(self, now: float) -> None:
        """Continue at the exact sample."""
        if self._held:
            self._held, self._held_at = False, None
            self._counts_from = None  # until the page reports that it plays again
            self._page.send_resume()

    def flush(self, now: float) -> int:
        """Drop unheard audio, and the marks in it. Returns `heard_ms`. Ends a hold."""
        position = self._position(now)
        self._shown.cut(self._before + position)
        self._before += position
        self._flush += 1
        self._unsent.clear()
        self._wishes.clear()
        self._marks.clear()
        self._sent = self._reported = 0
        self._counts_from = self._held_at = None
        self._held = False
        self._page.send_flush(self._flush)
        return self._before // self._bytes_per_ms

    def heard_ms(self, now: float) -> int:
        """Milliseconds of written audio that the caller has heard."""
        return (self._before + self._position(now)) // self._bytes_per_ms

    def queued_ms(self, now: float) -> int:
        """Milliseconds of written audio not yet heard; rounded up, so 0 means none."""
        waiting = self._sent - self._position(now) + len(self._unsent)
        return -(-waiting // self._bytes_per_ms)

    def stop(self) -> None:
        """Count no further than the last report: the page is gone."""
        self._counts_from = None

    # The page's reports.

    def played(self, report: Played, now: float) -> str:
        """Take a report. Returns the reason why it cannot be true; empty if it can."""
        if report.flush > self._flush:
            return f"flush {report.flush} was reported, and {self._flush} is the last one"
        if report.flush < self._flush:
            return ""  # of sound that is dropped by now
        samples = round(report.ms * self._format.rate / 1000)
        position = samples * self._format.bytes_per_sample
        if position > self._sent:
            sent_ms = self._format.duration_ms(self._sent)
            return f"{report.ms:g} ms were played, and {sent_ms:g} ms sent"
        if position < self._reported:
            reported_ms = self._format.duration_ms(self._reported)
            return f"{report.ms:g} ms were played, after {reported_ms:g} ms"
        self._reach(position, now)
        self._counts_from = now if report.playing else None
        self.underruns = report.underruns
        self._send_due(now)
        return ""

    def mark_done(self, name: int, now: float) -> str:
        """Take the report of a mark; one of a flushed mark is ignored. Returns as `played`."""
        if name > self._last_mark:
            return f"mark {name} was reported, and {self._last_mark} is the last one"
        while self._marks and self._marks[0][0] <= name:
            _, position, callback = self._marks.popleft()
            if position > self._reported:
                self._reach(position, now)
                if self._counts_from is not None:
                    self._counts_from = now
            callback()
        return ""

    # For the connection, at every tick of the pacer.

    def tick(self, now: float) -> None:
        """Send the audio that is due."""
        self._send_due(now, rest=now - self._wrote_at >= _REST_SECONDS)

    def stuck(self, now: float) -> bool:
        """True if the page has had sound for too long and played none, or hardly any, of it."""
        idle = self._held or self._sent == self._reported or self._reported < self._played_then
        if not idle and now - self._watched_from <= STUCK_SECONDS:
            return False
        played = self._reported - self._played_then
        self._watched_from, self._played_then = now, self._reported
        return not idle and played < self._least

    def show(self, now: float, count: int, callback: Callable[[bytes], None]) -> None:
        """Hand `count` frames of what the caller hears to `callback`: audio, or silence."""
        self._shown.show(self._before + self._position(now), count, callback)

    # Inside.

    def _reach(self, position: int, now: float) -> None:
        if position > self._reported:
            self._reported = position
        self._held_at = None

    def _position(self, now: float) -> int:
        """Return how much the caller has heard."""
        if self._held_at is not None:
            return self._held_at
        if self._held or self._counts_from is None:
            return self._reported
        counted = self._format.bytes_for(max(0.0, now - self._counts_from) * 1000)
        return min(self._reported + min(counted, self._counted), self._sent)

    def _send_due(self, now: float, *, rest: bool = False) -> None:
        """Send whole frames, up to `AHEAD_SECONDS` of them; with `rest` an incomplete one too. A
        frame ends where a mark is."""
        position = self._position(now)
        sample = self._format.bytes_per_sample
        while not self.blocked:
            while self._wishes and self._wishes[0][0] <= self._sent + len(self._unsent) % sample:
                self._send_mark()
            size = min(self._frame_bytes, len(self._unsent))
            if self._wishes and self._wishes[0][0] - self._sent < size:
                size = self._wishes[0][0] - self._sent
            elif size < self._frame_bytes and not rest:
                return
            size -= size % sample
            if size <= 0 or self._sent + size - position > self._ahead:
                return
            sound = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._page.send_sound(self._sent // self._bytes_per_ms, sound)
            self._shown.add(sound)
            self._sent += size

    def _send_mark(self) -> None:
        position, callback = self._wishes.popleft()
        self._last_mark += 1
        self._marks.append((self._last_mark, position, callback))
        self._page.send_mark(self._last_mark)
