"""The phases of a call before its greeting and after its end: the hooks of `calls.call`."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cordboard.calls.binding import Binding
from cordboard.calls.events import Ended
from cordboard.calls.history import CallHistory, read
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.open_calls import Kind, OpenCall
from cordboard.calls.post_call.job import finished, jobs_of
from cordboard.calls.pre_call import PreCall, PreCallParts
from cordboard.calls.services import CallServices
from cordboard.generation.generation import Generation
from cordboard.tools.no_caller import NoCaller
from cordboard.tools.toolbox import Toolbox


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

    def begin(self) -> None:
        """Note that the call is open; before the first line of its ledger."""
        self._note({})

    def pre_call(self, generation: Generation) -> PreCall:
        """Return the steps before the call. Lazy servers that they need begin to start."""
        binding, services = self.binding, self.services
        steps = [step.tool for step in binding.context.pre_call]
        line = NoCaller(
            self.variables["call_id"], binding.context_name, binding.provider_name, self.variables
        )
        return PreCall(
            binding.context,
            PreCallParts(
                generation.phase_toolbox(steps, binding.context_name) if steps else Toolbox(),
                line,
                self.variables,
                self.ledger,
                services.metrics,
                services.tracing,
                self._note,
            ),
        )

    async def post_call(self, ended: Ended, results: Mapping[str, Any]) -> None:
        """Hand over the steps after the call. The ledger must be closed; `results` are those of
        `pre_call`. If the steps cannot be written to the disk, the call stays noted, and the next
        engine hands them over again."""
        queue, steps = self.services.post_call, self.binding.context.post_call
        if queue is not None and steps:
            history = await asyncio.to_thread(_history, self.services.writer, self.ledger)
            history.outcome, history.reason = ended.outcome, ended.reason
            history.ended_ms = ended.duration_ms
            if not await queue.put(jobs_of(finished(self._as_open(results), history), steps)):
                return
        self.ledger.settle()

    def _note(self, results: Mapping[str, Any]) -> None:
        self.ledger.note(self._as_open(results))

    def _as_open(self, results: Mapping[str, Any]) -> OpenCall:
        binding = self.binding
        return OpenCall(
            self.kind,
            self.variables["call_id"],
            binding.context_name,
            binding.provider_name,
            self.started_at.isoformat(timespec="milliseconds"),
            dict(self.variables),
            dict(results),
        )


def _history(writer: LedgerWriter, ledger: Ledger) -> CallHistory:
    """Return the recorded history of the call; an empty one if there is no ledger. Blocks."""
    writer.flush()
    try:
        return read(ledger.path)
    except OSError:
        return CallHistory()
