"""The shared worker threads: order, cancelling, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.agent_api import workers as module
from cordboard.agent_api.workers import Priority, Workers


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    workers = Workers(threads=2)
    yield workers
    await workers.close()


class Gate:
    """Work that says it began and ends when it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def __call__(self) -> str:
        self.began.set()
        assert self.go.wait(60)
        return "done"

    async def entered(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 60)


async def test_work_runs_beside_the_loop_and_gives_its_result(workers: Workers) -> None:
    here = threading.get_ident()
    assert await workers.run(threading.get_ident) != here
    assert await workers.run(int, "2a", base=16) == 42


async def test_an_error_reaches_the_one_who_waits_and_the_thread_lives(workers: Workers) -> None:
    for _ in range(5):
        with pytest.raises(ValueError, match="invalid literal"):
            await workers.run(int, "x")
    assert await workers.run(int, "7") == 7


async def test_final_work_overtakes_speculative_work() -> None:
    workers, gate, order = Workers(threads=1), Gate(), []
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    waiting = [
        asyncio.create_task(workers.run_speculative(order.append, "guess")),
        asyncio.create_task(workers.run(order.append, "needed")),
    ]
    await asyncio.sleep(0)
    assert workers.queued(Priority.SPECULATIVE) == workers.queued(Priority.FINAL) == 1
    gate.go.set()
    await asyncio.gather(held, *waiting)
    assert order == ["needed", "guess"]
    await workers.close()


async def test_promoted_work_is_final_from_then_on() -> None:
    workers, gate, order = Workers(threads=1), Gate(), []
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    guesses = [asyncio.create_task(workers.run_speculative(order.append, n)) for n in range(3)]
    await asyncio.sleep(0)
    needed = asyncio.create_task(workers.run(order.append, "needed"))
    await asyncio.sleep(0)
    workers.promote(guesses[2])
    assert (workers.queued(Priority.FINAL), workers.queued(Priority.SPECULATIVE)) == (2, 2)
    gate.go.set()
    await asyncio.gather(held, needed, *guesses)
    assert order == ["needed", 2, 0, 1]
    workers.promote(guesses[0])  # long done: of no account
    await workers.close()


async def test_promoted_work_can_still_be_cancelled() -> None:
    workers, gate, ran = Workers(threads=1), Gate(), threading.Event()
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    guess = asyncio.create_task(workers.run_speculative(ran.set))
    await asyncio.sleep(0)
    workers.promote(guess)
    guess.cancel()
    await asyncio.gather(guess, return_exceptions=True)
    assert workers.queued(Priority.FINAL) == 0
    gate.go.set()
    await held
    assert not ran.is_set()
    await workers.close()


