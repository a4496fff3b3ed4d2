"""A durable queue of post-call steps, each retried until it succeeds.

A job is written to a file before its acceptance is reported (`files`), so it survives any end of
the engine. It runs at a desk of its own with `NoCaller`, with the configuration in force at that
time. A failed job is retried with growing pauses (`calls.post_call`) and finally moved to
`failed/`. A job whose tool is not offered now (removed from the file, or its server is down) is
kept without using up its tries.

A job that was done just before a crash runs again: at least once, never lost. Its idempotency key
is the same each time. If two engines share a folder, one of them runs the jobs of both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import structlog

from cordboard.calls.post_call.files import PostCallFiles
from cordboard.calls.post_call.job import PostCallJob, is_hopeless, retry_pause
from cordboard.calls.post_call.schedule import UNKNOWN, JobSchedule
from cordboard.calls.tools.events import PhaseRecords
from cordboard.config.call_phases import PostCallRetries
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import NO_TRACING, Tracing
from cordboard.privacy.sealed_file import PLAIN, Vault
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Status, ToolAsk, ToolReply
from cordboard.tools.toolbox import Toolbox

log = structlog.get_logger()

AT_ONCE = 8
"""Maximum jobs that run at the same time."""
PER_TOOL = 2
"""Maximum concurrent jobs of one tool: a receiver that is down must not be flooded."""
MAX_ERROR = 300

_Doing = Literal["read", "write"]


class JobGeneration(Protocol):
    """The part of the generation that jobs need (`cordboard.generation.generation`)."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def phase_toolbox(self, tools: Iterable[str], context: str) -> Toolbox: ...


@dataclass(frozen=True, slots=True)
class PostCallTimes:
    """Intervals of the queue in seconds."""

    look_again: float = 30.0
    """Time between two scans of the folder: other engines, and operators, add jobs there too."""
    unprovided_pause: float = 30.0
    """Time until the retry of a job whose tool is not offered."""
    close: float = 3.0
    """Time that running jobs have to end when the engine stops."""


