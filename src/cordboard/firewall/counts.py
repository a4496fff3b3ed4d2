"""Counts for the caps: calls, minutes and cost, by caller, by context and in total.

Pure counting: the time comes with each question. Amounts are kept by the hour of the local clock,
for the day and the hour before it, so the memory is bounded: `MOST_CALLERS` callers at most, of
which the one without calls for the longest time is dropped first. Callers are kept as keyed
digests, never as numbers.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Direction: TypeAlias = Literal["in", "out"]
Scope: TypeAlias = Literal["caller", "context", "total"]
Key: TypeAlias = tuple[Direction, Scope, str]
Hours: TypeAlias = dict[str, "Amounts"]
Row: TypeAlias = tuple[str, str, str, str, int, float, float]
"""Direction, scope, name, hour, calls, seconds, cost."""

MOST_CALLERS = 20_000
_HOUR = datetime.timedelta(hours=1)


@dataclass(slots=True)
class Amounts:
    """Sums of one hour."""

    calls: int = 0
    seconds: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Used:
    """Usage so far."""

    calls_in_hour: float = 0.0
    """This hour's calls and the share of the last hour's that lies within 60 minutes."""
    calls: int = 0
    minutes: float = 0.0
    cost: float = 0.0


NOTHING_USED = Used()


@dataclass(slots=True, eq=False)
class LiveCall:
    """A call that is being counted."""

    keys: tuple[Key, ...]
    began: datetime.datetime
    cost: Callable[[], float | None]


class Counts:
    """The counts of one engine."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        """Key of the callers' digests."""
        self.changed: set[tuple[Key, str]] = set()
        """Rows that are not written yet."""
        self.dropped: set[Key] = set()
        """Callers whose rows are to be deleted."""
        self._by_key: OrderedDict[Key, Hours] = OrderedDict()
        self._callers = 0
        self._live: set[LiveCall] = set()

    def keys(self, direction: Direction, caller: str, context: str) -> tuple[Key, ...]:
        """Return the keys under which a call counts."""
        return (
            (direction, "caller", self._digest(caller)),
            (direction, "context", context),
            (direction, "total", ""),
        )

    def begin(
        self,
        direction: Direction,
        caller: str,
        context: str,
        now: datetime.datetime,
        cost: Callable[[], float | None] = lambda: None,
    ) -> LiveCall:
        """Count a call that begins now. Its minutes and `cost()` count while it lives."""
        live = LiveCall(self.keys(direction, caller, context), now, cost)
        self._add(live.keys, now, Amounts(calls=1))
        self._live.add(live)
        return live

    def end(self, live: LiveCall, now: datetime.datetime) -> None:
        """Count the end of the call. Idempotent."""
        if live in self._live:
            self._live.discard(live)
            seconds = max(0.0, (now - live.began).total_seconds())
            self._add(live.keys, now, Amounts(seconds=seconds, cost=live.cost() or 0.0))

    def act(self, direction: Direction, caller: str, context: str, now: datetime.datetime) -> None:
        """Count a call of unknown duration, such as a blind transfer."""
        self._add(self.keys(direction, caller, context), now, Amounts(calls=1))

    def used(self, direction: Direction, scope: Scope, name: str, now: datetime.datetime) -> Used:
        """Return the usage of a scope; `name` is the caller's number or the context."""
        key = direction, scope, self._digest(name) if scope == "caller" else name
        hours = self._by_key.get(key, {})
        today, this_hour, last_hour = f"{now:%Y-%m-%d}", _hour(now), _hour(now - _HOUR)
        calls, seconds, cost = 0, 0.0, 0.0
        for hour, amounts in hours.items():
            if hour.startswith(today):
                calls += amounts.calls
                seconds += amounts.seconds
                cost += amounts.cost
        for live in self._live:
            if key in live.keys:
                seconds += max(0.0, (now - live.began).total_seconds())
                cost += live.cost() or 0.0
        now_calls = hours[this_hour].calls if this_hour in hours else 0
        before = hours[last_hour].calls if last_hour in hours else 0
        share = 1 - (now.minute * 60 + now.second) / 3_600
        return Used(now_calls + before * share, calls, seconds / 60, cost)

    # For the store.

    def restore(self, salt: bytes, rows: Iterable[Row]) -> None:
        """Continue from what an earlier engine has stored. What was counted meanwhile is added, but
        for the counts of callers, who have other digests there."""
        meanwhile = [(key, hours) for key, hours in self._by_key.items() if key[1] != "caller"]
        self.salt = salt
        self.changed.clear()
        self.dropped.clear()
        self._by_key.clear()
        self._callers = 0
        for direction, scope, name, hour, calls, seconds, cost in rows:
            if direction in ("in", "out") and scope in ("caller", "context", "total"):
                key: Key = direction, scope, name  # type: ignore[assignment]
                self._hours(key)[hour] = Amounts(calls, seconds, cost)
        for key, hours in meanwhile:
            for hour, more in hours.items():
                amounts = self._hours(key).setdefault(hour, Amounts())
                amounts.calls += more.calls
                amounts.seconds += more.seconds
                amounts.cost += more.cost
                self.changed.add((key, hour))

    def take_rows(self) -> tuple[list[Row], list[Key]]:
        """Return the rows that have changed, and the keys to delete; they count as written."""
        rows: list[Row] = []
        for key, hour in self.changed:
            amounts = self._by_key.get(key, {}).get(hour)
            if amounts is not None:
                rows.append((*key, hour, amounts.calls, amounts.seconds, amounts.cost))
        gone = [*self.dropped]
        self.changed.clear()
        self.dropped.clear()
        return rows, gone

    def forget(self, digest: str) -> None:
        """Drop the counts of a caller, by `digest_of`, but for those of a live call."""
        for direction in get_args(Direction):
            key: Key = direction, "caller", digest
            if self._by_key.pop(key, None) is not None:
                self._callers -= 1
                self.dropped.add(key)

    def not_written(self, rows: Iterable[Row], gone: Iterable[Key]) -> None:
        """Take back `take_rows`: the disk did not take them."""
        for direction, scope, name, hour, *_ in rows:
            self.changed.add(((direction, scope, name), hour))  # type: ignore[arg-type]
        self.dropped.update(key for key in gone if key not in self._by_key)

    # Inside.

    def _add(self, keys: Iterable[Key], now: datetime.datetime, more: Amounts) -> None:
        hour = _hour(now)
        kept = {hour, _hour(now - _HOUR)}
        today = hour[:10]
        for key in keys:
            hours = self._hours(key)
            amounts = hours.setdefault(hour, Amounts())
            amounts.calls += more.calls
            amounts.seconds += more.seconds
            amounts.cost += more.cost
            self.changed.add((key, hour))
            for old in [each for each in hours if each not in kept and each[:10] != today]:
                del hours[old]

    def _hours(self, key: Key) -> Hours:
        hours = self._by_key.get(key)
        if hours is None:
            hours = self._by_key[key] = {}
            self.dropped.discard(key)
            if key[1] == "caller":
                self._callers += 1
                if self._callers > MOST_CALLERS:
                    self._drop_oldest_caller()
        else:
            self._by_key.move_to_end(key)
        return hours

    def _drop_oldest_caller(self) -> None:
        oldest = next(key for key in self._by_key if key[1] == "caller")
        del self._by_key[oldest]
        self._callers -= 1
        self.dropped.add(oldest)

    def _digest(self, caller: str) -> str:
        return digest_of(caller, self.salt)


def digest_of(caller: str, salt: bytes) -> str:
    """Return the form in which a caller is kept."""
    return hashlib.blake2b(caller.encode(), key=salt, digest_size=16).hexdigest()


def _hour(at: datetime.datetime) -> str:
    return f"{at:%Y-%m-%dT%H}"
