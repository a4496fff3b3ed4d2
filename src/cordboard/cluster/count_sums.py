"""The sums of what the other nodes of a cluster have counted.

They change with the messages of the nodes, so that a question takes the same time however many
nodes there are. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.cluster.limit_wire import Counted
from cordboard.firewall.counts import Amounts, Key, Window


@dataclass(slots=True)
class _Hour(Amounts):
    """Sum of an hour."""

    entries: int = 0
    """Number of the entries that it is made of."""


class _Sums:
    """The sums of one key."""

    __slots__ = ("_day", "_hour", "_hour_before", "_of", "hours")

    def __init__(self) -> None:
        self.hours: dict[str, _Hour] = {}
        self._of = "", ""
        """Midnight and hour of the sums that follow; empty: they are to be made."""
        self._day = Amounts()
        self._hour = self._hour_before = 0

    def change(self, hour: str, amounts: Amounts, sign: int) -> None:
        """Add (1) or take away (-1) the amounts of an entry."""
        found = self.hours.setdefault(hour, _Hour())
        found.entries += sign
        found.calls += sign * amounts.calls
        found.seconds += sign * amounts.seconds
        found.cost += sign * amounts.cost
        if not found.entries:
            del self.hours[hour]
        self._of = "", ""

    def within(self, window: Window) -> tuple[Amounts, float]:
        """Return the sums of the day, and the calls within 60 minutes."""
        if self._of != (window.midnight, window.this_hour):
            self._of = window.midnight, window.this_hour
            self._day, self._hour, self._hour_before = Amounts(), 0, 0
            for hour, amounts in self.hours.items():
                if hour >= window.midnight:
                    self._day.add(amounts)
                if hour >= window.this_hour:
                    self._hour += amounts.calls
                elif hour >= window.last_hour:
                    self._hour_before += amounts.calls
        return self._day, self._hour + self._hour_before * window.of_last_hour


class CountSums:
    """The entries of all other nodes, and their sums."""

    def __init__(self) -> None:
        self._entries: dict[str, Counted] = {}
        self._sums: dict[Key, _Sums] = {}

    def names(self) -> set[str]:
        """Return the names of the entries."""
        return {*self._entries}

    def within(self, key: Key, window: Window) -> tuple[Amounts, float]:
        """Return the sums of a key in the window's day, and its calls within 60 minutes. Do not
        change them."""
        sums = self._sums.get(key)
        return _NOTHING if sums is None else sums.within(window)

    def replace(self, name: str, counted: Counted | None) -> None:
        """Let an entry have these counts; None: it is gone."""
        former = self._entries.pop(name, None)
        if counted is not None:
            self._entries[name] = counted
        self._change(former, counted, -1)
        self._change(counted, former, 1)

    def _change(self, counted: Counted | None, other: Counted | None, sign: int) -> None:
        """Add or take away the rows of an entry that its other state does not have."""
        if counted is None:
            return
        same = other.rows if other is not None and other.hour == counted.hour else {}
        for key, amounts in counted.rows.items():
            if same.get(key) != amounts:
                sums = self._sums.setdefault(key, _Sums())
                sums.change(counted.hour, amounts, sign)
                if not sums.hours:
                    del self._sums[key]


_NOTHING = Amounts(), 0.0
