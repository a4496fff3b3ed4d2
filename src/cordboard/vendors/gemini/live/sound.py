"""The sound between a call and Gemini Live: 16 kHz there, 24 kHz back, the call's rate here.

Filters keep their state from frame to frame, so that there is no click every 20 ms; an answer has
one filter from its first sample to its last.
"""

from __future__ import annotations

import re
from base64 import b64encode

from cordboard.audio.format import AudioFormat
from cordboard.audio.resample import Resampler, to_floats, to_pcm

RATE_IN = 16_000
RATE_OUT = 24_000
"""Sample rate of the service's sound unless its messages name another."""
_HEAD = b'{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"'
_TAIL = b'"}}}'
_RATE = re.compile(r"rate=(\d{4,6})")


class SoundToService:
    """The caller's sound as messages."""

    def __init__(self, call: AudioFormat) -> None:
        self._rate = call.rate
        self._filter = Resampler(self._rate, RATE_IN) if self._rate != RATE_IN else None

    def message(self, frame: bytes) -> bytes:
        """Return one frame as a message; empty while the filter holds everything back."""
        if self._filter is not None:
            frame = to_pcm(self._filter.process(to_floats(frame)))
        return _HEAD + b64encode(frame) + _TAIL if frame else b""

    def broken(self) -> None:
        """Reset the filter: the next sound does not follow the last one."""
        if self._filter is not None:
            self._filter.flush()


class SoundToCall:
    """The service's sound, one answer after the other."""

    def __init__(self, call: AudioFormat) -> None:
        self._rate = call.rate
        self._from = 0
        self._filter: Resampler | None = None

    def sound(self, pcm: bytes, rate: int) -> bytes:
        """Convert more of the answer."""
        if len(pcm) % 2:
            pcm = pcm[:-1]
        if rate == self._rate:
            return pcm
        if rate != self._from or self._filter is None:
            self._from, self._filter = rate, Resampler(rate, self._rate)
        return to_pcm(self._filter.process(to_floats(pcm)))

    def rest(self) -> bytes:
        """Return the end of the answer, which the filter still holds."""
        return to_pcm(self._filter.flush()) if self._filter is not None else b""

    def forget(self) -> None:
        """Drop the end of the answer: it was cut."""
        self.rest()


def rate_of(mime_type: object) -> int | None:
    """Return the sample rate of `audio/pcm;rate=24000`; None: other media types."""
    if not isinstance(mime_type, str) or not mime_type.startswith("audio/pcm"):
        return None
    match = _RATE.search(mime_type)
    rate = int(match.group(1)) if match else RATE_OUT
    return rate if 8_000 <= rate <= 48_000 else None
