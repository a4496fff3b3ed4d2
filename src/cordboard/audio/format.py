"""The format of telephone audio: its encoding and its sample rate.

All byte counts and durations in the engine are computed here, so that no other module multiplies by
16 or divides by 320 itself. Always one channel; ``slin`` is signed linear 16 bit, little endian,
Asterisk's name for it; ``ulaw`` and ``alaw`` are the two laws of ITU-T G.711.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Encoding = Literal["slin", "ulaw", "alaw"]

FRAME_MS = 20
"""Length of one audio frame on the wire. All telephony peers of the engine use 20 ms."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """Encoding and rate of mono audio."""

    encoding: Encoding
    rate: int
    """Samples per second, a multiple of 1000 (8000, 16000, 24000, ...)."""

    def __post_init__(self) -> None:
        if self.encoding not in ("slin", "ulaw", "alaw"):
            raise ValueError(f"unknown audio encoding {self.encoding!r}")
        if self.rate <= 0 or self.rate % 1000:
            raise ValueError(f"sample rate must be a positive multiple of 1000, not {self.rate}")

    @property
    def bytes_per_sample(self) -> int:
        return 2 if self.encoding == "slin" else 1

    @property
    def bytes_per_ms(self) -> int:
        return self.rate // 1000 * self.bytes_per_sample

    @property
    def frame_bytes(self) -> int:
        """Bytes in one 20 ms frame."""
        return self.bytes_per_ms * FRAME_MS

    def duration_ms(self, size: int) -> float:
        """Play time of ``size`` bytes in milliseconds."""
        return size / self.bytes_per_ms

    def bytes_for(self, duration_ms: float) -> int:
        """Bytes that last ``duration_ms``, rounded down to whole samples."""
        return int(duration_ms * self.rate / 1000) * self.bytes_per_sample

    def silence(self, duration_ms: float = FRAME_MS) -> bytes:
        """Digital silence: 0 in slin, 0xFF in u-law, 0xD5 in A-law (G.711 positive zero)."""
        zero = {"slin": b"\0\0", "ulaw": b"\xff", "alaw": b"\xd5"}[self.encoding]
        return zero * (self.bytes_for(duration_ms) // self.bytes_per_sample)


SLIN_8K = AudioFormat("slin", 8000)
SLIN_16K = AudioFormat("slin", 16000)
ULAW_8K = AudioFormat("ulaw", 8000)
ALAW_8K = AudioFormat("alaw", 8000)
