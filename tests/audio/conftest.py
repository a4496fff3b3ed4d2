"""Recorded human speech for the tests of this room: Asterisk's own English prompts.

Where no Asterisk with WAV prompts is installed, the engine's own voice speaks instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cordboard.audio import g711
from cordboard.audio.wav import read_mono
from cordboard.errors import AsteriskMissing
from cordboard_testkit.asterisk import find_asterisk

Floats = NDArray[np.float32]

RATE = 8000
SENTENCES = (
    "Please enter your password, and then press the pound key.",
    "The number you have dialled is not in service, please check it and dial again.",
    "All of our agents are busy at the moment, your call will be answered shortly.",
    "Thank you for calling, somebody will be with you in a minute.",
    "If you would like to leave a message, please speak after the tone.",
    "I'm sorry, that is not a valid extension, please try again.",
)


@pytest.fixture(scope="session")
def prompt_folder() -> Path | None:
    try:
        folder = find_asterisk().data / "sounds/en"
    except AsteriskMissing:
        return None
    return folder if (folder / "demo-congrats.wav").is_file() else None


@pytest.fixture(scope="session")
def prompt(prompt_folder: Path | None) -> Callable[[str], Floats]:
    """A prompt by name, without the silence at its ends, speech at -20 dBFS, in s16 steps."""
    if prompt_folder is None:
        pytest.skip("needs an Asterisk with its prompts as WAV files")
    return lambda name: _trimmed(read_mono(prompt_folder / f"{name}.wav", RATE)[0])


@pytest.fixture(scope="session")
def speech(prompt_folder: Path | None) -> list[Floats]:
    """Sentences of seconds each, in a fixed order, -20 dBFS, in s16 steps at 8 kHz."""
    if prompt_folder is None:
        return asyncio.run(_spoken())
    paths = sorted(path for path in prompt_folder.glob("*.wav") if path.stat().st_size > 40_000)
    sung = ("tt-monkeys", "vm-Cust")
    return [_trimmed(read_mono(path, RATE)[0]) for path in paths if not path.name.startswith(sung)]


@pytest.fixture(scope="session")
def over_the_line() -> Callable[[Floats], bytes]:
    """s16 bytes after u-law, as the exchange hands them over."""

    def carried(samples: Floats) -> bytes:
        pcm = np.clip(np.rint(samples), -32768, 32767).astype("<i2").tobytes()
        return g711.ulaw_to_linear(g711.linear_to_ulaw(pcm))

    return carried


async def _spoken() -> list[Floats]:
    from cordboard.agent_api.workers import Workers
    from cordboard.vendors.local.hibari import HibariVoice
    from cordboard.vendors.local.model_files import HIBARI_HEART

    workers = Workers(threads=1)
    voice = HibariVoice(HIBARI_HEART.checked(), workers)
    sounds = [
        b"".join([chunk async for chunk in voice.speak(sentence, rate=RATE)])
        for sentence in SENTENCES
    ]
    await workers.close()
    return [_trimmed(sound) for sound in sounds]


def _trimmed(pcm: bytes) -> Floats:
    samples = np.frombuffer(pcm, "<i2").astype(np.float32)
    blocks = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    power = np.square(blocks).mean(axis=1)
    loud = np.flatnonzero(power > power.max() * 10**-3.5)
    level = float(np.sqrt(power[power > power.max() * 0.01].mean()))
    trimmed: Floats = blocks[loud[0] : loud[-1] + 1].reshape(-1) * np.float32(3276.8 / level)
    return trimmed
