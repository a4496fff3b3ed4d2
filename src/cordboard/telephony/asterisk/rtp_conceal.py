"""Concealment of lost frames: the last frame is repeated, fading to silence in 60 ms.

Pure. Works on the frames of a call in any format; only a lost frame costs more than
keeping the last one at hand.
"""

from __future__ import annotations

import numpy as np

from cordboard.audio import g711
from cordboard.audio.format import AudioFormat

FADE_MS = 60
"""ITU-T G.711 appendix I fades over 60 ms as well."""


class Concealer:
    """One incoming stream."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._format = audio_format
        self._last = audio_format.silence()
        self._faded_ms = FADE_MS

    def heard(self, frame: bytes) -> None:
        """Note a received frame."""
        self._last = frame
        self._faded_ms = 0

    def conceal(self) -> bytes:
        """Return a substitute for a lost frame, of the last frame's length."""
        size = len(self._last)
        duration = self._format.duration_ms(size)
        begin, self._faded_ms = self._faded_ms, self._faded_ms + int(duration)
        if begin >= FADE_MS:
            return self._format.silence(duration)
        samples = np.frombuffer(self._to_linear(self._last), "<i2").astype(np.float32)
        at = begin + np.arange(len(samples), dtype=np.float32) * (duration / len(samples))
        faded = samples * np.clip(1 - at / FADE_MS, 0, 1)
        return self._from_linear(faded.astype("<i2").tobytes())

    def _to_linear(self, frame: bytes) -> bytes:
        if self._format.encoding == "ulaw":
            return g711.ulaw_to_linear(frame)
        return g711.alaw_to_linear(frame) if self._format.encoding == "alaw" else frame

    def _from_linear(self, pcm: bytes) -> bytes:
        if self._format.encoding == "ulaw":
            return g711.linear_to_ulaw(pcm)
        return g711.linear_to_alaw(pcm) if self._format.encoding == "alaw" else pcm
