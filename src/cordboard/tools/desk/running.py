"""One run of a tool, from the first ask for it to its end, and all asks that wait for it.

A run does the desk's steps 4 to 6: the caller's yes, a kept answer, the tool with its retries. It
calls down only (`RunParts`), and reports to its desk when a filler is due, when it is over, and
when it ends late.

Identical asks wait for one run. It begins once nothing precedes it any more (the caller's yes);
from then on its timeout and its fillers count. While this run or one of its steps asks the caller a
question, both stand still.

The fate of a run without waiting asks, or of one that takes too long, depends on its effects.
Read-only and idempotent runs are cancelled. One that changes the world continues, because half a
booking is worse than a late one: for `LATE_SECONDS` after its timeout; for its timeout, or
`LATE_SECONDS` if that is longer, once no ask waits. Its result is then reported as late, unless
another ask waits for it by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import structlog

from cordboard.errors import LineError, ToolError, ToolTimeout
from cordboard.firewall.policy import Need
from cordboard.net.backoff import Backoff
from cordboard.tools.call_line import CallLine
from cordboard.tools.desk.approval import Approvals
from cordboard.tools.desk.fillers import FillerTimer, PausableTimer
from cordboard.tools.desk.guard import ToolGuard
from cordboard.tools.desk.policy import DeskPolicy
from cordboard.tools.known_secrets import KnownSecrets
from cordboard.tools.masking import Given
from cordboard.tools.result_cache import CallAnswers
from cordboard.tools.speech import speech
from cordboard.tools.speech.speakable import plain
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    RefusalReason,
    Status,
    Tool,
    ToolAsk,
    ToolResult,
    ToolSpec,
)

LATE_SECONDS = 60.0
"""Time that a run that changes the world has at least to continue without a waiting ask."""
SERVER_MARGIN = 0.2
"""Seconds added for an MCP tool, which enforces its timeout itself, so that the server's breaker
learns of it: by then the tool has reported it."""
CLEAN_UP_SECONDS = 1.0
"""Time for a cancelled tool to notify its server."""
RETRIES = Backoff(first=0.1, most=5.0)
"""Pauses between the tries of one run."""
TOO_SLOW = "Sorry, that takes too long at the moment."
CUT_SHORT = "It was stopped before its end. It is not known whether it was done."

Source: TypeAlias = Literal["run", "cache", "joined", "late"]

log = structlog.get_logger()


@dataclass(slots=True)
class Asked:
    """One ask while the desk handles it."""

    ask: ToolAsk
    recorded: ToolAsk
    """The same ask as it may be recorded."""
    spec: ToolSpec | None
    given: Given
    started: float
    """Start by the desk's clock."""
    parent: Run | None = None
    """The run that this ask is a step of."""
    keys: tuple[str, ...] = ()
    """The caller's secret keys given to its tool, or to a tool that it is a step of."""
    refused: RefusalReason = ""
    """Reason why the desk did not run it."""
    needs: tuple[Need, ...] = ()
    """Conditions of the firewall."""
    run: Run | None = None
    """The run that it waits, or has waited, for."""

    @property
    def above(self) -> tuple[str, ...]:
        """Tools that this ask is a step of, the outermost first."""
        names: list[str] = []
        run = self.parent
        while run is not None:
            names.append(run.spec.name)
            run = run.asked.parent
        return tuple(reversed(names))


@dataclass(slots=True)
class RunParts:
    """Parts of one desk that its runs work with, and callbacks of the desk."""

    line: CallLine
    approvals: Approvals
    policy: DeskPolicy
    guard: ToolGuard
    answers: CallAnswers
    known: KnownSecrets
    step: Callable[[Run, str, JsonObject], Coroutine[None, None, ToolResult]]
    """Runs one step of a workflow: an ask like all others."""
    filler_delay: Callable[[float], float]
    """See `DeskObserver.filler_delay`."""
    filler: Callable[[Run], None]
    """Called when the tool is slow and the caller should hear a filler."""
    ended: Callable[[Run], None]
    """Called when the run is over and can no longer be joined."""
    late: Callable[[Run, ToolResult], None]
    """Called with the result when the run ended and no ask was waiting."""


