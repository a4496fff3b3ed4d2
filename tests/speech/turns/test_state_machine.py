"""The state machine by scripted probability tracks: no clock, no sound, no tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.speech.turns.events import (
    PERHAPS,
    AgentVoice,
    AsideEnded,
    Events,
    Floor,
    OverlapHeld,
    OverlapLetPass,
    Paused,
    PauseGrows,
    Resumed,
    TurnBegan,
    TurnEnded,
    TurnEvent,
    TurnTaken,
    WordsWanted,
)
from cordboard.speech.turns.profiles import PROFILES, TurnProfile
from cordboard.speech.turns.state_machine import (
    TurnTaker,
)
from cordboard.speech.turns.text_clues import TextClue

WINDOW = 256
MS = 8
SPEECH, SILENCE, UNSURE = 0.95, 0.02, 0.6


@dataclass
class Track:
    """A caller as the voice detector sees them. Everything in ms."""

    profile: TurnProfile = field(default_factory=TurnProfile)
    clue: TextClue | None = None
    """What the recogniser makes of every pause, at once."""
    odds: float | None = None
    words: tuple[TextClue, bool] | None = None
    """What it makes of the beginning of a voice over the agent's, 100 ms after it was asked."""
    agent: AgentVoice = AgentVoice.SILENT
    foreign: str = ""

    def __post_init__(self) -> None:
        self.taker = TurnTaker(self.profile)
        self.events: list[TurnEvent] = []
        self.now = 0
        self.heard_until = 0
        self._answers: list[tuple[int, int]] = []

    def hear(self, ms: int, probability: float, *, loud: bool = True) -> Track:
        for _ in range(ms * MS // WINDOW):
            start, self.now = self.now, self.now + WINDOW
            if loud and probability >= 0.5:
                self.heard_until = self.now
            for at, overlap in list(self._answers):
                if at <= self.now and self.words is not None:
                    self._answers.remove((at, overlap))
                    self.take(self.taker.learn_words(overlap, self.words[0], sure=self.words[1]))
            self.take(
                self.taker.judge(
                    probability,
                    start,
                    self.now,
                    heard_until=self.heard_until,
                    agent=self.agent,
                    foreign=self.foreign if probability >= 0.5 else "",
                )
            )
        return self

    def speak(self, ms: int) -> Track:
        return self.hear(ms, SPEECH)

    def pause(self, ms: int) -> Track:
        return self.hear(ms, SILENCE)

    def take(self, events: Events) -> None:
        for event in events:
            self.events.append(event)
            if isinstance(event, Paused):
                if self.clue is not None:
                    self.take(self.taker.learn_text(event.pause, self.clue))
                if self.odds is not None:
                    self.take(self.taker.learn_odds(event.pause, self.odds))
            elif isinstance(event, WordsWanted):
                self._answers.append((self.now + 100 * MS, event.overlap))

    def of(self, kind: type) -> list[TurnEvent]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def kinds(self) -> list[type]:
        return [type(event) for event in self.events if not isinstance(event, WordsWanted)]


def endpoint(clue: TextClue | None, odds: float | None, profile: TurnProfile | None = None) -> int:
    """ms from the last sound to the decision."""
    track = Track(profile or TurnProfile(), clue, odds).pause(320).speak(640).pause(3200)
    (ended,) = track.of(TurnEnded)
    assert isinstance(ended, TurnEnded)
    assert ended.last_speech == 960 * MS
    return (ended.sample - ended.last_speech) // MS


# The caller's turn.


def test_a_turn_begins_at_its_first_window_and_ends_after_the_silence() -> None:
    track = Track().pause(320).speak(640).pause(960)
    began, paused, ended = track.events
    assert began == TurnBegan(320 * MS)
    assert isinstance(paused, Paused)
    assert isinstance(ended, TurnEnded)
    assert paused.sample == ended.noticed
    assert 540 <= (ended.sample - ended.last_speech) // MS < 540 + 32


def test_a_click_of_one_window_is_no_turn() -> None:
    track = Track()
    for probability in (SILENCE, SPEECH, SILENCE, SILENCE, SPEECH, SILENCE):
        track.hear(32, probability)
    assert track.events == []


def test_a_short_dip_inside_a_word_is_not_even_a_pause() -> None:
    track = Track().speak(64)
    for probability in (SILENCE, SPEECH, SILENCE, SPEECH):
        track.hear(32, probability)
    assert track.kinds == [TurnBegan]


def test_words_and_melody_decide_how_long_is_waited() -> None:
    waits = [
        endpoint(TextClue.COMPLETE, 0.01),
        endpoint(TextClue.WORDS, 0.97),
        endpoint(TextClue.WORDS, None),
        endpoint(TextClue.WORDS, 0.5),
        endpoint(TextClue.WORDS, 0.01),
    ]
    assert waits == sorted(waits)
    assert waits[0] < 300
    assert waits[1] < 560
    assert waits[3] < 900, "a misjudged sentence is still answered within a second"
    assert waits[4] > 1200


@pytest.mark.parametrize("odds", [None, 0.05, 0.99])
def test_a_dangling_word_or_a_half_number_is_waited_for_whatever_the_melody(
    odds: float | None,
) -> None:
    assert endpoint(TextClue.DANGLING, odds) > 1200
    assert endpoint(TextClue.DICTATION, odds) > 1050


def test_a_single_word_is_not_held_up_by_its_melody() -> None:
    assert endpoint(TextClue.ONE_WORD, 0.01) == endpoint(TextClue.ONE_WORD, None)


def test_an_answer_of_the_recogniser_that_comes_late_ends_the_turn_at_once() -> None:
    track = Track(odds=0.01).speak(640).pause(640)
    assert track.of(TurnEnded) == []
    (paused,) = track.of(Paused)
    assert isinstance(paused, Paused)
    track.take(track.taker.learn_text(paused.pause, TextClue.COMPLETE))
    assert len(track.of(TurnEnded)) == 1


def test_what_was_learnt_of_one_pause_does_not_count_in_the_next() -> None:
    track = Track().speak(320).pause(128)
    (paused,) = track.of(Paused)
    assert isinstance(paused, Paused)
    track.speak(320)
    track.take(track.taker.learn_text(paused.pause, TextClue.COMPLETE))
    track.pause(400)
    assert track.of(TurnEnded) == []


def test_silence_counts_from_the_last_sound_not_from_the_detectors_late_opinion() -> None:
    track = Track(clue=TextClue.COMPLETE).speak(640)
    track.heard_until = track.now - 160 * MS  # the detector holds on to what has faded away
    track.hear(32, SILENCE)
    (paused,) = track.of(Paused)
    assert isinstance(paused, Paused)
    track.pause(96)
    (ended,) = track.of(TurnEnded)
    assert isinstance(ended, TurnEnded)
    assert ended.last_speech == 480 * MS


def test_a_caller_who_pauses_within_turns_is_given_more_time_then_and_it_is_forgotten() -> None:
    def wait_of(track: Track) -> int:
        before = len(track.of(TurnEnded))
        track.speak(640).pause(3200)
        ended = track.of(TurnEnded)[before]
        assert isinstance(ended, TurnEnded)
        return (ended.sample - ended.last_speech) // MS

    track = Track(clue=TextClue.WORDS)
    usual = wait_of(track)
    track.speak(320).pause(512)
    learnt = wait_of(track)
    assert usual + 64 <= learnt <= usual + 400
    waits = [wait_of(track) for _ in range(8)]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == usual


def test_a_turn_that_was_cut_is_learnt_from() -> None:
    track = Track(clue=TextClue.WORDS).speak(640).pause(800).speak(640).pause(3200)
    first, second = track.of(TurnEnded)
    assert isinstance(first, TurnEnded)
    assert isinstance(second, TurnEnded)
    assert second.sample - second.last_speech > first.sample - first.last_speech + 200 * MS


def test_an_endless_turn_is_cut_before_the_recognisers_window_is_full() -> None:
    track = Track().speak(40_000)
    ended = track.events[1]
    assert isinstance(ended, TurnEnded)
    assert ended.sample <= 30_000 * MS
    assert isinstance(track.events[2], TurnBegan), "the rest is a turn of its own"


# A voice over the agent's.


def over(words: tuple[TextClue, bool] | None = None, foreign: str = "") -> Track:
    return Track(agent=AgentVoice.OPEN, words=words, foreign=foreign).pause(320)


def test_a_voice_over_the_agents_holds_it_within_one_window() -> None:
    track = over().speak(32)
    assert track.events == [OverlapHeld(320 * MS, 352 * MS)]


def test_an_unsure_detector_needs_two_windows() -> None:
    track = over().hear(32, UNSURE)
    assert track.events == []
    assert track.hear(32, UNSURE).kinds == [OverlapHeld]


def test_words_are_an_interruption_and_then_a_turn() -> None:
    track = over((TextClue.WORDS, True)).speak(640).pause(1600)
    assert track.kinds == [OverlapHeld, TurnTaken, Paused, TurnEnded]
    held, taken = track.of(OverlapHeld) + track.of(TurnTaken)
    assert isinstance(held, OverlapHeld)
    assert isinstance(taken, TurnTaken)
    assert taken.onset == 320 * MS
    assert taken.sample - held.sample <= 300 * MS
    (ended,) = track.of(TurnEnded)
    assert isinstance(ended, TurnEnded)
    assert not ended.over_agent


@pytest.mark.parametrize("answer", [None, (TextClue.NOTHING, False), (TextClue.WORDS, False)])
def test_a_voice_that_goes_on_is_an_interruption_when_the_time_is_up(
    answer: tuple[TextClue, bool] | None,
) -> None:
    track = over(answer).speak(800)
    held, taken = track.of(OverlapHeld) + track.of(TurnTaken)
    assert isinstance(held, OverlapHeld)
    assert isinstance(taken, TurnTaken)
    assert taken.sample - held.sample <= 640 * MS
    assert track.of(OverlapLetPass) == []


@pytest.mark.parametrize(
    ("words", "let_pass"), [((TextClue.WORDS, False), 0), ((TextClue.NOTHING, False), 1)]
)
def test_a_gap_after_doubtful_words_is_no_end(words: tuple[TextClue, bool], let_pass: int) -> None:
    """`I'm | sorry`: the time to decide is up in the gap before the plosive."""
    track = over(words).speak(224).pause(96).speak(640)
    assert len(track.of(OverlapLetPass)) == let_pass


@pytest.mark.parametrize(("sure", "let_pass"), [(0.96, 0), (0.6, 1)])
@pytest.mark.parametrize("ms", [96, 128, 192])
def test_a_gap_in_loudness_is_no_end_while_the_detector_is_sure(
    sure: float, let_pass: int, ms: int
) -> None:
    """The closure of a `t` or `k` is faint for 80-200 ms; the detector knows better."""
    track = over((TextClue.NOTHING, False)).speak(320 - ms)
    track.hear(ms, sure, loud=False).speak(640)
    assert len(track.of(OverlapLetPass)) == let_pass
    assert len(track.of(TurnTaken)) == 1


@pytest.mark.parametrize(
    ("words", "let_pass"),
    [((TextClue.WORDS, False), 0), ((TextClue.NOTHING, False), 1), (None, 0)],
)
def test_a_faint_gap_is_no_end_where_the_recogniser_may_yet_find_words(
    words: tuple[TextClue, bool] | None, let_pass: int
) -> None:
    track = over(words).speak(192).hear(128, 0.85, loud=False).speak(640)
    assert len(track.of(OverlapLetPass)) == let_pass


def test_a_murmur_is_one_however_sure_the_detector_is_of_a_voice() -> None:
    track = over((TextClue.MURMUR, True)).speak(192).hear(128, 0.97, loud=False).pause(960)
    (passed,) = track.of(OverlapLetPass)
    assert isinstance(passed, OverlapLetPass)
    assert passed.why == "backchannel"
    assert track.of(TurnTaken) == []


def test_a_detector_that_never_lets_go_does_not_make_a_long_silence_a_voice() -> None:
    track = over((TextClue.NOTHING, False)).speak(96).hear(224, 0.97, loud=False)
    assert track.of(TurnTaken) == []
    assert len(track.of(OverlapLetPass)) == 1


def test_a_voice_after_a_gap_makes_the_noise_a_syllable() -> None:
    """`This | conference`: nothing was understood of the first syllable, and it was over."""
    track = over((TextClue.NOTHING, False)).speak(160).pause(192)
    assert track.kinds == [OverlapHeld, OverlapLetPass, Paused]
    resumed = track.now
    track.speak(480)
    again, taken = track.of(OverlapHeld)[1], track.of(TurnTaken)[0]
    assert isinstance(again, OverlapHeld)
    assert isinstance(taken, TurnTaken)
    assert again.sample - resumed <= 64 * MS, "the agent is silent again at once"
    assert taken.sample - resumed <= 400 * MS


def test_a_murmur_is_let_pass_and_heard_to_its_end() -> None:
    track = over((TextClue.MURMUR, True))
    track.clue = TextClue.MURMUR
    track.speak(448).pause(960)
    assert track.kinds == [OverlapHeld, OverlapLetPass, Paused, AsideEnded]
    (passed,) = track.of(OverlapLetPass)
    assert isinstance(passed, OverlapLetPass)
    assert passed.why == "backchannel"
    assert track.taker.floor is Floor.QUIET


@pytest.mark.parametrize("ms", [64, 128, 192])
def test_a_cough_is_let_pass_as_soon_as_it_is_over_and_has_no_words(ms: int) -> None:
    track = over((TextClue.NOTHING, False)).speak(ms).pause(960)
    assert track.kinds == [OverlapHeld, OverlapLetPass, Paused, AsideEnded]
    (passed,) = track.of(OverlapLetPass)
    assert isinstance(passed, OverlapLetPass)
    assert passed.why == "noise"


def test_a_murmur_that_goes_on_with_words_holds_again_and_interrupts() -> None:
    track = over((TextClue.MURMUR, True)).speak(448)
    assert track.kinds == [OverlapHeld, OverlapLetPass]
    track.words = (TextClue.WORDS, True)
    track.speak(640)
    assert track.kinds == [OverlapHeld, OverlapLetPass, OverlapHeld, TurnTaken]


def test_a_third_time_only_words_stop_the_agent() -> None:
    track = over((TextClue.MURMUR, True)).speak(6400)
    assert track.kinds == [OverlapHeld, OverlapLetPass] * 2
    track.pause(1600)
    assert track.kinds[4:] == [Paused, AsideEnded]


def test_a_short_word_found_when_the_voice_is_over_interrupts_then() -> None:
    track = over((TextClue.NOTHING, False))
    track.clue = TextClue.COMPLETE
    track.speak(160).pause(1600)
    assert track.kinds == [OverlapHeld, OverlapLetPass, Paused, TurnTaken, TurnEnded]


# A caller who pauses for long and keeps the floor


def test_a_long_pause_of_a_caller_who_goes_on_is_encouraged_once() -> None:
    track = Track(clue=TextClue.DANGLING).speak(640).pause(1_216)
    [grown] = track.of(PauseGrows)
    assert isinstance(grown, PauseGrows)
    assert grown.quiet_since == 640 * MS
    assert track.of(TurnEnded) == [], "the caller keeps the floor"
    track.speak(640).pause(3_200)
    assert [type(e) for e in track.of(TurnBegan) + track.of(TurnEnded)] == [TurnBegan, TurnEnded]


def test_whoever_has_finished_is_answered_and_not_encouraged() -> None:
    for clue, odds in ((TextClue.WORDS, 0.95), (TextClue.COMPLETE, None), (TextClue.WORDS, 0.5)):
        assert Track(clue=clue, odds=odds).speak(640).pause(3_200).of(PauseGrows) == []
    patient = Track(PROFILES["patient"], clue=TextClue.WORDS)
    assert patient.speak(640).pause(3_200).of(PauseGrows) == [], "40 ms before the answer"


def test_a_turn_of_many_long_pauses_is_encouraged_twice() -> None:
    track = Track(clue=TextClue.DANGLING)
    for _ in range(5):
        track.speak(640).pause(1_152)
    assert len(track.of(PauseGrows)) == 2


def test_a_continuer_that_comes_back_is_not_the_caller_going_on() -> None:
    track = Track(clue=TextClue.DANGLING).speak(640).pause(1_024)
    assert len(track.of(PauseGrows)) == 1
    track.agent, track.foreign = AgentVoice.OPEN, "echo"
    track.speak(320)
    track.agent, track.foreign = AgentVoice.SILENT, ""
    track.pause(640)
    assert track.of(Resumed) == []
    assert len(track.of(TurnEnded)) == 1


def test_our_own_echo_is_no_voice() -> None:
    assert over(foreign="echo").speak(3200).events == []


def test_a_voice_that_may_be_our_echo_is_held_a_little_later() -> None:
    assert over(foreign=PERHAPS).speak(64).events == []
    [held] = over(foreign=PERHAPS).speak(96).events
    assert isinstance(held, OverlapHeld)


def test_a_caller_who_goes_on_over_our_answer_had_only_paused() -> None:
    track = Track().speak(640).pause(540 + 64)
    assert isinstance(track.events[-1], TurnEnded)
    track.agent, track.words = AgentVoice.OPEN, (TextClue.WORDS, True)
    track.speak(640)
    track.agent, track.words = AgentVoice.SILENT, None
    assert any(isinstance(event, TurnTaken) for event in track.events)
    before = len(track.events)
    track.pause(540 + 64)
    assert not any(isinstance(event, TurnEnded) for event in track.events[before:])


def test_what_turns_out_to_be_echo_lets_the_speech_go_on() -> None:
    track = over().speak(64)
    track.foreign = "echo"
    track.speak(64)
    assert track.kinds == [OverlapHeld, OverlapLetPass]
    (passed,) = track.of(OverlapLetPass)
    assert isinstance(passed, OverlapLetPass)
    assert passed.why == "echo"
    assert track.taker.floor is Floor.QUIET


def test_a_pressed_key_lets_the_speech_go_on() -> None:
    track = over().speak(64)
    track.take(track.taker.key_pressed())
    assert track.kinds == [OverlapHeld, OverlapLetPass]


def test_an_answer_about_an_older_voice_is_of_no_account() -> None:
    track = over().speak(32)
    track.take(track.taker.key_pressed())
    track.pause(320).speak(64)
    before = len(track.events)
    track.take(track.taker.learn_words(1, TextClue.WORDS, sure=True))
    assert len(track.events) == before


def test_protected_speech_is_not_held_and_what_is_said_is_heard() -> None:
    track = Track(agent=AgentVoice.PROTECTED, clue=TextClue.WORDS).pause(320).speak(960).pause(960)
    assert track.kinds == [Paused, AsideEnded]
    (aside,) = track.of(AsideEnded)
    assert isinstance(aside, AsideEnded)
    assert (aside.onset, aside.last_speech) == (320 * MS, 1280 * MS)


def test_who_speaks_on_when_the_protected_speech_is_over_has_the_floor() -> None:
    track = Track(agent=AgentVoice.PROTECTED).pause(320).speak(640)
    assert track.events == []
    track.agent = AgentVoice.SILENT
    track.speak(640).pause(1600)
    assert track.kinds == [TurnBegan, Paused, TurnEnded]
    began, *_, ended = track.events
    assert began == TurnBegan(320 * MS)
    assert isinstance(ended, TurnEnded)
    assert ended.over_agent


# Whatever happens.

STEP = st.tuples(
    st.sampled_from((SILENCE, 0.4, UNSURE, SPEECH)),
    st.integers(1, 20),
    st.sampled_from(AgentVoice),
    st.sampled_from(("", "", "", "echo", "key")),
    st.sampled_from((None, *TextClue)),
    st.sampled_from((None, 0.01, 0.5, 0.99)),
    st.sampled_from((None, (TextClue.WORDS, True), (TextClue.NOTHING, False))),
)


@given(st.lists(STEP, max_size=60))
def test_a_hold_is_always_settled_and_a_turn_always_ends(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    track = Track(TurnProfile(longest_ms=3_000))
    for probability, windows, agent, foreign, clue, odds, words in steps:
        track.agent, track.foreign = agent, foreign
        track.clue, track.odds, track.words = clue, odds, words
        track.hear(32 * windows, probability)
    track.foreign, track.words = "", None
    track.pause(3200)
    assert track.taker.floor is Floor.QUIET
    held_at: int | None = None
    in_turn = False
    for event in track.events:
        match event:
            case OverlapHeld():
                assert held_at is None
                assert not in_turn
                held_at = event.sample
            case OverlapLetPass() | TurnTaken():
                if held_at is not None:
                    assert event.sample - held_at <= 640 * MS
                held_at = None
                in_turn = in_turn or isinstance(event, TurnTaken)
            case TurnBegan():
                held_at = None
                assert not in_turn
                in_turn = True
            case TurnEnded():
                assert in_turn
                in_turn = False
    assert held_at is None
    assert not in_turn


def test_a_pause_that_is_resumed_is_told() -> None:
    track = Track().speak(320).pause(192).speak(320).pause(960)
    assert track.kinds == [TurnBegan, Paused, Resumed, Paused, TurnEnded]
