"""What the parts of a pipeline say about settings that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import load
from cordboard.errors import ConfigError

ENVIRON = {"DEEPGRAM_API_KEY": "a", "OPENAI_API_KEY": "b", "ELEVENLABS_API_KEY": "c"}
CONTEXTS = "default_provider: a\ncontexts: {demo: {prompt: Be brief.}}\n"


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            "stt: {type: deepgram_flux, eot_treshold: 0.5}",
            "providers.a.stt.eot_treshold: unknown key; did you mean eot_threshold?",
        ),
        (
            "stt: {type: deepgram_flux, eager_eot_threshold: 0.9}",
            "providers.a.stt.eager_eot_threshold: expected at most eot_threshold (left out: 0.7)",
        ),
        (
            "stt: {type: deepgram, endpointing: false}",
            "providers.a.stt.endpointing: expected a whole number from 0 to 60000, found false",
        ),
        (
            "stt: {type: openai, language: english}",
            "providers.a.stt.language: expected a language code such as en, or nothing, "
            'found the text "english"',
        ),
        (
            "tts: {type: elevenlabs, voice_id: a/b}",
            "providers.a.tts.voice_id: expected a voice's id (letters, digits, _ and -, at most "
            '64), found the text "a/b"',
        ),
        (
            "tts: polly",
            "providers.a.tts: expected one of hibari, piper, deepgram, elevenlabs, openai, "
            'found the text "polly"',
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, parts: str, problem: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"providers: {{a: {{type: pipeline, {parts}}}}}\n{CONTEXTS}")
    with pytest.raises(ConfigError) as raised:
        load(file, environ=ENVIRON)
    assert [f"{each.key}: {each.message}" for each in raised.value.problems] == [problem]


@pytest.mark.parametrize(
    ("part", "parts"),
    [("brain", "brain: {type: gguf, model: MODEL}"), ("tts", "tts: {type: piper, model: MODEL}")],
)
def test_a_model_in_a_file_that_is_not_there_is_told(tmp_path: Path, part: str, parts: str) -> None:
    file, model = tmp_path / "a.yaml", tmp_path / "model"
    file.write_text(
        f"providers: {{a: {{type: pipeline, {parts.replace('MODEL', str(model))}}}}}\n{CONTEXTS}"
    )
    (problem,) = load(file, ENVIRON).problems
    assert not problem.fatal
    assert str(problem).endswith(
        f"providers.a.{part}.model: there is no file {model}; calls that use it will fail"
    )
    model.touch()
    assert load(file, ENVIRON).problems == ()
