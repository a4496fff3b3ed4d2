"""What may be a murmur over the agent's speech, or the beginning of a phrase. In virtual time."""

from __future__ import annotations

import pytest

from cordboard.agent_api.stt import Transcript
from cordboard.speech.turns.events import (
    AgentVoice,
    OverlapHeld,
    OverlapLetPass,
    TurnEnded,
    TurnEvent,
    TurnTaken,
    WordsWanted,
)
from cordboard.speech.turns.interruption import judge_words
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.turns.state_machine import TurnTaker
from cordboard.speech.turns.text_clues import TextClue

MS = 8
WINDOW = 32 * MS
Heard = tuple[str, float]
"""A text, and the recogniser's confidence in it."""


def interrupt(
    answers: list[Heard],
    *,
    lasts_ms: int,
    answered_after: int = 60,
    doubt_ms: int = 352,
    again_ms: int = 0,
) -> list[TurnEvent]:
    """What comes of a voice over the agent's, which the detector is sure of from its first window.

    `answers`: to each question for words, the last one again and again; none: the recogniser does
    not answer. `again_ms`: a second voice as long begins so long after the end of the first.
    """
    taker, now = TurnTaker(TurnProfile(overlap_doubt_ms=doubt_ms)), 0
    told: list[TurnEvent] = []
    coming: list[tuple[int, WordsWanted, Heard]] = []
    murmured = False
    begins = (lasts_ms + again_ms) * MS if again_ms else 1 << 30
    heard_until = 0
    while now < (2 * lasts_ms + again_ms + 960) * MS:
        start, now = now, now + WINDOW
        for due in [answer for answer in coming if answer[0] <= now]:
            coming.remove(due)
            _, wanted, (text, confidence) = due
            clue, sure = judge_words(
                Transcript(text, 0.02, confidence, 60.0),
                wanted.voiced // MS,
                complete=False,
                murmured=murmured,
            )
            murmured = murmured or clue is TextClue.MURMUR
            told.extend(taker.learn_words(wanted.overlap, clue, sure=sure))
        voiced = now <= lasts_ms * MS or 0 < now - begins <= lasts_ms * MS
        heard_until = now if voiced else heard_until
        events = taker.judge(
            0.98 if voiced else 0.02,
            start,
            now,
            heard_until=heard_until,
            agent=AgentVoice.OPEN,
        )
        for event in events:
            told.append(event)
            if isinstance(event, WordsWanted) and answers:
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                coming.append((now + answered_after * MS, event, answer))
    return told


def outcome(events: list[TurnEvent]) -> list[type]:
    kinds = (OverlapHeld, OverlapLetPass, TurnTaken)
    return [type(event) for event in events if isinstance(event, kinds)]


def decided_ms(events: list[TurnEvent]) -> int:
    """From the hold to the first decision."""
    held = next(event for event in events if isinstance(event, OverlapHeld))
    decided = next(event for event in events if isinstance(event, OverlapLetPass | TurnTaken))
    return (decided.sample - held.sample) // MS


OBEYED = [OverlapHeld, TurnTaken]
LET_PASS = [OverlapHeld, OverlapLetPass]


@pytest.mark.parametrize("lasts_ms", [224, 320, 448])
def test_a_certain_murmur_is_let_pass_in_time_though_it_still_sounds(lasts_ms: int) -> None:
    events = interrupt([("Okay.", 0.55)], lasts_ms=lasts_ms)
    assert outcome(events) == LET_PASS
    assert decided_ms(events) <= 300


@pytest.mark.parametrize("lasts_ms", [224, 320, 448])
def test_a_doubtful_murmur_is_let_pass_when_it_is_over(lasts_ms: int) -> None:
    events = interrupt([("Yeah.", 0.3)], lasts_ms=lasts_ms)
    assert outcome(events) == LET_PASS
    assert decided_ms(events) <= max(300, lasts_ms + 160)


def test_a_doubtful_murmur_that_goes_on_is_an_interruption() -> None:
    """`Your call cannot ...`, of which the first 160 ms are written as "Yeah."."""
    events = interrupt([("Yeah.", 0.3), ("Your...", 0.2)], lasts_ms=1280)
    assert outcome(events) == OBEYED, "the agent is silent all the time"
    assert decided_ms(events) <= 640


def test_half_a_murmur_that_is_written_as_words_is_one_when_it_is_whole() -> None:
    """`I see`: its first quarter of a second is written as "I think."."""
    heard = [("I think.", 0.2), ("I think.", 0.3), ("I see.", 0.7)]
    assert outcome(interrupt(heard, lasts_ms=512)) == LET_PASS


