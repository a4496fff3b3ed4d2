"""Recorded human speech: Asterisk's own English prompts, one professional speaker.

Taken as WAV where that package is installed, else as GSM, which Asterisk itself decodes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.caller import Floats
from cordboard.audio.resample import to_floats
from cordboard.audio.wav import read_mono
from cordboard.errors import KitError
from cordboard_testkit.asterisk import AsteriskInstance, find_asterisk
from cordboard_testkit.timeline import RATE


async def recordings(names: Iterable[str]) -> dict[str, Floats]:
    """Each prompt (`digits/7`, `vm-no`) as it is, 8 kHz, silence at its ends included.

    Raises `AsteriskMissing`, and `KitError` for a prompt that this Asterisk lacks.
    """
    folder = find_asterisk().data / "sounds/en"
    found: dict[str, Floats] = {}
    coded: dict[str, Path] = {}
    for name in sorted(set(names)):
        plain, gsm = folder / f"{name}.wav", folder / f"{name}.gsm"
        if plain.is_file():
            found[name] = to_floats(read_mono(plain, RATE)[0])
        elif gsm.is_file():
            coded[name] = gsm
        else:
            raise KitError(f"Asterisk's prompt {name} is not in {folder}")
    if coded:
        found |= await _decoded(coded)
    return found


async def _decoded(files: dict[str, Path]) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with AsteriskInstance() as asterisk:
            for number, (name, path) in enumerate(files.items()):
                target = Path(folder) / f"{number}.wav"
                await asterisk.cli(f"file convert {path} {target}")
                found[name] = to_floats(read_mono(target, RATE)[0])
    return found


def trimmed(sound: Floats, margin: float = 0.0) -> Floats:
    """Cut to the part within 34 dB of the loudest sample, and `margin` seconds around it."""
    loud = np.flatnonzero(np.abs(sound) > 0.02 * np.abs(sound).max())
    around = int(margin * RATE)
    return sound[max(0, int(loud[0]) - around) : int(loud[-1]) + 1 + around]


def quietest(sound: Floats, around: float, within: float = 0.12) -> int:
    """The sample within `within` seconds of `around` where 20 ms are quietest: a gap of words."""
    first = max(0, int((around - within) * RATE))
    power = np.square(sound[first : int((around + within) * RATE)])
    smooth = np.convolve(power, np.ones(160), "same")
    return first + int(np.argmin(smooth[80:-80])) + 80
