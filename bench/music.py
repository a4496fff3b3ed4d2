"""Finds music on hold in what a phone heard: under speech, between it, and when speech follows.

The music is a known noise, so each frame of 20 ms tells by its correlation whether it is music. A
frame of speech has at most a chance likeness of about 0.4 to any place of it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cordboard_testkit.timeline import FRAME_SAMPLES, RATE, SPEECH_LEVEL, Samples, TrackFrame

PURE = 0.9
"""Least likeness of a frame that is the known sound and nothing else."""
MIXED = 0.5
"""Least likeness of a frame that has a quarter or more of its energy from the music."""
STRETCH = 10
"""Frames in a row that are looked at together: music 14 dB below the speech is found."""
MIXED_STRETCH = 0.2
Source = Literal["quiet", "music", "mixed", "other"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Music:
    """The music that one phone heard."""

    frames: int
    """Frames of music alone."""
    under_speech: int
    """Frames with both, frames of stretches with both, and frames of speech between music."""
    sounds: tuple[float, ...]
    """Time of the first loud sample of each frame that is neither quiet nor music."""

    @classmethod
    def of(cls, heard: Sequence[TrackFrame], music: Samples) -> Music:
        """Judge the frames of one call."""
        search = Search(music)
        whole = [frame for frame in heard if len(frame.samples) == FRAME_SAMPLES]
        sources = [_source(frame.samples, search) for frame in whole]
        under = sources.count("mixed")
        for begin in range(0, len(whole) - STRETCH + 1, STRETCH):
            if all(each == "other" for each in sources[begin : begin + STRETCH]):
                parts = [frame.samples for frame in whole[begin : begin + STRETCH]]
                under += STRETCH * (search.likeness(np.concatenate(parts)) >= MIXED_STRETCH)
        played = [number for number, each in enumerate(sources) if each == "music"]
        if played:
            under += sources[played[0] : played[-1]].count("other")
        others = (f for f, each in zip(whole, sources, strict=True) if each in ("other", "mixed"))
        return cls(len(played), under, tuple(map(_begin, others)))

    def sound_after(self, moment: float) -> float:
        """Return when the first sound after a moment began. Raises `ValueError` if none did."""
        found = next((each for each in self.sounds if each > moment), None)
        if found is None:
            raise ValueError("a phone heard nothing where it should have")
        return found


class Search:
    """Looks for a known sound."""

    def __init__(self, sound: Samples) -> None:
        self._width = 1 << (len(sound) + STRETCH * FRAME_SAMPLES).bit_length()
        known = sound.astype(np.float64)
        self._length = len(sound)
        self._spectrum = np.fft.rfft(known, self._width)
        self._energy = np.cumsum(np.concatenate(([0.0], known**2)))

    def likeness(self, piece: Samples) -> float:
        """Return how alike a piece is to the most similar place of the sound, 0 to 1."""
        wanted = piece.astype(np.float64)
        places = self._length - len(wanted) + 1
        there = np.fft.rfft(wanted, self._width)
        product = np.fft.irfft(self._spectrum * np.conj(there), self._width)[:places]
        norms = np.sqrt(self._energy[len(wanted) :] - self._energy[:places])
        own = float(np.sqrt((wanted**2).sum()))
        return float((np.abs(product) / np.maximum(norms * own, 1.0)).max())


def heard_from(heard: Sequence[TrackFrame], sound: Samples) -> float:
    """Return when the first frame of a known sound came. Raises `ValueError` if none did."""
    search = Search(sound)
    for frame in heard:
        if _is_loud(frame.samples) and search.likeness(frame.samples) >= PURE:
            return frame.audible_at
    raise ValueError("a phone did not hear the other one")


def _source(samples: Samples, search: Search) -> Source:
    if not _is_loud(samples):
        return "quiet"
    likeness = search.likeness(samples)
    if likeness >= PURE:
        return "music"
    return "mixed" if likeness >= MIXED else "other"


def _is_loud(samples: Samples) -> bool:
    return bool(np.abs(samples.astype(np.int32)).max(initial=0) > SPEECH_LEVEL)


def _begin(frame: TrackFrame) -> float:
    loud = np.flatnonzero(np.abs(frame.samples.astype(np.int32)) > SPEECH_LEVEL)
    return frame.audible_at + float(loud[0]) / RATE
