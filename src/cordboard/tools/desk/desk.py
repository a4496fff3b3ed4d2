"""The desk of one call: the only place where tool calls are checked, run, timed and answered.

Order, the same for every agent, every kind of tool and every step of a workflow:

1. is the tool in the toolbox?
2. are the arguments valid against the tool's own schema?
3. firewall: does the operator's policy allow it (`cordboard.firewall`)?
4. limits: nesting of steps, an identical tool call that is still running, rounds and uses
5. proof and approval: is the caller who they must be, and have they said yes?
6. cache: is there an answer that may be given again?
7. fillers while it is slow, timeout, tries: the tool runs; secrets known from the configuration
   are masked in its answer (`cordboard.tools.known_secrets`)
8. words to speak, the caller's secret keys masked, data capped for the agent
9. observer: ledger and metrics

Steps differ in 4 only: they are not rounds and do not use up the turn. docs/tools/desk.md has a
diagram.

Each tool call ends in one log line, `tool_call`, and is one span: names, time and outcome. Neither
contains arguments or results, since they may be personal or secret.

The message of a `refused` reply is for the model that asked ("icao: …is not a string"); every other
message may be spoken to the caller. `Desk.run` never raises for a tool's failure. Cancelling `run`
cancels the tool, unless another identical tool call waits for it, or it is changing the world: then
it continues, and its answer is reported as late (`cordboard.tools.desk.running`) and given to the
next identical tool call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import structlog

from cordboard.observe.tracing import NO_TRACING, ToolFacts, ToolSpan, Tracing
from cordboard.tools.call_line import CallLine
from cordboard.tools.desk import replies
from cordboard.tools.desk.approval import Approvals
from cordboard.tools.desk.fillers import FillerChoice
from cordboard.tools.desk.guard import NO_GUARD, ToolGuard
from cordboard.tools.desk.policy import DeskPolicy, nesting_refusal
from cordboard.tools.desk.running import CLEAN_UP_SECONDS, Asked, Run, RunParts, Source
from cordboard.tools.masking import Hidden, look_through, with_keys
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.result_cache import CallAnswers, canonical_arguments
from cordboard.tools.secret_names import NO_NAMES
from cordboard.tools.tool import (
    NOT_AVAILABLE,
    JsonObject,
    Status,
    ToolAsk,
    ToolReply,
    ToolResult,
    ToolSpec,
    wrong_arguments,
)
from cordboard.tools.toolbox import OfferedTool, Toolbox

TOOL_GRACE = 10.0
"""Seconds for which a tool that changes the world may finish its work after its call."""
GETS_KEYS = frozenset({"http", "python", "mcp"})
"""Kinds of tools that receive secret keys in place of their reference."""
MAX_NAME = 100
"""Characters of an invented tool name that are repeated in messages and records."""

_RUN: Source = "run"

log = structlog.get_logger()


class DeskObserver(Protocol):
    """Callbacks of a desk; the call implements them.

    All are called on the event loop and must return at once. Asks and replies come in the form in
    which they may be recorded: secrets masked, arguments bounded and JSON. Steps of workflows are
    reported like other asks; `ToolAsk.parent` names their workflow.
    """

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """A tool call came in. `spec` is None when the toolbox has no such tool."""

    def filler_delay(self, threshold: float) -> float:
        """Return the seconds to the first filler of a tool that begins now. `threshold`: the
        operator's seconds."""

    def filler(self, ask: ToolAsk, text: str) -> None:
        """The tool is slow: speak the text now."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """The ask is answered, or given up (status cancelled). Called once per ask."""

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """The answer came after the ask had been given up or had timed out."""


class SilentObserver:
    """A `DeskObserver` that ignores everything."""

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """Ignore it."""

    def filler_delay(self, threshold: float) -> float:
        """Return the threshold."""
        return threshold

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Ignore it."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """Ignore it."""

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Ignore it."""


