"""The rollups in the index: counts and histograms by hour, day and month, beside the calls.

Each call's numbers are kept too, so that a call can be taken out again when its ledger changes or
is erased: additions and subtractions of whole numbers leave no trace, and rollups that have grown
are equal to rebuilt ones.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    select,
)
from sqlalchemy.types import TypeEngine

from cordboard.history.histogram import decode, encode
from cordboard.history.measured import Cell, Measured, decode_measured
from cordboard.history.series import (
    CELL,
    MEASURES,
    CountedCell,
    Series,
    SeriesQuery,
    answer,
    stored_names,
)

COUNTS = "counts"
_HOURS, _DAYS, _MONTHS = 0, 1, 2
_SPANS = {"hour": _HOURS, "day": _DAYS, "month": _MONTHS}
_BREATH = 50
"""Calls that are decoded without a pause: 1 ms. Python's threads take turns each 5 ms, and the
sound of live calls is in another one."""
_CELLS = 500
"""Cells that are added without a pause, for the same reason."""
_AT_ONCE = 500
"""Values in one list of a statement."""

_Place: TypeAlias = tuple[int, int, str, str, str, str]
"""Span; its hour, date, or first date of the month; the columns of `CELL`."""
_Sums: TypeAlias = dict[_Place, dict[str, dict[Any, int]]]
"""Counts and histograms to add, by cell and name."""


class Rollups:
    """The tables, and what is done with them in the transactions of a store."""

    def __init__(
        self, metadata: MetaData, calls: Table, text: TypeEngine[str], number: TypeEngine[int]
    ) -> None:
        """`calls` is the table of calls; `text` and `number` are the types of its columns."""
        self._calls = calls
        self._measured = Table(
            "cordboard_measured",
            metadata,
            Column("call", number, primary_key=True, autoincrement=False),
            Column("ended_ms", BigInteger, nullable=False, index=True),
            Column("hour", Integer, nullable=False),
            Column("day", Integer, nullable=False),
            *(Column(name, text, nullable=False) for name in CELL),
            Column("body", text, nullable=False),
        )
        self._cells = Table(
            "cordboard_cell",
            metadata,
            Column("cell", number, primary_key=True, autoincrement=False),
            Column("span", Integer, nullable=False),
            Column("at", Integer, nullable=False),
            *(Column(name, text, nullable=False) for name in CELL),
        )
        Index("cordboard_cell_place", self._cells.c.span, self._cells.c.at)
        self._bodies = Table(
            "cordboard_rollup",
            metadata,
            Column("name", text, primary_key=True),
            Column("cell", number, primary_key=True, autoincrement=False),
            Column("body", LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that lose rows when calls are removed."""
        return self._measured, self._cells, self._bodies

    # Writing.

    def take_out(self, connection: Connection, numbers: Sequence[int]) -> None:
        """Subtract calls, by their numbers in the index."""
        measured = self._measured.c
        of_these = measured.call.in_(numbers)
        rows = connection.execute(select(self._measured).where(of_these)).all()
        connection.execute(delete(self._measured).where(of_these))
        self._add(connection, [_measured_in(row) for row in rows], -1)

    def put_in(self, connection: Connection, calls: Sequence[tuple[int, Measured]]) -> None:
        """Add calls with their numbers in the index."""
        if not calls:
            return
        rows = [
            {
                "call": number,
                "ended_ms": each.ended_ms,
                "hour": each.cell.hour,
                "day": each.cell.day,
                **{name: getattr(each.cell, name) for name in CELL},
                "body": each.encode(),
            }
            for number, each in calls
        ]
        connection.execute(insert(self._measured), rows)
        self._add(connection, [each for _, each in calls], 1)

    def _add(self, connection: Connection, calls: Iterable[Measured], sign: int) -> None:
        wanted = _sums(calls, sign)
        if not wanted:
            return
        places = self._ids_of(connection, wanted)
        ids = list(places.values())
        rows: list[dict[str, Any]] = []
        bodies: dict[int, dict[str, bytes]] = {}
        for begin in range(0, len(ids), _AT_ONCE):
            some = self._bodies.c.cell.in_(ids[begin : begin + _AT_ONCE])
            for row in connection.execute(select(self._bodies).where(some)):
                bodies.setdefault(row.cell, {})[row.name] = row.body
            connection.execute(delete(self._bodies).where(some))
        empty = []
        for place, cell in places.items():
            found = list(_added(bodies.get(cell, {}), wanted[place]))
            rows += [{"name": name, "cell": cell, "body": body} for name, body in found]
            if not found:
                empty.append(cell)
        if rows:
            connection.execute(insert(self._bodies), rows)
        for begin in range(0, len(empty), _AT_ONCE):
            some = self._cells.c.cell.in_(empty[begin : begin + _AT_ONCE])
            connection.execute(delete(self._cells).where(some))

    def _ids_of(self, connection: Connection, wanted: Iterable[_Place]) -> dict[_Place, int]:
        """Return the numbers of cells; missing ones are added."""
        table, found = self._cells.c, dict.fromkeys(wanted, 0)
        for span in (_HOURS, _DAYS, _MONTHS):
            at = sorted({place[1] for place in found if place[0] == span})
            for begin in range(0, len(at), _AT_ONCE):
                some = and_(table.span == span, table.at.in_(at[begin : begin + _AT_ONCE]))
                for cell, *values in connection.execute(select(self._cells).where(some)):
                    if (place := tuple(values)) in found:
                        found[place] = cell
        number = connection.scalar(select(func.max(table.cell))) or 0
        names = ("cell", "span", "at", *CELL)
        new = []
        for place, cell in found.items():
            if not cell:
                number += 1
                found[place] = number
                new.append(dict(zip(names, (number, *place), strict=True)))
        if new:
            connection.execute(insert(self._cells), new)
        return found

    # Reading.

    def series(self, connection: Connection, query: SeriesQuery) -> Series:
        """Return the answer to a query. Raises `HistoryError`."""
        return answer(query, self._cells_of(connection, query, stored_names(query, query.check())))

    def totals(self, connection: Connection, query: SeriesQuery) -> dict[str, Series]:
        """Return the whole of each measure, with the period and filters of a query. Raises
        `HistoryError`."""
        queries = {name: replace(query, measure=name, step="whole", by="") for name in MEASURES}
        names = {name for each in queries.values() for name in stored_names(each, each.check())}
        cells = self._cells_of(connection, queries["calls"], names)
        counts = cells[COUNTS]
        if counts:  # decoded once, not once for each measure
            cells[COUNTS] = [CountedCell(counts[0].at, "", _total(each.body for each in counts))]
        return {name: answer(each, cells) for name, each in queries.items()}

    def _cells_of(
        self, connection: Connection, query: SeriesQuery, names: Collection[str]
    ) -> dict[str, list[CountedCell]]:
        chosen = self._chosen(connection, query, query.edges())
        cells: dict[str, list[CountedCell]] = {name: [] for name in names}
        rows = connection.execute(chosen.where(self._bodies.c.name.in_(names))).all()
        for name, *values in rows:
            cells[name].append(CountedCell(*values))
        return cells

    def _chosen(
        self, connection: Connection, query: SeriesQuery, edges: Sequence[int]
    ) -> Select[Any]:
        cells, bodies = self._cells.c, self._bodies.c
        by = cells[query.by] if query.by in CELL else literal("")
        chosen = select(bodies.name, cells.at, by.label("by"), bodies.body)
        chosen = chosen.join_from(self._cells, self._bodies, bodies.cell == cells.cell)
        found = [cells.span == _SPANS[query.span], cells.at >= edges[0], cells.at < edges[-1]]
        found += [
            cells[name].in_(sorted(allowed)) for name in CELL if (allowed := query.allowed(name))
        ]
        if query.covers is not None:
            contexts = connection.scalars(select(cells.context).distinct()).all()
            within = [context for context in contexts if query.covers(context)]
            found.append(cells.context.in_(within))
        return chosen.where(*found)

    def recent(
        self, connection: Connection, since_ms: int, which: ColumnElement[bool]
    ) -> list[tuple[str, Measured]]:
        """Return those of `which` calls that have ended since then: ids and numbers."""
        measured = self._measured.c
        chosen = select(self._calls.c.id, self._measured)
        chosen = chosen.join_from(
            self._measured, self._calls, self._calls.c.number == measured.call
        )
        chosen = chosen.where(measured.ended_ms >= since_ms, measured.kind == "call", which)
        found = []
        for number, row in enumerate(connection.execute(chosen.order_by(measured.ended_ms))):
            found.append((row.id, _measured_in(row)))
            if number % _BREATH == 0:
                time.sleep(0.001)
        return found


