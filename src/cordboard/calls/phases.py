"""The phases of a call before its greeting and after its end: the look-ups of `pre_call`, and the
hand-over of the steps of `post_call`."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from cordboard.calls import events
from cordboard.calls.binding import Binding
from cordboard.calls.events import Ended
from cordboard.calls.history import CallHistory, read
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.offer import CallTest
from cordboard.calls.open_calls import Kind, OpenCall
from cordboard.calls.post_call.job import finished, jobs_of, recordable
from cordboard.calls.resumption import MOVED, CallSoFar
from cordboard.calls.services import CallServices
from cordboard.calls.tools.events import PhaseRecords
from cordboard.config.call_phases import PreCallStep
from cordboard.config.call_variables import clean
from cordboard.config.schema import Context
from cordboard.config.templates import Placeholder, read_json_template
from cordboard.config.tools.http_tool import CALL
from cordboard.generation.generation import Generation
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import Tracing
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.desk import Desk
from cordboard.tools.speech.template import words_of
from cordboard.tools.templates import fill_json, look_up
from cordboard.tools.tool import Effects, Status, ToolAsk, ToolReply
from cordboard.tools.toolbox import Toolbox

log = structlog.get_logger()

MOST_SAVED = 1_000
"""Characters of one value that go into a prompt."""
LATE = "late"
LOST = ("media_lost", "asterisk_lost")
"""Reasons for an end that this engine sees although another one has adopted the call, when this one
was cut off from everything."""


@dataclass(frozen=True, slots=True)
class PreCallParts:
    """The objects that the steps of one call need."""

    toolbox: Toolbox
    line: NoCaller
    variables: dict[str, str]
    """The call's own variables; the spoken text of a step is added under its `save_as` name."""
    ledger: Ledger
    metrics: Metrics
    tracing: Tracing
    on_data: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Called with `PreCall.data` when there is new data."""
    so_far: CallSoFar | None = None
    """The call in another engine, if it began there."""


class PreCall:
    """Look-ups while a call is being connected, for its prompt and greeting.

    `begin` starts all steps side by side, each at a desk of its own; `done` waits for them, at most
    until `pre_call_timeout_ms` after `begin`. A step that has failed or is late leaves its name
    empty, and the call continues. Every step is in the ledger like any tool call, and all of them
    together are one line, `call.pre_call`. Results are data: they are cleaned and cut like the
    line's variables, and never interpreted.
    """

    def __init__(self, context: Context, parts: PreCallParts) -> None:
        self._loop = asyncio.get_running_loop()
        self._steps = context.pre_call
        self._timeout_ms = context.pre_call_timeout_ms
        self._parts = parts
        self._desks: list[Desk] = []
        self._work: asyncio.Task[None] | None = None
        self._replies: dict[str, ToolReply] = {}
        self._statuses: dict[int, str] = {}
        parts.variables.update(self._spoken())

    def begin(self) -> None:
        """Start all steps. Returns at once."""
        if self._steps:
            self._work = self._loop.create_task(self._all(), name="pre_call")

    async def done(self) -> None:
        """Wait until all steps have finished or timed out. Does not raise if a step fails."""
        if self._work is not None:
            await asyncio.shield(self._work)

    async def close(self, grace: float) -> None:
        """Stop the steps that still run, because the call is over; those with effects have `grace`
        seconds to finish."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await asyncio.gather(*(desk.close(grace) for desk in self._desks))

    @property
    def data(self) -> Mapping[str, Any]:
        """The data of the successful steps, by the names under which they are saved."""
        return {name: reply.data for name, reply in self._replies.items()}

    def saved(self) -> Mapping[str, Callable[[Placeholder], str]]:
        """For `tools.speech.template.fill_prompt`: per name, from a placeholder to its words."""
        names = (step.save_as for step in self._steps if step.save_as is not None)
        return {name: partial(_text, self._replies.get(name)) for name in names}

    def _spoken(self) -> dict[str, str]:
        """Return the spoken text of each result; empty for a failed or missing one."""
        names = (step.save_as for step in self._steps if step.save_as is not None)
        return {name: _text(self._replies.get(name), Placeholder((name,))) for name in names}

    async def _all(self) -> None:
        began = self._loop.time()
        limit = self._timeout_ms / 1000
        await asyncio.gather(
            *(self._step(number, step, limit) for number, step in enumerate(self._steps))
        )
        took_ms = round((self._loop.time() - began) * 1000)
        steps = [
            {"tool": step.tool, "save_as": step.save_as or "", "status": self._statuses[number]}
            for number, step in enumerate(self._steps)
        ]
        self._parts.ledger.record(events.PreCallDone(steps, took_ms))

    async def _step(self, number: int, step: PreCallStep, limit: float) -> None:
        own = step.timeout_ms / 1000 if step.timeout_ms is not None else limit
        parts = self._parts
        if (known := self._known(number, step)) is not None:
            self._keep(number, step, known)
            return
        records = PhaseRecords(parts.metrics, parts.line.context_name, parts.ledger)
        desk = Desk(parts.toolbox, parts.line, records, self._loop.time, tracing=parts.tracing)
        self._desks.append(desk)
        arguments = fill_json(
            read_json_template(step.arguments), {CALL: dict(parts.line.variables)}
        )
        # The operator has configured the step, so the caller is not asked for approval.
        seat = f"{parts.so_far.seat}:" if parts.so_far is not None else ""
        ask = ToolAsk(f"{seat}pre.{number + 1}", step.tool, arguments, 0, confirmed=True)
        try:
            async with asyncio.timeout(min(own, limit)):
                reply = await desk.run(ask)
        except TimeoutError:
            self._statuses[number] = LATE
            log.warning("pre_call_late", call_id=parts.line.call_id, tool=step.tool)
            return
        self._keep(number, step, reply)

    def _keep(self, number: int, step: PreCallStep, reply: ToolReply) -> None:
        self._statuses[number] = str(reply.status)
        if reply.ok and step.save_as is not None:
            self._replies[step.save_as] = reply
            self._parts.variables.update(self._spoken())
            self._parts.on_data(self.data)

    def _known(self, number: int, step: PreCallStep) -> ToolReply | None:
        """Return the answer in another engine; None if the step is to run here. Without its data,
        of which the ledger has none, it stands only for a step that must not run twice."""
        so_far = self._parts.so_far
        use = so_far.pre_call().get(f"pre.{number + 1}") if so_far is not None else None
        if so_far is None or use is None or use.name != step.tool:
            return None
        data = so_far.resumed.results.get(step.save_as or "")
        offered = self._parts.toolbox.find(step.tool)
        is_harmless = offered is not None and offered.spec.effects is not Effects.DESTRUCTIVE
        if data is None and is_harmless:
            return None
        status = Status.OK if use.status == "ok" else Status.ERROR
        return ToolReply(use.ask_id, use.name, status, use.message, data or {})


