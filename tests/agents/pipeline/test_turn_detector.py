from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cordboard.agents.pipeline.turn_detector import (
    SpeechPaused,
    SpeechResumed,
    SpeechStarted,
    TurnDetector,
    TurnEnded,
    TurnEvent,
    TurnProfile,
    TurnState,
)

WINDOW = 256
MS = 8


def judge(detector: TurnDetector, probabilities: list[float], start: int = 0) -> list[TurnEvent]:
    events = []
    for index, probability in enumerate(probabilities):
        begin = start + index * WINDOW
        event = detector.judge(probability, begin, begin + WINDOW)
        if event is not None:
            events.append(event)
    return events


def windows(ms: int, probability: float) -> list[float]:
    return [probability] * (ms * MS // WINDOW)


def test_a_sentence_starts_at_its_first_window_and_ends_after_the_silence() -> None:
    detector = TurnDetector(TurnProfile(silence_ms=400))
    events = judge(detector, windows(320, 0.0) + windows(640, 0.9) + windows(960, 0.0))
    started, paused, ended = events
    assert started == SpeechStarted(320 * MS)
    assert paused == SpeechPaused(960 * MS)
    assert isinstance(ended, TurnEnded)
    assert 400 * MS <= ended.sample - ended.paused_at < 432 * MS + WINDOW


def test_a_click_of_one_window_is_no_turn() -> None:
    detector = TurnDetector(TurnProfile())
    assert judge(detector, [0.0, 0.9, 0.1, 0.0, 0.9, 0.0]) == []


def test_a_short_dip_inside_a_word_is_not_even_a_pause() -> None:
    detector = TurnDetector(TurnProfile())
    assert judge(detector, [0.9, 0.9, 0.9, 0.1, 0.9, 0.1, 0.9]) == [SpeechStarted(0)]


def test_speech_that_goes_on_after_a_pause_belongs_to_the_same_turn() -> None:
    detector = TurnDetector(TurnProfile(silence_ms=400))
    events = judge(
        detector, windows(320, 0.9) + windows(192, 0.0) + windows(320, 0.9) + windows(640, 0.0)
    )
    kinds = [type(event) for event in events]
    assert kinds == [SpeechStarted, SpeechPaused, SpeechResumed, SpeechPaused, TurnEnded]


def test_a_whole_answer_ends_the_turn_sooner_and_an_unfinished_one_later() -> None:
    lengths = []
    for complete, unfinished in ((True, False), (False, False), (False, True)):
        detector = TurnDetector(TurnProfile())
        judge(detector, windows(320, 0.9) + windows(96, 0.0))
        detector.text_is(complete=complete, unfinished=unfinished)
        (ended,) = judge(detector, windows(1600, 0.0), start=416 * MS)
        assert isinstance(ended, TurnEnded)
        lengths.append((ended.sample - ended.paused_at) // MS)
    assert lengths[0] < 300 < lengths[1] < 500 < 1000 <= lengths[2]


def test_what_was_learnt_in_one_pause_does_not_shorten_the_next() -> None:
    detector = TurnDetector(TurnProfile())
    judge(detector, windows(320, 0.9) + windows(96, 0.0))
    detector.text_is(complete=True)
    later = judge(detector, windows(320, 0.9) + windows(1600, 0.0), start=416 * MS)
    ended = later[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.sample - ended.paused_at >= 400 * MS


def test_an_endless_turn_is_cut_before_the_recognisers_window_is_full() -> None:
    detector = TurnDetector(TurnProfile())
    events = judge(detector, windows(40_000, 0.9))
    assert isinstance(events[1], TurnEnded)
    assert events[1].sample <= 30_000 * MS
    assert isinstance(events[2], SpeechStarted), "the rest is a turn of its own"


@given(st.lists(st.floats(0, 1), max_size=400))
def test_events_alternate_whatever_the_voice_detector_says(probabilities: list[float]) -> None:
    detector = TurnDetector(TurnProfile(longest_ms=3_000))
    state = TurnState.LISTENING
    allowed = {
        TurnState.LISTENING: {SpeechStarted: TurnState.SPEAKING},
        TurnState.SPEAKING: {SpeechPaused: TurnState.PAUSED, TurnEnded: TurnState.LISTENING},
        TurnState.PAUSED: {SpeechResumed: TurnState.SPEAKING, TurnEnded: TurnState.LISTENING},
    }
    last = -1
    for event in judge(detector, probabilities):
        state = allowed[state][type(event)]
        assert event.sample >= last - 64 * MS, "an event lies at most its own run in the past"
        last = max(last, event.sample)
    assert detector.state is state
