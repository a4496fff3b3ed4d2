"""Converts one stream of sound from one format to another, with a function call per piece.

G.711 is converted by table, the rate by `audio.resample`, which looks ahead 3 ms at 8 kHz and less
at higher rates: that is the only delay. The state is kept between pieces, so that pieces of any
length join without a click.
"""

from __future__ import annotations

import numpy as np

from cordboard.audio import g711
from cordboard.audio.format import AudioFormat
from cordboard.audio.resample import Resampler, to_floats, to_pcm


class Transcoder:
    """Converts one stream from one format to another."""

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._source = source
        self._target = target
        self._resampler = (
            Resampler(source.rate, target.rate) if source.rate != target.rate else None
        )
        self._half_sample = b""
        self._held = 0.0

    def convert(self, sound: bytes) -> bytes:
        """Convert the next piece; return the final part. Half a sample waits for its rest."""
        if self._source.bytes_per_sample == 2:
            sound = self._half_sample + sound
            whole = len(sound) & ~1
            sound, self._half_sample = sound[:whole], sound[whole:]
        pcm = _to_linear(sound, self._source)
        if self._resampler is not None:
            before = self._source.duration_ms(len(sound))
            pcm = to_pcm(self._resampler.process(to_floats(pcm)))
            self._held += before - len(pcm) / (2 * self._target.rate / 1000)
        return _from_linear(pcm, self._target)

    def settle(self) -> None:
        """Feed silence for the resampler's look-ahead.

        Afterwards each piece gives output of exactly its own duration; the output is a few ms late.
        """
        if self._resampler is not None:
            self._resampler.process(np.zeros(self._resampler.lookahead, np.float32))

    def finish(self) -> bytes:
        """Return the rest of the stream and reset the transcoder."""
        self._half_sample = b""
        self._held = 0.0
        if self._resampler is None:
            return b""
        return _from_linear(to_pcm(self._resampler.flush()), self._target)

    @property
    def held_ms(self) -> float:
        """Milliseconds of sound that are held back."""
        return max(0.0, self._held)


def _to_linear(sound: bytes, audio_format: AudioFormat) -> bytes:
    if audio_format.encoding == "ulaw":
        return g711.ulaw_to_linear(sound)
    return g711.alaw_to_linear(sound) if audio_format.encoding == "alaw" else sound


def _from_linear(pcm: bytes, audio_format: AudioFormat) -> bytes:
    if audio_format.encoding == "ulaw":
        return g711.linear_to_ulaw(pcm)
    return g711.linear_to_alaw(pcm) if audio_format.encoding == "alaw" else pcm
