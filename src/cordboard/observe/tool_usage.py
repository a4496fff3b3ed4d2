"""Usage of tools: counts and waits by day, context and tool, for `GET /tools/usage`. Pure.

`ToolUsage.record` is called for each answer of a desk, on the event loop: a few dictionary
look-ups, independent of earlier counts. Waits go into fixed buckets, each a fifth longer than the
one before it: p50 and p95 are off by less than that, and those of several days follow from the sums
of buckets, which averages of percentiles could not give. Memory holds only today and days that are
not yet on disk: the files are `cordboard.observe.tool_usage_files`.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

SCHEMA = 1
"""Version of the format of `as_json`, bucket bounds included."""
STATUSES = ("ok", "error", "timeout", "refused", "cancelled")
MOST_CELLS = 2_000
"""Pairs of context and tool that are counted separately on one day."""
OTHER_TOOLS = "other"
"""Stands for further tools of a context."""
_GROWTH = 1.2
_LONGEST_MS = 600_000
"""Longest timeout of a tool."""


def _bounds() -> tuple[float, ...]:
    bounds = [1.0]
    while bounds[-1] < _LONGEST_MS:
        bounds.append(bounds[-1] * _GROWTH)
    return tuple(bounds)


BOUNDS_MS = _bounds()
"""Upper bounds of the buckets; longer waits count in the last."""


@dataclass(slots=True)
class Cell:
    """Counts of one tool in one context on one day."""

    counts: Counter[str] = field(default_factory=Counter)
    """Answers by status."""
    cached: int = 0
    """Answers among these that ran nothing."""
    buckets: Counter[int] = field(default_factory=Counter)
    """Bucket → answers. Refusals and cached answers do not count: they are not waits."""
    longest_ms: int = 0

    def take(self, status: str, milliseconds: int, source: str) -> None:
        """Count one answer."""
        self.counts[status] += 1
        if source == "cache":
            self.cached += 1
        elif status != "refused":
            self.buckets[min(bisect_left(BOUNDS_MS, milliseconds), len(BOUNDS_MS) - 1)] += 1
            self.longest_ms = max(self.longest_ms, milliseconds)

    def add(self, other: Cell) -> None:
        """Add the counts of another cell."""
        self.counts += other.counts
        self.cached += other.cached
        self.buckets += other.buckets
        self.longest_ms = max(self.longest_ms, other.longest_ms)

    def percentile_ms(self, share: float) -> int | None:
        """Return the wait that this share (0 to 1) did not exceed; None without any wait."""
        total = self.buckets.total()
        if not total:
            return None
        rank, before = share * total, 0
        for bucket in sorted(self.buckets):
            inside = self.buckets[bucket]
            if before + inside >= rank:
                low = BOUNDS_MS[bucket - 1] if bucket else 0.0
                found = low + (BOUNDS_MS[bucket] - low) * (rank - before) / inside
                return min(round(found), self.longest_ms)
            before += inside
        return self.longest_ms

    def figures(self) -> dict[str, Any]:
        """Return the figures of a report."""
        counts = self.counts
        return {
            "calls": counts.total(),
            "ok": counts["ok"],
            "errors": counts["error"],
            "timeouts": counts["timeout"],
            "refused": counts["refused"],
            "cancelled": counts["cancelled"],
            "cached": self.cached,
            "p50_ms": self.percentile_ms(0.5),
            "p95_ms": self.percentile_ms(0.95),
            "longest_ms": self.longest_ms,
        }


Cells: TypeAlias = dict[tuple[str, str], Cell]
"""(context, tool) → counts."""


class ToolUsage:
    """The days that are being counted."""

    def __init__(self, today: Callable[[], datetime.date] = datetime.date.today) -> None:
        self._today = today
        self._days: dict[datetime.date, Cells] = {}
        self.changed: set[datetime.date] = set()
        """Days with answers that are not on disk yet; the writer removes them."""

    @property
    def today(self) -> datetime.date:
        """The day that is counted now, in local time."""
        return self._today()

    def record(
        self, context: str, tool: str, status: str, seconds: float, source: str = "run"
    ) -> None:
        """Count one answer. Names come from the configuration and the toolboxes, never from an
        agent; `source` is that of `ToolReply`."""
        day = self._today()
        cells = self._days.setdefault(day, {})
        key = (context, tool)
        if key not in cells and len(cells) >= MOST_CELLS:
            key = (context, OTHER_TOOLS)
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell()
        cell.take(status, max(0, round(seconds * 1000)), source)
        self.changed.add(day)

    def day(self, day: datetime.date) -> Cells:
        """Return a copy of a day's counts."""
        copied: Cells = {}
        for key, cell in self._days.get(day, {}).items():
            copied[key] = Cell()
            copied[key].add(cell)
        return copied

    def days(self) -> tuple[datetime.date, ...]:
        """The days in memory."""
        return tuple(self._days)

    def begin_with(self, day: datetime.date, cells: Cells) -> None:
        """Continue from the counts of an earlier engine on that day."""
        own = self._days.setdefault(day, {})
        for key, cell in cells.items():
            own.setdefault(key, Cell()).add(cell)

    def forget(self, day: datetime.date) -> None:
        """Drop a day that is over and on disk."""
        if day != self._today() and day not in self.changed:
            self._days.pop(day, None)


def report(
    days: Mapping[datetime.date, Cells],
    first: datetime.date,
    last: datetime.date,
    context: str | None = None,
    covers: Callable[[str], bool] = lambda _: True,
) -> dict[str, Any]:
    """Return the report: the rows of these days, and each tool over all of them, with the last day
    of its use. Contexts that `covers` refuses do not count."""
    rows: list[dict[str, Any]] = []
    totals: dict[str, Cell] = {}
    last_days: dict[str, str] = {}
    for day in sorted(days):
        for (where, tool), cell in sorted(days[day].items()):
            if context in (None, where) and covers(where):
                row = {"day": day.isoformat(), "context": where, "tool": tool}
                rows.append(row | cell.figures())
                totals.setdefault(tool, Cell()).add(cell)
                last_days[tool] = day.isoformat()
    return {
        "from": first.isoformat(),
        "to": last.isoformat(),
        "context": context,
        "tools": [
            {"tool": tool, **totals[tool].figures(), "last_day": last_days[tool]}
            for tool in sorted(totals)
        ],
        "rows": rows,
    }


def as_json(day: datetime.date, cells: Cells) -> dict[str, Any]:
    """Return a day in the format of its file."""
    return {
        "schema": SCHEMA,
        "day": day.isoformat(),
        "tools": [
            {
                "context": context,
                "tool": tool,
                **{status: cell.counts[status] for status in STATUSES},
                "cached": cell.cached,
                "longest_ms": cell.longest_ms,
                "buckets": {str(bucket): cell.buckets[bucket] for bucket in sorted(cell.buckets)},
            }
            for (context, tool), cell in cells.items()
        ],
    }


def from_json(content: Any) -> Cells:
    """Read a day from its file's content. Raises `ValueError` for another format."""
    try:
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']!r}, expected {SCHEMA}")
        cells: Cells = {}
        for entry in content["tools"]:
            buckets = {int(bucket): int(count) for bucket, count in entry["buckets"].items()}
            if any(not 0 <= bucket < len(BOUNDS_MS) for bucket in buckets):
                raise ValueError("a bucket that does not exist")
            cells[str(entry["context"]), str(entry["tool"])] = Cell(
                Counter({status: int(entry[status]) for status in STATUSES if entry[status]}),
                int(entry["cached"]),
                Counter(buckets),
                int(entry["longest_ms"]),
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a day of tool usage: {error!r}") from None
    return cells
