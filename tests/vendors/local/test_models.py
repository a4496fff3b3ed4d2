"""The real offline models on speech as a telephone line carries it (8 kHz, u-law).

The caller's side is spoken by the engine's own voice; nothing is recorded in the repository.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.stt import NO_HINTS, SpeechHints
from cordboard.agent_api.workers import Workers
from cordboard.audio import g711
from cordboard.audio.levels import peak_dbfs, speech_rms_dbfs
from cordboard.vendors.local.models import load_offline_models

pytestmark = [pytest.mark.voices, pytest.mark.asyncio(loop_scope="module")]

HINTS = SpeechHints(
    (
        "What's the ATIS at Kilo Foxtrot Mike?",
        "Information for E N G M please.",
        "Transfer me to sales.",
        "Yes, please.",
        "Goodbye.",
        "Oslo Gardermoen",
        "Bergen Flesland",
        "Stavanger",
        "London Heathrow",
    )
)

QUESTIONS = (
    "What's the ATIS at Kilo Juliett Foxtrot Kilo?",
    "Can I get the weather for Oslo Gardermoen?",
    "Read me the ATIS for Bergen.",
    "What is the current ATIS for Oslo?",
    "Could I have the information for Bergen Flesland?",
    "ATIS for London Heathrow please.",
    "Yes please.",
    "No thank you.",
    "Goodbye.",
    "Transfer me to sales.",
    "Could you repeat that?",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def models() -> AsyncIterator[OfflineModels]:
    workers = Workers(threads=2)
    models = await load_offline_models(workers)
    yield models
    models.close()
    await workers.close()


async def spoken(models: OfflineModels, text: str) -> bytes:
    """``text`` said by a caller, over a u-law line, in a little silence."""
    pcm = b"".join([chunk async for chunk in models.voice.speak(text)])
    return g711.ulaw_to_linear(g711.linear_to_ulaw(bytes(3200) + pcm + bytes(4800)))


def words(text: str) -> list[str]:
    plain = re.sub(r"[^a-z ]", " ", text.lower().replace("what's", "what is"))
    return plain.replace("juliett", "juliet").split()


def errors(wanted: list[str], heard: list[str]) -> int:
    """Edit distance in words."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        above, row = row, [i]
        for j, other in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (word != other)))
    return row[-1]


async def test_questions_are_understood_with_at_most_5_percent_wrong_words(
    models: OfflineModels,
) -> None:
    wrong = total = 0
    for question in QUESTIONS:
        heard = await models.recogniser.transcribe(await spoken(models, question), HINTS)
        wrong += errors(words(question), words(heard.text))
        total += len(words(question))
    assert wrong <= 0.05 * total


async def test_priming_makes_the_recogniser_write_the_words_of_the_trade(
    models: OfflineModels,
) -> None:
    audio = await spoken(models, "Could I have the information for Bergen Flesland?")
    assert "Flesland" in (await models.recogniser.transcribe(audio, HINTS)).text
    assert "Flesland" not in (await models.recogniser.transcribe(audio, NO_HINTS)).text


@pytest.mark.parametrize("hints", [NO_HINTS, HINTS], ids=["bare", "primed"])
@pytest.mark.parametrize("sound", ["silence", "hiss", "beep", "key", "breath", "nothing"])
async def test_nothing_is_made_up_where_nobody_speaks(
    models: OfflineModels, sound: str, hints: SpeechHints
) -> None:
    at = np.arange(8000) / 8000
    noise = np.random.default_rng(0).standard_normal(8000)
    wave = {
        "silence": np.zeros(8000),
        "hiss": noise * 0.02,
        "beep": 0.3 * np.sin(2 * np.pi * 1000 * at),
        "key": 0.2 * (np.sin(2 * np.pi * 770 * at) + np.sin(2 * np.pi * 1336 * at))[:2400],
        "breath": noise[:6000] * 0.02 * np.hanning(6000),
        "nothing": np.zeros(0),
    }[sound]
    pcm = (wave * 32767).astype("<i2").tobytes()
    heard = await models.recogniser.transcribe(pcm, hints)
    assert heard.text == ""
    assert heard.confidence == 0


async def test_a_turn_longer_than_the_window_of_the_model_is_heard_to_its_end(
    models: OfflineModels,
) -> None:
    long = " ".join(f"My order number is {n}." for n in ("four", "five", "six", "seven") * 6)
    audio = await spoken(models, long + " And my name is John Smith.")
    assert len(audio) > 16000 * 30
    heard = await models.recogniser.transcribe(audio, NO_HINTS)
    assert "John Smith" in heard.text


async def test_the_voice_speaks_sentence_by_sentence_at_one_level(models: OfflineModels) -> None:
    text = "Good morning. Wind two two zero degrees, one two knots! Anything else?"
    chunks = [chunk async for chunk in models.voice.speak(text)]
    assert len(chunks) == 3
    for chunk in chunks:
        assert -20 <= speech_rms_dbfs(chunk, 8000) <= -16
        assert peak_dbfs(chunk) < -0.2
        assert len(chunk) % 2 == 0


async def test_the_first_sound_of_a_sentence_comes_at_once(models: OfflineModels) -> None:
    (chunk,) = [chunk async for chunk in models.voice.speak("Hello, how can I help you?")]
    loud = np.flatnonzero(np.abs(np.frombuffer(chunk, "<i2")) > 500)
    assert loud[0] < 0.1 * 8000


async def test_prepared_sentences_are_the_same_and_need_no_worker(models: OfflineModels) -> None:
    text = "Welcome to the exchange."
    await models.voice.prepare([text])
    held = models.voice.cached_bytes
    first = [chunk async for chunk in models.voice.speak(text)]
    again = [chunk async for chunk in models.voice.speak(text)]
    assert first == again
    assert models.voice.cached_bytes == held > 0


@pytest.mark.parametrize("text", ["", " ", "—", "...", "**", "[](x)"])
async def test_what_cannot_be_spoken_gives_no_sound(models: OfflineModels, text: str) -> None:
    assert [chunk async for chunk in models.voice.speak(text)] == []


async def test_voice_activity_follows_speech_and_ignores_silence(models: OfflineModels) -> None:
    pcm = bytes(16000) + await spoken(models, "Can I get the weather for Oslo?") + bytes(16000)
    heard: list[tuple[float, int]] = []
    done = asyncio.Event()

    def collect(probability: float, end: int) -> None:
        heard.append((probability, end))
        if len(heard) == len(pcm) // 512:
            done.set()

    stream = models.voice_activity.open(collect)
    for at in range(0, len(pcm), 320):
        stream.feed(pcm[at : at + 320])
    await asyncio.wait_for(done.wait(), 60)
    stream.close()
    before = [p for p, end in heard if end < 8000]
    during = [p for p, end in heard if 12000 < end < len(pcm) // 2 - 14000]
    after = [p for p, end in heard if end > len(pcm) // 2 - 5000]
    assert max(before) < 0.3
    assert np.mean([p > 0.5 for p in during]) > 0.7
    assert max(after) < 0.3
