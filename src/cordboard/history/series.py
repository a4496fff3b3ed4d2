"""Measures of calls over time: their definitions, queries, and the answer from counted cells. Pure.

A query of hours reads the cells of hours (UTC), one of months those of months, any other those of
days, both by the date in the ledger.
`whole` is one point, of hours if the period is short, else of days.
Points are added up from cells: counts and histograms can be added, so that shares and percentiles
of a month are exact (percentiles within 2.5 %).
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from cordboard.errors import HistoryError
from cordboard.history.histogram import bucket_of, dense, percentile, sums
from cordboard.history.measured import KINDS, MILLION, STAGES, Measured

DEFAULT_DAYS = 30
"""Days of a query that names no beginning."""
MOST_POINTS = 1_000
MOST_LINES = 50
"""Lines of one answer; those with the fewest calls are left out."""
HOUR_MS = 3_600_000

Step: TypeAlias = Literal["hour", "day", "week", "month", "whole"]
STEPS: tuple[Step, ...] = ("hour", "day", "week", "month", "whole")
Span: TypeAlias = Literal["hour", "day", "month"]
SHORT_MS = 4 * 24 * HOUR_MS
"""Longest period of `whole` that is counted by hours."""
CELL = ("context", "provider", "version", "kind")
"""Columns of a cell by which lines can be separated."""
PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: a count, a ratio of two, or percentiles."""

    about: str
    unit: str
    counts: str = ""
    """Name of the count, or family of counts; empty for percentiles."""
    over: str = ""
    """Count by which it is divided; `time`: by the duration of the point."""
    waits: tuple[str, ...] = ()
    """Histograms of which it has percentiles."""
    keyed: str = ""
    """Meaning of the keys of a family, such as `tool`: lines can be separated by it."""
    calls: Mapping[str, str] = field(default_factory=dict)
    """Filters of the call history that find the calls behind a point."""
    key_filter: str = ""
    """Filter of the call history that takes the key."""
    divided_by: float = 1.0
    """Divides the count: costs are counted in millionths."""


