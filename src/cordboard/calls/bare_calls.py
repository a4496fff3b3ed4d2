"""The share of calls without ARI, by the bare `AudioSocket()` dialplan application.

Such a caller proves no identity: anything that reaches the port can call. So these calls have
their own limits (`audiosocket.max_calls`, `calls_per_minute`, `max_minutes_per_day`,
`max_cost_per_day`) and are refused first. Callers by ARI are admitted as if there were no bare
calls (`calls.call_registry`).

A call counts for the local day on which it ends; a live call counts for today. The usage is kept
in memory: a starting engine begins at zero. A live call continues when the day's
budget is used up; `contexts.<name>.budget` limits a single one.
"""

from __future__ import annotations

import datetime
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from cordboard.config.schema import Config

BARE = "audiosocket"
"""The source of the offers of bare calls."""
BARE_BUSY, BARE_RATE, BARE_BUDGET = "bare_busy", "bare_rate", "bare_budget"
"""Reasons for a refusal: the share is taken; too many begin; the day's budget is used up."""
MINUTE = 60.0


class Costs(Protocol):
    """A live call."""

    @property
    def cost(self) -> float | None:
        """The known cost so far; None when nothing is known."""


class BareCalls:
    """The bare calls of one engine: the live ones, and the usage of the day."""

    def __init__(
        self,
        clock: Callable[[], float],
        today: Callable[[], datetime.date] = datetime.date.today,
        *,
        has_ari: bool,
    ) -> None:
        """`clock` returns seconds. `has_ari`: the engine takes calls by ARI too. It is fixed at the
        engine's start: a reload that adds or removes `asterisk` waits for a restart."""
        self.has_ari = has_ari
        self._clock = clock
        self._today = today
        self._day = today()
        self._seconds = 0.0
        self._cost = 0.0
        """Cost of the calls that ended on that day."""
        self._live: dict[Costs, float] = {}
        """Live calls with their start times."""
        self._begun: deque[float] = deque()
        """Start times of the calls that began in the last minute."""

    def __len__(self) -> int:
        """Number of live calls."""
        return len(self._live)

    def reason_to_refuse(self, config: Config, live_calls: int) -> str:
        """Return the reason to refuse the next call; empty when it is accepted. `live_calls`: their
        number, of all kinds."""
        limits, most = config.audiosocket, config.calls.max_calls
        if len(self) >= limits.share(most, has_ari=self.has_ari) or live_calls >= most:
            return BARE_BUSY
        now = self._clock()
        while self._begun and self._begun[0] <= now - MINUTE:
            self._begun.popleft()
        if len(self._begun) >= limits.calls_per_minute:
            return BARE_RATE
        minutes, cost = self._used_today()
        if limits.max_minutes_per_day is not None and minutes >= limits.max_minutes_per_day:
            return BARE_BUDGET
        if limits.max_cost_per_day is not None and cost >= limits.max_cost_per_day:
            return BARE_BUDGET
        return ""

    def begin(self, call: Costs) -> None:
        """Note that a call is accepted."""
        now = self._clock()
        self._live[call] = now
        self._begun.append(now)

    def end(self, call: Costs) -> None:
        """Note the end of a call, which need not be a bare one."""
        began = self._live.pop(call, None)
        if began is not None:
            self._turn_the_day()
            self._seconds += self._clock() - began
            self._cost += call.cost or 0.0

    def health(self) -> dict[str, Any]:
        """Return the part of `/health` about bare calls."""
        minutes, cost = self._used_today()
        return {"live": len(self), "minutes_today": round(minutes, 1), "cost_today": round(cost, 6)}

    def _used_today(self) -> tuple[float, float]:
        """Return minutes and cost."""
        self._turn_the_day()
        now = self._clock()
        seconds = self._seconds + sum(now - began for began in self._live.values())
        return seconds / 60, self._cost + sum(call.cost or 0.0 for call in self._live)

    def _turn_the_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day, self._seconds, self._cost = today, 0.0, 0.0
