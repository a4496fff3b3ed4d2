"""Writes two tracks as one stereo WAV: caller left, agent right. 8 kHz, 16 bit."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from cordboard.testing.timeline import RATE, Samples


def write_stereo_wav(path: Path, left: Samples, right: Samples) -> None:
    """Write both channels; the shorter one is filled up with silence."""
    sound = np.zeros((max(len(left), len(right)), 2), np.int16)
    sound[: len(left), 0] = left
    sound[: len(right), 1] = right
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.astype("<i2").tobytes())


def read_wav_8k(path: Path) -> Samples:
    """Read an 8 kHz mono 16-bit WAV as samples. Raises `ValueError` for any other format."""
    with wave.open(str(path), "rb") as file:
        shape = (file.getframerate(), file.getnchannels(), file.getsampwidth())
        if shape != (RATE, 1, 2):
            raise ValueError(f"{path} is not 8 kHz mono 16-bit but (rate, channels, bytes) {shape}")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.int16)