MEASURES: Mapping[str, Measure] = {
    "calls": Measure("Calls that have ended.", "calls", "calls"),
    "outcomes": Measure(
        "Calls by outcome.", "calls", "outcome", keyed="outcome", key_filter="outcome"
    ),
    "refused": Measure(
        "Offers that did not become calls, by reason.",
        "offers",
        "refused",
        keyed="reason",
        calls={"outcome": "refused"},
        key_filter="reason",
    ),
    "containment": Measure(
        "Share of calls that the agent served to the end: outcome `completed`, the caller spoke, "
        "and either side hung up, but not a caller who was waiting. Of all calls but those that "
        "the engine's end has cut (`shutdown`, `killed`) or that were not answered "
        "(`not_reached`).",
        "share",
        "contained",
        over="judged",
    ),
    "abandonment": Measure(
        "Share of calls in which the caller hung up while waiting for the first sound or an "
        "answer.",
        "share",
        "abandoned",
        over="calls",
        calls={"reason": "caller_hangup"},
    ),
    "transfers": Measure(
        "Transfers that were made, by destination.",
        "transfers",
        "transfer",
        keyed="destination",
        calls={"outcome": "transferred"},
    ),
    "turns": Measure("Turns in which the caller spoke.", "turns", "turns"),
    "interruptions": Measure(
        "Answers that the caller interrupted.",
        "answers",
        "interruptions",
        calls={"interrupted": "yes"},
    ),
    "pauses": Measure(
        "Pauses of the agent for a voice that was no interruption, by cause.",
        "pauses",
        "pause",
        keyed="cause",
    ),
    "silences": Measure("Silences that were too long, by kind.", "silences", "silence", keyed="of"),
    "troubles": Measure(
        "Failures of parts, by part.", "failures", "trouble", keyed="part", key_filter="trouble"
    ),
    "tools": Measure("Tool calls, by tool.", "tool calls", "tool", keyed="tool", key_filter="tool"),
    "tool_failures": Measure(
        "Tool calls that failed or timed out, by tool.",
        "tool calls",
        "tool_failed",
        keyed="tool",
        key_filter="tool_failed",
    ),
    "tool_failure_share": Measure(
        "Share of tool calls that failed or timed out.",
        "share",
        "tool_failed",
        over="tool",
        keyed="tool",
        key_filter="tool_failed",
    ),
    "cost": Measure(
        "Cost of services with a price, by part.",
        "money",
        "cost",
        keyed="part",
        divided_by=MILLION,
    ),
    "cost_per_contained": Measure(
        "Cost of all calls, divided by the contained ones.",
        "money",
        "cost",
        over="contained",
        divided_by=MILLION,
    ),
    "concurrency": Measure(
        "Average of simultaneous calls; a call counts where it began.",
        "calls",
        "talk_ms",
        over="time",
    ),
    "wait": Measure(
        "The caller's wait for a first sound, by stage.", "ms", waits=STAGES, keyed="stage"
    ),
    "answer_wait": Measure(
        "The caller's wait for the answer; fillers do not count.", "ms", waits=("answer",)
    ),
    "tool_time": Measure("Duration of tool calls.", "ms", waits=("tool",)),
    "duration": Measure("Duration of calls.", "ms", waits=("duration",)),
}


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """A measure over time."""

    measure: str
    begin_ms: int
    """ms since 1970; with steps of days or more its date counts."""
    end_ms: int
    """The moment after the last one."""
    step: Step = "day"
    by: str = ""
    """A name of `CELL`, or the measure's `keyed`; empty: one line for all."""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Allowed values by name of `CELL`, or of the measure's `keyed`. Without `kind`: `call`."""
    covers: Callable[[str], bool] | None = None
    """True for the contexts that exist for the person who asks; None: all, and refused offers."""

    def check(self) -> Measure:
        """Return the measure. Raises `HistoryError` for a query that has no answer."""
        measure = MEASURES.get(self.measure)
        if measure is None:
            raise HistoryError(
                f"there is no measure {self.measure!r}; expected one of {', '.join(MEASURES)}"
            )
        if self.step not in STEPS:
            raise HistoryError(f"step: expected one of {', '.join(STEPS)}, found {self.step!r}")
        known = (*CELL, measure.keyed) if measure.keyed else CELL
        for name in (*filter(None, [self.by]), *self.only):
            if name not in known:
                place = "by" if name == self.by else "filter"
                raise HistoryError(f"{place}: expected one of {', '.join(known)}, found {name!r}")
        if not self.allowed("kind") <= set(KINDS):
            raise HistoryError(f"kind: expected one of {', '.join(KINDS)}")
        if self.end_ms <= self.begin_ms:
            raise HistoryError("to: expected a time after `from`")
        return measure

    def allowed(self, name: str) -> frozenset[str]:
        """Return the allowed values of a column of cells; empty for all."""
        return self.only.get(name, frozenset({"call"} if name == "kind" else ()))

    @property
    def span(self) -> Span:
        """The cells that it reads."""
        if self.step == "whole":
            return "hour" if self.end_ms - self.begin_ms <= SHORT_MS else "day"
        return self.step if self.step in ("hour", "month") else "day"

    def edges(self) -> list[int]:
        """Return the beginnings of the points, and the end of the last one: hours since 1970, or
        ordinals of dates. Raises `HistoryError` for too many."""
        found = list(_limited(self._edges()))
        if len(found) > MOST_POINTS + 1:
            raise HistoryError(f"step: expected one that makes at most {MOST_POINTS} points")
        return found

    def _edges(self) -> Iterator[int]:
        at, last = _date_of(self.begin_ms), _date_of(self.end_ms - 1)
        if self.span == "hour":
            begin, end = self.begin_ms // HOUR_MS, -(-self.end_ms // HOUR_MS)
            yield from range(begin, end + 1, end - begin if self.step == "whole" else 1)
            return
        if self.step == "whole":
            yield from (at.toordinal(), last.toordinal() + 1)
            return
        if self.step == "week":
            at -= datetime.timedelta(days=at.weekday())
        elif self.step == "month":
            at = at.replace(day=1)
        while at <= last:
            yield at.toordinal()
            at = _next(at, self.step)
        yield at.toordinal()


def _limited(edges: Iterable[int]) -> Iterator[int]:
    for number, edge in enumerate(edges):
        yield edge
        if number > MOST_POINTS:
            return


def _date_of(ms: int) -> datetime.date:
    try:
        found = datetime.datetime.fromtimestamp(ms / 1000).astimezone().date()
    except (OverflowError, ValueError, OSError):
        raise HistoryError(f"expected a time between 1970 and 9000, found {ms} ms") from None
    if not 1970 <= found.year <= 9000:
        raise HistoryError(f"expected a time between 1970 and 9000, found {found}")
    return found