async def test_speculative_work_leaves_a_thread_for_final_work(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPECULATION", 100.0)
    gates = [Gate(), Gate()]
    guesses = [asyncio.create_task(workers.run_speculative(gate)) for gate in gates]
    await gates[0].entered()
    assert await asyncio.wait_for(workers.run(int, "1"), 60) == 1
    assert workers.running(Priority.SPECULATIVE) == 1
    assert not gates[1].began.is_set()
    gates[0].go.set()
    gates[1].go.set()
    assert await asyncio.gather(*guesses) == ["done", "done"]


async def test_cancelled_work_that_has_not_begun_never_begins() -> None:
    workers, gate, ran = Workers(threads=1), Gate(), []
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    queued = asyncio.create_task(workers.run(ran.append, 1))
    await asyncio.sleep(0)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    assert workers.queued(Priority.FINAL) == 0
    gate.go.set()
    assert await held == "done"
    await workers.close()
    assert ran == []


async def test_cancelling_begun_work_drops_its_result_only(workers: Workers) -> None:
    gate = Gate()
    begun = asyncio.create_task(workers.run(gate))
    await gate.entered()
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    gate.go.set()
    assert await workers.run(int, "3") == 3


async def test_closing_cancels_the_queue_and_leaves_no_thread() -> None:
    workers, gate = Workers(threads=1), Gate()
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    queued = asyncio.create_task(workers.run(int, "1"))
    await asyncio.sleep(0)
    closing = asyncio.create_task(workers.close())
    with pytest.raises(asyncio.CancelledError):
        await queued
    gate.go.set()
    await closing
    await workers.close()
    assert await held == "done"
    assert not [thread for thread in workers._threads if thread.is_alive()]
    with pytest.raises(RuntimeError, match="closed"):
        await workers.run(int, "1")


def test_work_can_begin_before_there_is_an_event_loop() -> None:
    workers, gate = Workers(threads=1), Gate()
    first, second = workers.begin(gate), workers.begin(int, "7")
    assert gate.began.wait(60)

    async def end() -> tuple[str, int]:
        gate.go.set()
        results = await asyncio.wrap_future(first), await asyncio.wrap_future(second)
        await workers.close()
        return results

    assert asyncio.run(end()) == ("done", 7)
    with pytest.raises(RuntimeError):
        workers.begin(int, "7")


async def test_overdue_speculative_work_takes_the_last_thread_too(workers: Workers) -> None:
    """In a crowd drafts are as urgent as anything, and a free thread would help nobody."""
    gates = [Gate(), Gate()]
    guesses = [asyncio.create_task(workers.run_speculative(gate)) for gate in gates]
    for gate in gates:
        await gate.entered()
    for gate in gates:
        gate.go.set()
    assert await asyncio.gather(*guesses) == ["done", "done"]


async def test_work_that_is_needed_later_lets_everything_else_pass() -> None:
    """The rest of an answer is heard in seconds, another caller's first words are waited for."""
    workers, gate, order = Workers(threads=1), Gate(), list[str]()
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    waiting = [
        asyncio.create_task(workers.run_within(inf, order.append, "a greeting, ahead")),
        asyncio.create_task(workers.run_within(3.0, order.append, "the second sentence")),
        asyncio.create_task(workers.run_speculative(order.append, "a draft")),
        asyncio.create_task(workers.run(order.append, "a turn that is over")),
        asyncio.create_task(workers.run_within(-1.0, order.append, "the first sentence")),
    ]
    await asyncio.sleep(0)
    gate.go.set()
    await asyncio.gather(held, *waiting)
    assert order == [
        "the first sentence",
        "a turn that is over",
        "a draft",
        "the second sentence",
        "a greeting, ahead",
    ]
    await workers.close()


@settings(max_examples=30, deadline=None)
@given(within=st.lists(st.integers(-100, 100), unique=True, max_size=12))
def test_the_earliest_need_begins_first_whatever_was_queued_first(within: list[int]) -> None:
    async def scenario() -> list[int]:
        workers, gate, order = Workers(threads=1), Gate(), list[int]()
        held = asyncio.create_task(workers.run(gate))
        await gate.entered()
        waiting = [asyncio.create_task(workers.run_within(n, order.append, n)) for n in within]
        await asyncio.sleep(0)
        gate.go.set()
        await asyncio.gather(held, *waiting)
        await workers.close()
        return order

    assert asyncio.run(scenario()) == sorted(within)


async def test_only_work_that_is_needed_now_counts_as_a_wait() -> None:
    workers, gate = Workers(threads=1), Gate()
    held = asyncio.create_task(workers.run(gate))
    await gate.entered()
    assert workers.expected_wait() == 0.0
    later = asyncio.create_task(workers.run_within(100.0, int, "1"))
    await asyncio.sleep(0)
    assert workers.expected_wait() == 0.0
    needed = asyncio.create_task(workers.run(int, "1"))
    await asyncio.sleep(0.02)
    assert 0.01 < workers.expected_wait() < 10
    gate.go.set()
    await asyncio.gather(held, later, needed)
    assert workers.expected_wait() == 0.0
    await workers.close()
