"""The threads of one function: a few of its own, so that a hanging run affects no other function.

A thread cannot be killed. When the caller of a run stops waiting, its thread counts as stuck until
it returns by itself; with `MOST_STUCK` stuck threads the function is not called any more. All
threads are daemons, so they do not keep the engine from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MOST_AT_ONCE = 8
"""Maximum concurrent runs; further ones wait for their turn."""
MOST_STUCK = 4
"""Maximum threads of runs that were given up."""
IDLE_SECONDS = 10.0
"""Seconds that an idle thread waits for work before it ends."""


class TooManyStuck(Exception):
    """Too many runs hang to begin another one."""


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    abandoned: bool = False
    finished: bool = False


class FunctionThreads:
    """The threads of one function."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._turn = asyncio.Semaphore(MOST_AT_ONCE)
        self._lock = threading.Lock()
        self._idle = 0
        self.stuck = 0
        """Number of runs that hang."""

    async def run(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a thread; return or raise its result. When cancelled, a thread that has
        begun is left behind.

        Raises `TooManyStuck`.
        """
        if self.stuck >= MOST_STUCK:
            raise TooManyStuck
        async with self._turn:
            loop = asyncio.get_running_loop()
            within = contextvars.copy_context()
            job = _Job(lambda: within.run(work), loop, loop.create_future())
            self._hand_over(job)
            try:
                return await job.done
            except asyncio.CancelledError:
                self._abandon(job)
                raise

    def _hand_over(self, job: _Job) -> None:
        with self._lock:
            needs_thread = self._idle == 0
            if not needs_thread:
                self._idle -= 1
        self._jobs.put(job)
        if needs_thread:
            threading.Thread(target=self._serve, name=f"tool {self._name}", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        with self._lock:
            if not job.finished:
                job.abandoned = True
                self.stuck += 1

    def _serve(self) -> None:
        """Run jobs, in a thread of its own."""
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._jobs.empty() and self._idle > 0:
                        self._idle -= 1
                        return
                continue
            self._do(job)
            with self._lock:
                self._idle += 1

    def _do(self, job: _Job) -> None:
        error: BaseException | None = None
        result: Any = None
        try:
            if not job.abandoned:
                result = job.work()
        except BaseException as raised:  # noqa: BLE001 - passed on to the waiting caller
            error = raised
        with self._lock:
            job.finished = True
            if job.abandoned:
                self.stuck -= 1
                return
        with suppress(RuntimeError):  # the loop has been closed
            job.loop.call_soon_threadsafe(self._answer, job, result, error)

    def _answer(self, job: _Job, result: Any, error: BaseException | None) -> None:
        if job.done.done():
            return
        if isinstance(error, StopIteration) or not isinstance(error, Exception | None):
            error = RuntimeError(repr(error))  # it would end the loop, or a future refuses it
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)
