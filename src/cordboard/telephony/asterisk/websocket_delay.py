"""Removal of a delay that lasts in Asterisk's queue. Pure; the time is passed in.

A call that passes audio through on arrival (20 ms written every 20 ms) fills Asterisk's queue only
after a stall: Asterisk plays silence meanwhile, then the held-up audio comes at once, and from then
on all of it is late by that much (measured: the queue never shrinks by itself). Audio that is sent
ahead on purpose looks different: more of it is written than is played, or in large pieces.
"""

from __future__ import annotations

import numpy as np

from cordboard.audio.format import AudioFormat
from cordboard.audio.g711 import alaw_to_linear, ulaw_to_linear

LASTING_FRAMES = 3
"""Frames (60 ms) that wait before each frame throughout `WINDOW_SECONDS`: a lasting delay."""
LEFT_FRAMES = 1
"""Frames left in the queue, for the jitter of both sides."""
WINDOW_SECONDS = 1.0
PIECE_FRAMES = 3
"""A writer of longer pieces does not pass audio through."""
QUIET_PEAK = 164
"""-46 dBFS: the level of silence on a telephone line."""
_TOLERANCE = 0.1


class StandingDelay:
    """Watches one call's writing and decides which of its frames are left out."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._window_from = 0.0
        self._written_ms = 0.0
        self._least: int | None = None
        self._in_pieces = False
        self._excess = 0

    def drops(self, pcm: bytes, queued_frames: int, now: float) -> bool:
        """Return True if this audio, written behind `queued_frames`, should be left out.

        It must be quiet and made of whole frames, and no longer than the delay.
        """
        self._watch(len(pcm), queued_frames, now)
        frames, rest = divmod(len(pcm), self._format.frame_bytes)
        if rest or not 0 < frames <= self._excess or not self._quiet(pcm):
            return False
        self._excess -= frames
        return True

    def reset(self) -> None:
        """Forget the measurements: the queue has been emptied or stopped."""
        self._least = None
        self._excess = 0

    def _watch(self, size: int, queued_frames: int, now: float) -> None:
        if self._least is None or now - self._window_from >= WINDOW_SECONDS:
            if self._least is not None:
                self._judge(now - self._window_from)
            self._window_from = now
            self._written_ms = 0.0
            self._least = queued_frames
            self._in_pieces = False
        self._written_ms += self._format.duration_ms(size)
        self._least = min(self._least, queued_frames)
        self._in_pieces |= size > PIECE_FRAMES * self._format.frame_bytes

    def _judge(self, seconds: float) -> None:
        as_played = abs(self._written_ms / 1000 - seconds) <= _TOLERANCE * seconds
        lasting = self._least or 0
        if as_played and not self._in_pieces and lasting >= LASTING_FRAMES:
            self._excess = lasting - LEFT_FRAMES
        else:
            self._excess = 0

    def _quiet(self, pcm: bytes) -> bool:
        if self._format.encoding == "ulaw":
            pcm = ulaw_to_linear(pcm)
        elif self._format.encoding == "alaw":
            pcm = alaw_to_linear(pcm)
        samples = np.frombuffer(pcm, "<i2").astype(np.int32)
        return bool(np.abs(samples).max() <= QUIET_PEAK)
