"""The cost of a call, from the usage of its agent's services, and the limits of its budget.

Each `Used` of the agent becomes a line of the ledger and some counters, with its cost if `prices`
covers it. A call that reaches its context's `budget` ends politely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from cordboard.agent_api.agent import Usage
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.config.prices import Prices
from cordboard.config.schema import Budget, Config
from cordboard.observe.metrics import Metrics


def sentences(config: Config) -> Iterator[str]:
    """The goodbyes of calls that have used up their budget."""
    budgets = [context.budget for context in config.contexts.values()]
    yield from (budget.goodbye for budget in budgets if budget.limits)


class CallCosts:
    """The cost and duration of one call."""

    def __init__(
        self,
        context_name: str,
        prices: Prices,
        budget: Budget,
        ledger: Ledger,
        metrics: Metrics,
        on_limit: Callable[[str], None],
        so_far: float | None = None,
    ) -> None:
        """`on_limit(goodbye)` is called once, when the call reaches a limit of its budget.
        `so_far`: the known cost until now."""
        self._context_name = context_name
        self._prices = prices
        self._budget = budget
        self._ledger = ledger
        self._metrics = metrics
        self._on_limit = on_limit
        self._timer: asyncio.TimerHandle | None = None
        self._told = False
        self.total: float | None = so_far
        """The known cost so far; None if no cost is known."""

    @property
    def currency(self) -> str:
        """The currency of `total`; empty while no cost is known."""
        return self._prices.currency if self.total is not None else ""

    def begin(self, served: float = 0.0) -> None:
        """Start counting the minutes: the caller is being served now, and was before for so many
        seconds."""
        if self._budget.max_minutes is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._budget.max_minutes * 60 - served, self._tell)

    def used(self, usage: Usage) -> None:
        """Record further usage of a service."""
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
        """Stop: `on_limit` is not called any more. Idempotent."""
        self._told = True
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            # Not from within an event of the agent, which has to speak the goodbye.
            asyncio.get_running_loop().call_soon(self._on_limit, self._budget.goodbye)
