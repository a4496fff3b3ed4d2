"""Farewells end the caller's turn by their words: none of them is encouraged to go on."""

from __future__ import annotations

import pytest
from tests.agents.rules.conftest import Talk

from cordboard.speech.turns.endpointing import silence_for
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.text_clues import clue_of

UNFINISHED = 0.01
"""Probability of an end-of-turn model that takes the voice for unfinished."""


@pytest.mark.parametrize(
    "words",
    [
        "Thank you very much. Goodbye.",
        "Okay, thanks, bye.",
        "No thank you, goodbye.",
        "That's all, thank you.",
        "Bye bye.",
        "Thanks for your help, bye.",
        "Great, thank you, have a nice day.",
        "No, that's everything, thanks.",
        "All right then, goodbye.",
        "Cheers, bye now.",
    ],
)
def test_a_closing_ends_the_turn_whatever_its_melody(demo: Talk, words: str) -> None:
    profile = TurnProfile()
    clue = clue_of(words, complete=demo.dialogue.is_complete(words))
    silence = silence_for(profile, clue, UNFINISHED)
    assert silence == profile.complete_silence_ms < profile.continuer_ms


def test_a_long_answer_may_still_have_a_tail(demo: Talk) -> None:
    words = "What is the weather in Boston?"
    clue = clue_of(words, complete=demo.dialogue.is_complete(words))
    assert silence_for(TurnProfile(), clue, 0.99) > TurnProfile().complete_silence_ms
