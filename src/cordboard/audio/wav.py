"""WAV files for the engine: 16 bit PCM, read as mono at any rate, written as mono or stereo.

Blocking file access: call it from a worker thread or a command, not on the event loop.
"""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np

from cordboard.audio.g711 import ulaw_to_linear
from cordboard.audio.resample import resample_pcm
from cordboard.audio.wav_header import PCM, ULAW, riff_chunks
from cordboard.errors import AudioFileError


def read_mono(path: Path | str, rate: int | None = None) -> tuple[bytes, int]:
    """Return the samples (s16 bytes) and the sample rate of a WAV file.

    With ``rate`` the samples are resampled to it. Several channels are mixed to one. Raises
    ``AudioFileError`` if the file is missing, is not a WAV file, or is not 16 bit PCM.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width = file.getnchannels(), file.getsampwidth()
            found = file.getframerate()
            pcm = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise AudioFileError(f"cannot read {path} as a WAV file: {error}") from error
    if width != 2:
        raise AudioFileError(f"{path} has {8 * width} bit samples; 16 bit PCM is needed")
    if channels > 1:
        frames = np.frombuffer(pcm, "<i2").reshape(-1, channels)
        pcm = np.rint(frames.mean(axis=1)).astype("<i2").tobytes()
    wanted = rate or found
    return resample_pcm(pcm, found, wanted), wanted


def read_stereo(path: Path | str, rate: int) -> tuple[bytes, bytes]:
    """Return both channels of a recording, s16 or u-law (which `wave` does not read), as s16 bytes
    at ``rate``. Raises ``AudioFileError``."""
    try:
        data = Path(path).read_bytes()
        chunks = dict(riff_chunks(data))
        code, channels, found = struct.unpack_from("<HHI", chunks[b"fmt "])
        sound = chunks[b"data"]
    except (OSError, KeyError, struct.error) as error:
        raise AudioFileError(f"cannot read {path} as a WAV file: {error!r}") from error
    if channels != 2 or code not in (PCM, ULAW):
        raise AudioFileError(f"{path} is not a stereo file of 16 bit PCM or u-law")
    pcm = ulaw_to_linear(sound) if code == ULAW else sound
    frames = np.frombuffer(pcm[: len(pcm) // 4 * 4], "<i2").reshape(-1, 2)
    left, right = (resample_pcm(frames[:, side].tobytes(), found, rate) for side in (0, 1))
    return left, right


def write_mono(path: Path | str, pcm: bytes, rate: int) -> None:
    """Write s16 bytes as a mono WAV."""
    _write(path, pcm, rate, channels=1)


def write_stereo(path: Path | str, left: bytes, right: bytes, rate: int) -> None:
    """Write two s16 tracks as one stereo WAV; the shorter one is padded with silence."""
    frames = max(len(left), len(right)) // 2
    mixed = np.zeros((frames, 2), "<i2")
    for side, pcm in enumerate((left, right)):
        mixed[: len(pcm) // 2, side] = np.frombuffer(pcm, "<i2")
    _write(path, mixed.tobytes(), rate, channels=2)


def _write(path: Path | str, pcm: bytes, rate: int, channels: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