@pytest.mark.parametrize(
    ("text", "lasts_ms", "comes"),
    [("Join.", 256, LET_PASS), ("Operator.", 384, OBEYED), ("Join the call.", 480, OBEYED)],
)
def test_doubtful_words_of_a_very_short_voice_are_none(
    text: str, lasts_ms: int, comes: list[type]
) -> None:
    """`Sure` cut short, of which a recogniser never makes anything but "Join."."""
    assert outcome(interrupt([(text, 0.25)], lasts_ms=lasts_ms)) == comes


def test_a_gap_in_doubtful_words_is_no_end() -> None:
    """A hum written as a murmur first: what it becomes is doubtful."""
    heard = [("Mm-huh.", 0.33), ("I'm hum.", 0.4)]
    assert outcome(interrupt(heard, lasts_ms=480)) == LET_PASS
    assert outcome(interrupt(heard, lasts_ms=960)) == OBEYED


def test_sure_words_are_words_even_if_they_began_as_a_murmur() -> None:
    heard = [("Okay.", 0.3), ("Open the door.", 0.65)]
    events = interrupt(heard, lasts_ms=960)
    assert outcome(events) == OBEYED
    assert decided_ms(events) <= 400, "as soon as they are sure"


def test_a_quick_recogniser_hears_the_voice_twice_before_the_time_is_up() -> None:
    """The second time it hears that it is no murmur."""
    heard = [("Oh.", 0.5), ("Open the door.", 0.65)]
    assert outcome(interrupt([*heard], lasts_ms=960)) == OBEYED
    slow = interrupt([*heard], lasts_ms=960, answered_after=120)
    assert outcome(slow)[:2] == LET_PASS


def test_what_is_hardly_a_murmur_is_a_voice() -> None:
    assert outcome(interrupt([("Yeah.", 0.15)], lasts_ms=960)) == OBEYED
    assert outcome(interrupt([("Yeah.", 0.15)], lasts_ms=288)) == LET_PASS


def test_a_slow_recogniser_is_waited_for() -> None:
    """The answer about a murmur comes when the first time to decide is up."""
    events = interrupt([("Okay.", 0.6)], lasts_ms=416, answered_after=200)
    assert outcome(events) == LET_PASS
    assert outcome(interrupt([("Stop.", 0.6)], lasts_ms=288, answered_after=200)) == OBEYED


@pytest.mark.parametrize(("lasts_ms", "comes"), [(256, LET_PASS), (960, OBEYED)])
def test_a_recogniser_that_does_not_answer_is_not_waited_for_long(
    lasts_ms: int, comes: list[type]
) -> None:
    events = interrupt([], lasts_ms=lasts_ms)
    assert outcome(events) == comes
    assert decided_ms(events) <= 640


@pytest.mark.parametrize(
    ("text", "lasts_ms", "comes"),
    [("Yeah.", 416, LET_PASS), ("Join.", 96, LET_PASS), ("Join.", 416, OBEYED)],
)
def test_where_nothing_is_heard_out_it_is_decided_within_300_ms(
    text: str, lasts_ms: int, comes: list[type]
) -> None:
    """A doubtful murmur is taken for one then, and doubtful words that last are words."""
    events = interrupt([(text, 0.3)], lasts_ms=lasts_ms, doubt_ms=0)
    assert outcome(events) == comes
    assert decided_ms(events) <= 300


def test_what_is_not_heard_out_is_asked_about_twice() -> None:
    heard = [("Okay.", 0.3), ("Open the door.", 0.65)]
    assert outcome(interrupt(heard, lasts_ms=960, doubt_ms=0)) == OBEYED


def test_words_that_come_when_the_voice_was_let_pass_and_has_ended_still_count() -> None:
    """A recogniser far away: the agent is not talked on for until the aside is over."""
    events = interrupt([("Stop.", 0.6)], lasts_ms=288, answered_after=600)
    assert outcome(events) == [OverlapHeld, OverlapLetPass, TurnTaken]


def test_a_doubtful_murmur_is_asked_about_when_it_has_ended() -> None:
    """Its words are known whole: it was none."""
    heard = [("Yeah.", 0.3), ("Yeah.", 0.3), ("Your bill.", 0.62)]
    assert outcome(interrupt(heard, lasts_ms=352)) == OBEYED


def test_a_second_murmur_soon_after_the_first_does_not_stop_the_agent() -> None:
    events = interrupt([("Uh-huh.", 0.35)], lasts_ms=320, again_ms=320)
    assert TurnTaken not in outcome(events)
    assert outcome(events).count(OverlapLetPass) >= 1


def test_silence_counts_from_the_end_of_the_voice_however_late_the_words_are() -> None:
    """`Stop.`, understood 0.45 s after it was asked for."""
    soon, late = (
        next(
            event
            for event in interrupt([("Stop.", 0.6)], lasts_ms=256, answered_after=after)
            if isinstance(event, TurnEnded)
        )
        for after in (60, 450)
    )
    assert late.last_speech == soon.last_speech == 256 * MS
    assert late.sample <= soon.sample + WINDOW
