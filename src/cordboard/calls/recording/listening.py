"""A person listens to a live call: both directions, late, and muted as a recording is.

The sound is taken where a recording takes it (`CallSound`), and is late by `DELAY`, or by
`SECRET_DELAY` if secret keys may be asked for: keys turn out to be secret up to `dtmf.EARLY`
seconds after they were pressed, and their tones are muted in what is not sent yet.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable

from cordboard.audio.g711 import alaw_to_linear
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.recorder import Recorder

DELAY = 1.5
SECRET_DELAY = 4.5
"""Seconds by which the sound is late."""
FRAME = 0.05
"""Seconds of sound in a frame; the last one before a delay of the engine may have up to 0.1."""
MOST_WAITING = 100
"""Frames that wait for a listener: 5 s. One that is slower is dropped."""
HEADER = struct.Struct("<I")
"""At the beginning of each frame: `at_ms` of its first sample, as in the ledger. Then the caller's
samples, then as many of the agent's."""


class Listener:
    """One person who listens to one call."""

    def __init__(self, sound: CallSound, delay: float, ms: Callable[[float], int]) -> None:
        """`ms` turns loop time into the ledger's."""
        self._loop = asyncio.get_running_loop()
        self._sound = sound
        self._ms = ms
        self._linear = sound.format.encoding == "alaw"
        self.encoding = "slin" if self._linear else sound.format.encoding
        """`slin` (16 bit, little endian) or `ulaw`."""
        self.rate = sound.format.rate
        self._width = sound.format.bytes_per_sample
        self._begun_at = self._loop.time()
        self._sent = 0
        """Samples handed to the listener."""
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self.too_slow = False
        """True if the listener was dropped, because it took the frames too slowly."""
        self._over = False
        self._recorder = Recorder(sound.format, self._begun_at, self._take, delay)
        sound.add(self._recorder)
        self._timer = self._loop.call_later(FRAME, self._hand_over)

    @property
    def from_ms(self) -> int:
        """Beginning of the sound."""
        return self._ms(self._begun_at)

    @property
    def to_ms(self) -> int:
        """End of the sound so far."""
        return self._ms(self._begun_at + self._sent / self.rate)

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the frames, until the call or the listening is over."""
        while (frame := await self._frames.get()) is not None:
            yield frame

    def end(self) -> None:
        """Stop. The sound that is not sent yet is dropped. Idempotent."""
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        self._sound.remove(self._recorder)
        while not self._frames.empty():
            self._frames.get_nowait()
        self._frames.put_nowait(None)

    def _hand_over(self) -> None:
        self._timer = self._loop.call_later(FRAME, self._hand_over)
        self._recorder.hand_over(self._loop.time())

    def _take(self, caller: bytes, agent: bytes) -> None:
        """Cut the sound into frames."""
        size = round(2 * FRAME * self.rate) * self._width
        for first in range(0, len(caller), size):
            part = slice(first, first + size)
            head = HEADER.pack(self.to_ms)
            self._sent += len(caller[part]) // self._width
            frame = head + self._coded(caller[part]) + self._coded(agent[part])
            if self._frames.full():
                self.too_slow = True
                self.end()
                return
            self._frames.put_nowait(frame)

    def _coded(self, sound: bytes) -> bytes:
        return alaw_to_linear(sound) if self._linear else sound
