"""Echo and noise at a telephone's microphone: the far side's voice, and the room.

    caller.stand_in(Room(echo_db=-20, echo_delay=0.12, noise=white))

The echo is made from the incoming audio of this call, so it comes and goes with the agent's speech.
It is added to the sent audio only: `spoken` and its segments are the caller's own.
Runs in the media thread.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from cordboard_testkit.timeline import FRAME_SAMPLES, RATE, Samples, TrackFrame

_KEEP = 0.1
"""Seconds of incoming audio kept beyond the delay."""
BUFFER = 0.02
"""Seconds after its arrival at which the telephone plays a frame: the least jitter buffer."""
_CLOCK_SLIP = 0.06
"""Seconds off its schedule after which the microphone's clock restarts (a stalled machine)."""


class Room:
    """The surroundings of one caller. Do not share it between calls."""

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
        """Start of the microphone's next frame, by a count of samples, independent of the wire."""

    def played(self, frame: TrackFrame) -> None:
        """The telephone plays this frame of the far side's."""
        if not self._gain:
            return
        self._heard.append(frame)
        oldest = frame.played_at - self._delay - _KEEP
        while self._heard[0].played_at < oldest:
            self._heard.popleft()

    def picked_up(self, at: float, frame: Samples) -> Samples:
        """Return the microphone's audio for the caller's 20 ms that leave at about `at`."""
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
        """Return one frame of the played audio, from `start`."""
        sound = np.zeros(FRAME_SAMPLES, np.int16)
        for frame in self._heard:
            first = round((frame.played_at - start) * RATE)
            skip = max(0, -first)
            part = frame.samples[skip : max(skip, FRAME_SAMPLES - first)]
            if first < FRAME_SAMPLES and len(part):
                sound[first + skip : first + skip + len(part)] = part
        return sound