@dataclass(slots=True, eq=False)
class Run:
    """One run. Implements `ToolRun` for its tool."""

    parts: RunParts
    asked: Asked
    """The ask that started it."""
    tool: Tool
    spec: ToolSpec
    arguments: JsonObject
    """Arguments for the tool."""
    key: tuple[str, bytes]
    """Equal for identical asks."""
    source: Source = "run"
    refused: RefusalReason = ""
    begun: bool = False
    tries: int = 0
    """Number of times the tool was run."""
    given_up: Asked | None = None
    """The last ask that stopped waiting for it, if any."""
    over: bool = False
    """True once it has ended."""
    _steps: int = 0
    _stopped: bool = False
    _overdue: bool = False
    _told: int = 0
    _waiters: list[asyncio.Future[ToolResult]] = field(default_factory=list)
    task: asyncio.Task[None] = field(init=False)
    _deadline: PausableTimer = field(init=False)
    _fillers: FillerTimer = field(init=False)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = PausableTimer(self._too_slow)
        self._fillers = FillerTimer(self.spec.filler, lambda: self.parts.filler(self))
        self.task = loop.create_task(self._work(), name=f"tool {self.spec.name}")
        self.task.add_done_callback(self._ended)

    # For the tool.

    @property
    def line(self) -> CallLine:
        return self.parts.line

    @property
    def ask_id(self) -> str:
        return self.asked.ask.ask_id

    @property
    def idempotency_key(self) -> str:
        return f"{self.line.call_id}:{self.ask_id}"

    @property
    def unrecorded(self) -> tuple[str, ...]:
        return (*self.asked.keys, *self.asked.given.secrets)

    def progress(self, note: str = "") -> None:
        """Report progress; a step's counts for the caller's ask that it belongs to."""
        if self.over:
            return
        log.debug("tool_progress", call_id=self.line.call_id, tool=self.spec.origin, note=note)
        run = self
        while run.asked.parent is not None:
            run = run.asked.parent
        run._fillers.progress()

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        return await self.parts.step(self, name, arguments)

    def next_step_id(self) -> str:
        """Return the id for the ask of the next step."""
        self._steps += 1
        return f"{self.ask_id}.{self._steps}"

    # For the desk.

    @property
    def goes_on(self) -> bool:
        """True if it changes the world, so it is not stopped when no ask waits for it."""
        return self.begun and self.spec.effects is Effects.DESTRUCTIVE

    @property
    def _patience(self) -> float:
        """Seconds for which an ask waits for it."""
        spec = self.spec
        tells_itself = spec.kind == "mcp" and spec.effects is not Effects.DESTRUCTIVE
        return spec.limits.timeout_ms / 1000 + (SERVER_MARGIN if tells_itself else 0.0)

    @property
    def can_be_joined(self) -> bool:
        return not self._stopped

    async def wait(self, asked: Asked) -> ToolResult:
        """Wait for its result on behalf of an ask; cancellation only gives up that ask."""
        if self._overdue:  # an ask waits again
            self._overdue = False
            self._deadline.start(self._patience)
            if self.asked.parent is None:
                self._fillers.start(self.parts.filler_delay)
        waiter: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        asked.run = self
        try:
            return await waiter
        except asyncio.CancelledError:
            self._untold(waiter, asked)
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            if not self.over:
                self.given_up = asked
                if not self._waiters:
                    await self._leave()

    def stop(self) -> None:
        """Cancel the run, whatever its effects."""
        if not self._stopped and not self.task.done():
            self._stopped = True
            self.task.cancel()

    def leave_alone(self) -> None:
        """Answer the asks that still wait for a run that ignores its cancellation."""
        self._answer(ToolResult(Status.CANCELLED, speech.FAILED))

    def _untold(self, waiter: asyncio.Future[ToolResult], asked: Asked) -> None:
        """Handle an ask that was cancelled at the moment its answer came."""
        has_come = self.over and waiter.done() and not waiter.cancelled()
        if has_come and self.goes_on and self._told == 1:
            self.given_up = asked
            self.parts.late(self, waiter.result())

    async def _leave(self) -> None:
        """Handle the loss of the last waiting ask."""
        if self._overdue or self._stopped:
            return
        if self.goes_on:
            # A talk with a human lasts as long after the agent has given up waiting for its end.
            self._go_on(max(LATE_SECONDS, self._patience))
            return
        self.stop()
        await asyncio.wait({self.task}, timeout=CLEAN_UP_SECONDS)

    def _go_on(self, seconds: float) -> None:
        """Continue without waiting asks, `seconds` at most; fillers stop, since the caller waits
        for nothing."""
        self._overdue = True
        self._deadline.start(seconds)
        self._fillers.stop()

    def _too_slow(self) -> None:
        """Handle the timeout: of an answer, or of continuing without waiting asks."""
        if self._overdue or not self.goes_on:
            self.stop()
        else:
            self._go_on(LATE_SECONDS)
        words = self.spec.speech.errors.timeout
        message = speech.spoken_error(words) if words else TOO_SLOW
        self._answer(ToolResult(Status.TIMEOUT, message))

    def _answer(self, result: ToolResult) -> None:
        """Give the result to all waiting asks."""
        waiters, self._waiters = self._waiters, []
        self._told = len(waiters)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(result)

    # The work.

    async def _work(self) -> None:
        self._end(await self._done())

    async def _done(self) -> ToolResult:
        """Return the result of the whole run. A task border: every failure of a tool becomes a
        result here; only cancellation passes."""
        try:
            return await self._refusal() or self._kept() or await self._fresh()
        except Exception as error:  # task border: a bug here or in a tool must not end the call
            who = {"call_id": self.line.call_id, "tool": self.spec.origin}
            if self.asked.keys:  # a traceback may contain them
                log.error("tool_crashed", type=type(error).__name__, **who)
            else:
                log.exception("tool_crashed", **who)
            return ToolResult(Status.ERROR, speech.FAILED)

    async def _refusal(self) -> ToolResult | None:
        """Return the refusal, unless the caller gives the proof and the yes that it needs. While
        the caller is asked, timeouts and fillers stand still."""
        asked = self.asked
        asks = self.spec.approval == "caller" or "confirm" in asked.needs
        asks = asks and not asked.ask.confirmed
        if not asks and not asked.needs:
            return None
        for run in self._with_parents():
            run._deadline.pause()
            run._fillers.pause()
        approved = False
        try:
            refusal = await self._proof() or (await self._yes() if asks else None)
            approved = refusal is None
            return refusal
        finally:
            for run in self._with_parents():
                run._deadline.resume()
                run._fillers.resume()
            if approved:
                self.parts.guard.cleared(asked.ask)
            else:
                self.parts.policy.give_back(asked.ask, self.spec)
                self.refused = self.refused or "approval"

    async def _proof(self) -> ToolResult | None:
        """Return the refusal of the firewall, unless the caller proves who they are."""
        for need in self.asked.needs:
            if need != "confirm":
                refusal = await self.parts.guard.verify(self.asked.ask, need)
                if refusal is not None:
                    self.refused = "firewall"
                    return refusal
        return None

    async def _yes(self) -> ToolResult | None:
        """Return the refusal, unless the caller says yes."""
        return await self.parts.approvals.refusal(self.spec, self.asked.recorded.arguments)

    def _with_parents(self) -> Iterator[Run]:
        run: Run | None = self
        while run is not None:
            yield run
            run = run.asked.parent

    def _kept(self) -> ToolResult | None:
        """Return the kept answer. An ask with secret keys has none, and leaves none."""
        if self.asked.keys:
            return None
        kept = self.parts.answers.find(self.spec, self.key)
        if kept is not None:
            self.source = "cache"
            self.parts.policy.give_back(self.asked.ask, self.spec)
        return kept

    async def _fresh(self) -> ToolResult:
        """Return the tool's answer, without secrets of the configuration; start its timeout."""
        self.begun = True
        self._deadline.start(self._patience)
        if self.asked.parent is None:
            self._fillers.start(self.parts.filler_delay)
        result = await self.parts.known.masked(await self._told_by_tool())
        if not self.asked.keys:
            self.parts.answers.keep(self.spec, self.key, result)
        return result

    async def _told_by_tool(self) -> ToolResult:
        """Return the tool's answer, or its failure as a result. May contain secrets."""
        words = self.spec.speech.errors
        try:
            return _checked(await self._tries(), self.spec)
        except ToolTimeout as error:
            return ToolResult(Status.TIMEOUT, speech.spoken_error(str(error)))
        except TimeoutError:
            said = speech.spoken_error(words.timeout) if words.timeout else TOO_SLOW
            return ToolResult(Status.TIMEOUT, said)
        except (ToolError, LineError) as error:
            return ToolResult(Status.ERROR, speech.spoken_error(str(error)), {"error": str(error)})

    async def _tries(self) -> object:
        """Run the tool once, with the retries that its limits and effects allow."""
        spec = self.spec
        left = 0 if spec.effects is Effects.DESTRUCTIVE else spec.limits.retries
        while True:
            self.tries += 1
            try:
                return await self.tool.run(self.arguments, self)
            except ToolTimeout:
                raise
            except ToolError as error:
                if left == 0:
                    raise
                log.info("tool_retried", tool=spec.origin, error=type(error).__name__, left=left)
            left -= 1
            await asyncio.sleep(RETRIES.pause(self.tries - 1))

    # The end.

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the run when its task is done, unless the task has done so itself."""
        if self.over:
            return
        if not task.cancelled():
            log.error("tool_run_failed", call_id=self.line.call_id, exc_info=task.exception())
            self._end(ToolResult(Status.ERROR, speech.FAILED))
            return
        if not self._stopped:
            log.error("tool_cancelled_itself", call_id=self.line.call_id, tool=self.spec.origin)
        self._end(ToolResult(Status.CANCELLED, CUT_SHORT if self.goes_on else speech.FAILED))

    def _end(self, result: ToolResult) -> None:
        self.over = True
        self._deadline.stop()
        self._fillers.stop()
        self.parts.ended(self)
        if self._waiters:
            self._answer(result)
        elif self.goes_on:
            self.parts.late(self, result)


def _checked(result: object, spec: ToolSpec) -> ToolResult:
    """Return a tool's answer as a valid result; `result` may be any object."""
    if not isinstance(result, ToolResult):
        log.error("tool_answered_nonsense", tool=spec.origin, type=type(result).__name__)
        return ToolResult(Status.ERROR, speech.FAILED)
    if result.status is Status.REFUSED:
        return ToolResult(result.status, plain(result.message), result.data, result.control)
    return result
