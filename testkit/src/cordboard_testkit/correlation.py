"""Compares two recordings: their likeness and their shift in time. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cordboard_testkit.timeline import RATE, Samples

_AT_ONCE = 8192
"""Places that are compared in one step, which takes some megabytes."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The shift at which one recording resembles the other most."""

    lag_seconds: float
    """Delay of the second recording; negative = earlier."""
    correlation: float
    """1 = the same sound at that shift, 0 = nothing in common."""


def align(said: Samples, heard: Samples, longest_lag: float = 1.5) -> Alignment:
    """Find `said` in `heard`, at most `longest_lag` seconds later or earlier."""
    size = max(len(said), len(heard))
    if not size:
        return Alignment(0.0, 0.0)
    first = np.zeros(size)
    second = np.zeros(size)
    first[: len(said)] = said
    second[: len(heard)] = heard
    width = 1 << (2 * size - 1).bit_length()
    spectrum = np.fft.rfft(second, width) * np.conj(np.fft.rfft(first, width))
    product = np.fft.irfft(spectrum, width)
    reach = min(size - 1, int(longest_lag * RATE))
    lags = np.arange(-reach, reach + 1)
    lag = int(lags[np.argmax(product[lags])])  # negative lags are at the end of the product
    later, earlier = max(lag, 0), max(-lag, 0)
    overlap = first[earlier : size - later], second[later : size - earlier]
    energy = float((overlap[0] ** 2).sum() * (overlap[1] ** 2).sum())
    return Alignment(lag / RATE, float(product[lag]) / energy**0.5 if energy else 0.0)


def share_heard(said: Samples, heard: Samples, *, piece_ms: int = 40, alike: float = 0.9) -> float:
    """Return the share (0 to 1) of the sound in `said` that occurs in `heard`, in pieces at any
    place.

    Unlike `align` it ignores pauses that late frames put between two pieces, the only effect of a
    busy machine on a call. Pieces without sound do not count.
    """
    size = piece_ms * RATE // 1000
    pieces = said[: len(said) // size * size].reshape(-1, size).astype(np.float32)
    sounding = pieces[np.sqrt((pieces**2).mean(axis=1)) > 200]
    if not len(sounding) or len(heard) < size:
        return 0.0
    sounding /= np.linalg.norm(sounding, axis=1, keepdims=True)
    sums = np.cumsum(np.concatenate(([0.0], heard.astype(float) ** 2)))
    norms = np.sqrt(np.maximum(sums[size:] - sums[:-size], 1.0))
    windows = np.lib.stride_tricks.sliding_window_view(heard, size)
    best = np.zeros(len(sounding))
    for start in range(0, len(windows), _AT_ONCE):
        some = windows[start : start + _AT_ONCE].astype(np.float32)
        likeness = some @ sounding.T / norms[start : start + _AT_ONCE, None]
        np.maximum(best, likeness.max(axis=0), out=best)
    return float((best >= alike).mean())


def came_through(said: Samples, heard: Samples, *, alike: float = 0.9) -> bool:
    """True if a line carried `said`: at least eight in ten of its frames are in `heard`.

    A stall of the machine separates frames and may lose some of them; a wrong coding or a wrong
    rate leaves none.
    """
    return share_heard(said, heard, piece_ms=20, alike=alike) >= 0.8