def _next(at: datetime.date, step: Step) -> datetime.date:
    if step == "month":
        return (at + datetime.timedelta(days=32)).replace(day=1)
    return at + datetime.timedelta(days=7 if step == "week" else 1)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart: a value at each point, None where nothing was counted."""

    key: str
    """Value of `by`; of a cost, its currency comes first, as in `EUR acme`."""
    stat: str
    """`count`, `share`, `rate`, or the percentile."""
    unit: str
    values: tuple[float | None, ...]
    samples: tuple[int, ...]
    """Number of calls, turns or tool calls behind each value."""
    calls: Mapping[str, str]
    """Filters of the call history that find the calls behind the line; those of a point have
    `since` and `until` of `Series.t` besides."""


@dataclass(frozen=True, slots=True)
class Series:
    """The answer to a query."""

    t: tuple[str, ...]
    """Beginnings of the points, and the end of the last one: ISO 8601 times, or dates."""
    lines: tuple[Line, ...]
    left_out: int = 0
    """Lines that were left out."""


class CountedCell(NamedTuple):
    """Counts or one histogram of a cell, as they are stored."""

    at: int
    """As in `SeriesQuery.edges`."""
    by: str
    """Value of the column of `SeriesQuery.by`; empty if it is not one of `CELL`."""
    body: bytes


def answer(query: SeriesQuery, cells: Mapping[str, Sequence[CountedCell]]) -> Series:
    """Return the answer from the stored cells, by name of what they hold: `counts` or a
    histogram."""
    measure, edges = query.check(), query.edges()
    times = tuple(_time(edge, query.span) for edge in edges)
    if measure.waits:
        lines = list(_percentile_lines(query, measure, edges, cells))
    else:
        lines = list(_count_lines(query, measure, edges, cells.get("counts", ())))
    size = {id(line): sum(line.samples) for line in lines}
    lines.sort(key=lambda line: (-size[id(line)], line.key))
    shown = sorted(lines[:MOST_LINES], key=lambda line: (line.key, line.stat))
    return Series(times, tuple(shown), len(lines) - len(shown))


def _time(edge: int, span: Span) -> str:
    if span != "hour":
        return datetime.date.fromordinal(edge).isoformat()
    return datetime.datetime.fromtimestamp(edge * 3600).astimezone().isoformat()


def stored_names(query: SeriesQuery, measure: Measure) -> tuple[str, ...]:
    """Return the names of what a query needs of each cell."""
    if not measure.waits:
        return ("counts",)
    asked = query.only.get("stage")
    if query.by == "stage" or asked:
        return tuple(name for name in measure.waits if not asked or name in asked)
    return measure.waits[:1]


def _percentile_lines(
    query: SeriesQuery,
    measure: Measure,
    edges: Sequence[int],
    cells: Mapping[str, Sequence[CountedCell]],
) -> Iterator[Line]:
    count = len(edges) - 1
    for name in stored_names(query, measure):
        found = cells.get(name, ())
        keys = sorted({cell.by for cell in found})
        row = {key: number * count for number, key in enumerate(keys)}
        groups = [row[cell.by] + bisect_right(edges, cell.at) - 1 for cell in found]
        table = sums([cell.body for cell in found], groups, len(keys) * count)
        for key in keys:
            counts = table[row[key] : row[key] + count]
            samples = tuple(int(each) for each in counts.sum(axis=1))
            shown = name if query.by == "stage" else key
            for stat, share in PERCENTILES.items():
                values = tuple(_rounded(counts[point], share) for point in range(count))
                behind = _behind(query, measure, shown)
                yield Line(shown, stat, measure.unit, values, samples, behind)


def _rounded(counts: NDArray[np.int64], share: float) -> float | None:
    found = percentile(counts, share)
    return None if found is None else round(found, 1)


def _count_lines(
    query: SeriesQuery, measure: Measure, edges: Sequence[int], cells: Sequence[CountedCell]
) -> Iterator[Line]:
    count = len(edges) - 1
    upper: defaultdict[str, Counter[int]] = defaultdict(Counter)
    lower: defaultdict[str, Counter[int]] = defaultdict(Counter)
    begins = (measure.counts, measure.over) if measure.over else (measure.counts,)
    for cell in cells:
        point = bisect_right(edges, cell.at) - 1
        for name, value in orjson.loads(cell.body).items():
            if not name.startswith(begins):  # nearly all of them
                continue
            family, _, key = name.partition("/")
            if family == measure.counts and (shown := _key(query, measure, cell, key)) is not None:
                upper[shown][point] += value
            if family == measure.over and (shown := _key(query, measure, cell, key)) is not None:
                lower[shown][point] += value
    lengths = _lengths(edges, query.span)
    for key in sorted(upper.keys() | (lower.keys() if measure.counts != "cost" else set())):
        counted = upper.get(key, Counter())
        over = lower.get(_without_currency(measure, key), Counter())
        values: tuple[float | None, ...]
        if measure.over == "time":
            stat = "rate"
            values = tuple(round(counted[at] / lengths[at], 6) for at in range(count))
        elif measure.over:
            stat = "rate" if measure.unit == "money" else "share"
            values = tuple(
                round(counted[at] / measure.divided_by / over[at], 6) if over[at] else None
                for at in range(count)
            )
        else:
            stat = "count"
            values = tuple(counted[at] / measure.divided_by for at in range(count))
        samples = over if measure.over not in ("", "time") else counted
        unit = key.partition(" ")[0] if measure.unit == "money" else measure.unit
        found = tuple(samples[at] for at in range(count))
        yield Line(key, stat, unit, values, found, _behind(query, measure, key))


def _key(query: SeriesQuery, measure: Measure, cell: CountedCell, key: str) -> str | None:
    """Return the key of the line in which a count belongs; None if it is filtered out."""
    currency = ""
    if measure.counts == "cost" and "/" in key:
        currency, _, key = key.partition("/")
    allowed = query.only.get(measure.keyed) if measure.keyed else None
    if allowed is not None and key not in allowed:
        return None
    shown = key if query.by and query.by == measure.keyed else cell.by
    return f"{currency} {shown}".strip() if currency else shown


def _without_currency(measure: Measure, key: str) -> str:
    return key.partition(" ")[2] if measure.counts == "cost" else key


def _lengths(edges: Sequence[int], span: Span) -> list[int]:
    """Return the duration of each point in ms."""
    unit = HOUR_MS if span == "hour" else 24 * HOUR_MS
    return [(end - begin) * unit for begin, end in pairwise(edges)]


def _behind(query: SeriesQuery, measure: Measure, key: str) -> dict[str, str]:
    found = dict(measure.calls)
    for name in ("context", "provider", "version"):
        if len(query.allowed(name)) == 1:
            (found["config" if name == "version" else name],) = query.allowed(name)
    if query.by in ("context", "provider", "version"):
        found["config" if query.by == "version" else query.by] = key
    keys = {key} if query.by == measure.keyed else query.only.get(measure.keyed, frozenset())
    if measure.key_filter and len(keys) == 1:
        (found[measure.key_filter],) = keys
    return found


def value_of(
    measure: Measure, calls: Iterable[Measured], of: str = "", stat: str = "p95"
) -> tuple[float | None, int]:
    """Return the value of a measure over these calls, and the number of samples behind it; None if
    there is nothing to divide by. `of` is one key, or the stage."""
    if measure.waits:
        name, total = of or measure.waits[0], Counter[int]()
        for call in calls:
            total.update(call.waits.get(name, ()))
        return percentile(dense(total), PERCENTILES[stat]), total.total()
    upper = lower = 0
    for call in calls:
        upper += _counted(call, measure.counts, of)
        lower += _counted(call, measure.over, of if measure.keyed else "")
    if measure.over:
        return (upper / measure.divided_by / lower if lower else None), lower
    return upper / measure.divided_by, upper


def is_behind(measure: Measure, call: Measured, of: str = "", above: float | None = None) -> bool:
    """Return True if a call contributes to a value that is too high (`above`), or too low."""
    if measure.waits:
        least = 0 if above is None else bucket_of(max(above, 0))
        return any(bucket >= least for bucket in call.waits.get(of or measure.waits[0], ()))
    counted = _counted(call, measure.counts, of)
    if above is None and measure.over:
        return _counted(call, measure.over, of if measure.keyed else "") > counted
    return counted > 0


def _counted(call: Measured, family: str, of: str) -> int:
    found = 0
    for name, count in call.counts.items():
        head, _, key = name.partition("/")
        if head == family and (not of or key.rpartition("/")[2] == of):
            found += count
    return found
