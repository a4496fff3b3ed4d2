"""One call's recording while it grows: two tracks on the clock of the call.

`hear_caller` and `hear_agent` get every frame of their direction as it passes (half a microsecond:
it is only stored with its time); `hand_over` passes settled sound to the writer's thread, about
once a second. Sound is placed on the event loop's clock: while no frames come (a phone on hold
sends none, Asterisk sends none while a key is down) there is silence, so both channels stay within
20 ms of each other and of the ledger, for any length of call.

A late frame belongs either behind a gap, or directly after the frame before it, if only the engine
was late. The following frames decide that, so frames are placed `LOOK_AHEAD` seconds after their
arrival.

Sound that is not handed over yet can still be muted: keys that turn out to be secret were pressed
before that was known. `hold_back` is the time for which sound is kept for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from cordboard.audio.format import AudioFormat

LOOK_AHEAD = 0.2
"""Seconds of frames that are examined to distinguish a gap from a late frame."""
OUT_OF_PLACE = 0.015
"""Seconds; with a smaller deviation a frame simply follows the one before it."""
SETTLED = 0.25
"""Seconds after which no further frames are expected for a moment."""


class Track:
    """One direction of a call."""

    def __init__(self, audio_format: AudioFormat, started_at: float) -> None:
        self._format = audio_format
        self._silence = audio_format.silence(1000)
        self._started_at = started_at
        self._arrived: list[tuple[float, bytes]] = []
        """Frames without a place yet, with the loop times of their arrival."""
        self._chunks: list[bytes] = []
        self._end = 0
        """Number of samples placed so far, handed over or not."""

    def take(self, sound: bytes, at: float) -> None:
        """Store a frame that has ended at loop time `at`."""
        self._arrived.append((at, sound))

    def lay(self, until: float) -> None:
        """Place the frames that arrived by loop time `until`."""
        arrived, rate, width = self._arrived, self._format.rate, self._format.bytes_per_sample
        laid = 0
        for at, sound in arrived:
            if at > until:
                break
            samples = len(sound) // width
            late = (at - self._started_at) - (self._end + samples) / rate
            if late > OUT_OF_PLACE:
                least = self._surely_late(laid)
                if least > OUT_OF_PLACE:
                    self._fill(round(least * rate))
            elif late < -OUT_OF_PLACE and self._surely_early(laid):
                laid += 1
                continue  # after a stall more frames may come than there is time for
            self._chunks.append(sound)
            self._end += samples
            laid += 1
        del arrived[:laid]

    def _surely_late(self, first: int) -> float:
        """Return the minimum lateness of this frame and those soon after it, if placed without
        gaps.

        Frames delayed by a busy engine arrive together, and the last of them is on time.
        """
        return min(self._lateness(first))

    def _surely_early(self, first: int) -> bool:
        return max(self._lateness(first)) < -OUT_OF_PLACE

    def _lateness(self, first: int) -> Iterator[float]:
        rate, width = self._format.rate, self._format.bytes_per_sample
        end = self._end
        horizon = self._arrived[first][0] + LOOK_AHEAD
        for at, sound in islice(self._arrived, first, None):
            if at > horizon:
                return
            end += len(sound) // width
            yield (at - self._started_at) - end / rate

    def drain(self, since: int, until: int) -> bytearray:
        """Return the samples from `since` (where the last drain ended) to `until`."""
        if self._end < until:
            self._fill(until - self._end)
        size = (until - since) * self._format.bytes_per_sample
        whole = b"".join(self._chunks)
        self._chunks = [whole[size:]] if len(whole) > size else []
        return bytearray(whole[:size])

    def _fill(self, samples: int) -> None:
        size = samples * self._format.bytes_per_sample
        whole, rest = divmod(size, len(self._silence))
        self._chunks += [self._silence] * whole
        self._chunks.append(self._silence[:rest])
        self._end += samples


@dataclass(slots=True)
class _Stretch:
    """A stretch of loop time; `until` is None while it lasts."""

    since: float
    until: float | None = None


class Recorder:
    """Both tracks of one call, and the stretches that must not be recorded."""

    def __init__(
        self,
        audio_format: AudioFormat,
        started_at: float,
        write: Callable[[bytes, bytes], None],
        hold_back: float = SETTLED,
    ) -> None:
        """`write(left, right)` gets the same stretch of both directions, in `audio_format`."""
        self.started_at = started_at
        self._format = audio_format
        self._write = write
        self._hold_back = max(hold_back, SETTLED)
        self._caller = Track(audio_format, started_at)
        self._agent = Track(audio_format, started_at)
        self._handed = 0
        self._muted: list[_Stretch] = []
        self._paused: list[_Stretch] = []
        self.hear_caller = self._caller.take
        """Called as `hear_caller(frame, loop time)`."""
        self.hear_agent = self._agent.take

    @property
    def paused(self) -> bool:
        return bool(self._paused) and self._paused[-1].until is None

    def pause(self, at: float) -> None:
        """Record silence on both channels from now on."""
        if not self.paused:
            self._paused.append(_Stretch(at))

    def resume(self, at: float) -> None:
        """Record sound again."""
        if self.paused:
            self._paused[-1].until = at

    def mute(self, since: float, until: float | None) -> None:
        """Record silence on the caller's channel; if `until` is None, until `unmute`."""
        self._muted.append(_Stretch(since, until))

    def unmute(self, at: float) -> None:
        """End at `at` the stretches that were muted without an end."""
        for stretch in self._muted:
            if stretch.until is None:
                stretch.until = at

    def hand_over(self, now: float, *, last: bool = False) -> None:
        """Pass settled sound to the writer; with `last`, everything up to now."""
        until = self._sample(now if last else now - self._hold_back)
        if until <= self._handed:
            return
        for track in (self._caller, self._agent):
            track.lay(now if last else now - LOOK_AHEAD)
        caller = self._caller.drain(self._handed, until)
        agent = self._agent.drain(self._handed, until)
        for stretch in (*self._muted, *self._paused):
            self._silence(caller, stretch, until)
        for stretch in self._paused:
            self._silence(agent, stretch, until)
        self._handed = until
        self._muted = self._still_counts(self._muted)
        self._paused = self._still_counts(self._paused)
        self._write(bytes(caller), bytes(agent))

    def _sample(self, at: float) -> int:
        return round((at - self.started_at) * self._format.rate)

    def _silence(self, sound: bytearray, stretch: _Stretch, until: int) -> None:
        first = max(self._sample(stretch.since), self._handed) - self._handed
        last = until if stretch.until is None else min(self._sample(stretch.until), until)
        count = last - self._handed - first
        if count > 0:
            width = self._format.bytes_per_sample
            silence = self._format.silence(1)[:width] * count
            sound[first * width : (first + count) * width] = silence

    def _still_counts(self, stretches: list[_Stretch]) -> list[_Stretch]:
        return [
            each
            for each in stretches
            if each.until is None or self._sample(each.until) > self._handed
        ]
