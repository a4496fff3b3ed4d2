"""A few threads for the heavy work of all calls: recognition and synthesis.

The event loop must never wait for a model, and two cores must not be shared by twenty threads.
``await workers.run(function, *args)`` queues the work, runs it in one of a few threads and returns
its result. Each piece of work has a time at which its result is needed, and the earliest of these
begins first. So a sentence that a caller will hear in five seconds does not delay the recognition
of another caller, and cannot starve either. ``SPECULATIVE`` work, whose result may be needless, is
needed a little later than ``FINAL`` work, and before that time it never takes the last thread, so
that final work finds one free.

Cancelling the await removes work that has not begun; begun work runs to its end and its result is
dropped, because a model cannot be interrupted. ``promote`` makes speculative work final once a
caller waits for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


SPECULATION = 0.2
"""Seconds after which a speculative result is needed: a complete answer ends the turn after about
as much silence as was heard when the work was queued, and this much more."""
_RECENT = 16
"""Pieces of work over which the mean duration is taken."""


class Priority(Enum):
    """Urgency of a piece of work."""

    FINAL = "final"
    SPECULATIVE = "speculative"


@dataclass(slots=True, eq=False)
class _Job:
    """One piece of work."""

    future: Future[Any]
    work: Callable[[], Any]
    owner: asyncio.Task[Any] | None
    """The task that waits for it; None if that is not certain."""
    priority: Priority
    due: float
    """Time at which the result is needed."""
    since: float = field(default_factory=time.monotonic)
    """Time at which it was queued."""


class Workers:
    """The pool. Create one per process, ``await close()`` at the end."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads``: their number; by default one per core, at least two, at most four."""
        count = threads or min(4, max(2, os.cpu_count() or 2))
        self._ready = threading.Condition()
        self._jobs: list[_Job] = []
        self._mean_seconds = 0.0
        """Mean duration of recent work."""
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
        with self._ready:
            return sum(job.priority is priority for job in self._jobs)

    def expected_wait(self) -> float:
        """Seconds for which work that is needed now would wait for a thread: the time that the
        threads need for all overdue work, or the longest delay of such work if that is more."""
        now = time.monotonic()
        with self._ready:
            overdue = [job for job in self._jobs if job.due <= now]
            needed = len(overdue) * self._mean_seconds / self.threads
        return max([needed, *(now - max(job.due, job.since) for job in overdue)])

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
        return await self._submit(Priority.FINAL, 0.0, partial(function, *args, **kwargs))

    async def run_within(
        self,
        seconds: float,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Run ``function`` like `run`, but its result is needed in ``seconds``; infinite: behind
        all other work. Less than 0: it has been needed for that long."""
        return await self._submit(Priority.FINAL, seconds, partial(function, *args, **kwargs))

    def begin(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Future[Result]:
        """Queue final work without waiting for it; from any thread, with or without a loop."""
        future: Future[Result] = Future()
        work = partial(function, *args, **kwargs)
        self._queue(_Job(future, work, None, Priority.FINAL, time.monotonic()))
        return future

    async def run_speculative(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Run ``function`` like `run`, but final work that is queued soon after precedes it."""
        work = partial(function, *args, **kwargs)
        return await self._submit(Priority.SPECULATIVE, SPECULATION, work)

    def promote(self, owner: asyncio.Task[Any]) -> None:
        """Make all queued work that ``owner`` waits for final."""
        now = time.monotonic()
        with self._ready:
            for job in self._jobs:
                if job.owner is owner:
                    job.priority, job.due = Priority.FINAL, min(job.due, now)
            self._ready.notify_all()

    async def _submit(
        self, priority: Priority, seconds: float, work: Callable[[], Result]
    ) -> Result:
        future: Future[Result] = Future()
        due = time.monotonic() + seconds
        job = _Job(future, work, asyncio.current_task(), priority, due)
        self._queue(job)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            with self._ready:
                if job in self._jobs:
                    self._jobs.remove(job)
            raise

    def _queue(self, job: _Job) -> None:
        with self._ready:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            self._jobs.append(job)
            self._ready.notify()

    async def close(self) -> None:
        """Cancel queued work and wait for running work. Idempotent."""
        with self._ready:
            self._closed = True
            waiting, self._jobs = self._jobs, []
            self._ready.notify_all()
        for job in waiting:
            job.future.cancel()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _next(self, now: float) -> _Job | None:
        """Return the next job this thread may take, or None. Call with the lock held."""
        keeps_one_free = self._running[Priority.SPECULATIVE] >= self._speculative_limit
        allowed = (
            job
            for job in self._jobs
            if not keeps_one_free or job.priority is Priority.FINAL or job.due <= now
        )
        return min(allowed, key=lambda job: job.due, default=None)

    def _serve(self) -> None:
        while True:
            with self._ready:
                while (job := self._next(now := time.monotonic())) is None:
                    if self._closed:
                        return
                    soonest = min((job.due for job in self._jobs), default=None)
                    self._ready.wait(None if soonest is None else max(0.0, soonest - now))
                self._jobs.remove(job)
                priority = job.priority
                self._running[priority] += 1
            try:
                if job.future.set_running_or_notify_cancel():
                    self._finish(job.future, job.work)
            finally:
                with self._ready:
                    self._running[priority] -= 1
                    self._mean_seconds += (time.monotonic() - now - self._mean_seconds) / _RECENT
                    self._ready.notify()

    @staticmethod
    def _finish(future: Future[Any], work: Callable[[], Any]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - thread border: handed to the awaiter
            future.set_exception(error)
        else:
            future.set_result(result)
