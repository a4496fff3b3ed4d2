"""Calls of a file that do not disturb one another are placed at the same time.

A call takes seconds and leaves the machine idle: one after the other, they are most of the time of
the suite. All at once, they keep it so busy that nothing is understood any more. Each test remains
a test with an outcome of its own; the first one that runs waits for all of them.

    together = SideBySide()

    @together
    async def test_one(hotline): ...
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import PhoneCall

from .conftest import CALLERS, Hotline

LONGEST = 5 * PATIENCE
"""Seconds for one test, which waits for several events, each with a timeout of its own."""
AT_ONCE = 8
"""Tests of a group at the same time: two processors understand no more callers in time."""
CallTest: TypeAlias = Callable[[Hotline], Awaitable[None]]
Place = TypeVar("Place")


async def run_among_others(test: Callable[[Place], Awaitable[None]], place: Place) -> None:
    """Run one of several tests. One that hangs is named; the callers of one that fails hang up,
    else those hang, too, that wait until no call is left."""
    callers: list[PhoneCall] = []
    CALLERS.set(callers)
    try:
        async with asyncio.timeout(LONGEST):
            await test(place)
    except BaseException:
        for caller in callers:
            caller.hangup()
        raise


class SideBySide:
    """A group of tests of the same hotline. None of them may look at what is common to all calls
    (how many there are, which channels Asterisk has) before the others can be over."""

    def __init__(self, *, first_alone: bool = False) -> None:
        """`first_alone`: the others begin when the first test calls `others_may_begin`, or ends."""
        self._tests: list[CallTest] = []
        self._outcomes: dict[CallTest, BaseException | None] = {}
        self._first_alone = first_alone
        self._begin = asyncio.Event()
        self._places = asyncio.Semaphore(AT_ONCE)

    def __call__(self, test: CallTest) -> CallTest:
        """The decorator."""
        self._tests.append(test)

        @functools.wraps(test)
        async def outcome(hotline: Hotline) -> None:
            if not self._outcomes:
                found = await asyncio.gather(
                    *(self._run(test, hotline) for test in self._tests), return_exceptions=True
                )
                self._outcomes = dict(zip(self._tests, found, strict=True))
            problem = self._outcomes[test]
            if problem is not None:
                raise problem

        return outcome

    def others_may_begin(self) -> None:
        self._begin.set()

    async def _run(self, test: CallTest, hotline: Hotline) -> None:
        first = test is self._tests[0]
        if self._first_alone and not first:
            await self._begin.wait()
        try:
            async with self._places:
                await run_among_others(test, hotline)
        finally:
            if first:
                self._begin.set()
