"""An event loop whose clock jumps: a minute of timers runs in a millisecond, always the same way.

    with virtual_time() as loop:
        loop.run_until_complete(scenario())

    @in_virtual_time
    async def test_a_minute_passes() -> None: ...

`loop.time()` starts at 1000.0 and moves only when nothing is left to run: straight to the next
timer. Real sockets and threads do not belong in such a loop; waiting for them raises
`RuntimeError` instead of hanging forever.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

Arguments = ParamSpec("Arguments")

START = 1000.0


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: hands the waiting time to the clock."""

    def __init__(self) -> None:
        self._real = selectors.SelectSelector()
        self.now = START

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError(
                "nothing is scheduled: the scenario waits for something that never comes"
            )
        self.now += max(0.0, timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on a clock of its own."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


@contextmanager
def virtual_time() -> Iterator[VirtualTimeLoop]:
    """A loop for one scenario, set as the current one, closed afterwards."""
    loop = VirtualTimeLoop()
    asyncio.set_event_loop(loop)
    try:
        yield loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def in_virtual_time(
    scenario: Callable[Arguments, Coroutine[Any, Any, None]],
) -> Callable[Arguments, None]:
    """Decorate a test: each run has a virtual-time loop of its own."""

    @wraps(scenario)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        with virtual_time() as loop:
            loop.run_until_complete(scenario(*args, **kwargs))

    return run
