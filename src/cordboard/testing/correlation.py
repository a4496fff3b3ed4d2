"""How alike two recordings are, and how far apart in time. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cordboard.testing.timeline import RATE, Samples


@dataclass(frozen=True, slots=True)
class Alignment:
    """The shift at which one recording resembles the other most."""

    lag_seconds: float
    """How much later the second recording is; negative = earlier."""
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
