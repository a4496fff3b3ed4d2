"""The monitor of the event loop."""

from __future__ import annotations

import asyncio
import time

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
    await asyncio.wait_for(measured.wait(), 10)
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
    await asyncio.wait_for(thrice.wait(), 10)
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
