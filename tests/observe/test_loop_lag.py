"""The monitor of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from cordboard.observe.loop_lag import LoopLagMonitor


async def test_a_blocked_loop_is_noticed() -> None:
    lags: list[float] = []
    measured = asyncio.Event()

    def note(lag: float) -> None:
        lags.append(lag)
        measured.set()

    monitor = LoopLagMonitor(note, interval=0.01)
    monitor.start()
    time.sleep(0.2)  # noqa: ASYNC251 - blocking the loop is the point
    await asyncio.wait_for(measured.wait(), 60)
    monitor.stop()
    assert lags[0] >= 0.15
    assert monitor.worst >= 0.15


async def test_it_goes_on_measuring_until_it_is_stopped() -> None:
    thrice = asyncio.Event()
    lags: list[float] = []

    def note(lag: float) -> None:
        lags.append(lag)
        if len(lags) == 3:
            thrice.set()

    monitor = LoopLagMonitor(note, interval=0.001)
    monitor.start()
    monitor.start()
    await asyncio.wait_for(thrice.wait(), 60)
    monitor.stop()
    monitor.stop()
    count = len(lags)
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, later.set)
    await later.wait()
    assert len(lags) == count
    assert monitor.latest == lags[-1] >= 0


async def test_it_is_no_task() -> None:
    before = asyncio.all_tasks()
    monitor = LoopLagMonitor(lambda lag: None)
    monitor.start()
    assert asyncio.all_tasks() == before
    monitor.stop()


class HeldLoop:
    """An event loop that is held for some time, let go for a moment, and held again."""

    def __init__(self) -> None:
        self.now = 100.0
        self._due = 0.0
        self._callback: Callable[[], None] | None = None

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self._due, self._callback = self.now + delay, callback

    def held(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.now += seconds
            if self._callback is not None and self._due <= self.now:
                self._callback()


def test_a_loop_that_is_held_all_the_time_is_late_by_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The measurements do not keep step with what holds it."""
    loop = HeldLoop()
    lags: list[float] = []
    monkeypatch.setattr("cordboard.observe.loop_lag.time.monotonic", lambda: loop.now)
    monitor = LoopLagMonitor(lags.append, interval=0.05, loop=loop)  # type: ignore[arg-type]
    monitor.start()
    loop.held(0.092, 100)
    assert max(lags) > 0.08
    assert min(lags) >= 0
    del lags[:]
    loop.held(1.52, 1)
    loop.held(0.001, 20)
    assert len(lags) == 1, "one block is noted once, however long"
    loop.held(0.001, 500)
    assert max(lags[1:]) < 0.002
