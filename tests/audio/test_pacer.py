"""The shared 20 ms clock, in virtual time: a loop whose clock only moves when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cordboard.audio.pacer import Pacer


class Timer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.cancelled = when, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualLoop:
    """The few loop methods that the pacer uses; ``advance`` moves time, running what is due."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, callback))
        return self.timers[-1]

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        callback(*args)

    def advance(self, seconds: float, *, late: float = 0.0) -> None:
        end = self.now + seconds
        while due := [t for t in self.timers if not t.cancelled and t.when <= end]:
            timer = min(due, key=lambda t: t.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when + late)
            timer.callback()
        self.now = max(self.now, end)

    def stall(self, seconds: float) -> None:
        """Time passes while the loop runs nothing."""
        self.now += seconds


class Counter:
    def __init__(self) -> None:
        self.ticks: list[int] = []

    def tick(self, count: int) -> None:
        self.ticks.append(count)


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


def pacer_on(loop: VirtualLoop, **options: Any) -> Pacer:
    as_loop: asyncio.AbstractEventLoop = loop  # type: ignore[assignment]
    return Pacer(as_loop, **options)


def test_an_hour_of_late_wakeups_does_not_drift(loop: VirtualLoop) -> None:
    pacer, outlet = pacer_on(loop), Counter()
    pacer.register(outlet)
    loop.advance(3600.001, late=0.003)
    assert sum(outlet.ticks) == 180_000
    assert set(outlet.ticks) == {1}
    assert pacer.late_ticks == pacer.skipped_ticks == 0


def test_all_outlets_are_ticked_from_one_timer(loop: VirtualLoop) -> None:
    pacer, outlets = pacer_on(loop), [Counter() for _ in range(50)]
    for outlet in outlets:
        pacer.register(outlet)
    assert len(loop.timers) == 1
    loop.advance(0.101)
    assert all(outlet.ticks == [1] * 5 for outlet in outlets)


def test_a_short_stall_is_made_up_for(loop: VirtualLoop) -> None:
    pacer, outlet = pacer_on(loop), Counter()
    pacer.register(outlet)
    loop.stall(0.065)
    loop.advance(0.036)
    assert outlet.ticks == [3, 1, 1]
    assert (pacer.late_ticks, pacer.skipped_ticks) == (2, 0)


def test_a_long_stall_is_not_a_burst(loop: VirtualLoop) -> None:
    pacer, outlet = pacer_on(loop), Counter()
    pacer.register(outlet)
    loop.stall(2.005)
    loop.advance(0.04)
    assert outlet.ticks == [3, 1, 1]
    assert (pacer.late_ticks, pacer.skipped_ticks) == (2, 97)


def test_the_clock_runs_only_while_somebody_listens(loop: VirtualLoop) -> None:
    pacer, outlet = pacer_on(loop), Counter()
    assert not pacer.running
    pacer.register(outlet)
    loop.advance(0.03)
    pacer.unregister(outlet)
    pacer.unregister(outlet)
    loop.advance(1)
    assert outlet.ticks == [1]
    assert not pacer.running
    loop.advance(5)
    pacer.register(outlet)
    loop.advance(0.041)
    assert outlet.ticks == [1, 1, 1]
    assert pacer.skipped_ticks == 0


def test_an_outlet_that_raises_is_dropped_and_told_and_the_others_go_on(loop: VirtualLoop) -> None:
    counted: list[str] = []
    pacer = pacer_on(loop, on_internal_error=counted.append)
    good, told = Counter(), []

    class Broken(Counter):
        def tick(self, count: int) -> None:
            raise OSError("socket gone")

    pacer.register(Broken(), told.append)
    pacer.register(good)
    loop.advance(0.061)
    assert good.ticks == [1, 1, 1]
    assert [str(error) for error in told] == ["socket gone"]
    assert counted == ["audio_outlet"]
    assert pacer.outlet_count == 1


def test_an_outlet_taken_off_during_a_round_is_not_ticked_in_it(loop: VirtualLoop) -> None:
    pacer, second = pacer_on(loop), Counter()

    class Ender(Counter):
        def tick(self, count: int) -> None:
            pacer.unregister(second)

    pacer.register(Ender())
    pacer.register(second)
    loop.advance(0.041)
    assert second.ticks == []


def test_the_last_outlet_may_leave_from_its_own_tick(loop: VirtualLoop) -> None:
    pacer = pacer_on(loop)

    class Once(Counter):
        def tick(self, count: int) -> None:
            super().tick(count)
            pacer.unregister(self)

    outlet = Once()
    pacer.register(outlet)
    loop.advance(1)
    assert outlet.ticks == [1]
    assert not pacer.running


def test_registering_twice_is_refused(loop: VirtualLoop) -> None:
    pacer, outlet = pacer_on(loop), Counter()
    pacer.register(outlet)
    with pytest.raises(ValueError, match="already"):
        pacer.register(outlet)


async def test_it_keeps_real_time_on_a_real_loop() -> None:
    enough = asyncio.Event()

    class Waiting(Counter):
        def tick(self, count: int) -> None:
            super().tick(count)
            if sum(self.ticks) >= 10:
                enough.set()

    running = asyncio.get_running_loop()
    pacer, outlet, began = Pacer(running), Waiting(), running.time()
    pacer.register(outlet)
    await asyncio.wait_for(enough.wait(), 60)
    pacer.unregister(outlet)
    assert running.time() - began >= 0.195 - 0.02 * pacer.late_ticks
