from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cordboard.calls.playout import Playout
from cordboard.testing.fake_line import FakeMedia
from cordboard.testing.virtual_time import virtual_time

SECOND = bytes(16_000)


class Stage:
    def __init__(self) -> None:
        self.media = FakeMedia()
        self.started: list[tuple[int, float]] = []
        self.ended: list[tuple[int, float]] = []
        self.playout = Playout(
            self.media,
            lambda turn: self.started.append((turn, self.now())),
            lambda turn: self.ended.append((turn, self.now())),
        )

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


def test_what_was_heard_is_cut_at_the_word() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(3, "Good morning everyone.", "There are four words.")
        await asyncio.sleep(1.5)
        assert stage.playout.flush() == (3, "Good morning everyone. There are")
        assert not stage.playout.speaking

    stage = play(scenario)
    assert len(stage.media.played) == 16 * 1500
    assert stage.ended == [], "an answer that was cut was not heard to its end"


def test_the_count_of_what_was_heard_survives_an_interruption() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One two three four.")
        await asyncio.sleep(0.5)
        stage.playout.flush()
        await asyncio.sleep(2)
        stage.speak(2, "Five six seven eight.")
        await asyncio.sleep(0.3)
        assert stage.playout.flush() == (2, "Five")

    play(scenario)


def test_nothing_was_heard_of_an_answer_that_is_cut_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One two three four.")
        assert stage.playout.flush() == (1, "")

    play(scenario)


def test_waiting_for_the_end_of_speech_ends_when_the_speech_is_taken_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.speak(1, "One.")
        waiting = asyncio.create_task(stage.playout.drained())
        await asyncio.sleep(0.2)
        stage.playout.flush()
        await asyncio.sleep(0)
        await asyncio.wait_for(waiting, 0.1)

    play(scenario)
