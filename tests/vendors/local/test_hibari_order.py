"""The order in which sentences of several callers are rendered; the engine below is a fake."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cordboard.agent_api.workers import Workers
from cordboard.vendors.local.hibari import NATIVE_RATE, HibariVoice


class Engine:
    """Renders each sentence as three seconds of a tone."""

    rendered: list[str]

    def __init__(self, model: str, threads: int) -> None:
        self.rendered = Engine.rendered = []

    def __call__(self, sentence: str, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        self.rendered.append(sentence)
        tone = np.sin(np.arange(3 * NATIVE_RATE) * 0.1)
        return 0.3 * tone.astype(np.float32)

    def split_sentences(self, text: str) -> list[str]:
        return [f"{part}." for part in text.rstrip(".").split(". ")]


async def test_the_rest_of_an_answer_waits_for_the_first_sentence_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hibari", SimpleNamespace(Hibari=Engine))
    workers, go = Workers(threads=1), threading.Event()
    voice = HibariVoice(Path("model"), workers)
    await voice.prepare(["Ahead."])
    talking = voice.speak("One. Two. Three.")
    await anext(talking)
    held = asyncio.create_task(workers.run(go.wait, 10))
    work = [
        asyncio.create_task(voice.prepare(["Some day."])),
        asyncio.create_task(anext(talking)),  # type: ignore[arg-type]
        asyncio.create_task(workers.run(Engine.rendered.append, "a turn that is over")),
        asyncio.create_task(anext(voice.speak("Four. Five."))),  # type: ignore[arg-type]
    ]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(held, *work)
    assert Engine.rendered[1:] == [
        "Ahead.",
        "One.",
        "Four.",
        "a turn that is over",
        "Two.",
        "Some day.",
    ]
    await workers.close()
