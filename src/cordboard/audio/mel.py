"""The log-mel spectrogram that Whisper and Smart Turn expect, in plain numpy.

Figures are those of the Whisper paper and its reference code: 16 kHz, 25 ms Hann window, 10 ms
hop, 80 Slaney mel bands up to 8 kHz, log10 of the power, limited to 80 dB below the maximum and
scaled to about -1..1.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

RATE = 16000
FRAMES_PER_SECOND = 100
BANDS = 80
_FFT = 400
_HOP = 160


@lru_cache(maxsize=1)
def _filters() -> Floats:
    """Slaney triangular filters, [80, 201]: linear below 1 kHz, logarithmic above, equal area."""

    def to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
        linear = mel * (200 / 3)
        return np.where(mel < 15, linear, 1000 * np.exp((mel - 15) * (np.log(6.4) / 27)))

    top = 15 + np.log(RATE / 2 / 1000) * 27 / np.log(6.4)
    edges = to_hertz(np.linspace(0, top, BANDS + 2))
    bins = np.linspace(0, RATE / 2, _FFT // 2 + 1)
    rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters: Floats = (triangles * (2 / (edges[2:] - edges[:-2]))[:, None]).astype(np.float32)
    return filters


@lru_cache(maxsize=1)
def _window() -> Floats:
    hann: Floats = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)).astype(np.float32)
    return hann


def log_mel(samples: Floats, frames: int) -> Floats:
    """Return the spectrogram [80, frames] of 16 kHz samples.

    Audio longer than ``frames`` x 10 ms is cut; shorter audio is followed by silence. At its
    beginning, and at its end if it fills the window, the audio is mirrored for frames that reach
    beyond it, as in the reference code.
    """
    samples = samples[: frames * _HOP]
    spoken = min(frames, -(-len(samples) // _HOP) + 1)
    padded = np.zeros((spoken - 1) * _HOP + _FFT, np.float32)
    half = _FFT // 2
    available = samples[: len(padded) - half]
    padded[half : half + len(available)] = available
    mirrored = samples[1 : half + 1][::-1]
    padded[half - len(mirrored) : half] = mirrored
    if len(samples) == frames * _HOP:
        beyond = len(padded) - half - len(samples)
        padded[half + len(samples) :] = samples[-2 : -2 - beyond : -1]
    pieces = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP]
    spectrum = np.fft.rfft(pieces * _window(), axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)
    levels = np.log10(np.maximum(_filters() @ power.T, 1e-10))
    floor = max(float(levels.max()) - 8.0, -10.0)
    features = np.full((BANDS, frames), (floor + 4) / 4, np.float32)
    features[:, :spoken] = (np.maximum(levels, floor) + 4) / 4
    return features