def _measured_in(row: Any) -> Measured:
    cell = Cell(row.hour, row.day, **{name: getattr(row, name) for name in CELL})
    return decode_measured(cell, row.ended_ms, row.body)


def _sums(calls: Iterable[Measured], sign: int) -> _Sums:
    found: _Sums = {}
    for call in calls:
        cell = call.cell
        names = (cell.context, cell.provider, cell.version, cell.kind)
        month = datetime.date.fromordinal(cell.day).replace(day=1).toordinal()
        parts: dict[str, Mapping[Any, int]] = {COUNTS: call.counts, **call.waits}
        for span, at in ((_HOURS, cell.hour), (_DAYS, cell.day), (_MONTHS, month)):
            into = found.setdefault((span, at, *names), {})
            for name, counts in parts.items():
                total = into.setdefault(name, {})
                for key, count in counts.items():
                    total[key] = total.get(key, 0) + sign * count
    return found


def _total(bodies: Iterable[bytes]) -> bytes:
    """Return the sum of counts, as they are stored."""
    total: dict[str, int] = {}
    for number, body in enumerate(bodies):
        for key, count in orjson.loads(body).items():
            total[key] = total.get(key, 0) + count
        if number % _CELLS == 0:
            time.sleep(0.001)
    return orjson.dumps(total)


def _added(
    before: Mapping[str, bytes], more: Mapping[str, Mapping[Any, int]]
) -> Iterable[tuple[str, bytes]]:
    """Yield the bodies of a cell after an addition; what has become empty is left out."""
    for name in {**before, **more}:
        body = before.get(name, b"")
        if name not in more:
            yield name, body
            continue
        is_counts = name == COUNTS
        total: dict[Any, int] = orjson.loads(body or b"{}") if is_counts else decode(body)
        for key, count in more[name].items():
            total[key] = total.get(key, 0) + count
        if kept := {key: count for key, count in total.items() if count}:
            yield name, orjson.dumps(kept) if is_counts else encode(kept)
