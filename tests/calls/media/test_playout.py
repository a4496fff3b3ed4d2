from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.agent_api.speech import Speech
from cordboard.calls.media.playout import LONGEST_LEAD_MS, Cut, Playout, Started
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.virtual_time import virtual_time

SECOND = b"\x00\x08" * 8000
"""Loud from its first sample to its last."""


def quiet(ms: int) -> bytes:
    """The breath before a word: -60 dBFS."""
    return np.full(8 * ms, 32, "<i2").tobytes()


class Stage:
    def __init__(self) -> None:
        self.media = FakeMedia()
        self.started: list[tuple[int, float]] = []
        self.starts: list[Started] = []
        self.ended: list[tuple[int, float]] = []
        self.playout = Playout(
            self.media, self._started, lambda turn: self.ended.append((turn, self.now()))
        )

    def _started(self, started: Started) -> None:
        self.started.append((started.turn, round(started.at - 1000, 3)))
        self.starts.append(started)

    def now(self) -> float:
        return round(asyncio.get_running_loop().time() - 1000, 2)

    def speak(self, turn: int, *sentences: str) -> None:
        for sentence in sentences:
            self.playout.sentence(turn, sentence)
            self.playout.write(SECOND)
        self.playout.turn_done(turn)


def play(scenario: Callable[[Stage], Awaitable[None]]) -> Stage:
    async def run() -> Stage:
        stage = Stage()
        await scenario(stage)
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(run())


def test_start_and_end_are_told_when_the_caller_hears_them() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One.", "Two.")
        stage.speak(2, "Three.")
        assert stage.playout.speaking
        await stage.playout.drained()
        assert not stage.playout.speaking

    stage = play(scenario)
    assert stage.started == [(1, 0.02), (2, 2.02)]
    assert stage.ended == [(1, 2.02), (2, 3.0)]


def test_an_answer_starts_with_its_sound_not_with_its_text() -> None:
    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "One.")
        await asyncio.sleep(0.5)
        assert stage.started == []
        stage.playout.write(SECOND)
        stage.playout.turn_done(1)
        stage.playout.sentence(2, "Never spoken.")
        stage.playout.turn_done(2)
        await asyncio.sleep(2)

    stage = play(scenario)
    assert stage.started == [(1, 0.52)]
    assert stage.ended == [(1, 1.5)]


@pytest.mark.parametrize("lead", [5, 35, 60, 145])
@pytest.mark.parametrize("pieces", [1, 4])
def test_an_answer_starts_with_the_first_sample_that_can_be_heard(lead: int, pieces: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "One.")
        sound = quiet(lead) + SECOND
        size = 16 * 40 if pieces > 1 else len(sound)
        for start in range(0, len(sound), size):
            stage.playout.write(sound[start : start + size])
        await asyncio.sleep(1)

    stage = play(scenario)
    assert stage.started == [(1, pytest.approx(0.02 + lead / 1000, abs=0.0001))]
    assert bytes(stage.media.played).startswith(quiet(lead) + SECOND[:320]), "nothing is cut off"


@pytest.mark.parametrize("ms", [LONGEST_LEAD_MS * 3, 100])
def test_an_answer_that_nobody_can_hear_starts_all_the_same(ms: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "...")
        stage.playout.write(bytes(16 * ms))
        stage.playout.turn_done(1)
        await asyncio.sleep(2)

    stage = play(scenario)
    assert len(stage.started) == len(stage.ended) == 1


def test_an_answer_after_a_filler_is_told_by_itself() -> None:
    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "One moment.", Speech("One moment.", "filler"))
        stage.playout.write(SECOND)
        stage.speak(1, "Here", "it is.")
        reprompt = Speech("Are you still there?", "reprompt")
        stage.playout.sentence(1, reprompt.text, reprompt)
        stage.playout.write(SECOND)
        await asyncio.sleep(5)

    stage = play(scenario)
    assert [(start.turn, start.bridge) for start in stage.starts] == [(1, True), (1, False)]
    assert stage.started == [(1, 0.02), (1, 1.02)]


def test_what_was_heard_is_cut_at_the_word() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(3, "Good morning everyone.", "These are four words.")
        await asyncio.sleep(1.6)
        assert stage.playout.flush() == (
            Cut(3, heard := "Good morning everyone. These are", 1600, 1600, heard),
        )
        assert not stage.playout.speaking

    stage = play(scenario)
    assert len(stage.media.played) == 16 * 1600
    assert stage.ended == [], "an answer that was cut was not heard to its end"


