"""Processes of a simulated cluster, all in one event loop in virtual time.

Each task and timer belongs to the process whose context it was begun in. A process that is stopped
runs none of them: they wait, in order, until it goes on, as after SIGSTOP and SIGCONT. A killed one
never goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakSet

from cordboard_testkit.virtual_time import VirtualTimeLoop

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
NETWORK = Context()
"""For what happens outside of all processes: in Asterisk, on the bus, on the way."""

ORDER_SECONDS = 1e-11
"""Time between two timers for the same moment, so that they come in the order of their making."""


class Process:
    """One engine's process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = self.killed = False
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._context = copy_context()
        self._context.run(PROCESS.set, self)
        self._waiting: deque[tuple[_Step, tuple[Any, ...]]] = deque()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a task of this process."""
        return asyncio.get_running_loop().create_task(work, context=self._context.copy())

    def do(self, callback: Callable[..., object], *args: Any) -> None:
        """Run a callback in this process, soon."""
        asyncio.get_running_loop().call_soon(callback, *args, context=self._context.copy())

    def stop(self) -> None:
        self.stopped = True

    def go_on(self) -> None:
        """Run what has become due meanwhile, in its order."""
        self.stopped = False
        waiting, self._waiting = self._waiting, deque()
        loop = asyncio.get_running_loop()
        for step, args in waiting:
            loop.call_soon(step, *args, context=step.context)

    def wait(self, step: _Step, args: tuple[Any, ...]) -> None:
        """Keep a step until the process goes on."""
        self._waiting.append((step, args))


class _Step:
    """A callback of a process, which waits while the process is stopped."""

    handle: asyncio.Handle | None = None

    def __init__(self, process: Process, callback: Callable[..., object], context: Context) -> None:
        self._process = process
        self.callback = callback
        self.context = context

    def __call__(self, *args: Any) -> None:
        if self.handle is not None and self.handle.cancelled():
            return  # after it had become due, while the process was stopped
        if self._process.stopped:
            self._process.wait(self, args)
        else:
            self.callback(*args)


class ProcessLoop(VirtualTimeLoop):
    """A loop in virtual time that knows of processes."""

    def __init__(self) -> None:
        super().__init__()
        self._timers = 0
        self.set_task_factory(_make_task)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        step = _step(callback, context)
        handle = super().call_soon(step, *args, context=context)
        if isinstance(step, _Step):
            step.handle = handle
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        step = _step(callback, context)
        self._timers += 1
        when += self._timers * ORDER_SECONDS
        handle = super().call_at(when, step, *args, context=context)
        if isinstance(step, _Step):
            step.handle = handle
        return handle


def _step(callback: Callable[..., object], context: Context) -> Callable[..., object]:
    process = context.get(PROCESS)
    return callback if process is None else _Step(process, callback, context)


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, context=context)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.add(task)
    return task


def here() -> Process:
    """Return the process that runs now."""
    process = PROCESS.get()
    assert process is not None
    return process


def later(seconds: float, callback: Callable[..., object], *args: Any) -> None:
    """Have something happen outside of all processes."""
    asyncio.get_running_loop().call_later(seconds, callback, *args, context=NETWORK)
