"""Outgoing audio of a call whose playout clock is Asterisk's. No I/O; the time is passed in.

With chan_websocket audio is sent ahead and Asterisk plays 20 ms of its queue at every tick of its
own. `RemotePlayout` decides what to send when, and derives from Asterisk's answers how far it has
played (`heard_ms`):

- *Marks* go along with the audio, one about every 100 ms and one wherever the call has set its own.
  Asterisk reports a mark in the very tick in which it sends the frame behind it to the caller.
  Between two reports the clock counts, but never further than to the next unreported mark.
- A *hold* pauses Asterisk's queue and requests its length at once: then the count is exact.
- Audio is sent in whole frames only, since Asterisk throws the remainder of a message away. Less
  than a frame waits for more, and is filled up with silence when Asterisk has nothing else left to
  play. (Its buffering mode would keep remainders, but a flush silently ends that mode.)
- Asterisk holds at most `AHEAD_SECONDS` of audio, a quarter of its queue, and nothing is sent while
  it reports a full queue: it drops audio that it cannot queue.
- Audio that is written as fast as it is played (a call that is passed through) leaves a lasting
  delay behind every stall. `websocket_delay` shortens it again in silent places.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cordboard.audio.format import FRAME_MS, AudioFormat
from cordboard.telephony.asterisk.websocket_delay import StandingDelay
from cordboard.telephony.outgoing import HeardFrames

FRAME_SECONDS = FRAME_MS / 1000
AHEAD_SECONDS = 5.0
"""A stall of the engine up to this length is not heard. Asterisk reports a full queue at 18 s and
drops audio after 20 s."""
_MOST_FRAMES = 950
"""Asterisk queues 1000 frames; when its stop arrives, more may be on their way already."""
_TOP_UP_FRAMES = 25
"""Long audio is sent half a second at a time, not a frame every 20 ms."""
_MARK_FRAMES = 5
_GAP_SECONDS = 0.03
"""After a longer pause in the sent audio, a mark has to set the clock anew."""
_REST_SECONDS = 0.04
"""Wait of an incomplete frame for more audio, if Asterisk has nothing else to play."""
_NEARLY_DRY_FRAMES = 2


class AsteriskQueue(Protocol):
    """The connection to Asterisk's queue. Messages arrive in the order of the calls."""

    def send_sound(self, frames: bytes) -> None: ...

    def send_mark(self, mark: int) -> None: ...

    def send_flush(self) -> None: ...

    def send_pause(self) -> None:
        """Pause, and request the queue's length for `RemotePlayout.paused`."""

    def send_continue(self) -> None: ...


@dataclass(slots=True)
class _Mark:
    number: int
    frame: int
    """Number of frames before it."""
    callbacks: list[Callable[[], None]]