def test_the_silence_around_a_sentence_has_no_words() -> None:
    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "aaaa bbbb")
        stage.playout.write(quiet(1000) + SECOND + quiet(1000))
        await asyncio.sleep(1.4)
        assert stage.playout.flush()[0].heard == ""
        stage.playout.sentence(2, "aaaa bbbb")
        stage.playout.write(quiet(1000) + SECOND + quiet(1000))
        await asyncio.sleep(2.04)
        assert stage.playout.flush()[0].heard == "aaaa bbbb"

    play(scenario)


def test_the_count_of_what_was_heard_survives_an_interruption() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One two three four.")
        await asyncio.sleep(0.5)
        stage.playout.flush()
        await asyncio.sleep(2)
        stage.speak(2, "Five six seven eight.")
        await asyncio.sleep(0.3)
        assert stage.playout.flush() == (Cut(2, "Five", 300, 300, "Five"),)

    play(scenario)


def test_nothing_was_heard_of_an_answer_that_is_cut_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One two three four.")
        assert stage.playout.flush() == (Cut(1, "", 0),)
        assert stage.playout.flush() == ()

    play(scenario)


def test_an_answer_that_waits_behind_the_one_that_is_cut_was_not_heard_either() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "All of it.")
        stage.speak(2, "aaaa bbbb.")
        stage.speak(3, "Three.")
        await asyncio.sleep(1.7)
        assert stage.playout.flush() == (Cut(2, "aaaa", 700, 700, "aaaa"), Cut(3, "", 0))

    play(scenario)


def test_what_is_held_goes_on_at_the_very_sample() -> None:
    ramp = np.arange(-8000, 8000, dtype="<i2").tobytes()

    async def scenario(stage: Stage) -> None:
        stage.playout.sentence(1, "One.")
        stage.playout.write(ramp)
        await asyncio.sleep(0.5)
        stage.playout.hold()
        await asyncio.sleep(0.3)
        assert stage.playout.speaking
        stage.playout.resume()
        await stage.playout.drained()

    stage = play(scenario)
    assert bytes(stage.media.played) == ramp


def test_waiting_for_the_end_of_speech_ends_when_the_speech_is_taken_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One.")
        waiting = asyncio.create_task(stage.playout.drained())
        await asyncio.sleep(0.2)
        stage.playout.flush()
        await asyncio.sleep(0)
        await asyncio.wait_for(waiting, 0.1)

    play(scenario)


WORDS = st.lists(st.sampled_from(["I", "12", "Kastrup,", "weather.", "—"]), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.integers(0, 3), WORDS.map(" ".join)),
        st.tuples(st.just("sound"), st.integers(1, 700), st.booleans()),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.sampled_from(["hold", "resume", "flush", "done"])),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_whatever_happens_what_was_heard_begins_what_was_said(steps: list[tuple[Any, ...]]) -> None:
    async def scenario(stage: Stage) -> None:
        said: dict[int, list[str]] = {}
        turn, heard_ms, playout, media = 0, 0, stage.playout, stage.media
        for kind, *rest in steps:
            match kind:
                case "text":
                    turn = max(turn, rest[0])
                    said.setdefault(turn, []).append(rest[1])
                    playout.sentence(turn, rest[1])
                case "sound":
                    playout.write((SECOND if rest[1] else quiet(1000))[: 16 * rest[0]])
                case "wait":
                    await asyncio.sleep(rest[0] / 50)
                case "hold":
                    playout.hold()
                case "resume":
                    playout.resume()
                case "done":
                    playout.turn_done(turn)
                case "flush":
                    before = media.heard_ms
                    for cut in playout.flush():
                        words = " ".join(" ".join(said[cut.turn]).split())
                        assert words.startswith(cut.heard.rstrip())
                        assert 0 <= cut.heard_ms <= media.heard_ms
                        assert cut.heard == "" or cut.heard_ms > 0
                    assert media.heard_ms == before, "taking back plays nothing"
                    assert not playout.speaking
                    said.clear()
            assert media.heard_ms >= heard_ms, "what was heard stays heard"
            heard_ms = media.heard_ms
        assert heard_ms * 16 <= len(media.played) + 16

    play(scenario)
