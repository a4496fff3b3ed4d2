"""What a call costs, as its agent's services count, and when that is enough.

Every `Used` of the agent becomes a line of the ledger and some counters. What it costs is told
where `prices` knows; a call that reaches its context's `budget` is to end politely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from cordboard.agent_api.agent import Usage
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.config.budget import Budget
from cordboard.config.prices import Prices
from cordboard.config.schema import Config
from cordboard.observe.metrics import Metrics


def sentences(config: Config) -> Iterator[str]:
    """The goodbyes of calls that have used up their budget."""
    budgets = [context.budget for context in config.contexts.values()]
    yield from (budget.goodbye for budget in budgets if budget.limits)


class CallCosts:
    """One call's money and minutes."""

    def __init__(
        self,
        context_name: str,
        prices: Prices,
        budget: Budget,
        ledger: Ledger,
        metrics: Metrics,
        on_limit: Callable[[str], None],
    ) -> None:
        """`on_limit(goodbye)`: the call has cost, or lasted, as much as it may; told once."""
        self._context_name = context_name
        self._prices = prices
        self._budget = budget
        self._ledger = ledger
        self._metrics = metrics
        self._on_limit = on_limit
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self.total: float | None = None
        """What is known to have been spent; None when nothing is."""

    @property
    def currency(self) -> str:
        """Of `total`; empty while nothing is known."""
        return self._prices.currency if self.total is not None else ""

    def begin(self) -> None:
        """The caller is being served: the minutes are counted from here."""
        if self._budget.max_minutes is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._budget.max_minutes * 60, self._tell)

    def used(self, usage: Usage) -> None:
        """A service has counted so much more."""
        amounts = {unit: amount for unit, amount in usage.amounts.items() if amount > 0}
        if not amounts:
            return
        cost = self._prices.cost(usage.provider, usage.model, amounts)
        currency = self._prices.currency if cost is not None else ""
        rounded = None if cost is None else round(cost, 8)
        self._ledger.record(
            events.AgentUsed(usage.provider, usage.model, amounts, rounded, currency)
        )
        for unit, amount in amounts.items():
            self._metrics.costs.used(usage.provider, usage.model, unit, amount)
        if cost is None:
            return
        self.total = (self.total or 0.0) + cost
        self._metrics.costs.cost(self._context_name, usage.provider, currency, cost)
        most = self._budget.max_cost_per_call
        if most is not None and self.total >= most:
            self._tell()

    def close(self) -> None:
        """The call ends: nothing is told any more. Idempotent."""
        self._told = True
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            # Not from within an event of the agent, which is to say the goodbye.
            asyncio.get_running_loop().call_soon(self._on_limit, self._budget.goodbye)
