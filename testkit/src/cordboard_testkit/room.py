"""What a telephone's microphone picks up besides its caller: the far side's voice, and noise.

    caller.stand_in(Room(echo_db=-20, echo_delay=0.12, noise=white))

The echo is made of what this very call has heard, so it comes and goes with the agent's speech.
It belongs to what is sent, not to what was said: `spoken` and its segments are the caller's own.
Runs in the media thread.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from cordboard_testkit.timeline import FRAME_SAMPLES, RATE, Samples, TrackFrame

_KEEP = 0.1
"""Seconds of heard sound kept beyond the delay."""
BUFFER = 0.02
"""Seconds after its arrival at which the telephone plays a frame: the least jitter buffer."""
_CLOCK_SLIP = 0.06
"""Seconds off its schedule after which the microphone's clock starts anew (a stalled machine)."""


class Room:
    """The surroundings of one caller. Not to be shared between calls."""

    def __init__(
        self,
        *,
        echo_db: float | None = None,
        echo_delay: float = 0.05,
        noise: Samples | None = None,
    ) -> None:
        """`echo_db`: the echo's level relative to what is heard (negative), None = no echo;
        `echo_delay` in seconds, from loudspeaker to microphone; `noise` is played over and over."""
        self._gain = 0.0 if echo_db is None else 10 ** (echo_db / 20)
        self._delay = echo_delay + BUFFER
        self._noise = noise
        self._noise_at = 0
        self._heard: deque[TrackFrame] = deque()
        self._next_at = float("-inf")
        """When the microphone's next frame begins: it counts samples, whatever the wire does."""

    def played(self, frame: TrackFrame) -> None:
        """The telephone plays this frame of the far side's."""
        if not self._gain:
            return
        self._heard.append(frame)
        oldest = frame.played_at - self._delay - _KEEP
        while self._heard[0].played_at < oldest:
            self._heard.popleft()

    def picked_up(self, at: float, frame: Samples) -> Samples:
        """What the microphone gives for the 20 ms of the caller's that leave at about `at`."""
        if abs(at - self._next_at) > _CLOCK_SLIP:
            self._next_at = at
        sound = frame.astype(np.float32)
        if self._gain:
            sound += self._gain * self._echo(self._next_at - self._delay)
        self._next_at += len(frame) / RATE
        if self._noise is not None:
            places = (self._noise_at + np.arange(len(sound))) % len(self._noise)
            sound += self._noise[places]
            self._noise_at = int(places[-1]) + 1
        return np.clip(np.rint(sound), -32768, 32767).astype(np.int16)

    def _echo(self, start: float) -> Samples:
        """What was played from `start` on, for as long as a frame."""
        sound = np.zeros(FRAME_SAMPLES, np.int16)
        for frame in self._heard:
            first = round((frame.played_at - start) * RATE)
            skip = max(0, -first)
            part = frame.samples[skip : max(skip, FRAME_SAMPLES - first)]
            if first < FRAME_SAMPLES and len(part):
                sound[first + skip : first + skip + len(part)] = part
        return sound
