"""`VoiceLine`: the interface of every simulated caller, on any transport.

`PhoneCall` (SIP) and `SimulatedCaller` (AudioSocket) are voice lines. All times are
`time.monotonic()` seconds; all sound is 8 kHz int16. Waiting methods raise `TimeoutError` when
their timeout is over and `CallOver` when the call ends first.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from cordboard.audio.wav import read_mono, write_stereo
from cordboard.errors import CallOver
from cordboard_testkit.correlation import came_through
from cordboard_testkit.mouth_and_ear import Ear, Mouth
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.room import Room
from cordboard_testkit.timeline import (
    RATE,
    Samples,
    Segment,
    TrackFrame,
    TurnLatency,
    turn_latencies,
)

Found = TypeVar("Found")

CAUGHT_UP_SECONDS = 0.1
"""After a stall of the process, the media thread has read all that came meanwhile in this time."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call."""

    by: Literal["us", "them"]
    at: float
    """`time.monotonic()` of the end."""
    status: int = 0
    """The SIP status of a call that was never answered; 0 after an answered one."""
    reason: str = ""
    """The reason, if the far side or the protocol gives one."""


class VoiceLine:
    """One call from the caller's side. Create it inside a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiters: set[asyncio.Future[None]] = set()
        self.end: CallEnd | None = None
        """The end of the call; None while it is live."""
        self._mouth = Mouth(self._changed)
        self._ear = Ear(self._changed)

    # -- speaking ----------------------------------------------------------------------------

    def say(self, sound: Samples) -> None:
        """Speak after the queued speech. Returns at once; `said` waits for the end."""
        if self.end is not None:
            raise CallOver(f"cannot speak: {_words(self.end)}")
        self._mouth.say(sound)

    def say_wav(self, path: Path) -> None:
        """Speak a 16-bit WAV of any rate."""
        pcm, _ = read_mono(path, RATE)
        self.say(np.frombuffer(pcm, "<i2").astype(np.int16))

    def stand_in(self, room: Room) -> None:
        """Call from a place with an echo or noise of its own, from now on."""
        self._mouth.room = self._ear.room = room

    def stop_speaking(self) -> None:
        """Fall silent in the middle of a word."""
        self._mouth.stop()

    async def said(self, timeout: float = PATIENCE) -> float:
        """Wait until all queued speech has been sent; return the time of its last sample."""
        return await self._until(lambda: self._mouth.finished_at, timeout)

    async def spoke_after(self, moment: float, timeout: float = PATIENCE) -> float:
        """Wait for a speech sample of this caller after `moment`; return its time."""
        return await self._until(lambda: self._mouth.track.first_loud_after(moment), timeout)

    def press(self, keys: str) -> None:
        """Press telephone keys (`0-9*#A-D`), 120 ms each with 80 ms between."""
        self._mouth.press(keys)

    # -- listening ---------------------------------------------------------------------------

    @property
    def keys_heard(self) -> str:
        """All keys the far side has pressed so far."""
        return "".join(self._ear.keys)

    async def hear_keys(self, count: int, timeout: float = PATIENCE) -> str:
        """Wait until `count` keys have been heard in all; returns them."""
        return await self._until(
            lambda: self.keys_heard if len(self._ear.keys) >= count else None, timeout
        )

    @property
    def first_heard_at(self) -> float | None:
        """Time of the first speech sample heard."""
        return self._ear.track.first_loud_at

    @property
    def last_heard_at(self) -> float | None:
        """Time of the latest speech sample heard so far."""
        return self._ear.track.last_loud_at

    async def hear_speech(self, timeout: float = PATIENCE, *, after: float | None = None) -> float:
        """Wait for speech of the far side later than `after` (default: now).

        Returns the moment of the first loud sample after it.
        """
        since = time.monotonic() if after is None else after
        return await self._until(lambda: self._ear.track.first_loud_after(since), timeout)

    async def hear_silence(self, ms: int = 700, timeout: float = PATIENCE) -> float:
        """Wait for `ms` of silence; return the time at which it began.

        The last CAUGHT_UP_SECONDS of the wait have no stall of this process: after one, timers are
        due before the audio is heard that came meanwhile.
        """
        called_at = time.monotonic()
        stalled = True
        async with asyncio.timeout(timeout):
            while True:
                last = self._ear.track.last_loud_at
                quiet_from = called_at if last is None else last
                now = time.monotonic()
                missing = quiet_from + ms / 1000 - now
                if missing <= 0 and not stalled:
                    return quiet_from
                wait = max(missing - CAUGHT_UP_SECONDS, CAUGHT_UP_SECONDS)
                with contextlib.suppress(TimeoutError):
                    await self._until(lambda: None, wait)
                stalled = time.monotonic() - now > wait + CAUGHT_UP_SECONDS

    async def ended(self, timeout: float = PATIENCE) -> CallEnd:
        """Wait until either side has ended the call."""
        return await self._until(lambda: self.end, timeout)

    # -- the record --------------------------------------------------------------------------

    def started_at(self) -> float:
        """The moment at which `heard` and `spoken` begin: the first frame of either."""
        return min((span[0] for span in self._spans()), default=time.monotonic())

    def spoken(self) -> Samples:
        """All audio of this caller, as long as `heard` and on the same clock."""
        return self._mouth.track.render(*self._bounds())

    def heard(self) -> Samples:
        """All incoming audio, as at a caller's ear."""
        return self._ear.track.render(*self._bounds())

    def spoken_segments(self, join: float = 0.3) -> list[Segment]:
        """The utterances of this caller."""
        return self._mouth.track.segments(join=join)

    def heard_segments(self, join: float = 0.3) -> list[Segment]:
        """The utterances of the far side."""
        return self._ear.track.segments(join=join)

    def utterances_heard(self, since: float = float("-inf")) -> list[Samples]:
        """The sound of each utterance of the far side after a moment, without gaps of the line."""
        return self._ear.track.utterances(since)

    def heard_in_order(self, since: float = float("-inf")) -> Samples:
        """The sound of every frame as it came after a moment, one after the other, without regard
        to time."""
        frames = [frame.samples for frame in self._ear.track.frames if frame.passed_at >= since]
        return np.concatenate(frames) if frames else np.zeros(0, np.int16)

    async def brought(
        self, sound: Samples, *, since: float = float("-inf"), alike: float = 0.9
    ) -> bool:
        """True if this sound has come through (`correlation.came_through`) since a moment.

        Compares in a thread: an engine in the same event loop goes on meanwhile.
        """
        heard = self.heard_in_order(since)
        return await asyncio.to_thread(came_through, sound, heard, alike=alike)

    def frames_heard(self) -> list[TrackFrame]:
        """Every incoming frame of sound, as it came."""
        return self._ear.track.frames

    def turn_latencies(self, join: float = 0.6) -> list[TurnLatency]:
        """Last audible sample of each turn of the caller to the far side's first, per turn.

        Audible by the same rule as in the engine's ledger (`cordboard.audio.levels`).
        """
        ear = self._ear.track
        heard = [ear.audible(segment) for segment in ear.segments(join=join)]
        return turn_latencies(self.audibly_spoken(join), heard)

    def audibly_spoken(self, join: float = 0.6) -> list[Segment]:
        """The utterances of this caller, each from its first audible sample to its last one."""
        mouth = self._mouth.track
        return [mouth.audible(segment, spoken=True) for segment in mouth.segments(join=join)]

    def write_wav(self, path: Path) -> None:
        """Write the whole call as stereo: caller left, far side right."""
        left, right = self.spoken().astype("<i2"), self.heard().astype("<i2")
        write_stereo(path, left.tobytes(), right.tobytes(), RATE)

    # -- inside ------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Wake everyone who waits. Any thread."""
        if self._waiters:
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _until(self, look: Callable[[], Found | None], timeout: float) -> Found:
        """Wait until `look` finds something. It runs again after every change."""
        async with asyncio.timeout(timeout):
            while True:
                waiter: asyncio.Future[None] = self._loop.create_future()
                self._waiters.add(waiter)  # before looking, or a change in between is missed
                try:
                    if (found := look()) is not None:
                        return found
                    if self.end is not None:
                        raise CallOver(_words(self.end))
                    await waiter
                finally:
                    self._waiters.discard(waiter)

    def _line_over(self, end: CallEnd) -> None:
        """The call has ended; no more audio in either direction. Any thread."""
        if self.end is None:
            self.end = end
            self._changed()

    def _spans(self) -> list[tuple[float, float]]:
        spans = (self._mouth.track.span, self._ear.track.span)
        return [span for span in spans if span is not None]

    def _bounds(self) -> tuple[float, float]:
        spans = self._spans()
        start = self.started_at()
        return start, max((span[1] for span in spans), default=start)


def _words(end: CallEnd) -> str:
    who = "this side" if end.by == "us" else "the far side"
    return f"{who} ended the call" + (f" ({end.reason})" if end.reason else "")
