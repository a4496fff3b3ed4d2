"""The desk of one call: the one place where a tool call is checked, run, timed and answered.

Order, the same for every agent: is the tool in the toolbox? → are the arguments valid against the
tool's own schema? → policy (tool rounds and calls of this turn; an identical call that is still
running is joined) → filler timer → run with a timeout → words to speak → data capped for the agent
→ observer (ledger, metrics). There is no result cache yet; it belongs between policy and filler.

Each ask ends in one log line, `tool_call`, and is one span: names, time and outcome. Arguments and
results are in neither, since they may be personal or secret.

A reply of status `refused` speaks to the model that asked ("icao: …is not a string"), every other
message may be spoken to the caller. `Desk.run` never raises for a tool's failure: an unexpected
exception inside a tool ends at this task border, logged with its traceback and answered as an
error. Cancelling `run` cancels the tool, unless another identical ask still waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import orjson
import structlog

from cordboard.errors import LineError, ToolError, ToolTimeout
from cordboard.observe.tracing import NO_TRACING, ToolFacts, ToolSpan, Tracing
from cordboard.tools import speech
from cordboard.tools.call_line import CallLine
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits, as_object, cap
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Status,
    ToolAsk,
    ToolReply,
    ToolResult,
    ToolSpec,
)
from cordboard.tools.toolbox import OfferedTool, Toolbox

MAX_ROUNDS_PER_TURN = 5
"""An agent that still asks for tools after so many rounds goes round in circles."""
MAX_REFUSAL = 400
"""Characters of a refusal for wrong arguments."""
CLEAN_UP_SECONDS = 1.0
"""How long a cancelled tool may take to tell its server so."""
NOT_AVAILABLE = "Sorry, that is not available at the moment."
TOO_SLOW = "Sorry, that takes too long at the moment."

log = structlog.get_logger()


class DeskObserver(Protocol):
    """What the call wants to know of its tools: for ledger, metrics and spoken fillers.

    All three are called on the event loop and must return at once.
    """

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """An ask came in, in the form in which it may be recorded: secrets masked. `spec` is None
        when there is no such tool in the toolbox."""
        ...

    def filler(self, ask: ToolAsk, text: str) -> None:
        """The tool is slow: the text should be said now."""
        ...

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """The ask is answered, or given up (status cancelled); called once for each ask."""
        ...

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """The answer has come to an ask that was given up or had timed out."""
        ...


class SilentObserver:
    """A `DeskObserver` that wants to know nothing."""

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """Ignore it."""

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Ignore it."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """Ignore it."""

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Ignore it."""


@dataclass(slots=True)
class _Running:
    """A tool at work, and how many identical asks wait for it."""

    task: asyncio.Task[ToolResult]
    waiting: int = 0


@dataclass(slots=True)
class _Turn:
    """What was asked within one turn of the caller."""

    number: int
    rounds: int = 0
    calls: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Run:
    """One run of a tool, as the tool sees it."""

    desk: Desk
    ask: ToolAsk
    steps: int = 0

    @property
    def line(self) -> CallLine:
        return self.desk.line

    @property
    def ask_id(self) -> str:
        return self.ask.ask_id

    @property
    def idempotency_key(self) -> str:
        return f"{self.line.call_id}:{self.ask.ask_id}"

    def progress(self, note: str = "") -> None:
        """Nothing depends on it yet."""

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        raise ToolError("steps are not run yet")


