"""When a voice was last heard on a line, for services that do not tell. A guess, and a cheap one.

Each 20 ms frame costs some microseconds: one look-up a byte and a maximum, no arrays. A frame
counts as voice when its peak is well above the quietest of the last seconds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cordboard.audio.format import AudioFormat, Encoding
from cordboard.audio.g711 import alaw_to_linear, ulaw_to_linear

EACH = 4
"""Only each fourth sample is looked at: a voice that is loud shows in them too."""
_FLOOR_FRAMES = 150
"""The quietest frame of 3 s is the noise of the line."""
BETWEEN = 1.5
"""Seconds without a voice after which the next voice is something new."""
_ABOVE = 24
"""A voice's peak is so much above that, in 256ths of full scale on a scale of square roots."""


def _loudness(linear: Callable[[bytes], bytes]) -> bytes:
    """For each code of a law of G.711 its loudness: the square root of the sample, 0 to 255."""
    samples = np.frombuffer(linear(bytes(range(256))), "<i2").astype(np.float64)
    return bytes(np.sqrt(np.abs(samples) / 32768.0 * 65025.0).astype(np.uint8))


_TABLES: dict[Encoding, bytes] = {
    "ulaw": _loudness(ulaw_to_linear),
    "alaw": _loudness(alaw_to_linear),
}
_HIGH_BYTE = bytes(
    int((abs(value if value < 128 else value - 256) * 256 / 32768 * 65025) ** 0.5)
    for value in range(256)
)


class VoiceTrace:
    """One line's voice. Times are whatever the caller of `hear` gives."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._table = _TABLES.get(audio_format.encoding)
        self._floor = 255
        self._lowest = 255
        self._frames = 0
        self.last_voice_at: float | None = None
        """When the last frame with a voice had come."""
        self.began_at: float | None = None
        """When that voice had begun; pauses within it are shorter than `BETWEEN`."""

    def hear(self, sound: bytes, now: float) -> bool:
        """Take a frame that has just come; whether there is a voice in it."""
        if not sound:
            return False
        if self._table is not None:
            peak = max(sound[::EACH].translate(self._table))
        else:
            peak = max(sound[1 :: 2 * EACH].translate(_HIGH_BYTE))  # little-endian: the high bytes
        self._lowest = min(self._lowest, peak)
        self._frames += 1
        if self._frames >= _FLOOR_FRAMES:
            self._floor, self._lowest, self._frames = self._lowest, 255, 0
        floor = min(self._floor, self._lowest)
        if peak <= floor + _ABOVE:
            return False
        if self.last_voice_at is None or now - self.last_voice_at > BETWEEN:
            self.began_at = now
        self.last_voice_at = now
        return True