class PostCallQueue:
    """One per engine. `start` it, `close` it."""

    def __init__(
        self,
        directory: Path,
        generation: Callable[[], JobGeneration],
        retries: Callable[[], PostCallRetries],
        metrics: Metrics,
        tracing: Tracing = NO_TRACING,
        clock: Callable[[], float] = time.time,
        times: PostCallTimes = PostCallTimes(),
        vault: Vault = PLAIN,
    ) -> None:
        """`generation` and `retries` return what is in force now. `vault` has the keys of encrypted
        jobs."""
        self._files = PostCallFiles(directory, vault)
        self._generation = generation
        self._retries = retries
        self._metrics = metrics
        self._tracing = tracing
        self._clock = clock
        self._times = times
        self._schedule = JobSchedule(AT_ONCE, PER_TOOL)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._created_at: dict[str, float] = {}
        self._unwritten: dict[str, PostCallJob] = {}
        """Jobs that could not be written to the disk."""
        self._unprovided: dict[str, str] = {}
        """Job → its tool, which is not offered."""
        self._done: set[str] = set()
        """Delivered jobs whose files could not be removed."""
        self._failed = 0
        self._owns = False
        self._troubles: dict[_Doing, str] = {}
        self._work: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False

    async def start(self) -> None:
        """Load the jobs that earlier engines have left. An unusable folder is logged, reported as
        `trouble` and tried again."""
        await self._look()
        if len(self._schedule):
            log.info("post_call_taken_up", jobs=len(self._schedule))
        self._work = asyncio.create_task(self._keep_on(), name="post_call")

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        """Take over jobs. Return True if all are on the disk; otherwise they are in memory only.
        Jobs that already exist are not changed."""
        new = tuple(jobs)
        unwritten = False
        try:
            new = await asyncio.to_thread(self._write_new, new)
            self._troubles.pop("write", None)
        except OSError as error:
            unwritten = True
            self._tell_trouble("write", error)
        for job in new:
            self._metrics.post_call.step("queued")
            if self._owns or unwritten:
                self._wait_for(job, unwritten=unwritten)
        if not self._owns and not self._closed:
            await self._look()
        self._note()
        return not unwritten

    async def close(self) -> None:
        """Stop; unfinished jobs stay in their files. Idempotent."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        running = tuple(self._tasks.values())
        if running:
            _, late = await asyncio.wait(running, timeout=self._times.close)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.to_thread(self._files.disown)
        self._owns = False

    def health(self) -> dict[str, Any]:
        """Return the status for `/health`."""
        oldest = min(self._created_at.values(), default=0)
        return {
            "waiting": len(self._schedule),
            "running": self._schedule.running,
            "failed": self._failed,
            "oldest_seconds": round(self._clock() - oldest) if oldest else 0,
            "tools_missing": sorted(set(self._unprovided.values())),
            "delivers": self._owns,
            "trouble": "; ".join(self._troubles.values()),
        }

    @property
    def trouble(self) -> str:
        """Reason why jobs cannot be kept or run now; empty if they can."""
        missing = sorted(set(self._unprovided.values()))
        lacking = [f"not offered now: {', '.join(missing)}"] if missing else []
        return "; ".join([*self._troubles.values(), *lacking])

    # The known jobs.

    async def _keep_on(self) -> None:
        """Run due jobs until cancelled."""
        look_at = self._clock() + self._times.look_again
        while True:
            now = self._clock()
            if now >= look_at:
                await self._look()
                look_at = self._clock() + self._times.look_again
            for name in self._schedule.take(now):
                task = self._tasks[name] = asyncio.create_task(self._do(name), name="post_call job")
                task.add_done_callback(partial(self._stopped, name))
            self._changed.clear()
            next_at = self._schedule.next_at()
            wake_at = look_at if next_at is None else min(next_at, look_at)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(wake_at - self._clock(), 0.001)):
                    await self._changed.wait()

    def _stopped(self, name: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        self._schedule.stopped(name)
        self._note()

    def _wait_for(self, job: PostCallJob, *, unwritten: bool = False) -> None:
        self._schedule.put(job.name, job.tool, job.next_at)
        self._created_at[job.name] = job.created_at
        if unwritten:
            self._unwritten[job.name] = job
        else:
            self._unwritten.pop(job.name, None)

    def _forget(self, name: str) -> None:
        self._schedule.forget(name)
        self._unwritten.pop(name, None)
        self._unprovided.pop(name, None)
        self._created_at.pop(name, None)

    def _note(self) -> None:
        self._metrics.post_call.waiting(len(self._schedule))
        self._changed.set()

    async def _look(self) -> None:
        """Compare with the folder; determine first which engine owns the jobs."""
        try:
            owned = self._owns
            found = await asyncio.to_thread(self._look_at_files, owned)
        except OSError as error:
            self._tell_trouble("read", error)
            return
        self._troubles.pop("read", None)
        if found is None:
            return
        self._owns = True
        names, self._failed = found
        for name in set(self._schedule) - names - self._unwritten.keys():
            if not self._schedule.is_running(name):
                self._forget(name)  # its file was removed by hand
        for name in names:
            if name not in self._schedule:
                self._schedule.put(name, UNKNOWN, 0.0)  # due time and tool are in the file
        self._note()

    def _look_at_files(self, owned: bool) -> tuple[set[str], int] | None:
        """Return the jobs and the number given up; None if another engine runs them."""
        if not self._files.directory.is_dir():
            return None  # there has never been a job
        self._files.prepare()
        if not self._files.own():
            return None
        if not owned:
            self._files.tidy()
        return self._files.names(), self._files.count_failed()

    def _write_new(self, jobs: tuple[PostCallJob, ...]) -> tuple[PostCallJob, ...]:
        """Write the jobs that do not exist yet, and return them."""
        self._files.prepare()
        new = tuple(job for job in jobs if not self._files.has(job.name))
        self._files.write(*new)
        return new

    # One job.

    async def _do(self, name: str) -> None:
        """Run one try of a job; task border."""
        try:
            if name in self._done:
                await self._remove(name)
            elif (job := await self._read(name)) is not None:
                await self._try(job)
        except OSError as error:
            self._tell_trouble("write", error)
            self._later(name)
        except Exception as error:  # task border: the other jobs continue
            log.exception("post_call_crashed", job=name, error=repr(error))
            self._metrics.internal_error("post_call")
            self._later(name)

    async def _read(self, name: str) -> PostCallJob | None:
        """Return the job if it must run now; None if it is gone or was only read."""
        if name in self._unwritten:
            return self._unwritten[name]
        known = name in self._created_at
        try:
            job = await asyncio.to_thread(self._files.read, name, self._clock())
        except ValueError as error:
            log.error("post_call_unreadable", job=name, error=str(error))
            self._failed += 1
            self._metrics.post_call.step("failed")
            self._forget(name)
            return None
        if job is None:
            self._forget(name)
            return None
        self._wait_for(job)
        return job if known and job.next_at <= self._clock() else None

    async def _try(self, job: PostCallJob) -> None:
        generation = self._generation()
        generation.acquire()
        try:
            toolbox = generation.phase_toolbox([job.tool], job.context)
            if job.tool not in toolbox:
                self._not_offered(job)
                return
            self._unprovided.pop(job.name, None)
            reply = await self._run(job, toolbox)
        finally:
            generation.release()
        if reply.ok:
            await self._delivered(job)
        else:
            await self._not_delivered(job, reply)

    async def _run(self, job: PostCallJob, toolbox: Toolbox) -> ToolReply:
        line = NoCaller(job.call_id, job.context, job.provider, job.variables)
        records = PhaseRecords(self._metrics, job.context)
        desk = Desk(toolbox, line, records, tracing=self._tracing)
        # The operator has configured the step, so no approval is asked for.
        ask = ToolAsk(job.ask_id, job.tool, job.arguments, 0, confirmed=True)
        try:
            return await desk.run(ask)
        finally:
            await _shielded(desk.close(self._times.close))

    async def _delivered(self, job: PostCallJob) -> None:
        self._done.add(job.name)
        self._metrics.post_call.step("delivered")
        log.info("post_call_delivered", tries=job.attempts + 1, **_about(job))
        await self._remove(job.name)

    async def _remove(self, name: str) -> None:
        """Remove the file before forgetting the job, so that it is not found and run again."""
        await asyncio.to_thread(self._files.remove, name)
        self._forget(name)
        self._done.discard(name)

    async def _not_delivered(self, job: PostCallJob, reply: ToolReply) -> None:
        on_disk = job.name not in self._unwritten
        if on_disk and not await asyncio.to_thread(self._files.has, job.name):
            self._forget(job.name)  # its file was removed while it ran: the call was erased
            return
        now, retries = self._clock(), self._retries()
        job = replace(job, attempts=job.attempts + 1, last_error=reply.message[:MAX_ERROR])
        # A refused call was wrong from the beginning, so a retry cannot succeed.
        if reply.status is Status.REFUSED or is_hopeless(job, retries, now):
            self._metrics.post_call.step("failed")
            log.error("post_call_given_up", outcome=str(reply.status), **_about(job))
            await asyncio.to_thread(self._files.give_up, replace(job, given_up=True))
            self._failed += 1
            self._forget(job.name)
            return
        pause = retry_pause(job.attempts, retries)
        job = replace(job, next_at=now + pause)
        self._metrics.post_call.step("retried")
        log.warning("post_call_failed", outcome=str(reply.status), again_in=pause, **_about(job))
        self._wait_for(job, unwritten=True)  # until it is written
        await asyncio.to_thread(self._files.write, job)
        self._troubles.pop("write", None)
        self._wait_for(job)

    def _not_offered(self, job: PostCallJob) -> None:
        """Keep the job, and log it once."""
        if job.name not in self._unprovided:
            log.warning("post_call_tool_missing", **_about(job))
        self._unprovided[job.name] = job.tool
        self._later(job.name, job.tool)

    def _later(self, name: str, tool: str = UNKNOWN) -> None:
        """Schedule a job again after a pause."""
        if name in self._schedule:
            pause = min(self._times.unprovided_pause, self._retries().max_retry_ms / 1000)
            self._schedule.put(name, tool, self._clock() + pause)

    def _tell_trouble(self, doing: _Doing, error: OSError) -> None:
        """Log the first failure only, not every job's until it is repaired."""
        if doing not in self._troubles:
            log.error("post_call_folder_trouble", doing=doing, error=str(error))
        kept = "kept" if doing == "write" else "found"
        self._troubles[doing] = f"jobs after calls cannot be {kept}: {error.strerror or error}"


def _about(job: PostCallJob) -> dict[str, Any]:
    return {"call_id": job.call_id, "context": job.context, "tool": job.tool, "job": job.name}


async def _shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, even if cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
