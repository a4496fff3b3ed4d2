"""The usage of one call, for the firewall's caps: the call itself, and the legs that leave in it.

A leg is a transfer, an operator's phone or the call to the caller's known number. Each has the
trunk by which it leaves, and is charged by that trunk's tariff from its answer on. While a call
lives, its usage is settled every few seconds, and compared with the caps of a day's minutes and
cost: where `firewall.used_up` says so, the caller is warned, and the call ends. Both wait while the
caller is with a human, or on the way there: neither would hear why the line goes dead.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.config.sections.firewall import Tariff
from cordboard.firewall.counts import CostAt, Counts, Direction, LiveCall, Scope, Used
from cordboard.firewall.policy import Policy, Spent
from cordboard.firewall.tariffs import Meter
from cordboard.observe.metrics import Metrics

LOOK_SECONDS = 5.0
"""Pause between two looks at the caps; a cap may be passed by so much."""

log = structlog.get_logger()


def _no_cost() -> None:
    """Nothing is known."""


@dataclass(slots=True, eq=False)
class Leg:
    """One part of a call that counts by itself."""

    direction: Direction
    caller: str
    trunk: str
    meter: Meter
    live: LiveCall


@dataclass(frozen=True, slots=True)
class SpentOutlets:
    """Acts of the call when a cap is used up."""

    reached: Callable[[], bool]
    """Returns True if the caller is with the agent, or is still being called, and the call does not
    end yet."""
    warn: Callable[[Speech], None]
    """Have the agent speak the warning; it is dropped if it cannot be heard now."""
    end: Callable[[str], None]
    """End the call with this goodbye."""


class CallUsage:
    """The usage of one call."""

    def __init__(
        self,
        policy: Policy,
        counts: Counts,
        ledger: Ledger,
        metrics: Metrics,
        context_name: str,
        now: Callable[[], datetime.datetime],
    ) -> None:
        self._policy = policy
        self._counts = counts
        self._ledger = ledger
        self._metrics = metrics
        self._context_name = context_name
        self._now = now
        self._own: Leg | None = None
        self._legs: set[Leg] = set()
        self._outlets: SpentOutlets | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._warning: Speech | None = None
        """The warning, from its order on; None again if it was dropped."""

    def begin(
        self,
        direction: Direction,
        caller: str,
        trunk: str,
        tariff: Tariff | None,
        cost: Callable[[], float | None],
        outlets: SpentOutlets,
        *,
        resumed: bool = False,
    ) -> None:
        """Count the call itself. `cost()`: of its services so far; None if it is unknown. One that
        came in is answered now. `resumed`: another engine has counted it up to now."""
        self._outlets = outlets
        leg = self._own = self.leave(
            caller, trunk, tariff, cost, direction=direction, resumed=resumed
        )
        if direction == "in":
            self.answered(leg)
        self._look_later()

    def leave(
        self,
        caller: str,
        trunk: str,
        tariff: Tariff | None,
        cost: Callable[[], float | None] = _no_cost,
        *,
        direction: Direction = "out",
        resumed: bool = False,
    ) -> Leg:
        """Count a leg that begins now, or goes on here."""
        meter = Meter(tariff)
        if resumed:
            meter.answered_at = self._now().timestamp()
        cost_at: CostAt = lambda at: (cost() or 0.0) + meter.cost(at)  # noqa: E731
        live = self._counts.begin(
            direction, caller, self._context_name, self._now(), cost_at, trunk, resumed=resumed
        )
        leg = Leg(direction, caller, trunk, meter, live)
        self._legs.add(leg)
        self._show(leg, 1)
        return leg

    def answered(self, leg: Leg | None = None) -> None:
        """Note that the other side of a leg has answered; None: of the call itself. Only the first
        time counts."""
        leg = leg if leg is not None else self._own
        if leg is not None and leg.meter.answered_at is None:
            leg.meter.answered_at = self._now().timestamp()

    def ended(self, leg: Leg) -> None:
        """Note the end of a leg. Idempotent."""
        if leg in self._legs:
            self._legs.discard(leg)
            self._counts.end(leg.live, self._now())
            self._show(leg, -1)

    def used(self, direction: Direction, scope: Scope, name: str) -> Used:
        """Return the usage of a scope so far."""
        return self._counts.used(direction, scope, name, self._now())

    def close(self) -> None:
        """End all legs: the call is over. Idempotent."""
        for timer in (self._timer, self._ending):
            if timer is not None:
                timer.cancel()
        for leg in [*self._legs]:
            self.ended(leg)

    # Inside.

    def _show(self, leg: Leg, more: int) -> None:
        if leg.trunk in self._policy.rules.trunks:
            self._metrics.calls.trunk_calls(leg.trunk, leg.direction, more)

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now = self._now()
        nearest = Spent()
        for leg in self._legs:
            self._counts.settle(leg.live, now)
            spent = self._policy.spent(
                leg.direction, leg.caller, self._context_name, leg.trunk, self.used
            )
            nearest = max(nearest, spent, key=lambda each: each.share)
        self._follow(nearest)
        self._look_later()

    def _follow(self, spent: Spent) -> None:
        rules, outlets = self._policy.rules.used_up, self._outlets
        if outlets is None:
            return
        if not outlets.reached():
            return
        if rules.warning and self._warning is None and spent.share >= rules.warn_at_percent / 100:
            moved = partial(self._warning_moved, spent)
            self._warning = Speech(rules.warning, "menu", moved)
            outlets.warn(self._warning)
        if spent.share >= 1 and rules.end_after_ms is not None and self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(
                rules.end_after_ms / 1000, self._end, outlets, spent
            )

    def _warning_moved(self, spent: Spent, warning: Speech) -> None:
        """Record a warning that the caller hears; try one that was dropped again."""
        if warning.state is SpeechState.BEGUN:
            self._record(spent, "warned")
        elif warning.state is SpeechState.DROPPED:
            self._warning = None

    def _end(self, outlets: SpentOutlets, spent: Spent) -> None:
        if not outlets.reached():
            self._ending = None  # the time begins again when the caller is back
            return
        self._record(spent, "ended")
        outlets.end(self._policy.rules.used_up.goodbye)

    def _record(self, spent: Spent, act: str) -> None:
        self._metrics.calls.firewall_refused("budget", spent.rule)
        self._ledger.record(events.CapUsedUp(spent.rule, spent.why, act))
        log.warning("firewall_cap_used_up", rule=spent.rule, act=act)
