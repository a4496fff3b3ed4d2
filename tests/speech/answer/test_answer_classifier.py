"""Who or what has answered: verdicts by sound and words, their time, and when they change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.speech.answer.classifier import LATE_WORDS, REVISABLE, AnswerClassifier
from cordboard.speech.answer.phrases import Answer, evidence, is_person

RATE = 8000
FRAME = 320


def tone(*hz: float, seconds: float, level: float = 6000) -> np.ndarray:
    time = np.arange(int(seconds * RATE)) / RATE
    return sum(level * np.sin(2 * np.pi * each * time) for each in hz)


def quiet(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE))


def speech(seconds: float, seed: int = 1) -> np.ndarray:
    """Noise whose colour and level change 5 times a second, as syllables do."""
    dice = np.random.default_rng(seed)
    count = int(seconds * RATE)
    envelope = 0.6 + 0.4 * np.sin(2 * np.pi * 5 * np.arange(count) / RATE)
    return dice.normal(0, 2500, count) * envelope


def heard(*parts: np.ndarray, classifier: AnswerClassifier | None = None) -> AnswerClassifier:
    """Play the parts to a classifier, on a line with a little noise."""
    classifier = classifier or AnswerClassifier()
    sound = np.concatenate(parts) + np.random.default_rng(3).normal(0, 8, sum(map(len, parts)))
    pcm = sound.clip(-32000, 32000).astype("<i2").tobytes()
    for at in range(0, len(pcm) - FRAME + 1, FRAME):
        classifier.hear(pcm[at : at + FRAME])
    return classifier


def answer_of(classifier: AnswerClassifier) -> Answer | None:
    return classifier.verdict.answer if classifier.verdict is not None else None


def test_hello_is_a_human_in_less_than_four_tenths_of_a_second() -> None:
    classifier = heard(quiet(0.6), speech(0.5), quiet(1))
    assert classifier.verdict is not None
    assert classifier.verdict.answer is Answer.HUMAN
    assert 1.1 + 0.3 <= classifier.verdict.at <= 1.1 + 0.42


def test_words_that_are_being_recognised_are_waited_for_a_moment() -> None:
    """A transcript in flight wins over the duration of a short utterance."""
    waiting = AnswerClassifier()
    heard(quiet(0.4), speech(0.5), quiet(0.2), classifier=waiting)
    assert waiting.wants_words
    assert waiting.take_sound() == pytest.approx((0.2, 1.06), abs=0.03)
    heard(quiet(0.2), classifier=waiting)
    assert waiting.verdict is None, "the duration rule did not wait"
    waiting.words("You have reached the voicemail of Anna.")
    assert answer_of(waiting) is Answer.VOICEMAIL

    never = AnswerClassifier()
    heard(quiet(0.4), speech(0.5), quiet(0.2), classifier=never)
    never.take_sound()
    heard(quiet(0.5), classifier=never)
    assert answer_of(never) is Answer.HUMAN, "a slow recogniser keeps a person waiting"


def test_a_voicemail_that_begins_with_hello_is_found_by_its_beep() -> None:
    classifier = heard(quiet(0.4), speech(0.5), quiet(1.0), speech(4), quiet(0.5))
    assert classifier.first is not None
    assert classifier.first.answer is Answer.HUMAN
    heard(tone(1000, seconds=0.4), quiet(0.1), classifier=classifier)
    assert classifier.beep_end is None, "the beep needs quiet after it"
    heard(quiet(0.3), classifier=classifier)
    assert answer_of(classifier) is Answer.VOICEMAIL
    assert classifier.verdict is not None
    assert classifier.verdict.by == "beep"
    assert classifier.beep_end == pytest.approx(6.8, abs=0.06)
    assert classifier.message_due


def test_a_beep_that_speech_follows_is_none() -> None:
    classifier = heard(speech(0.6), quiet(0.6), tone(1000, seconds=0.3), speech(1.0), quiet(1))
    assert classifier.beep_end is None
    assert answer_of(classifier) is Answer.HUMAN


def test_a_verdict_about_a_human_stands_after_fifteen_seconds() -> None:
    classifier = heard(quiet(0.4), speech(0.5), quiet(REVISABLE), speech(2), quiet(0.5))
    classifier.take_sound()
    classifier.words("Hello.")
    heard(speech(2), quiet(0.5), classifier=classifier)
    classifier.take_sound()
    classifier.words("please leave a message after the tone")
    heard(tone(1000, seconds=0.4), quiet(0.5), classifier=classifier)
    assert answer_of(classifier) is Answer.HUMAN


def test_all_words_of_a_short_first_utterance_are_known_before_its_sound_decides() -> None:
    """A breath after the first word is no reason to leave the others out."""
    classifier = heard(quiet(0.3), speech(0.4), quiet(0.2))
    classifier.take_sound()
    classifier.words("Hello,")
    heard(speech(0.8), quiet(0.18), classifier=classifier)
    assert classifier.wants_words
    assert classifier.take_sound() == pytest.approx((0.7, 1.86), abs=0.05)
    heard(quiet(0.2), classifier=classifier)
    assert classifier.verdict is None, "it did not wait"
    classifier.words("I am the assistant of Martin.")
    assert answer_of(classifier) is Answer.MACHINE


def test_words_of_the_first_fifteen_seconds_count_however_late_they_are() -> None:
    """A busy recogniser takes the speech in one long piece, and returns it seconds later."""
    classifier = heard(quiet(0.4), speech(0.5), quiet(10), speech(3.5), quiet(0.2))
    classifier.take_sound()
    heard(quiet(5), classifier=classifier)
    assert classifier.words_due
    classifier.words("For sales, press one. For support, press two.")
    assert answer_of(classifier) is Answer.IVR

    never = heard(quiet(0.4), speech(0.5), quiet(0.2))
    never.take_sound()
    heard(quiet(REVISABLE + LATE_WORDS), classifier=never)
    assert not never.words_due, "that long it is not waited for"
    never.words("For sales, press one. For support, press two.")
    assert answer_of(never) is Answer.HUMAN


def test_a_busy_recogniser_gets_the_same_pieces_of_speech() -> None:
    """Pieces that are cut anywhere, because the recogniser was free only then, read worse."""
    sound = [part for each in range(5) for part in (speech(1.5, each), quiet(0.6))]
    quick, busy = AnswerClassifier(), AnswerClassifier()
    pieces = []
    for part in sound:
        heard(part, classifier=quick)
        heard(part, classifier=busy)
        while quick.wants_words:
            pieces.append(quick.take_sound())
            quick.words("Thank you")
    late = []
    while busy.wants_words:
        late.append(busy.take_sound())
        busy.words("Thank you")
    assert late == pieces
    assert len(pieces) == 5


def test_a_recording_whose_words_are_late_is_not_greeted() -> None:
    classifier = heard(quiet(0.3), speech(6), quiet(0.5))
    assert answer_of(classifier) is Answer.MACHINE
    classifier.take_sound()
    heard(quiet(3), classifier=classifier)
    assert answer_of(classifier) is Answer.MACHINE, "its words are on the way"
    classifier.words("Thank you")
    heard(quiet(0.1), classifier=classifier)
    assert answer_of(classifier) is Answer.MACHINE, "more of its words are on the way"
    classifier.take_sound()
    classifier.words("for calling.")
    heard(quiet(0.1), classifier=classifier)
    assert answer_of(classifier) is Answer.HUMAN, "it waits for us"
    never = heard(quiet(0.3), speech(6), quiet(0.5))
    never.take_sound()
    heard(quiet(LATE_WORDS), classifier=never)
    assert answer_of(never) is Answer.HUMAN


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([quiet(1), tone(1100, seconds=0.5), quiet(3)], Answer.FAX),
        ([quiet(0.5), tone(2100, seconds=3), quiet(1)], Answer.FAX),
        (
            [tone(950, seconds=0.33), tone(1400, seconds=0.33), tone(1800, seconds=0.33), quiet(1)],
            Answer.INTERCEPT,
        ),
        ([tone(440, 480, seconds=2), quiet(4)], Answer.RINGBACK),
        ([x for _ in range(2) for x in (tone(425, seconds=1), quiet(4))], Answer.RINGBACK),
        ([x for _ in range(5) for x in (tone(480, 620, seconds=0.5), quiet(0.5))], Answer.BUSY),
        ([x for _ in range(5) for x in (tone(425, seconds=0.25), quiet(0.25))], Answer.BUSY),
        ([quiet(6)], Answer.SILENCE),
        ([quiet(0.3), speech(6)], Answer.MACHINE),
        ([quiet(0.3), speech(4), quiet(2)], Answer.HUMAN),
        ([quiet(0.3), speech(5), quiet(2.4)], Answer.HUMAN),
    ],
)
def test_sound_alone(parts: list[np.ndarray], expected: Answer) -> None:
    assert answer_of(heard(*parts)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please leave your name and number after the tone.", Answer.VOICEMAIL),
        ("I can't take your call right now", Answer.VOICEMAIL),
        ("At the tone, please say your name.", Answer.SCREENING),
        ("and I will see if this person is available", Answer.SCREENING),
        ("For sales, press one. For support, press 2.", Answer.IVR),
        ("leave a message, or press pound for more options", Answer.VOICEMAIL),
        ("The number you have dialed is not in service.", Answer.INTERCEPT),
        ("He is not available at the moment, can I take a message?", None),
        ("The person at extension 12 is unavailable", Answer.MACHINE),
        ("Press 1 to record your name, press 2 to hear it", Answer.IVR),
        ("Please announce yourself after the tone.", Answer.SCREENING),
        ("I'm the virtual assistant. Can I ask what this is about?", Answer.SCREENING),
        ("Before I connect you, who is calling?", Answer.SCREENING),
        ("May I ask who's calling, and what it is about?", None),
        ("Let me check if he is in. Who is calling, please?", None),
        ("I'm an AI assistant. The person you are calling is unavailable.", Answer.MACHINE),
        ("Leave your name and the reason for your call after the tone.", Answer.VOICEMAIL),
        ("State your name and leave a message after the tone.", Answer.VOICEMAIL),
        ("Press 5 to leave a message.", Answer.VOICEMAIL),
        ("One, new orders. Two, complaints.", Answer.IVR),
        ("In a few words, tell me why you are calling.", Answer.IVR),
        ("Enter your account number followed by the pound sign", Answer.IVR),
        ("Give me one moment, two people are waiting", None),
        ("Hello?", None),
        ("", None),
    ],
)
def test_words(text: str, expected: Answer | None) -> None:
    assert evidence(text) is expected


def test_screening_outweighs_voicemail_and_a_menu_does_not() -> None:
    classifier = heard(quiet(0.3), speech(2))
    classifier.words("Hi, this is the voicemail assistant of Anna.")
    assert answer_of(classifier) is Answer.VOICEMAIL
    classifier.words("For more options press one.")
    assert answer_of(classifier) in (Answer.VOICEMAIL, Answer.SCREENING)
    classifier.words("Please say your name.")
    assert answer_of(classifier) is Answer.SCREENING


def test_all_words_so_far_tell_more_than_the_first_of_them() -> None:
    classifier = heard(quiet(0.3), speech(2))
    classifier.words("Welcome to the voicemail system.")
    assert answer_of(classifier) is Answer.VOICEMAIL
    classifier.words("To hear your messages press 1, to change your greeting press 2.")
    assert answer_of(classifier) is Answer.IVR


def test_speech_without_words_is_recognised_once_more_from_a_little_later() -> None:
    """Recognisers now and then return nothing for clear speech."""
    classifier = heard(quiet(0.3), speech(2), quiet(0.3))
    begin, end = classifier.take_sound()
    classifier.words("")
    heard(quiet(0.1), classifier=classifier)
    assert classifier.wants_words
    assert classifier.take_sound() == pytest.approx((begin + 0.1, end))
    classifier.words(" ")
    heard(quiet(0.5), classifier=classifier)
    assert not classifier.wants_words, "twice is enough"


def test_a_person_who_asks_is_a_person() -> None:
    assert is_person("How can I help you?")
    assert not is_person("press one for help")


@given(st.lists(st.binary(max_size=400), max_size=60), st.lists(st.text(max_size=40), max_size=5))
def test_no_sound_and_no_words_make_it_fail(frames: list[bytes], texts: list[str]) -> None:
    classifier = AnswerClassifier()
    for number, frame in enumerate(frames):
        classifier.hear(frame)
        if texts and number % 10 == 0:
            classifier.words(texts[number // 10 % len(texts)])
        assert classifier.quiet >= 0
    assert classifier.now == pytest.approx(0.02 * len(frames))


@given(st.integers(0, 10_000), st.floats(0.15, 1.2), st.floats(0.2, 1.2), st.floats(900, 9_000))
def test_a_short_utterance_is_a_human_at_any_level(
    seed: int, lead: float, seconds: float, level: float
) -> None:
    classifier = heard(quiet(lead), speech(seconds, seed) * (level / 2500), quiet(1))
    assert answer_of(classifier) is Answer.HUMAN


@given(st.floats(500, 2000), st.floats(0.2, 1.0), st.integers(0, 1000))
def test_every_beep_after_speech_is_found(hz: float, seconds: float, seed: int) -> None:
    fax = abs(hz - 1100) < 45
    beep = tone(hz, seconds=seconds)
    classifier = heard(quiet(0.3), speech(3, seed), quiet(0.5), beep, quiet(0.6))
    assert fax or classifier.beep_end == pytest.approx(3.8 + seconds, abs=0.06)
