"""Echo is asked about off the loop, one question at a time, and the answer comes in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from cordboard.audio.echo import EchoVerdict
from cordboard.speech.turns.echo_watch import EVERY, FORGOTTEN_AFTER, EchoAnswer, EchoWatch


class SlowGuard:
    """Answers when it is let."""

    def __init__(self, explained: float | Exception) -> None:
        self.explained = explained
        self.stands_out = True
        self.heard_dbfs = -42.0
        self.may_answer = threading.Event()
        self.asked: list[str] = []

    def sent(self, pcm: bytes) -> None: ...

    def heard(self, pcm: bytes) -> None: ...

    def snapshot(self) -> Callable[[int], EchoVerdict]:
        def judge(ms: int) -> EchoVerdict:
            self.asked.append(threading.current_thread().name)
            assert self.may_answer.wait(10)
            if isinstance(self.explained, Exception):
                raise self.explained
            return EchoVerdict(self.explained, self.heard_dbfs, -60.0, 100.0, self.stands_out)

        return judge


async def answered(watch: EchoWatch, thread: ThreadPoolExecutor) -> EchoAnswer:
    watch.ask()
    await asyncio.get_running_loop().run_in_executor(thread, lambda: None)  # behind the question
    await asyncio.sleep(0)
    return watch.ask()


@pytest.mark.parametrize(
    ("explained", "answer"), [(0.95, EchoAnswer.ECHO), (0.3, EchoAnswer.VOICE)]
)
async def test_one_question_at_a_time_in_a_thread_of_its_own(explained, answer):
    guard = SlowGuard(explained)
    with ThreadPoolExecutor(1, thread_name_prefix="echo") as thread:
        watch = EchoWatch(guard, thread)
        assert [watch.ask() for _ in range(50)] == [EchoAnswer.NOT_YET] * 50
        guard.may_answer.set()
        assert await answered(watch, thread) is answer
    assert len(guard.asked) == 1
    assert guard.asked[0].startswith("echo")


async def test_what_the_line_always_has_is_no_voice():
    guard = SlowGuard(0.0)
    guard.stands_out = False
    guard.may_answer.set()
    with ThreadPoolExecutor(1) as thread:
        assert await answered(EchoWatch(guard, thread), thread) is EchoAnswer.NOISE


async def test_the_answer_is_asked_for_again_and_forgotten(monkeypatch):
    guard = SlowGuard(0.95)
    guard.may_answer.set()
    watch = EchoWatch(guard, None)
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    watch.ask()
    assert watch.ask() is EchoAnswer.ECHO
    guard.explained, guard.heard_dbfs = 0.1, -20.0
    assert watch.ask() is EchoAnswer.ECHO, "the answer holds for a while"
    now += EVERY + 0.001
    watch.ask()
    assert watch.ask() is EchoAnswer.VOICE
    now += FORGOTTEN_AFTER + 0.001
    guard.explained = 0.95
    assert watch.ask() is EchoAnswer.ECHO, "an old answer says nothing about a new voice"


class Line:
    """A call in virtual time. The guard answers at once, every 80 ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.guard = SlowGuard(0.0)
        self.guard.may_answer.set()
        self.watch = EchoWatch(self.guard, None)
        self.now = 100.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)

    def hear(self, seconds: float, dbfs: float, explained: float) -> list[EchoAnswer]:
        """What is said, every 80 ms, of a sound of this level."""
        self.guard.explained, self.guard.heard_dbfs = explained, dbfs
        answers = []
        for _ in range(round(seconds / EVERY)):
            self.now += EVERY + 0.0001
            self.watch.ask()
            answers.append(self.watch.ask())
        return answers


async def test_an_echo_the_guard_loses_for_a_moment_is_none_the_less_one(monkeypatch):
    line = Line(monkeypatch)
    for _ in range(10):  # sound is lost every two seconds
        assert set(line.hear(1.6, -42.0, 0.97)) == {EchoAnswer.ECHO}
        assert set(line.hear(0.4, -40.0, 0.2)) == {EchoAnswer.ECHO}


async def test_what_is_louder_than_the_echo_is_a_voice_at_once_and_stays_one(monkeypatch):
    line = Line(monkeypatch)
    line.hear(2.0, -42.0, 0.97)
    assert set(line.hear(0.32, -20.0, 0.1)) == {EchoAnswer.VOICE}
    assert set(line.hear(0.32, -41.0, 0.1)) == {EchoAnswer.VOICE}, "a soft syllable"


async def test_a_caller_softer_than_the_echo_is_heard_after_a_moment(monkeypatch):
    line = Line(monkeypatch)
    line.hear(2.0, -24.0, 0.97)
    answers = line.hear(1.2, -26.0, 0.2)
    assert answers.index(EchoAnswer.VOICE) <= 6, "within half a second"
    assert set(answers[6:]) == {EchoAnswer.VOICE}


async def test_without_an_echo_the_softest_voice_is_one(monkeypatch):
    line = Line(monkeypatch)
    assert set(line.hear(0.4, -48.0, 0.1)) == {EchoAnswer.VOICE}


async def test_an_echo_of_long_ago_makes_no_voice_doubtful(monkeypatch):
    line = Line(monkeypatch)
    line.hear(2.0, -24.0, 0.97)
    line.now += 10
    assert line.hear(0.08, -35.0, 0.1) == [EchoAnswer.VOICE]


async def test_a_chance_likeness_does_not_teach_the_level_of_an_echo(monkeypatch):
    line = Line(monkeypatch)
    line.hear(0.08, -18.0, 0.72)
    assert line.hear(0.08, -20.0, 0.3) == [EchoAnswer.VOICE]


async def test_a_guard_that_breaks_leaves_the_caller_able_to_interrupt():
    guard = SlowGuard(ValueError("broken"))
    guard.may_answer.set()
    with ThreadPoolExecutor(1) as thread:
        watch = EchoWatch(guard, thread)
        assert await answered(watch, thread) is EchoAnswer.VOICE


async def test_after_the_end_of_the_engine_nothing_is_asked():
    thread = ThreadPoolExecutor(1)
    thread.shutdown()
    watch = EchoWatch(SlowGuard(0.9), thread)
    watch.ask()
    assert watch.ask() is EchoAnswer.VOICE
