"""One call's recording while it grows: two tracks on the clock of the call.

`hear_caller` and `hear_agent` get every frame of either direction as it passes (half a microsecond:
it is only kept, with its time), `hand_over` gives what is settled to the writer's thread, about
once a second. Sound is laid on the event loop's clock: where no frames come (a phone on hold sends
none, Asterisk sends none while a key is down) there is silence, so both channels stay within 20 ms
of each other and of the ledger, however long the call.

A frame that comes late belongs either behind a gap, or to the frame before it, when only the engine
was late: the frames after it tell, so frames are laid `LOOK_AHEAD` seconds after they came.

What is not handed over yet can still be muted: keys that turn out to be secret were pressed before
anybody knew. `hold_back` says how long sound is kept for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from cordboard.audio.format import AudioFormat

LOOK_AHEAD = 0.2
"""Seconds of frames that are looked at to tell a gap from a frame that only came late."""
OUT_OF_PLACE = 0.015
"""Seconds; nearer to its place than that, a frame simply follows the one before it."""
SETTLED = 0.25
"""Seconds after which nothing more is expected for a moment."""


class Track:
    """One direction."""

    def __init__(self, audio_format: AudioFormat, started_at: float) -> None:
        self._format = audio_format
        self._silence = audio_format.silence(1000)
        self._started_at = started_at
        self._arrived: list[tuple[float, bytes]] = []
        """Frames that have no place yet, with the loop times at which they came."""
        self._chunks: list[bytes] = []
        self._end = 0
        """Samples laid so far, handed over or not."""

    def take(self, sound: bytes, at: float) -> None:
        """A frame that has just come to its end, at loop time `at`."""
        self._arrived.append((at, sound))

    def lay(self, until: float) -> None:
        """Give their places to the frames that came by loop time `until`."""
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
                continue  # after a stall more may come than there is time for
            self._chunks.append(sound)
            self._end += samples
            laid += 1
        del arrived[:laid]

    def _surely_late(self, first: int) -> float:
        """By how much this frame and all that soon follow it are late, if they follow it at once.

        Frames held up by a busy engine come in a bunch, and the last of them is in time.
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
        """The samples from `since` (where the last drain ended) to `until`."""
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
    """A stretch of loop time; without an end while it lasts."""

    since: float
    until: float | None = None


class Recorder:
    """Both tracks of one call, and what of them must not be recorded."""

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
        """`hear_caller(frame, loop time)`"""
        self.hear_agent = self._agent.take

    @property
    def paused(self) -> bool:
        return bool(self._paused) and self._paused[-1].until is None

    def pause(self, at: float) -> None:
        """Silence on both channels from now on."""
        if not self.paused:
            self._paused.append(_Stretch(at))

    def resume(self, at: float) -> None:
        """Sound again."""
        if self.paused:
            self._paused[-1].until = at

    def mute(self, since: float, until: float | None) -> None:
        """Silence on the caller's channel; without an end: until `unmute`."""
        self._muted.append(_Stretch(since, until))

    def unmute(self, at: float) -> None:
        """What was muted without an end is so until `at`."""
        for stretch in self._muted:
            if stretch.until is None:
                stretch.until = at

    def hand_over(self, now: float, *, last: bool = False) -> None:
        """Give to the writer what is settled; `last`: everything up to now."""
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
