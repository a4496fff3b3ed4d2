"""The caller's side of the line: spoken texts as an 8 kHz u-law line carries them to the engine.

The voice is synthetic, and the same one that answers; human callers will do worse. Recordings of a
human are taken from Asterisk's own sounds where they are installed (`phonetic/`: a professional
speaker saying the spelling alphabet).
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hibari import Hibari
from hibari.g2p import G2P
from numpy.typing import NDArray

from cordboard.audio import g711
from cordboard.audio.resample import resample, to_floats, to_pcm
from cordboard.audio.wav import read_mono
from cordboard.vendors.local.hibari import NATIVE_RATE, PRONUNCIATIONS
from cordboard_testkit.asterisk import AsteriskInstance, find_asterisk
from cordboard_testkit.timeline import RATE, Samples

Floats = NDArray[np.float32]
PEAK = 0.5
"""-6 dBFS: a caller who speaks up."""
TAIL_SECONDS = 1.5
"""Seconds of noise after the last word, so that the end of the turn falls in the noise."""


@functools.cache
def _voice(*, british: bool) -> Hibari:
    return Hibari(threads=1, g2p=G2P(british=british))


def spoken(
    text: str, speed: float = 1.0, noise_dbfs: float | None = None, *, british: bool = False
) -> Samples:
    """`text` spoken at a speed, on a line that is silent or carries white noise (RMS dBFS)."""
    for word, phonemes in PRONUNCIATIONS.items():
        text = text.replace(word, f"[{word}](/{phonemes}/)")
    voice = _voice(british=british)
    sound = resample(voice(text, speed=speed, seed=1), NATIVE_RATE, RATE)
    return on_the_line(sound, noise_dbfs)


def on_the_line(sound: Floats, noise_dbfs: float | None = None) -> Samples:
    """Scale 8 kHz audio to `PEAK`, add noise, and pass it through u-law."""
    sound = sound * np.float32(PEAK / np.abs(sound).max())
    if noise_dbfs is not None:
        sound = np.concatenate((sound, np.zeros(int(TAIL_SECONDS * RATE), np.float32)))
        noise = np.random.default_rng(len(sound)).standard_normal(len(sound), np.float32)
        sound = sound + noise * np.float32(10 ** (noise_dbfs / 20))
    line = g711.ulaw_to_linear(g711.linear_to_ulaw(to_pcm(sound)))
    return np.frombuffer(line, "<i2").astype(np.int16)


async def human_letters(letters: Sequence[str]) -> dict[str, Floats]:
    """The words of the spelling alphabet by letter, spoken by a human, with the silence around cut.

    Empty when the recordings are not installed. Asterisk itself converts them from GSM. Raises
    `AsteriskMissing`.
    """
    found: dict[str, Floats] = {}
    async with AsteriskInstance() as asterisk:
        folder = find_asterisk().data / "sounds/en"
        with tempfile.TemporaryDirectory() as name:
            for letter in letters:
                source = next(iter(sorted(folder.glob(f"phonetic/{letter}_p.*"))), None)
                if source is None:
                    return {}
                target = Path(name) / f"{letter}.wav"
                await asterisk.cli(f"file convert {source} {target}")
                pcm, _ = read_mono(target, RATE)
                found[letter] = _trimmed(to_floats(pcm))
    return found


def _trimmed(sound: Floats) -> Floats:
    """Cut to the audible part, with the quiet breath of a plosive before and after it."""
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    margin = int(0.06 * RATE)
    return sound[max(0, int(loud[0]) - margin) : int(loud[-1]) + margin]


def spelled(code: str, letters: dict[str, Floats], pause: float = 0.06) -> Samples:
    """A code in a human's recorded spelling alphabet."""
    gap = np.zeros(int(pause * RATE), np.float32)
    parts = [part for letter in code.lower() for part in (letters[letter], gap)]
    return on_the_line(np.concatenate(parts[:-1]).astype(np.float32))