class RemotePlayout:
    """The written audio: how much of it Asterisk has, and how much the caller has heard.

    Frames are counted from the start; those that were flushed unheard do not count.
    """

    def __init__(
        self,
        audio_format: AudioFormat,
        queue: AsteriskQueue,
        *,
        ahead_seconds: float = AHEAD_SECONDS,
    ) -> None:
        self._queue = queue
        self._frame_bytes = audio_format.frame_bytes
        self._bytes_per_ms = audio_format.bytes_per_ms
        self._bytes_per_sample = audio_format.bytes_per_sample
        self._silence = audio_format.silence()
        self._ahead = min(_MOST_FRAMES, round(ahead_seconds / FRAME_SECONDS))
        self._standing = StandingDelay(audio_format)
        self._unsent = bytearray()
        self._unsent_from = 0
        """Number of bytes sent before `_unsent`."""
        self._wishes: deque[tuple[int, Callable[[], None]]] = deque()
        """The call's unsent marks by byte position, counted like `_unsent_from`."""
        self._marks: deque[_Mark] = deque()
        """Marks sent and not reported."""
        self._next_mark = 1
        self._marked_frame = -_MARK_FRAMES
        """Position of the last mark, in frames."""
        self._sent = 0
        self._reached = 0
        """Frames that the caller has heard."""
        self._corrections: deque[tuple[int, int]] = deque()
        """(frames, bytes): once that many frames are heard, the bytes are subtracted from them."""
        self._corrected = 0
        self._clock_from: float | None = None
        """Loop time at which Asterisk sent frame `_clock_frame`; None while unknown."""
        self._clock_frame = 0
        self._ticked_at: float | None = None
        """A moment of Asterisk's 20 ms tick."""
        self._held_from: int | None = None
        """`_sent` when the hold began; None without a hold."""
        self._wrote_at = self._sent_at = -math.inf
        self._shown = HeardFrames(audio_format)
        self.blocked = False
        """True while nothing may be sent: Asterisk is full, or does not read."""

    # For the call.

    def write(self, pcm: bytes, now: float) -> None:
        """Append audio of any length, even half a sample (the rest is expected to follow)."""
        whole, rest = divmod(len(self._unsent), self._frame_bytes)
        queued = self._sent - self._position(now) + whole
        if self._held_from is not None:
            self._standing.reset()
        elif self._standing.drops(pcm, queued, now) and not rest:
            # Left out, and yet counted as heard: it is silence.
            self._corrections.append((self._sent + whole, -len(pcm)))
            return
        self._unsent += pcm
        self._wrote_at = now
        self._send_ahead(now)

    def mark(self, callback: Callable[[], None]) -> None:
        """Call back when the audio before the mark has been played, and that behind it begins."""
        self._wishes.append((self._unsent_from + len(self._unsent), callback))

    def hold(self, now: float) -> None:
        """Have Asterisk play silence and keep its queue, until `resume` or `flush`."""
        if self._held_from is None:
            self._position(now)
            self._held_from = self._sent
            self._queue.send_pause()

    def resume(self, now: float) -> None:
        """Continue at the exact sample."""
        if self._held_from is None:
            return
        self._held_from = None
        self._queue.send_continue()
        self._clock_from, self._clock_frame = self._next_tick(now), self._reached

    def flush(self, now: float) -> int:
        """Drop unheard audio, and the marks in it. Returns `heard_ms`. Ends a hold."""
        position = self._position(now)
        self._queue.send_flush()
        if self._held_from is not None:
            self._held_from = None
            self._queue.send_continue()  # a flush alone leaves the queue paused (measured)
        self._unsent.clear()
        self._wishes.clear()
        self._marks.clear()
        while self._corrections and self._corrections[-1][0] > position:
            self._corrections.pop()
        self._sent = position
        self._marked_frame = position - _MARK_FRAMES
        self._clock_from = None
        self._standing.reset()
        self._shown.cut(position * self._frame_bytes)
        return self.heard_ms(now)

    def heard_ms(self, now: float) -> int:
        """Milliseconds of written audio that the caller has heard."""
        return self._heard_bytes(now) // self._bytes_per_ms

    def queued_ms(self, now: float) -> int:
        """Milliseconds of written audio not yet heard; rounded up, so 0 means none."""
        waiting = (self._sent - self._position(now)) * self._frame_bytes + len(self._unsent)
        waiting -= sum(size for _, size in self._corrections)
        return -(-waiting // self._bytes_per_ms)

    # Asterisk's reports.

    def processed(self, number: int, now: float) -> None:
        """Take the report of a mark; one of a flushed mark is ignored."""
        marks = self._marks
        fired: list[Callable[[], None]] = []
        while marks and marks[0].number <= number:
            mark = marks.popleft()
            fired += mark.callbacks
            self._advance(mark.frame)
            self._clock_from, self._clock_frame = now, mark.frame
            self._ticked_at = now
        for callback in fired:
            callback()

    def paused(self, queue_frames: int) -> None:
        """Take the number of frames that were in Asterisk's queue just after it was paused."""
        if self._held_from is not None:
            self._advance(min(self._sent, self._held_from - queue_frames))

    # For the connection, at every tick of the pacer.

    def tick(self, now: float) -> None:
        """Send the audio that is due."""
        self._send_ahead(now)
        if self.blocked or len(self._unsent) >= self._frame_bytes:
            return
        size = len(self._unsent) - len(self._unsent) % self._bytes_per_sample
        if size and now - self._wrote_at >= _REST_SECONDS:
            if self._sent - self._position(now) <= _NEARLY_DRY_FRAMES:
                self._send_rest(size, now)
        elif size == 0 and self._wishes:
            callbacks = [callback for _, callback in self._wishes]
            self._wishes.clear()
            self._send_mark(callbacks)

    def show(self, now: float, count: int, callback: Callable[[bytes], None]) -> None:
        """Hand `count` frames of what the caller hears to `callback`: audio, or silence."""
        self._shown.show(self._position(now) * self._frame_bytes, count, callback)

    # Inside.

    def _send_ahead(self, now: float) -> None:
        whole = len(self._unsent) // self._frame_bytes
        if self.blocked or not whole:
            return
        position = self._position(now)
        count = min(whole, self._ahead - (self._sent - position))
        if count < whole and count < _TOP_UP_FRAMES:
            return
        gap = self._sent == position and now - self._sent_at > _GAP_SECONDS
        while count > 0 and not self.blocked:
            self._mark_before_next_frame(gap)
            gap = False
            frames = min(count, self._marked_frame + _MARK_FRAMES - self._sent)
            if self._wishes:
                before = (self._wishes[0][0] - self._unsent_from) // self._frame_bytes
                frames = min(frames, before)
            size = frames * self._frame_bytes
            sound = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._unsent_from += size
            self._send(sound, frames)
            count -= frames
        self._sent_at = now

    def _mark_before_next_frame(self, needed: bool) -> None:
        """Send a mark if one is due, or if the call wants one in the next frame."""
        callbacks = []
        end = self._unsent_from + self._frame_bytes
        while self._wishes and self._wishes[0][0] < end:
            callbacks.append(self._wishes.popleft()[1])
        if needed or callbacks or self._sent - self._marked_frame >= _MARK_FRAMES:
            self._send_mark(callbacks)

    def _send_rest(self, size: int, now: float) -> None:
        """Send less than a frame, filled up with silence that does not count."""
        self._mark_before_next_frame(self._sent == self._position(now))
        sound = bytes(self._unsent[:size]) + self._silence[size:]
        del self._unsent[:size]
        self._unsent_from += size
        self._send(sound, 1)
        self._corrections.append((self._sent, self._frame_bytes - size))
        self._sent_at = now

    def _send(self, sound: bytes, frames: int) -> None:
        self._queue.send_sound(sound)
        self._shown.add(sound)
        self._sent += frames

    def _send_mark(self, callbacks: list[Callable[[], None]]) -> None:
        self._marks.append(_Mark(self._next_mark, self._sent, callbacks))
        self._queue.send_mark(self._next_mark)
        self._next_mark += 1
        self._marked_frame = self._sent

    def _position(self, now: float) -> int:
        """Return the number of frames that the caller has heard."""
        if self._held_from is None and self._clock_from is not None:
            late = now - self._clock_from
            if late >= 0:
                limit = self._marks[0].frame if self._marks else self._sent
                reached = self._clock_frame + 1 + int(late / FRAME_SECONDS)
                self._advance(min(reached, limit))
        return self._reached

    def _advance(self, frame: int) -> None:
        if frame <= self._reached:
            return
        self._reached = frame
        while self._corrections and self._corrections[0][0] <= frame:
            self._corrected += self._corrections.popleft()[1]

    def _heard_bytes(self, now: float) -> int:
        return self._position(now) * self._frame_bytes - self._corrected

    def _next_tick(self, now: float) -> float | None:
        if self._ticked_at is None:
            return None
        ticks = math.ceil((now - self._ticked_at) / FRAME_SECONDS)
        return self._ticked_at + ticks * FRAME_SECONDS
