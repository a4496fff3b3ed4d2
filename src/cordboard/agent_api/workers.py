"""A few threads for the heavy work of all calls: recognition and synthesis.

The event loop must never wait for a model, and two cores must not be shared by twenty threads.
``await workers.run(function, *args)`` queues the work, runs it in one of a few threads and returns
its result. There are two priorities: ``FINAL`` work (a caller is waiting for it) precedes
``SPECULATIVE`` work (its result may be needless), which also never takes the last thread, so that
final work finds one free.

Cancelling the await removes work that has not begun; begun work runs to its end and its result is
dropped, because a model cannot be interrupted. ``promote`` makes speculative work final once a
caller waits for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Priority(Enum):
    """Urgency of a piece of work."""

    FINAL = "final"
    SPECULATIVE = "speculative"


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """One piece of work."""

    future: Future[Any]
    work: Callable[[], Any]
    owner: asyncio.Task[Any] | None
    """The task that waits for it; None if that is not certain."""
    since: float = field(default_factory=time.monotonic)
    """Time at which it was queued."""


class Workers:
    """The pool. Create one per process, ``await close()`` at the end."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads``: their number; by default one per core, at least two, at most four."""
        count = threads or min(4, max(2, os.cpu_count() or 2))
        self._ready = threading.Condition()
        self._queues: dict[Priority, deque[_Job]] = {priority: deque() for priority in Priority}
        self._running = dict.fromkeys(Priority, 0)
        self._speculative_limit = max(1, count - 1)
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"cordboard-worker-{n}", daemon=True)
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def threads(self) -> int:
        return len(self._threads)

    def queued(self, priority: Priority) -> int:
        """Pieces of work waiting for a thread (a gauge for the metrics)."""
        return len(self._queues[priority])

    def longest_wait(self, priority: Priority) -> float:
        """Seconds for which the oldest queued work has been waiting for a thread; 0 if none
        waits."""
        with self._ready:
            queue = self._queues[priority]
            return time.monotonic() - queue[0].since if queue else 0.0

    def running(self, priority: Priority) -> int:
        """Pieces of work in a thread now (a gauge for the metrics)."""
        return self._running[priority]

    async def run(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Run ``function`` as final work and return what it returns, or raise what it raises."""
        return await self._submit(Priority.FINAL, lambda: function(*args, **kwargs))

    def begin(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Result]:
        """Queue final work without waiting for it; from any thread, with or without a loop."""
        future: Future[Result] = Future()
        self._queue(Priority.FINAL, _Job(future, lambda: function(*args, **kwargs), None))
        return future

    async def run_speculative(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Run ``function`` like `run`, but behind all final work."""
        return await self._submit(Priority.SPECULATIVE, lambda: function(*args, **kwargs))

    def promote(self, owner: asyncio.Task[Any]) -> None:
        """Make all queued work that ``owner`` waits for final."""
        with self._ready:
            speculative = self._queues[Priority.SPECULATIVE]
            for job in [job for job in speculative if job.owner is owner]:
                speculative.remove(job)
                self._queues[Priority.FINAL].append(job)
                self._ready.notify()

    async def _submit(self, priority: Priority, work: Callable[[], Result]) -> Result:
        future: Future[Result] = Future()
        job = _Job(future, work, asyncio.current_task())
        self._queue(priority, job)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            with self._ready:
                for queue in self._queues.values():
                    if job in queue:
                        queue.remove(job)
            raise

    def _queue(self, priority: Priority, job: _Job) -> None:
        with self._ready:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            self._queues[priority].append(job)
            self._ready.notify()

    async def close(self) -> None:
        """Cancel queued work and wait for running work. Idempotent."""
        with self._ready:
            self._closed = True
            waiting = [job for queue in self._queues.values() for job in queue]
            for queue in self._queues.values():
                queue.clear()
            self._ready.notify_all()
        for job in waiting:
            job.future.cancel()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _next(self) -> tuple[Priority, _Job] | None:
        """Return the next job this thread may take, or None. Call with the lock held."""
        if self._queues[Priority.FINAL]:
            return Priority.FINAL, self._queues[Priority.FINAL].popleft()
        speculative = self._queues[Priority.SPECULATIVE]
        if speculative and self._running[Priority.SPECULATIVE] < self._speculative_limit:
            return Priority.SPECULATIVE, speculative.popleft()
        return None

    def _serve(self) -> None:
        while True:
            with self._ready:
                while (found := self._next()) is None:
                    if self._closed:
                        return
                    self._ready.wait()
                priority, job = found
                self._running[priority] += 1
            try:
                if job.future.set_running_or_notify_cancel():
                    self._finish(job.future, job.work)
            finally:
                with self._ready:
                    self._running[priority] -= 1
                    self._ready.notify()

    @staticmethod
    def _finish(future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - thread border: handed to the awaiter
            future.set_exception(error)
        else:
            future.set_result(result)