class Desk:
    """The desk of one call; lives as long as the call."""

    def __init__(
        self,
        toolbox: Toolbox,
        line: CallLine,
        observer: DeskObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
        payload: PayloadLimits = DEFAULT_LIMITS,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self.toolbox = toolbox
        self._line = line
        self._observer: DeskObserver = observer if observer is not None else SilentObserver()
        self._clock = clock
        self._payload = payload
        self._tracing = tracing
        self._turn = _Turn(0)
        self._running: dict[tuple[str, bytes], _Running] = {}

    @property
    def line(self) -> CallLine:
        """The call that it serves."""
        return self._line

    @property
    def busy(self) -> bool:
        """Whether any tool is at work."""
        return bool(self._running)

    async def run(self, ask: ToolAsk) -> ToolReply:
        """Answer an ask. Raises only `asyncio.CancelledError`, after recording it."""
        started = self._clock()
        offered = self.toolbox.find(ask.name)
        spec = offered.spec if offered is not None else None
        self._observer.asked(ask, spec)
        with self._tracing.tool_call(self._facts(ask, spec)) as span:
            try:
                if offered is None:
                    result = self._not_in_toolbox(ask)
                else:
                    result = self._refusal(ask, offered) or await self._work(ask, offered)
            except asyncio.CancelledError:
                cancelled = ToolResult(Status.CANCELLED, "The request was cancelled.")
                self._finish(ask, spec, cancelled, started, span)
                raise
            return self._finish(ask, spec, result, started, span)

    def _not_in_toolbox(self, ask: ToolAsk) -> ToolResult:
        """Not to be had here. A tool of this context whose server is down is no refusal."""
        if ask.name in self.toolbox.missing:
            return ToolResult(Status.ERROR, NOT_AVAILABLE)
        log.warning(
            "tool_refused",
            call_id=self._line.call_id,
            context=self._line.context_name,
            provider=self._line.provider_name,
            exposed_name=ask.name[:100],
            reason="not in the toolbox",
        )
        names = ", ".join(spec.name for spec in self.toolbox.specs) or "none"
        return ToolResult(
            Status.REFUSED,
            f"There is no tool named {ask.name[:100]!r} in this conversation. Available: {names}.",
        )

    def _refusal(self, ask: ToolAsk, offered: OfferedTool) -> ToolResult | None:
        problems = offered.arguments.problems(ask.arguments)
        if problems:
            message = _mend(offered.spec.name, problems)
            return ToolResult(Status.REFUSED, message, {"problems": problems})
        return self._policy_refusal(ask, offered.spec)

    def _policy_refusal(self, ask: ToolAsk, spec: ToolSpec) -> ToolResult | None:
        if ask.turn != self._turn.number:
            self._turn = _Turn(ask.turn)
        turn = self._turn
        if self._key(ask) in self._running:
            return None  # joins the running one: costs nothing
        if not self._running:
            turn.rounds += 1  # asks that overlap are one round
        if turn.rounds > MAX_ROUNDS_PER_TURN:
            return ToolResult(
                Status.REFUSED,
                f"Tools were used {MAX_ROUNDS_PER_TURN} times in a row already. Answer the caller "
                "with what you know, or ask them a question.",
            )
        turn.calls[spec.name] += 1
        if turn.calls[spec.name] > spec.limits.per_turn:
            return ToolResult(
                Status.REFUSED,
                f"{spec.name} was already used {spec.limits.per_turn} times in this turn. Answer "
                "the caller with what you know.",
            )
        return None

    async def _work(self, ask: ToolAsk, offered: OfferedTool) -> ToolResult:
        """Run the tool, or join the identical run, and wait for it without owning it."""
        key = self._key(ask)
        running = self._running.get(key)
        if running is None:
            task = asyncio.create_task(self._run_tool(ask, offered), name=f"tool {ask.name}")
            running = self._running[key] = _Running(task)
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if running.task.cancelled() and not _being_cancelled():
                log.error("tool_cancelled_itself", tool=offered.spec.origin, **self._who(ask))
                return ToolResult(Status.CANCELLED, speech.FAILED)
            raise
        finally:
            running.waiting -= 1
            if running.waiting == 0:
                if self._running.get(key) is running:
                    del self._running[key]
                await _stop(running.task)

    async def _run_tool(self, ask: ToolAsk, offered: OfferedTool) -> ToolResult:
        spec = offered.spec
        filler: asyncio.TimerHandle | None = None
        if spec.filler.threshold_ms > 0 and spec.filler.messages:
            filler = asyncio.get_running_loop().call_later(
                spec.filler.threshold_ms / 1000, self._observer.filler, ask, spec.filler.messages[0]
            )
        try:
            async with asyncio.timeout(spec.limits.timeout_ms / 1000):
                return await self._try(offered, ask)
        except (TimeoutError, ToolTimeout) as error:
            words = str(error) if isinstance(error, ToolTimeout) else spec.speech.errors.timeout
            return ToolResult(Status.TIMEOUT, speech.spoken_error(words) if words else TOO_SLOW)
        except (ToolError, LineError) as error:
            return ToolResult(Status.ERROR, speech.spoken_error(str(error)), {"error": str(error)})
        except Exception:  # task border: a tool's bug must not end the call
            log.exception("tool_crashed", tool=spec.origin, **self._who(ask))
            return ToolResult(Status.ERROR, speech.FAILED)
        finally:
            if filler is not None:
                filler.cancel()

    async def _try(self, offered: OfferedTool, ask: ToolAsk) -> ToolResult:
        """One run, and the retries that the tool's limits and effects allow."""
        spec = offered.spec
        run = _Run(self, ask)
        tries = 1 if spec.effects is Effects.DESTRUCTIVE else 1 + spec.limits.retries
        for left in range(tries - 1, 0, -1):
            try:
                return await offered.tool.run(ask.arguments, run)
            except ToolTimeout:
                raise
            except ToolError as error:
                log.info("tool_retried", tool=spec.origin, error=str(error), left=left)
        return await offered.tool.run(ask.arguments, run)

    def _finish(
        self,
        ask: ToolAsk,
        spec: ToolSpec | None,
        result: ToolResult,
        started: float,
        span: ToolSpan,
    ) -> ToolReply:
        data, cut = cap(result.data, self._payload)
        reply = ToolReply(
            ask_id=ask.ask_id,
            name=ask.name,
            status=result.status,
            message=_message(result, spec),
            data=data,
            took_ms=max(0, round((self._clock() - started) * 1000)),
        )
        span.answered(str(reply.status))
        log.info(
            "tool_call",
            tool=spec.origin if spec is not None else "",
            server=spec.server if spec is not None else "",
            ms=reply.took_ms,
            outcome=str(reply.status),
            data_cut=cut,
            **self._who(ask),
        )
        self._observer.answered(ask, spec, reply)
        return reply

    def _facts(self, ask: ToolAsk, spec: ToolSpec | None) -> ToolFacts:
        return ToolFacts(
            call_id=self._line.call_id,
            turn=ask.turn,
            context=self._line.context_name,
            provider=self._line.provider_name,
            server=spec.server if spec is not None else "",
            tool=spec.origin if spec is not None else "",
            exposed_name=ask.name,
        )

    def _who(self, ask: ToolAsk) -> dict[str, str]:
        return {
            "call_id": self._line.call_id,
            "context": self._line.context_name,
            "provider": self._line.provider_name,
            "exposed_name": ask.name[:100],
        }

    def _key(self, ask: ToolAsk) -> tuple[str, bytes]:
        return ask.name, orjson.dumps(ask.arguments, option=orjson.OPT_SORT_KEYS)


def _mend(name: str, problems: list[str]) -> str:
    """What a model needs to mend its arguments: as many problems as have room, the first always."""
    before, after = f"The arguments of {name} are not valid: ", ". Correct them and ask again."
    room = MAX_REFUSAL - len(before) - len(after)
    text = problems[0][:room]
    for problem in problems[1:]:
        if len(text) + len(problem) + 2 <= room:
            text = f"{text}; {problem}"
    return f"{before}{text}{after}"


def _being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


async def _stop(task: asyncio.Task[ToolResult]) -> None:
    """Cancel a tool nobody waits for any more, and let it clean up, but not for long."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=CLEAN_UP_SECONDS)


def _message(result: ToolResult, spec: ToolSpec | None) -> str:
    if result.status is Status.OK and spec is not None:
        return speech.sentence(as_object(result.data), spec.speech, result.message)
    if result.status is Status.REFUSED:
        return result.message
    return speech.plain(result.message) or speech.FAILED
