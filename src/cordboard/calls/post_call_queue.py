"""The steps after calls, done until they have worked: a durable queue.

A job is a file before anybody is told that it is taken (`post_call_files`), so it outlives the
engine, however that ends. It is run at a desk of its own with `NoCaller`, by the configuration in
force when it is tried. What fails is tried again with growing pauses (`calls.post_call`) and, in
the end, kept in `failed/`. A job whose tool nobody offers now (it was taken out of the file, its
server is down) is kept too and does not use up its tries.

A job that was done just before a crash is done again: at least once, never lost. Its idempotency
key is the same each time. Of two engines that share a folder, one does the jobs of both.
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

from cordboard.calls.phase_records import PhaseRecords
from cordboard.calls.post_call_files import PostCallFiles
from cordboard.calls.post_call_job import PostCallJob, is_hopeless, retry_pause
from cordboard.config.call_phases import PostCallRetries
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import NO_TRACING, Tracing
from cordboard.tools.desk import Desk
from cordboard.tools.no_caller import NoCaller
from cordboard.tools.tool import Status, ToolAsk, ToolReply
from cordboard.tools.toolbox import Toolbox

log = structlog.get_logger()

AT_ONCE = 4
"""Jobs that are run at the same time: a receiver that is down must not be stormed."""
LOOK_AGAIN = 30.0
"""Seconds between two looks at the folder: other engines, and operators, put jobs there too."""
UNPROVIDED_PAUSE = 30.0
"""Seconds until a job is looked at again whose tool nobody offers."""
CLOSE_SECONDS = 3.0
"""What is at work may take so long to end when the engine stops."""
MAX_ERROR = 300

_Doing = Literal["read", "write"]


class JobGeneration(Protocol):
    """What a job needs of the generation in force (`cordboard.generation`)."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def phase_toolbox(self, tools: Iterable[str], context: str) -> Toolbox: ...


