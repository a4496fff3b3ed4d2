"""The watchdog of the event loop: what holds the loop is named."""

from __future__ import annotations

import asyncio
import threading
import time

from structlog.testing import capture_logs

from cordboard.observe.loop_lag import LoopWatchdog


def hold_the_loop(until: threading.Event) -> None:
    until.wait(60)


async def test_it_names_what_holds_the_loop_once_for_each_time() -> None:
    noticed = asyncio.Event()
    watchdog = LoopWatchdog(noticed.set, blocked_after=0.5, beat=0.01)
    with capture_logs() as log:
        watchdog.start()
        for _ in range(2):
            seen = len(log)
            released = threading.Event()
            threading.Thread(target=release, args=(released, log, seen)).start()
            hold_the_loop(released)
            await asyncio.wait_for(noticed.wait(), 60)
            noticed.clear()
        watchdog.stop()
        watchdog.stop()
    # A busy machine may hold the loop, too: each time is told once, in two lines.
    told = ["event_loop_blocked", "event_loop_was_blocked"]
    assert [entry["event"] for entry in log] == told * watchdog.incidents
    assert any("hold_the_loop" in line for entry in log for line in entry.get("at", ())), log
    assert watchdog.incidents >= 2
    assert watchdog.longest >= 0.5


def release(released: threading.Event, log: list[object], seen: int) -> None:
    """Let the loop go once the watchdog has spoken, and a little later: it must not repeat it."""
    deadline = time.monotonic() + 15
    while len(log) == seen and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    released.set()


async def test_a_loop_that_runs_is_left_alone() -> None:
    watchdog = LoopWatchdog(blocked_after=60.0, beat=0.01)
    with capture_logs() as log:
        watchdog.start()
        await asyncio.sleep(0.1)
        watchdog.stop()
    assert (log, watchdog.incidents) == ([], 0)
    assert watchdog._thread is not None
    assert not watchdog._thread.is_alive()