def _text(reply: ToolReply | None, placeholder: Placeholder) -> str:
    if reply is None:
        return ""
    path = placeholder.path[1:]
    if not path and placeholder.format is None:
        return clean(reply.message, MOST_SAVED)
    words = words_of(look_up(reply.data, path), placeholder.format)
    return clean(words or "", MOST_SAVED)


@dataclass(frozen=True, slots=True)
class CallPhases:
    """The phases of one call, or of a written conversation."""

    binding: Binding
    variables: dict[str, str]
    """The call's own variables; the steps of `pre_call` add theirs."""
    ledger: Ledger
    services: CallServices
    started_at: datetime.datetime
    kind: Kind = "call"
    test: CallTest | None = None

    def begin(self) -> None:
        """Note that the call is open; before the first line of its ledger."""
        self._note({})

    def pre_call(self, generation: Generation, so_far: CallSoFar | None = None) -> PreCall:
        """Return the steps before the call. Lazy servers that they need begin to start. Steps that
        another engine has run are not repeated, as far as their results are known, or if they have
        effects."""
        binding, services = self.binding, self.services
        steps = [step.tool for step in binding.context.pre_call]
        line = NoCaller(
            self.variables["call_id"], binding.context_name, binding.provider_name, self.variables
        )
        return PreCall(
            binding.context,
            PreCallParts(
                self._toolbox(generation, steps) if steps else Toolbox(),
                line,
                self.variables,
                self.ledger,
                services.metrics,
                services.tracing,
                self._note,
                so_far,
            ),
        )

    async def post_call(self, ended: Ended, results: Mapping[str, Any]) -> None:
        """Hand over the steps after the call. The ledger must be closed; `results` are those of
        `pre_call`. If the steps cannot be written to the disk, or another engine may have the
        call, it stays noted, and the next start decides (`killed_calls`)."""
        if ended.reason in LOST and self.services.in_doubt():
            # Another engine may have gone on with the call, and runs the steps then.
            log.warning("post_call_left_for_next_start", call_id=self.variables["call_id"])
            return
        queue, steps = self.services.post_call, self.binding.context.post_call
        ours = ended.outcome != MOVED  # else they are the other engine's
        if queue is not None and steps and self._has_post_call and ours:
            history = await asyncio.to_thread(_history, self.services.writer, self.ledger)
            history.outcome, history.reason = ended.outcome, ended.reason
            history.ended_ms = ended.duration_ms
            if not await queue.put(jobs_of(finished(self._as_open(results), history), steps)):
                return
        self.ledger.settle()

    @property
    def _has_post_call(self) -> bool:
        return self.test is None or self.test.has_post_call

    def _toolbox(self, generation: Generation, steps: Iterable[str]) -> Toolbox:
        toolbox = generation.phase_toolbox(steps, self.binding.context_name)
        return toolbox if self.test is None else self.test.tools.of(toolbox)

    def _note(self, results: Mapping[str, Any]) -> None:
        self.ledger.note(self._as_open(results))

    def _as_open(self, results: Mapping[str, Any]) -> OpenCall:
        binding = self.binding
        return OpenCall(
            self.kind if self._has_post_call else "try",  # a later engine runs no steps either
            self.variables["call_id"],
            binding.context_name,
            binding.provider_name,
            self.started_at.isoformat(timespec="milliseconds"),
            recordable(self.variables, self.ledger.redacted),
            self.ledger.redacted(dict(results)),
            self.ledger.seal.key_id if self.ledger.seal is not None else "",
        )


def _history(writer: LedgerWriter, ledger: Ledger) -> CallHistory:
    """Return the recorded history of the call; an empty one if there is no ledger. Blocks."""
    writer.flush()
    try:
        return read(ledger.path, writer.vault)
    except OSError:
        return CallHistory()