@dataclass(slots=True)
class _Waiting:
    """A job that is known and not done."""

    next_at: float
    tool: str = ""
    created_at: float = 0.0
    unwritten: PostCallJob | None = None
    """The job itself, where the disk did not take it."""


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
    ) -> None:
        """`generation` and `retries` give what is in force now."""
        self._files = PostCallFiles(directory)
        self._generation = generation
        self._retries = retries
        self._metrics = metrics
        self._tracing = tracing
        self._clock = clock
        self._waiting: dict[str, _Waiting] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._unprovided: dict[str, str] = {}
        """Job → the tool that nobody offers."""
        self._done: set[str] = set()
        """Delivered jobs whose files could not be removed."""
        self._failed = 0
        self._owns = False
        self._troubles: dict[_Doing, str] = {}
        self._work: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False

    async def start(self) -> None:
        """Take up what earlier engines have left. A folder that cannot be used is told, logged and
        tried again."""
        await self._look()
        if self._waiting:
            log.info("post_call_taken_up", jobs=len(self._waiting))
        self._work = asyncio.create_task(self._keep_on(), name="post_call")

    async def put(self, jobs: Iterable[PostCallJob]) -> None:
        """Take jobs over. When it returns they are on the disk, or, where that fails, in memory."""
        new = tuple(jobs)
        unwritten = False
        try:
            await asyncio.to_thread(self._write_new, new)
            self._troubles.pop("write", None)
        except OSError as error:
            unwritten = True
            self._tell_trouble("write", error)
        for job in new:
            self._metrics.post_call("queued")
            if self._owns or unwritten:
                self._wait_for(job, unwritten=unwritten)
        if not self._owns and not self._closed:
            await self._look()
        self._note()

    async def close(self) -> None:
        """Stop; what is not done stays in its file. Idempotent."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        running = tuple(self._running.values())
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.to_thread(self._files.disown)
        self._owns = False

    def health(self) -> dict[str, Any]:
        """For `/health`."""
        oldest = min(
            (job.created_at for job in self._waiting.values() if job.created_at), default=0
        )
        return {
            "waiting": len(self._waiting),
            "running": len(self._running),
            "failed": self._failed,
            "oldest_seconds": round(self._clock() - oldest) if oldest else 0,
            "tools_missing": sorted(set(self._unprovided.values())),
            "delivers": self._owns,
            "trouble": "; ".join(self._troubles.values()),
        }

    @property
    def trouble(self) -> str:
        """Why jobs cannot be kept or done now; empty when they can."""
        missing = sorted(set(self._unprovided.values()))
        lacking = [f"nobody offers {', '.join(missing)}"] if missing else []
        return "; ".join([*self._troubles.values(), *lacking])

    # The jobs that are known.

    async def _keep_on(self) -> None:
        """Do what is due, until cancelled."""
        look_at = self._clock() + LOOK_AGAIN
        while True:
            now = self._clock()
            if now >= look_at:
                await self._look()
                look_at = self._clock() + LOOK_AGAIN
            self._start_due(now)
            self._changed.clear()
            free = len(self._running) < AT_ONCE
            next_at = (
                min((job.next_at for job in self._idle()), default=look_at) if free else look_at
            )
            pause = max(min(next_at, look_at) - self._clock(), 0.001)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    def _idle(self) -> Iterable[_Waiting]:
        return (job for name, job in self._waiting.items() if name not in self._running)

    def _start_due(self, now: float) -> None:
        due = sorted(
            (job.next_at, name)
            for name, job in self._waiting.items()
            if job.next_at <= now and name not in self._running
        )
        for _, name in due[: AT_ONCE - len(self._running)]:
            task = asyncio.create_task(self._do(name), name=f"post_call {name}")
            self._running[name] = task
            task.add_done_callback(partial(self._stopped, name))

    def _stopped(self, name: str, _: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
        self._note()

    def _wait_for(self, job: PostCallJob, *, unwritten: bool = False) -> None:
        kept = job if unwritten else None
        self._waiting[job.name] = _Waiting(job.next_at, job.tool, job.created_at, kept)

    def _forget(self, name: str) -> None:
        self._waiting.pop(name, None)
        self._unprovided.pop(name, None)

    def _note(self) -> None:
        self._metrics.post_call_waiting(len(self._waiting))
        self._changed.set()

    async def _look(self) -> None:
        """Compare with the folder; whose jobs are done here is settled first."""
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
        for name in [name for name, job in self._waiting.items() if not job.unwritten]:
            if name not in names and name not in self._running:
                self._forget(name)  # somebody has taken it away
        for name in names - self._waiting.keys() - self._running.keys():
            self._waiting[name] = _Waiting(0.0)  # when it is due stands in it
        self._note()

    def _look_at_files(self, owned: bool) -> tuple[set[str], int] | None:
        """The jobs, and how many were given up; None when they are none of ours."""
        if not self._files.directory.is_dir():
            return None  # nobody has ever had one
        self._files.prepare()
        if not self._files.own():
            return None
        if not owned:
            self._files.tidy()
        return self._files.names(), self._files.count_failed()

    def _write_new(self, jobs: tuple[PostCallJob, ...]) -> None:
        self._files.prepare()
        self._files.write(*jobs)

    # One job.

    async def _do(self, name: str) -> None:
        """Task border of a job's try."""
        try:
            if name in self._done:
                await self._remove(name)
            elif (job := await self._read(name)) is not None:
                await self._try(job)
        except OSError as error:
            self._tell_trouble("write", error)
            self._later(name)
        except Exception as error:  # task border: the other jobs go on
            log.exception("post_call_crashed", job=name, error=repr(error))
            self._later(name)

    async def _read(self, name: str) -> PostCallJob | None:
        """The job if it is due; None when it is not, or is gone."""
        waiting = self._waiting.get(name)
        if waiting is None:
            return None
        if waiting.unwritten is not None:
            return waiting.unwritten
        try:
            job = await asyncio.to_thread(self._files.read, name, self._clock())
        except ValueError as error:
            log.error("post_call_unreadable", job=name, error=str(error))
            self._failed += 1
            self._metrics.post_call("failed")
            self._forget(name)
            return None
        if job is None:
            self._forget(name)
            return None
        self._wait_for(job)
        return job if job.next_at <= self._clock() else None

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
        # The operator has asked for it: nobody else is to be asked.
        ask = ToolAsk(job.ask_id, job.tool, job.arguments, 0, confirmed=True)
        try:
            return await desk.run(ask)
        finally:
            await _shielded(desk.close(CLOSE_SECONDS))

    async def _delivered(self, job: PostCallJob) -> None:
        self._done.add(job.name)
        self._metrics.post_call("delivered")
        log.info("post_call_delivered", tries=job.attempts + 1, **_about(job))
        await self._remove(job.name)

    async def _remove(self, name: str) -> None:
        """Only then it is forgotten: it must not be found and done again."""
        await asyncio.to_thread(self._files.remove, name)
        self._forget(name)
        self._done.discard(name)

    async def _not_delivered(self, job: PostCallJob, reply: ToolReply) -> None:
        now, retries = self._clock(), self._retries()
        job = replace(job, attempts=job.attempts + 1, last_error=reply.message[:MAX_ERROR])
        # What is refused was wrong from the beginning: it will not be right another time.
        if reply.status is Status.REFUSED or is_hopeless(job, retries, now):
            self._metrics.post_call("failed")
            log.error("post_call_given_up", outcome=str(reply.status), **_about(job))
            await asyncio.to_thread(self._files.give_up, replace(job, given_up=True))
            self._failed += 1
            self._forget(job.name)
            return
        pause = retry_pause(job.attempts, retries)
        job = replace(job, next_at=now + pause)
        self._metrics.post_call("retried")
        log.warning("post_call_failed", outcome=str(reply.status), again_in=pause, **_about(job))
        self._wait_for(job, unwritten=True)  # until it is written
        await asyncio.to_thread(self._files.write, job)
        self._troubles.pop("write", None)
        self._wait_for(job)

    def _not_offered(self, job: PostCallJob) -> None:
        """Keep it, and say so once."""
        if job.name not in self._unprovided:
            log.warning("post_call_tool_missing", **_about(job))
        self._unprovided[job.name] = job.tool
        self._later(job.name)

    def _later(self, name: str) -> None:
        waiting = self._waiting.get(name)
        if waiting is not None:
            pause = min(UNPROVIDED_PAUSE, self._retries().max_retry_ms / 1000)
            waiting.next_at = self._clock() + pause

    def _tell_trouble(self, doing: _Doing, error: OSError) -> None:
        """Say it once, not for each job until it is mended."""
        if doing not in self._troubles:
            log.error("post_call_folder_trouble", doing=doing, error=str(error))
        kept = "kept" if doing == "write" else "found"
        self._troubles[doing] = f"jobs after calls cannot be {kept}: {error.strerror or error}"


def _about(job: PostCallJob) -> dict[str, Any]:
    return {"call_id": job.call_id, "context": job.context, "tool": job.tool, "job": job.name}


async def _shielded(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, also when cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
