"""Counts for the caps: calls, minutes and cost, by caller, context, trunk and in total.

Pure counting: the time comes with each question. Amounts are kept by the hour of the local clock,
for 25 hours, and calls also by the minute, so the memory is bounded: `MOST_CALLERS` callers at
most, of which the one without calls for the longest time is dropped first; contexts and trunks
without calls in these hours are dropped, too. An hour is known by its begin in UTC, so that it
keeps its place in the day when the zone changes. Callers are kept as keyed digests, never as
numbers; only until the key of an earlier engine is known (`expect_earlier`), their numbers are held
beside.

A live call is settled from time to time: what it has used since the last time is added, so that its
minutes and cost count while it lives, and belong to the day on which they were used.

In a cluster `shared` knows what the other engines have counted (`cordboard.cluster.shared_counts`),
and `used` adds it.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

Direction: TypeAlias = Literal["in", "out"]
Scope: TypeAlias = Literal["caller", "context", "trunk", "total"]
Key: TypeAlias = tuple[Direction, Scope, str]
Row: TypeAlias = tuple[str, str, str, str, int, float, float]
"""Direction, scope, name, begin of the hour (`2026-11-23T09:00`, UTC), calls, seconds, cost."""
CostAt: TypeAlias = Callable[[float], float]
"""Returns the cost of a call up to a Unix time; it never falls."""

MOST_CALLERS = 20_000
_HOUR, _KEPT = datetime.timedelta(hours=1), datetime.timedelta(hours=24)
_DIRECTIONS, _SCOPES = get_args(Direction), get_args(Scope)


@dataclass(slots=True)
class Amounts:
    """Sums of one hour."""

    calls: int = 0
    seconds: float = 0.0
    cost: float = 0.0

    def add(self, more: Amounts) -> None:
        """Add the other sums."""
        self.calls += more.calls
        self.seconds += more.seconds
        self.cost += more.cost


@dataclass(frozen=True, slots=True)
class Used:
    """Usage so far."""

    calls_in_hour: float = 0.0
    """This hour's calls and the share of the last hour's that lies within 60 minutes."""
    calls: int = 0
    """Calls of the day."""
    minutes: float = 0.0
    cost: float = 0.0
    calls_in_minute: float = 0.0
    """This minute's calls and the share of the last minute's that lies within 60 seconds."""
    live: int = 0
    """Calls at this moment."""
    engines: int = 1
    """Living engines of the cluster, this one included."""
    unseen: Used | None = None
    """The part of it that this engine has counted and another one may not know yet; None: the
    engine is alone."""

    def filled(self, amount: str, most: float) -> float:
        """Return how far a cap of an amount (a field's name) is used up; 1 and more: nothing is
        left. In a cluster an engine uses, until all others know of it, at most its share of what
        was left: all engines together pass the cap by less than one call each."""
        used: float = getattr(self, amount)
        if self.unseen is None:
            return used / most
        unseen: float = getattr(self.unseen, amount)
        left = most - used + unseen
        if left <= 0:
            return max(1.0, used / most)
        return max(used / most, unseen * self.engines / left)


NOTHING_USED = Used()


@dataclass(slots=True)
class Usage:
    """The counts of one engine under one key."""

    hours: dict[str, Amounts] = field(default_factory=dict)
    minute: int = 0
    """Number of the minute of `this_minute`, since 1970."""
    this_minute: int = 0
    last_minute: int = 0
    live: int = 0

    def turn(self, minute: int) -> None:
        """Let this be the present minute."""
        if minute != self.minute:
            self.last_minute = self.this_minute if minute == self.minute + 1 else 0
            self.minute, self.this_minute = minute, 0

    def within(self, window: Window) -> Used:
        """Return what counts at a time. The minutes and hours of an engine whose clock is ahead
        count as present ones."""
        midnight, last_hour = window.midnight, window.last_hour
        calls, seconds, cost, in_hour = 0, 0.0, 0.0, 0.0
        for hour, amounts in self.hours.items():
            if hour >= midnight:
                calls += amounts.calls
                seconds += amounts.seconds
                cost += amounts.cost
            if hour >= last_hour:
                share = 1 if hour >= window.this_hour else window.of_last_hour
                in_hour += amounts.calls * share
        in_minute = window.in_minute(self.minute, self.this_minute, self.last_minute)
        return Used(in_hour, calls, seconds / 60, cost, in_minute, self.live)


class Window(NamedTuple):
    """The day, hour and minute of a moment."""

    midnight: str
    this_hour: str
    last_hour: str
    of_last_hour: float
    """Share of the last hour that lies within 60 minutes."""
    minute: int
    of_last_minute: float

    @classmethod
    def at(cls, now: datetime.datetime) -> Window:
        """Return the window of a moment, in its own zone."""
        return cls(
            _name(now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)),
            _hour(now),
            _hour(now, _HOUR),
            1 - (now.minute * 60 + now.second) / 3_600,
            int(now.timestamp() // 60),
            1 - now.second / 60,
        )

    def in_minute(self, minute: int, calls: int, calls_before: int) -> float:
        """Return those of an engine's calls in a minute, and in the one before it, that lie within
        60 seconds; those of a clock that is ahead count as present ones."""
        if minute > self.minute:
            return calls + calls_before
        if minute == self.minute:
            return calls + calls_before * self.of_last_minute
        return calls * self.of_last_minute if minute == self.minute - 1 else 0.0


class SharedCounts(Protocol):
    """The counts of the other engines of a cluster. Answers at once, from memory."""

    @property
    def away(self) -> bool:
        """True while the bus does not take what this engine has counted; also until this engine has
        taken up what an earlier engine of its node has counted by the bus."""

    def complete(self, key: Key, own: Used, window: Window) -> Used:
        """Return the usage of all engines in a window."""

    def counted(self, key: Key, hour: str, more: Amounts) -> None:
        """This engine has counted more under a key."""

    def moved(self, key: Key) -> None:
        """The number of live calls of this engine has changed."""

    def forgotten(self, key: Key) -> None:
        """This engine has no counts under that key any more."""

    def renamed(self, again: Callable[[Key], Key]) -> None:
        """Callers have other digests from now on: `again` returns the new key of an old one."""


@dataclass(slots=True, eq=False)
class LiveCall:
    """A call that is being counted."""

    keys: tuple[Key, ...]
    began: float
    """Unix time."""
    cost_at: CostAt
    settled: Amounts = field(default_factory=Amounts)
    """Seconds and cost that are added already, or were by another engine."""


class Counts:
    """The counts of one engine."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        """Key of the callers' digests."""
        self.changed: set[tuple[Key, str]] = set()
        """Rows that are not written yet."""
        self.dropped: set[Key] = set()
        """Callers whose rows are to be deleted."""
        self._by_key: OrderedDict[Key, Usage] = OrderedDict()
        self._callers = 0
        self._live: set[LiveCall] = set()
        self._swept = ""
        """The hour in which contexts and trunks were last looked through."""
        self.shared: SharedCounts | None = None
        """The other engines of the cluster; None: the engine is alone."""
        self._numbers: dict[str, str] | None = None
        """Callers by digest, while an earlier engine's key, or the cluster's, may come; else
        None."""
        self._agreed: bytes | None = b""
        """The cluster's key; None: it is not known yet; empty: there is no cluster."""
        self._expects = False
        self._asked_at = datetime.datetime.fromtimestamp(0, datetime.UTC)
        self._window = Window.at(self._asked_at)

    def keys(
        self, direction: Direction, caller: str, context: str, trunk: str = ""
    ) -> tuple[Key, ...]:
        """Return the keys under which a call counts; an unknown trunk has none."""
        digest = self._digest(caller)
        if self._numbers is not None:
            self._numbers[digest] = caller
        keys: tuple[Key, ...] = (
            (direction, "caller", digest),
            (direction, "context", context),
            (direction, "total", ""),
        )
        return (*keys, (direction, "trunk", trunk)) if trunk else keys

    def begin(
        self,
        direction: Direction,
        caller: str,
        context: str,
        now: datetime.datetime,
        cost_at: CostAt = lambda _: 0.0,
        trunk: str = "",
        *,
        resumed: bool = False,
    ) -> LiveCall:
        """Count a call that begins now. `resumed`: another engine has counted it as a call, with
        its cost up to now."""
        live = LiveCall(self.keys(direction, caller, context, trunk), now.timestamp(), cost_at)
        self._live.add(live)
        minute = int(now.timestamp() // 60)
        if resumed:
            live.settled.cost = cost_at(live.began)
        else:
            self._add(live.keys, now, Amounts(calls=1))
        for key in live.keys:
            usage = self._of(key)
            usage.turn(minute)
            usage.this_minute += not resumed
            usage.live += 1
            if self.shared is not None:
                self.shared.moved(key)
        return live

    def settle(self, live: LiveCall, now: datetime.datetime) -> None:
        """Add what a live call has used since it was last settled."""
        at = now.timestamp()
        seconds = max(0.0, at - live.began - live.settled.seconds)
        cost = max(0.0, live.cost_at(at) - live.settled.cost)
        if live in self._live and (seconds or cost):
            more = Amounts(seconds=seconds, cost=cost)
            live.settled.add(more)
            self._add(live.keys, now, more)

    def end(self, live: LiveCall, now: datetime.datetime) -> None:
        """Count the end of the call. Idempotent."""
        if live not in self._live:
            return
        self.settle(live, now)
        self._live.discard(live)
        for key in live.keys:
            usage = self._by_key.get(key)
            if usage is not None:  # else the caller was forgotten meanwhile
                usage.live = max(0, usage.live - 1)
            if self.shared is not None:
                self.shared.moved(key)

    def used(self, direction: Direction, scope: Scope, name: str, now: datetime.datetime) -> Used:
        """Return the usage of a scope; `name` is the caller's number, the context or the trunk. Of
        live calls it has what is settled."""
        key = direction, scope, self._digest(name) if scope == "caller" else name
        usage, shared = self._by_key.get(key), self.shared
        if usage is None and shared is None:
            return NOTHING_USED
        if now is not self._asked_at:  # the scopes of one act are asked for the same moment
            self._asked_at, self._window = now, Window.at(now)
        window = self._window
        own = usage.within(window) if usage is not None else NOTHING_USED
        if shared is None:
            return own
        return shared.complete(key, own, window)

    def names(self, scope: Literal["context", "trunk"]) -> set[str]:
        """Return the contexts or trunks that have counts."""
        return {key[2] for key in self._by_key if key[1] == scope}

    # For the store.

    def expect_earlier(self) -> None:
        """Hold the numbers of callers beside their digests, until `restore` or `nothing_earlier`:
        the counts of an earlier engine, which cannot be read yet, have another key."""
        self._expects = True
        self._hold()

    def nothing_earlier(self) -> None:
        """Note that no earlier engine has stored counts."""
        self._expects = False
        self._settle_key()

    def restore(self, salt: bytes, rows: Iterable[Row]) -> None:
        """Continue from the counts that an earlier engine has stored; counts made meanwhile are
        added."""
        again = self._again(salt)
        meanwhile = self._by_key
        self.salt, self._expects = salt, False
        self._numbers = self._renamed(salt)
        self.changed.clear()
        self.dropped.clear()
        self._by_key, self._callers = OrderedDict(), 0
        for direction, scope, name, hour, calls, seconds, cost in rows:
            if direction in _DIRECTIONS and scope in _SCOPES:
                key: Key = direction, scope, name  # type: ignore[assignment]
                self._of(key).hours[hour] = Amounts(calls, seconds, cost)
        for old, usage in meanwhile.items():
            self._join(again(old), usage)
        self._rename_live(again)
        self._settle_key()

    # For a cluster.

    def share(self, shared: SharedCounts) -> None:
        """Count together with other engines from now on. Their key comes by `agree`."""
        self.shared, self._agreed = shared, None
        self._hold()

    def agree(self, salt: bytes) -> bool:
        """Use the key of the cluster. Counts of callers under another key stay out, except those of
        this start. False while an earlier engine's counts are not read: call it again."""
        self._agreed = salt
        self._settle_key()
        return self.salt == salt and not self._expects

    def usage_of(self, key: Key) -> Usage | None:
        """Return this engine's own counts; do not change them."""
        return self._by_key.get(key)

    def keys_of_live(self) -> Iterable[Key]:
        """Return the keys with live calls."""
        return {key for live in self._live for key in live.keys}

    def rows(self) -> Iterable[tuple[Key, str]]:
        """Return key and hour of all own counts."""
        return [(key, hour) for key, usage in self._by_key.items() for hour in usage.hours]

    def raise_to(self, key: Key, hour: str, least: Amounts) -> None:
        """Take up what an earlier engine of this node had counted at least."""
        own = self._of(key).hours.setdefault(hour, Amounts())
        own.calls = max(own.calls, least.calls)
        own.seconds = max(own.seconds, least.seconds)
        own.cost = max(own.cost, least.cost)
        self.changed.add((key, hour))

    # For the store, again.

    def take_rows(self) -> tuple[list[Row], list[Key]]:
        """Return the rows that have changed, and the keys to delete; they count as written."""
        rows: list[Row] = []
        for key, hour in self.changed:
            usage = self._by_key.get(key)
            if usage is not None and hour in usage.hours:
                amounts = usage.hours[hour]
                rows.append((*key, hour, amounts.calls, amounts.seconds, amounts.cost))
        gone = [*self.dropped]
        self.changed.clear()
        self.dropped.clear()
        return rows, gone

    def change_all(self) -> None:
        """Note that no row is written."""
        self.changed.update(
            (key, hour) for key, usage in self._by_key.items() for hour in usage.hours
        )

    def forget(self, digest: str) -> None:
        """Drop the counts of a caller (`digest_of`), except those of a live call from now on."""
        for direction in _DIRECTIONS:
            key: Key = direction, "caller", digest
            usage = self._by_key.pop(key, None)
            if usage is not None:
                self._callers -= 1
                self.dropped.add(key)
                if usage.live:
                    self._of(key).live = usage.live
                if self.shared is not None:
                    self.shared.forgotten(key)

    def not_written(self, rows: Iterable[Row], gone: Iterable[Key]) -> None:
        """Take back `take_rows`: the disk did not take them."""
        for direction, scope, name, hour, *_ in rows:
            self.changed.add(((direction, scope, name), hour))  # type: ignore[arg-type]
        self.dropped.update(key for key in gone if key not in self._by_key)

    # Inside.

    def _hold(self) -> None:
        if self._numbers is None:
            self._numbers = {}

    def _again(self, salt: bytes) -> Callable[[Key], Key]:
        """Return a function that gives a key under another salt."""
        numbers = self._numbers or {}

        def again(key: Key) -> Key:
            number = numbers.get(key[2]) if key[1] == "caller" else None
            return key if number is None else (key[0], key[1], digest_of(number, salt))

        return again

    def _renamed(self, salt: bytes) -> dict[str, str]:
        return {digest_of(each, salt): each for each in (self._numbers or {}).values()}

    def _join(self, key: Key, usage: Usage) -> None:
        """Add counts that were made meanwhile."""
        kept = self._of(key)
        kept.live, kept.minute = usage.live, usage.minute
        kept.this_minute, kept.last_minute = usage.this_minute, usage.last_minute
        for hour, more in usage.hours.items():
            kept.hours.setdefault(hour, Amounts()).add(more)
            self.changed.add((key, hour))

    def _settle_key(self) -> None:
        """Change to the cluster's key, and hold no numbers any more, once all keys are known."""
        if self._expects or self._agreed is None:
            return
        salt = self._agreed
        if salt and salt != self.salt:
            again, known = self._again(salt), self._numbers or {}
            former, self._by_key, self._callers = self._by_key, OrderedDict(), 0
            self.salt = salt
            self.changed.clear()
            for old, usage in former.items():
                if old[1] == "caller" and old[2] not in known:
                    self.dropped.add(old)
                    continue
                if again(old) != old:
                    self.dropped.add(old)
                self._join(again(old), usage)
            self._rename_live(again)
        self._numbers = None

    def _rename_live(self, again: Callable[[Key], Key]) -> None:
        for live in self._live:
            live.keys = tuple(map(again, live.keys))
        if self.shared is not None:
            self.shared.renamed(again)

    def _add(self, keys: Iterable[Key], now: datetime.datetime, more: Amounts) -> None:
        hour, oldest = _hour(now), _hour(now, _KEPT)
        if hour > self._swept:
            self._swept = hour
            self._sweep(oldest)
        for key in keys:
            hours = self._of(key).hours
            hours.setdefault(hour, Amounts()).add(more)
            self.changed.add((key, hour))
            if self.shared is not None:
                self.shared.counted(key, hour, more)
            for old in [each for each in hours if each < oldest]:
                del hours[old]

    def _sweep(self, oldest: str) -> None:
        """Drop contexts and trunks without a live call or an hour since `oldest`."""
        for key, usage in [*self._by_key.items()]:
            if key[1] != "caller" and not usage.live and max(usage.hours, default="") < oldest:
                del self._by_key[key]

    def _of(self, key: Key) -> Usage:
        usage = self._by_key.get(key)
        if usage is None:
            usage = self._by_key[key] = Usage()
            self.dropped.discard(key)
            if key[1] == "caller":
                self._callers += 1
                if self._callers > MOST_CALLERS:
                    self._drop_oldest_caller()
        else:
            self._by_key.move_to_end(key)
        return usage

    def _drop_oldest_caller(self) -> None:
        """Drop the caller without calls for the longest time; one who talks is kept."""
        found = (key for key, each in self._by_key.items() if key[1] == "caller" and not each.live)
        oldest = next(found)  # at the latest the one who was just added
        del self._by_key[oldest]
        self._callers -= 1
        self.dropped.add(oldest)
        if self.shared is not None:
            self.shared.forgotten(oldest)
        if self._numbers is not None:
            self._numbers.pop(oldest[2], None)

    def _digest(self, caller: str) -> str:
        return digest_of(caller, self.salt)


def digest_of(caller: str, salt: bytes) -> str:
    """Return the keyed digest under which a caller is counted."""
    return hashlib.blake2b(caller.encode(), key=salt, digest_size=16).hexdigest()


def _hour(at: datetime.datetime, before: datetime.timedelta = datetime.timedelta()) -> str:
    """Return the name of the hour of the local clock, so long `before`."""
    return _name(at.replace(minute=0, second=0, microsecond=0), before)


def _name(at: datetime.datetime, before: datetime.timedelta = datetime.timedelta()) -> str:
    return _named(at, at.fold, before)


@functools.lru_cache(maxsize=64)
def _named(at: datetime.datetime, fold: int, before: datetime.timedelta) -> str:
    """Cached: an act asks for the same few names a dozen times. `fold` tells two hours of the day
    on which clocks are set back, which are equal."""
    return f"{at.astimezone(datetime.UTC) - before:%Y-%m-%dT%H:%M}"
