"""What is done to text before the voice and after the recogniser, without any model."""

from __future__ import annotations

import numpy as np
import pytest

from cordboard.agent_api.stt import SpeechHints
from cordboard.audio.levels import peak_dbfs, speech_rms_dbfs
from cordboard.audio.resample import to_pcm
from cordboard.tools.speech.speakable import has_words, without_marks
from cordboard.vendors.local.hibari import LEAD, TAIL, finished
from cordboard.vendors.local.whisper import prompt_text, without_repeats


@pytest.mark.parametrize(
    ("heard", "kept"),
    [
        ("Read me the ATIS. Read me the ATIS. Read", "Read me the ATIS."),
        ("Yeah? Yeah? Yeah? Yeah?", "Yeah?"),
        ("Echo Golf Lima Lima Echo Golf Lima Lima", "Echo Golf Lima Lima"),
        ("JFK Weather. JFK Weather.", "JFK Weather."),
        (
            "The ATIS for Echo Sierra Sierra, Alpha. The ATIS for Echo Sierra Alpha.",
            "The ATIS for Echo Sierra Sierra, Alpha.",
        ),
    ],
)
def test_a_looping_answer_is_cut_to_its_first_round(heard: str, kept: str) -> None:
    assert without_repeats(heard) == (kept, True)


@pytest.mark.parametrize(
    "heard",
    [
        "No, no.",
        "Lima Lima",
        "Echo Golf Lima Lima.",
        "5 5 5 8 6 7",
        "bye bye",
        "",
        "Yes.",
        "The ATIS for Oslo now. The ATIS for Bergen now.",
    ],
)
def test_what_people_do_repeat_is_kept(heard: str) -> None:
    assert without_repeats(heard) == (heard, False)


def test_hints_become_sentences_first_and_names_after() -> None:
    hints = SpeechHints(("Oslo Gardermoen", "What's the ATIS?", " ", "Bergen", "Goodbye."))
    assert prompt_text(hints) == "What's the ATIS? Goodbye. Oslo Gardermoen, Bergen."
    assert prompt_text(SpeechHints(("Yes.",))) == "Yes."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("See [our site](http://example.org) **now**", "See our site now"),
        ("# Weather\n`KJFK` is _fine_", "Weather\nKJFK is fine"),
        ("Wind 220 at 12", "Wind 220 at 12"),
    ],
)
def test_markup_is_not_spoken(written: str, spoken: str) -> None:
    assert without_marks(written) == spoken


def test_marks_that_are_not_whole_are_not_spoken_either() -> None:
    assert without_marks("**Oslo <b and [x](y | #3 ~ `z") == "Oslo b and x (y 3 z"
    assert not has_words(without_marks("** -- [!] ..."))
    assert has_words("5")
    assert has_words("\u20ac")


def burst(amplitude: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    noise = np.random.default_rng(5).standard_normal(8000).astype(np.float32) * amplitude
    return np.concatenate((np.zeros(2400, np.float32), noise, np.zeros(4000, np.float32)))


@pytest.mark.parametrize("amplitude", [0.003, 0.05, 0.9])
def test_every_sentence_has_one_level_and_room_to_full_scale(amplitude: float) -> None:
    pcm = to_pcm(finished(burst(amplitude), 8000))
    assert -20 <= speech_rms_dbfs(pcm, 8000) <= -16
    assert peak_dbfs(pcm) < -0.2


def test_silence_at_the_edges_is_cut_and_the_cut_is_soft() -> None:
    clip = finished(burst(0.05), 8000)
    assert len(clip) == pytest.approx(8000 + (LEAD + TAIL) * 8000, abs=160)
    assert abs(clip[0]) == abs(clip[-1]) == 0
    assert len(finished(np.zeros(8000, np.float32), 8000)) == 0
    assert len(finished(np.zeros(3, np.float32), 8000)) == 0
