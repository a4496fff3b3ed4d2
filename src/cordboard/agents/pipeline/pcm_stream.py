"""Convert a service's raw sound to the requested rate, piece by piece. Pure."""

from __future__ import annotations

from typing import Protocol

from cordboard.audio.g711 import ulaw_to_linear
from cordboard.audio.resample import Resampler, to_floats, to_pcm


class SoundStream(Protocol):
    """Converts the sound of a service, piece by piece, to s16 at the rate that was asked for."""

    def feed(self, data: bytes) -> bytes:
        """Convert the next piece; the result may be empty."""

    def flush(self) -> bytes:
        """Return the rest."""


class PcmStream:
    """s16 bytes in pieces of any size to s16 at another rate; keeps its filter's state."""

    def __init__(self, source_rate: int, target_rate: int) -> None:
        same = source_rate == target_rate
        self._resampler = None if same else Resampler(source_rate, target_rate)
        self._odd = b""

    def feed(self, data: bytes) -> bytes:
        """Convert the next piece; the result may be empty."""
        data = self._odd + data
        whole = len(data) - len(data) % 2
        self._odd = data[whole:]
        if self._resampler is None or not whole:
            return data[:whole]
        return to_pcm(self._resampler.process(to_floats(data[:whole])))

    def flush(self) -> bytes:
        """Return the rest; half a sample is dropped."""
        self._odd = b""
        return b"" if self._resampler is None else to_pcm(self._resampler.flush())


class UlawStream:
    """u-law at 8 kHz to s16 at 8 kHz."""

    def feed(self, data: bytes) -> bytes:
        return ulaw_to_linear(data)

    def flush(self) -> bytes:
        return b""
