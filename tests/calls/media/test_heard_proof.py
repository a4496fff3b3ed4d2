"""Announcements count as heard only when all of their words were, to the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls.media.heard_proof import HeardProof

DISCLOSURE, CONSENT = "I am a machine.", "This call is recorded; say no, and it is not."


class Caller:
    """Hears what was marked, in order, when the test says so."""

    def __init__(self) -> None:
        self.marks: list[Callable[[], None]] = []
        self.told: list[tuple[str, str]] = []
        self.digests: list[str] = []
        self.proof = HeardProof(
            [("disclosure", DISCLOSURE), ("consent", CONSENT)],
            self._heard,
            lambda kind, why: self.told.append((kind, why)),
        )

    def _heard(self, kind: str, digest: str) -> None:
        self.told.append((kind, "heard"))
        self.digests.append(digest)

    def say(self, text: str, sound: bytes = b"", *, of_agent: bool = True) -> None:
        self.proof.sentence(text, of_agent=of_agent)
        self.proof.sound(sound)
        self.proof.spoken(self.marks.append)

    def hear(self) -> None:
        while self.marks:
            self.marks.pop(0)()


@pytest.fixture
def caller() -> Caller:
    return Caller()


def test_each_announcement_is_proven_with_the_sound_until_its_end(caller: Caller) -> None:
    caller.say(DISCLOSURE, b"machine")
    caller.say("One moment.", b"filler", of_agent=False)
    caller.say(CONSENT, b"recorded")
    caller.say("Good morning.", b"later")
    assert caller.told == []
    caller.hear()
    assert caller.told == [("disclosure", "heard"), ("consent", "heard")]
    assert caller.digests == [sha256(each).hexdigest() for each in (b"machine", b"machinerecorded")]
    assert caller.proof.over


@given(st.lists(st.integers(0, 60), max_size=8), st.booleans())
def test_words_may_come_in_any_pieces(cuts: list[int], plain: bool) -> None:
    caller = Caller()
    text = f"{DISCLOSURE} {CONSENT} Good morning!"
    text = text.lower().replace(",", "").replace(".", "") if plain else text
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    caller.proof.sentence("", of_agent=True)
    for begin, end in itertools.pairwise(places):
        caller.proof.grow(text[begin:end])
    caller.proof.spoken(caller.marks.append)
    caller.hear()
    assert [why for _, why in caller.told] == ["heard", "heard"]


def test_what_is_cut_before_its_end_is_not_heard(caller: Caller) -> None:
    caller.say(DISCLOSURE)
    caller.hear()
    caller.say(CONSENT)
    caller.proof.cut()
    caller.hear()
    caller.say(CONSENT)
    caller.hear()
    caller.proof.close()
    assert caller.told == [("disclosure", "heard"), ("consent", "cut")]


def test_other_words_prove_nothing(caller: Caller) -> None:
    caller.say("I am a machine, as you hear. We record you.")
    caller.hear()
    assert caller.told == [("consent", "other_words"), ("disclosure", "heard")]


def test_half_an_announcement_proves_nothing(caller: Caller) -> None:
    caller.say("I am a machine. This call is")
    caller.hear()
    caller.proof.close()
    assert caller.told == [("disclosure", "heard"), ("consent", "not_spoken")]


def test_an_agent_that_takes_over_begins_anew(caller: Caller) -> None:
    caller.say("I am", b"the first voice")
    caller.say(f"{DISCLOSURE} {CONSENT}", b"the second")
    caller.hear()
    assert [why for _, why in caller.told] == ["heard", "heard"]
    assert caller.digests[0] == sha256(b"the second").hexdigest()


def test_a_sentence_whose_voice_fails_does_not_count(caller: Caller) -> None:
    caller.say(DISCLOSURE, b"machine")
    caller.proof.sentence(CONSENT, of_agent=True)
    caller.proof.sound(b"reco")
    caller.proof.broke()
    caller.say("Good morning.", b"later")
    caller.hear()
    assert caller.told == [("consent", "other_words"), ("disclosure", "heard")]


def test_it_counts_once_it_is_spoken_whole(caller: Caller) -> None:
    caller.proof.sentence(DISCLOSURE, of_agent=True)
    caller.proof.sound(b"mach")
    caller.proof.broke()
    caller.say(DISCLOSURE, b"machine")
    caller.say(CONSENT, b"recorded")
    caller.hear()
    assert [why for _, why in caller.told] == ["heard", "heard"]
    assert caller.digests[0] == sha256(b"machine").hexdigest()
