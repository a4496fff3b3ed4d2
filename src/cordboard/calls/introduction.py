"""The first events of a call's ledger: who calls, or what another engine has recorded, and who
answers."""

from __future__ import annotations

import asyncio

import structlog

from cordboard.calls import events
from cordboard.calls.call_parts import CallBasis, CallParts
from cordboard.calls.ledger import PIECE_LINES
from cordboard.calls.resumption import CallSoFar

log = structlog.get_logger()


class Introduction:
    """One per call."""

    def __init__(self, basis: CallBasis, parts: CallParts) -> None:
        self._basis = basis
        self._parts = parts

    async def go_on(self, so_far: CallSoFar) -> None:
        """Begin the ledger with the lines of another engine, and close what that had open."""
        ledger = self._parts.ledger
        self._parts.phases.begin()
        ledger.copy(so_far.lines, so_far.seen_ms)
        for number, (at_ms, event) in enumerate(so_far.known):
            ledger.tell(at_ms, event)
            if number % PIECE_LINES == PIECE_LINES - 1:
                await asyncio.sleep(0)  # other calls have their turn
        if not so_far.lines:
            self._record_offer()
        resumed = so_far.resumed
        by = resumed.hand_over or resumed  # it has the epoch
        ledger.record_later(
            lambda: events.Adopted(
                resumed.engine, by.epoch, resumed.silence_ms, so_far.is_unnoticed
            )
        )
        for event in so_far.closing:
            ledger.record(event)
        log.warning("call_resumed", engine=resumed.engine, turns=so_far.last_turn)

    def agent_answers(self) -> None:
        """Record the caller, unless another engine has, and the agent that answers."""
        binding, toolbox = self._basis.binding, self._parts.toolbox
        if self._basis.so_far is None:
            self._parts.phases.begin()
            self._record_offer()
        self._parts.ledger.record(
            events.Bound(
                binding.context_name,
                binding.provider_name,
                self._basis.generation.number,
                [spec.name for spec in toolbox.specs],
                list(toolbox.missing),
                list(binding.problems),
            )
        )
        for problem in binding.problems:
            log.warning("binding_problem", problem=problem)
            self._basis.services.metrics.calls.binding_problem()

    def _record_offer(self) -> None:
        offer = self._basis.offer
        self._parts.ledger.record(
            events.Offered(
                offer.call_id,
                self._basis.began.isoformat(timespec="milliseconds"),
                offer.source,
                offer.caller_number,
                offer.caller_name,
                offer.called_number,
                offer.external_id,
                config=self._basis.generation.version,
                test=offer.test is not None,
                trial=offer.test.trial if offer.test is not None else "",
                direction="in" if offer.outbound is None else "out",
                trunk=offer.trunk,
            )
        )