class Desk:
    """The desk of one call; lives as long as the call."""

    def __init__(
        self,
        toolbox: Toolbox,
        line: CallLine,
        observer: DeskObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
        payload: Callable[[], PayloadLimits] = lambda: DEFAULT_LIMITS,
        tracing: Tracing = NO_TRACING,
        guard: ToolGuard = NO_GUARD,
        uses: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`payload()` limits the size of a result that the agent can take now. `guard` is the
        firewall. `uses`: runs of each tool in this call so far. All desks of one catalogue have
        the same `clock`: they share answers kept for every call."""
        self.toolbox = toolbox
        self.line = line
        """The call that this desk serves."""
        self._observer: DeskObserver = observer if observer is not None else SilentObserver()
        self._clock = clock
        self._payload = payload
        self._tracing = tracing
        self._guard = guard
        self._log = log.bind(
            call_id=line.call_id,
            context_name=line.context_name,
            provider_name=line.provider_name,
        )
        self._policy = DeskPolicy(uses)
        self._fillers = FillerChoice()
        self._parts = RunParts(
            line,
            Approvals(line),
            self._policy,
            guard,
            CallAnswers(toolbox.cache, clock),
            toolbox.known_secrets,
            self._step,
            self._observer.filler_delay,
            self._fill,
            self._ended,
            self._late,
        )
        self._running: dict[tuple[str, bytes], Run] = {}
        """Runs that identical asks can join."""
        self._runs: set[Run] = set()
        """All runs at work."""
        self._untold: dict[tuple[str, bytes], ToolResult] = {}
        """Late answers that no ask has received yet."""
        self._open = 0
        """Number of the agent's asks that wait for a run."""
        self._closed = False

    @property
    def busy(self) -> bool:
        """True while any tool is at work."""
        return bool(self._runs)

    async def run(self, ask: ToolAsk) -> ToolReply:
        """Answer an ask. Raises only `asyncio.CancelledError`, after recording it."""
        reply, _ = await self._answer(ask, None)
        return reply

    async def close(self, grace: float) -> None:
        """End the work of the call: run nothing new, and stop running tools.

        Tools that change the world have `grace` seconds to finish. Afterwards nothing is at work,
        except a tool that ignores its cancellation.
        """
        self._closed = True
        for run in tuple(self._runs):
            if not run.goes_on:
                run.stop()
        if self._runs:
            await asyncio.wait({run.task for run in self._runs}, timeout=grace)
        for run in tuple(self._runs):
            run.stop()
        if self._runs:
            await asyncio.wait({run.task for run in self._runs}, timeout=CLEAN_UP_SECONDS)
        for run in self._runs:
            run.leave_alone()

    async def _step(self, run: Run, name: str, arguments: JsonObject) -> ToolResult:
        """Run one step of a workflow: an ask like all others, answered with the whole data."""
        turn = run.asked.ask.turn
        ask = ToolAsk(run.next_step_id(), name, arguments, turn, parent=run.ask_id)
        reply, result = await self._answer(ask, run)
        return ToolResult(reply.status, reply.message, result.data, result.control)

    async def _answer(self, ask: ToolAsk, parent: Run | None) -> tuple[ToolReply, ToolResult]:
        offered = self.toolbox.find(ask.name)
        asked = self._asked(ask, offered, parent)
        self._observer.asked(asked.recorded, asked.spec)
        with self._tracing.tool_call(self._facts(asked)) as span:
            try:
                if offered is None:
                    result, source = self._not_in_toolbox(asked), _RUN
                else:
                    result, source = await self._through(asked, offered)
            except asyncio.CancelledError:
                self._finish(asked, replies.CANCELLED, _RUN, span)
                raise
            self._guard.answered(ask, asked.spec, result)
            result = replies.without_keys(result, asked.keys)
            return self._finish(asked, result, source, span), result

    def _asked(self, ask: ToolAsk, offered: OfferedTool | None, parent: Run | None) -> Asked:
        started = self._clock()
        secrets = offered.secrets if offered is not None else NO_NAMES
        given = look_through(ask.arguments, secrets, self.line.reveal)
        above = parent.asked.keys if parent is not None else ()
        if parent is not None:
            given.secrets += parent.asked.given.secrets  # the workflow may pass them on
            given.recorded = Hidden((*above, *parent.asked.given.secrets)).data(given.recorded)
        known = self.toolbox.known_secrets
        name, arguments = known.text(ask.name[:MAX_NAME]), known.data(given.recorded)
        recorded = ToolAsk(ask.ask_id, name, arguments, ask.turn, ask.confirmed, ask.parent)
        keys = (*above, *given.keys.values()) if given.keys else above
        spec = offered.spec if offered is not None else None
        return Asked(ask, recorded, spec, given, started, parent, keys)

    def _not_in_toolbox(self, asked: Asked) -> ToolResult:
        """Return the answer for an unavailable tool; a down server's tool is not a refusal."""
        if asked.ask.name in self.toolbox.missing:
            return ToolResult(Status.ERROR, NOT_AVAILABLE)
        name = asked.recorded.name
        self._log.warning("tool_refused", reason="not in the toolbox", exposed_name=name)
        asked.refused = "not_in_toolbox"
        return replies.not_in_toolbox(asked.recorded.name, self.toolbox.specs)

    async def _through(self, asked: Asked, offered: OfferedTool) -> tuple[ToolResult, Source]:
        """Take an ask from the check of its arguments to the tool's answer."""
        spec, ask = offered.spec, asked.ask
        arguments = ask.arguments
        if asked.given.keys and spec.kind in GETS_KEYS:
            arguments = with_keys(arguments, asked.given.keys)
        problems = self._problems(asked, offered, arguments)
        if problems:
            asked.refused = "arguments"
            return wrong_arguments(spec.name, problems), _RUN
        decision = self._guard.check(ask, spec)
        if not decision.allowed:
            asked.refused = "firewall"
            return replies.refused(decision.say), _RUN
        asked.needs = decision.needs
        key = spec.name, canonical_arguments(ask.arguments)
        untold = self._untold.pop(key, None)
        if untold is not None:
            return untold, "late"
        same = self._running.get(key)
        nested = nesting_refusal(spec.name, asked.above)
        if nested:
            return self._limit(asked, nested), _RUN
        if same is not None and _may_join(asked, spec, same):
            return await self._wait(same, asked), "joined"
        refusal = self._refusal(asked, spec, same)
        if refusal is not None:
            return refusal, _RUN
        run = Run(self._parts, asked, offered.tool, spec, arguments, key)
        self._runs.add(run)
        self._running[key] = run
        return await self._wait(run, asked), run.source

    def _problems(self, asked: Asked, offered: OfferedTool, arguments: JsonObject) -> list[str]:
        """Return the errors in the arguments, without repeating a secret."""
        names = asked.given.key_names
        covers = offered.secrets.covers
        secret = (lambda name: name in names or covers(name)) if names else covers
        return [
            *map(self.toolbox.known_secrets.text, offered.arguments.problems(arguments, secret))
        ]

    def _refusal(self, asked: Asked, spec: ToolSpec, same: Run | None) -> ToolResult | None:
        """Return a refusal, or None if the tool may run; the use is then counted."""
        if self._closed if asked.parent is None else asked.parent.over:
            return self._limit(asked, "It is over: nothing more is run.")
        if same is not None and spec.duplicates == "reject":
            asked.refused = "duplicate"
            return replies.refused(
                f"{spec.name} with these arguments is at work already. Wait for its answer; do not "
                "ask again."
            )
        problem = self._policy.refusal(asked.ask, spec, overlaps=self._open > 0)
        return self._limit(asked, problem) if problem else None

    def _limit(self, asked: Asked, message: str) -> ToolResult:
        asked.refused = "limit"
        return replies.refused(message)

    async def _wait(self, run: Run, asked: Asked) -> ToolResult:
        if asked.parent is not None:
            return await run.wait(asked)
        self._open += 1
        try:
            return await run.wait(asked)
        finally:
            self._open -= 1

    # Reports of runs.

    def _fill(self, run: Run) -> None:
        text = self._fillers.next(run.spec.filler.messages)
        self._observer.filler(run.asked.recorded, text)

    def _ended(self, run: Run) -> None:
        self._runs.discard(run)
        if self._running.get(run.key) is run:
            del self._running[run.key]

    def _late(self, run: Run, result: ToolResult) -> None:
        """Keep a late answer for the next identical ask, and report it at once."""
        asked = run.given_up or run.asked
        self._guard.answered(asked.ask, run.spec, result)
        if result.status is Status.OK:
            self._untold[run.key] = result
        result = replies.without_keys(result, asked.keys)
        reply = replies.make_reply(asked, result, "late", self._took_ms(asked), self._payload())
        self._log.info(
            "tool_late",
            tool=run.spec.origin,
            ms=reply.took_ms,
            outcome=str(reply.status),
            exposed_name=asked.recorded.name,
        )
        self._observer.late(asked.recorded, run.spec, replies.recorded_reply(asked, reply))

    # Answering.

    def _finish(
        self, asked: Asked, result: ToolResult, source: Source, span: ToolSpan
    ) -> ToolReply:
        spec = asked.spec
        reply = replies.make_reply(asked, result, source, self._took_ms(asked), self._payload())
        span.answered(str(reply.status))
        self._log.info(
            "tool_call",
            tool=spec.origin if spec is not None else "",
            server=spec.server if spec is not None else "",
            ms=reply.took_ms,
            outcome=str(reply.status),
            source=source,
            data_cut=bool(reply.cut),
            exposed_name=asked.recorded.name,
        )
        self._observer.answered(asked.recorded, spec, replies.recorded_reply(asked, reply))
        return reply

    def _took_ms(self, asked: Asked) -> int:
        return max(0, round((self._clock() - asked.started) * 1000))

    def _facts(self, asked: Asked) -> ToolFacts:
        spec = asked.spec
        return ToolFacts(
            call_id=self.line.call_id,
            turn=asked.ask.turn,
            context=self.line.context_name,
            provider=self.line.provider_name,
            server=spec.server if spec is not None else "",
            tool=spec.origin if spec is not None else "",
            exposed_name=asked.recorded.name,
        )


def _may_join(asked: Asked, spec: ToolSpec, same: Run) -> bool:
    """Return True if this ask may wait for another ask's run. Steps do not join runs that have
    steps, since two of those could wait for each other."""
    if spec.duplicates != "join" or not same.can_be_joined:
        return False
    return asked.parent is None or spec.kind not in ("workflow", "python")
