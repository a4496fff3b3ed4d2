"""The outcomes of calls while a canary runs, counted from their ledgers' events.

Each call is counted when it ends, for the version that it began on: as failed, as an early hang-up,
and with the median of the caller's waits. `cordboard.cluster.canary_statistic` judges the sums.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cordboard.calls.events import Answered, Connected, Ended, Latency, LedgerEvent
from cordboard.cluster.canary_statistic import (
    EARLY_SECONDS,
    WAIT_BOUNDS_MS,
    Outcomes,
    wait_bucket,
)

Arm: TypeAlias = Literal["before", "after"]
"""The version in force, or the canary."""
_NOT_OUTCOMES = ("shutdown", "killed", "moved")
"""Ends of a call that say nothing about its version."""


@dataclass(slots=True)
class CountedCall:
    """A call whose outcome will be counted."""

    arm: Arm
    connected_ms: int | None = None
    waits: list[int] = field(default_factory=list)


class OutcomeCounter:
    """Counts the outcomes of calls while a canary runs."""

    def __init__(self) -> None:
        self._calls: dict[str, CountedCall] = {}
        self.clear()

    def clear(self) -> None:
        """Begin anew. Calls that are live are not counted any more."""
        self._calls.clear()
        empty = Outcomes(waits=(0,) * (len(WAIT_BOUNDS_MS) + 1))
        self._sums: dict[Arm, Outcomes] = {"before": empty, "after": empty}

    @property
    def sums(self) -> tuple[Outcomes, Outcomes]:
        """The version in force, and the canary."""
        return self._sums["before"], self._sums["after"]

    def begin(self, call_id: str, arm: Arm) -> None:
        self._calls[call_id] = CountedCall(arm)

    def failed(self, call_id: str) -> None:
        """Count a call that could not begin on the canary."""
        call = self._calls.pop(call_id, None)
        if call is not None:
            self._sums[call.arm] += Outcomes(1, 1)

    def leave(self, call_id: str) -> None:
        """Do not count a call."""
        self._calls.pop(call_id, None)

    def listen(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """Take an event of a ledger. Called for each line: cheap."""
        call = self._calls.get(call_id)
        if call is None:
            return
        if isinstance(event, Connected):
            call.connected_ms = at_ms
        elif isinstance(event, Latency) and not event.filler:
            call.waits.append(event.total_ms)
        elif isinstance(event, Answered):
            call.waits.append(event.answer_ms)
        elif isinstance(event, Ended):
            del self._calls[call_id]
            if event.outcome not in _NOT_OUTCOMES:
                self._sums[call.arm] += _outcome(call, at_ms, event)


def _outcome(call: CountedCall, at_ms: int, event: Ended) -> Outcomes:
    talked = at_ms - call.connected_ms if call.connected_ms is not None else None
    early = talked is not None and talked < EARLY_SECONDS * 1000
    waits = [0] * (len(WAIT_BOUNDS_MS) + 1)
    if call.waits:
        waits[wait_bucket(statistics.median(call.waits))] = 1
    hung_up = early and event.reason == "caller_hangup"
    return Outcomes(1, int(event.outcome == "failed"), int(hung_up), tuple(waits))
