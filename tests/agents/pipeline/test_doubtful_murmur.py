"""What may be a murmur over the agent's speech: the sound decides. In virtual time."""

from __future__ import annotations

import pytest

from cordboard.agents.pipeline.overlap_words import judge_words
from cordboard.agents.pipeline.stt.base import Transcript
from cordboard.agents.pipeline.text_clues import TextClue
from cordboard.agents.pipeline.turn_events import (
    AgentVoice,
    OverlapHeld,
    OverlapLetPass,
    TurnEvent,
    TurnTaken,
    WordsWanted,
)
from cordboard.agents.pipeline.turn_profiles import TurnProfile
from cordboard.agents.pipeline.turn_taking import TurnTaker

MS = 8
WINDOW = 32 * MS
Heard = tuple[str, float]
"""A text, and the recogniser's confidence in it."""


def interrupt(
    answers: list[Heard], *, loudest_ms: int | None, answered_after: int = 60, lasts_ms: int = 448
) -> list[TurnEvent]:
    """What comes of a voice over the agent's, which the detector is sure of from its first window.

    `answers`: to each question for words, the last one again and again. `loudest_ms`: when it was
    loudest, from its beginning; None: it still is.
    """
    taker, now = TurnTaker(TurnProfile()), 0
    told: list[TurnEvent] = []
    coming: list[tuple[int, int, Heard]] = []
    murmured = False
    while now < (lasts_ms + 640) * MS:
        start, now = now, now + WINDOW
        for due in [answer for answer in coming if answer[0] <= now]:
            coming.remove(due)
            _, overlap, (text, confidence) = due
            clue, sure = judge_words(
                Transcript(text, 0.02, confidence, 60.0),
                now // MS,
                complete=False,
                murmured=murmured,
            )
            murmured = murmured or clue is TextClue.MURMUR
            told.extend(taker.learn_words(overlap, clue, sure=sure))
        voiced = now <= lasts_ms * MS
        heard_until = min(now, lasts_ms * MS)
        events = taker.judge(
            0.98 if voiced else 0.02,
            start,
            now,
            heard_until=heard_until,
            loudest_until=heard_until if loudest_ms is None else min(now, loudest_ms * MS),
            agent=AgentVoice.OPEN,
        )
        for event in events:
            told.append(event)
            if isinstance(event, WordsWanted):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                coming.append((now + answered_after * MS, event.overlap, answer))
    return told


def outcome(events: list[TurnEvent]) -> list[type]:
    kinds = (OverlapHeld, OverlapLetPass, TurnTaken)
    return [type(event) for event in events if isinstance(event, kinds)]


OBEYED = [OverlapHeld, TurnTaken]
LET_PASS = [OverlapHeld, OverlapLetPass]


def test_a_doubtful_murmur_that_swells_is_an_interruption_in_time() -> None:
    """`Your call cannot be ...`, of which the first 160 ms are written as "Yeah."."""
    events = interrupt([("Yeah.", 0.3)], loudest_ms=None, lasts_ms=1280)
    assert outcome(events) == OBEYED
    (held,) = [event for event in events if isinstance(event, OverlapHeld)]
    (taken,) = [event for event in events if isinstance(event, TurnTaken)]
    assert taken.sample - held.sample <= 300 * MS


@pytest.mark.parametrize(
    ("confidence", "loudest_ms"), [(0.3, 96), (0.3, 192), (0.55, 96), (0.55, None)]
)
def test_a_murmur_that_dies_away_or_is_certain_is_let_pass(
    confidence: float, loudest_ms: int | None
) -> None:
    assert outcome(interrupt([("Okay.", confidence)], loudest_ms=loudest_ms)) == LET_PASS


def test_a_hum_written_as_words_is_let_pass() -> None:
    """`Mhm`, heard rightly or not at first."""
    for first in (("Mm-huh.", 0.33), ("In hand.", 0.25)):
        assert outcome(interrupt([first, ("In hand.", 0.22)], loudest_ms=160)) == LET_PASS


def test_words_that_sound_surely_are_words_even_if_they_began_as_a_murmur() -> None:
    heard = [("Okay.", 0.3), ("Open the door.", 0.65)]
    assert outcome(interrupt(heard, loudest_ms=128, lasts_ms=960)) == OBEYED


def test_doubtful_words_after_a_doubtful_murmur_depend_on_the_sound() -> None:
    heard = [("Yeah.", 0.3), ("Your call.", 0.3)]
    assert outcome(interrupt([*heard], loudest_ms=None, lasts_ms=960)) == OBEYED
    assert outcome(interrupt([*heard], loudest_ms=128)) == LET_PASS


def test_a_quick_recogniser_hears_the_voice_twice_before_the_time_is_up() -> None:
    """The second time it hears that it is no murmur."""
    heard = [("Oh.", 0.5), ("Open the door.", 0.65)]
    assert outcome(interrupt([*heard], loudest_ms=128, lasts_ms=960)) == OBEYED
    slow = interrupt([*heard], loudest_ms=128, lasts_ms=960, answered_after=120)
    assert outcome(slow)[:2] == LET_PASS


def test_what_is_hardly_a_murmur_is_a_voice() -> None:
    assert outcome(interrupt([("Yeah.", 0.15)], loudest_ms=128)) == OBEYED
