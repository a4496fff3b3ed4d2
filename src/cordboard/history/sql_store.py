"""The index of calls in SQLite (default) or PostgreSQL (extra `postgres`), by SQLAlchemy Core.

SQLite: one writer at a time, and readers that continue meanwhile (WAL). The file is 0600. An index
of another version is deleted and made anew: it holds nothing that the ledgers do not hold.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    tuple_,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from cordboard import private_files
from cordboard.errors import ExtraMissing, HistoryError, IndexDamaged, IndexUnavailable
from cordboard.history.full_text import NAME as WORDS
from cordboard.history.full_text import FullText, PostgresText, SqliteText
from cordboard.history.measured import Measured
from cordboard.history.query import (
    COLUMNS,
    MARKS,
    MOST_ROWS,
    CallQuery,
    CallRow,
    Cursor,
    Facets,
    Page,
)
from cordboard.history.rollups import Rollups
from cordboard.history.series import Series, SeriesQuery
from cordboard.history.store import FileState, IndexedFile

VERSION = "4"
"""Version of the tables, and of the rows in them: a change of either needs another number."""
LOCK_SECONDS = 30.0
"""Longest wait of a writer for another one (SQLite)."""
_WRITES = "cordboard_writes"
_UNSCRUBBED = "unscrubbed"
"""Fact that is there until remains of removed files are off the disk."""
_AT_ONCE = 500
"""Values in one list of a statement."""

_metadata = MetaData()
_Text = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by code points in both databases: prefixes and cursors depend on it."""
_Number = BigInteger().with_variant(Integer, "sqlite")

_facts = Table(
    "cordboard_fact", _metadata, Column("name", _Text, primary_key=True), Column("value", _Text)
)
_files = Table(
    "cordboard_file",
    _metadata,
    Column("file", _Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("modified_ns", BigInteger, nullable=False),
    Column("notes_ns", BigInteger, nullable=False),
    Column("is_open", Boolean, nullable=False, index=True),
)
_calls = Table(
    "cordboard_call",
    _metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("id", _Text, nullable=False, index=True),
    Column("file", _Text, nullable=False, index=True),
    Column("started_at", _Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("kind", _Number, nullable=False),
    Column("caller_number", _Text, nullable=False, index=True),
    Column("caller_name", _Text, nullable=False),
    Column("called_number", _Text, nullable=False, index=True),
    Column("duration_ms", BigInteger),
    Column("turns", Integer, nullable=False),
    Column("interruptions", Integer, nullable=False),
    Column("waited_ms", BigInteger),
    Column("cost", Float),
    Column("currency", _Text, nullable=False),
    Column("last4", _Text, nullable=False, index=True),
)
_kinds = Table(
    "cordboard_kind",
    _metadata,
    Column("kind", _Number, primary_key=True, autoincrement=False),
    *(Column(name, _Text, nullable=False) for name in COLUMNS),
)
"""Values of all `COLUMNS` that calls have together. There are few of them: calls that are counted
by the number of their kind take a tenth of the time."""
_labels = Table(
    "cordboard_label",
    _metadata,
    Column("label", _Number, primary_key=True, autoincrement=False),
    Column("kind", _Text, nullable=False),
    Column("value", _Text, nullable=False),
)
"""Values of `MARKS`, for the same reason."""
_marks = Table(
    "cordboard_mark",
    _metadata,
    Column("label", _Number, primary_key=True, autoincrement=False),
    Column("call", _Number, primary_key=True, autoincrement=False, index=True),
    Column("started_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
_rollups = Rollups(_metadata, _calls, _Text, _Number)
Index("cordboard_call_order", _calls.c.started_ms, _calls.c.id, _calls.c.kind)
Index("cordboard_call_facets", _calls.c.kind, _calls.c.started_ms, _calls.c.id)
"""Counting, and sorting the calls of a context, read these indexes alone."""

_CALL = tuple(each.name for each in fields(CallRow) if each.name in _calls.c)
_ROW = (*_CALL, *(name for name in COLUMNS if name not in ("recorded", "interrupted")))
_STATE = tuple(each.name for each in fields(FileState))


class SqlHistoryStore:
    """A `HistoryStore`. Its methods may be called by any thread."""

    def __init__(self, directory: Path, url: str = "") -> None:
        """`directory` is that of the calls: without a `url`, the index is a file in it. Raises
        `HistoryError` for a `url` that is not of PostgreSQL."""
        self._directory = directory
        self._path = None if url else directory / "history" / "index.sqlite3"
        self._url = url
        self._text: FullText = PostgresText() if url else SqliteText()
        self._engine: Engine | None = None
        self._inode = 0
        self._key = b""
        self._damage = ""
        """Damage that a reader has met; the writer may never look there."""
        self._changing = threading.Lock()
        if url:
            _check_url(url)

    def __reduce__(self) -> tuple[type[SqlHistoryStore], tuple[Path, str]]:
        """Return the same index, not yet open, for another process."""
        return SqlHistoryStore, (self._directory, self._url)

    def open(self) -> str:
        with self._changing, _understood():
            if self._damage:
                raise IndexDamaged(self._damage)
            if self._engine is None or self._file_is_gone():
                self._disconnect()
                self._engine = self._connect()
            if self._version(self._engine) != VERSION:
                self._create(self._engine)
            return f"{self._inode} {self._read_key(self._engine)}"

    def recreate(self) -> str:
        with self._changing, _understood():
            self._disconnect()
            self._damage = ""
            with self._alone():
                if self._path is not None:
                    _delete(self._path)
                self._engine = self._connect()
                self._create(self._engine, anew=True)
            return f"{self._inode} {self._read_key(self._engine)}"

    def close(self) -> None:
        with self._changing:
            self._disconnect()

    # Writing.

    def days(self) -> Collection[str]:
        chosen = select(func.substr(_files.c.file, 1, len("2026-11-22"))).distinct()
        with self._reading() as connection:
            return connection.scalars(chosen).all()

    def states(self, day: str) -> Mapping[str, FileState]:
        with self._reading() as connection:
            chosen = select(_files).where(_begins(_files.c.file, f"{day}/"))
            rows = connection.execute(chosen).all()
        return {
            row.file: FileState(row.size, row.modified_ns, row.notes_ns, row.is_open)
            for row in rows
        }

    def open_files(self) -> Collection[str]:
        with self._reading() as connection:
            return connection.scalars(select(_files.c.file).where(_files.c.is_open)).all()

    def put(self, files: Sequence[IndexedFile]) -> Collection[str]:
        with self._writing() as connection:
            left_out = self._misfits(connection, files)
            files = [each for each in files if each.file not in left_out]
            self._remove(connection, [each.file for each in files if not each.after])
            longer = [each.file for each in files if each.after]
            connection.execute(delete(_files).where(_files.c.file.in_(longer)))
            number = connection.scalar(select(func.max(_calls.c.number))) or 0
            rows: list[dict[str, Any]] = []
            kinds: dict[int, dict[str, Any]] = {}
            labels: dict[int, dict[str, Any]] = {}
            marks: list[dict[str, Any]] = []
            words: list[dict[str, Any]] = []
            measured: list[tuple[int, Measured]] = []
            for call in (call for each in files for call in each.calls):
                number += 1
                values = _kind_of(call.row)
                kind = _number_of(values.values())
                kinds[kind] = {"kind": kind, **values}
                rows.append(_values(number, kind, call.row))
                for name, value in call.row.marks():
                    label = _number_of((name, value))
                    labels[label] = {"label": label, "kind": name, "value": value}
                    at = call.row.started_ms
                    marks.append({"label": label, "call": number, "started_ms": at})
                said = (" ".join(call.caller_words), " ".join(call.agent_words))
                if call.measured is not None:
                    measured.append((number, call.measured))
                if any(said):
                    words.append({"call": number, "caller": said[0], "agent": said[1]})
            states = [
                {"file": each.file, **{name: getattr(each.state, name) for name in _STATE}}
                for each in files
            ]
            _add_new(connection, _kinds, kinds)
            _add_new(connection, _labels, labels)
            for target, lines in ((_files, states), (_calls, rows), (_marks, marks)):
                if lines:
                    connection.execute(insert(target), lines)
            if words:
                self._text.add(connection, words)
            _rollups.put_in(connection, measured)
        return left_out

    @staticmethod
    def _misfits(connection: Connection, files: Sequence[IndexedFile]) -> Collection[str]:
        """Return the files of which the index does not have as much as is to be added to."""
        after = {each.file: each.after for each in files if each.after}
        chosen = select(_files.c.file, _files.c.size).where(_files.c.file.in_(after))
        known = {row.file: row.size for row in connection.execute(chosen)} if after else {}
        return {file for file, size in after.items() if known.get(file) != size}

    def remove(self, files: Collection[str]) -> None:
        with self._writing() as connection:
            self._remove(connection, list(files))
            connection.execute(delete(_facts).where(_facts.c.name == _UNSCRUBBED))
            mark = {"name": _UNSCRUBBED, "value": secrets.token_hex(8)}
            connection.execute(insert(_facts), mark)

    def _remove(self, connection: Connection, files: Sequence[str]) -> None:
        for begin in range(0, len(files), _AT_ONCE):
            some = files[begin : begin + _AT_ONCE]
            calls = connection.scalars(select(_calls.c.number).where(_calls.c.file.in_(some))).all()
            for at in range(0, len(calls), _AT_ONCE):
                numbers = calls[at : at + _AT_ONCE]
                self._text.remove(connection, numbers)
                _rollups.take_out(connection, numbers)
                of_marks, of_calls = _marks.c.call.in_(numbers), _calls.c.number.in_(numbers)
                _remove_with_names(connection, _marks.c.label, of_marks, _labels.c.label)
                _remove_with_names(connection, _calls.c.kind, of_calls, _kinds.c.kind)
            connection.execute(delete(_files).where(_files.c.file.in_(some)))

    def needs_scrub(self) -> bool:
        return self._removal() is not None

    def _removal(self) -> str | None:
        """Return a value of the last removal that was not scrubbed."""
        chosen = select(_facts.c.value).where(_facts.c.name == _UNSCRUBBED)
        with self._reading() as connection:
            return connection.scalar(chosen)

    def scrub(self) -> None:
        removal = self._removal()
        self._overwrite_removed()
        with self._writing() as connection:  # not the mark of a removal meanwhile
            mark = _facts.c.name == _UNSCRUBBED, _facts.c.value == removal
            connection.execute(delete(_facts).where(*mark))

    def _overwrite_removed(self) -> None:
        engine = self._opened()
        with _understood():
            if self._path is None:
                with engine.connect() as connection:
                    connection.connection.rollback()  # the pool's ping has begun a transaction
                    connection.execution_options(isolation_level="AUTOCOMMIT")
                    self._text.forget(connection)
                    for each in (_calls, _kinds, _marks, _labels, *_rollups.tables):
                        connection.exec_driver_sql(f"VACUUM (FULL) {each.name}")
                return
            with self._writing() as connection:
                self._text.forget(connection)
            raw = engine.raw_connection()  # VACUUM cannot run in a transaction
            try:
                cursor = raw.cursor()
                cursor.execute("VACUUM")
                busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.close()
        if busy:
            raise IndexUnavailable("the index is in use; remains of removed calls are in its log")

    # Reading.

    def find(self, query: CallQuery, limit: int = 50, cursor: str = "") -> Page:
        if not 1 <= limit <= MOST_ROWS:
            raise HistoryError(f"limit: expected 1 to {MOST_ROWS}, found {limit}")
        place = (_calls.c.started_ms, _calls.c.id)
        order = [each.desc() for each in place]
        with self._reading() as connection:
            # Numbers first: an index alone can filter and sort them, without the rows.
            chosen = select(_calls.c.number).where(*self._conditions(query))
            if cursor:
                after = Cursor.check(cursor, query, self._key)
                chosen = chosen.where(tuple_(*place) < (after.started_ms, after.id))
            numbers = connection.scalars(chosen.order_by(*order).limit(limit + 1)).all()
            whole = select(_calls, _kinds).join(_kinds, _kinds.c.kind == _calls.c.kind)
            whole = whole.where(_calls.c.number.in_(numbers[:limit])).order_by(*order)
            found = connection.execute(whole).all()
            marks = self._marks_of(connection, numbers[:limit])
        rows = tuple(_row(row, marks.get(row.number, {})) for row in found)
        if len(numbers) <= limit:
            return Page(rows, "")
        return Page(rows, Cursor(rows[-1].started_ms, rows[-1].id).sign(query, self._key))

    def _marks_of(
        self, connection: Connection, numbers: Sequence[int]
    ) -> dict[int, dict[str, list[str]]]:
        found: dict[int, dict[str, list[str]]] = {}
        chosen = select(_marks.c.call, _labels.c.kind, _labels.c.value)
        chosen = chosen.join_from(_marks, _labels, _labels.c.label == _marks.c.label)
        chosen = chosen.where(_marks.c.call.in_(numbers)).order_by(_labels.c.value)
        for row in connection.execute(chosen):
            found.setdefault(row.call, {}).setdefault(row.kind, []).append(row.value)
        return found

    def contexts(self) -> Collection[str]:
        with self._reading() as connection:
            return connection.scalars(select(_kinds.c.context).distinct()).all()

    def facets(self, query: CallQuery) -> Facets:
        counts: dict[str, dict[str, int]] = {name: {} for name in (*COLUMNS, *MARKS)}
        with self._reading() as connection:
            number = func.count().label("number")
            groups = select(_calls.c.kind, number).group_by(_calls.c.kind)
            found = groups.where(*self._conditions(query, without=COLUMNS)).subquery()
            columns = (_kinds.c[name] for name in COLUMNS)
            named = select(*columns, found.c.number).join(found, found.c.kind == _kinds.c.kind)
            for *values, count in connection.execute(named):
                _count_group(counts, query, values, count)
            for kinds, skipped in _mark_rounds(query):
                chosen = self._mark_counts(query, kinds, skipped)
                for kind, value, count in connection.execute(chosen):
                    counts[kind][value] = count
        return counts

    def _mark_counts(
        self, query: CallQuery, kinds: Collection[str], skipped: Collection[str]
    ) -> Select[Any]:
        call = _marks.c.call + 0  # as in `_conditions`
        conditions = self._memberships(query, call, skipped)
        conditions += _period(query, _marks.c.started_ms)
        if of_calls := _of_call(replace(query, since_ms=None, until_ms=None), skipped):
            conditions.append(call.in_(select(_calls.c.number).where(*of_calls)))
        number = func.count().label("number")
        labels = select(_labels.c.label).where(_labels.c.kind.in_(kinds))
        groups = select(_marks.c.label, number).where(_marks.c.label.in_(labels), *conditions)
        found = groups.group_by(_marks.c.label).subquery()
        named = select(_labels.c.kind, _labels.c.value, found.c.number)
        return named.join(found, found.c.label == _labels.c.label)

    def _conditions(
        self, query: CallQuery, without: Collection[str] = ()
    ) -> list[ColumnElement[bool]]:
        """Return the conditions of a query, except those of the filters in `without`.

        The number is an expression, which no index answers: for a common word it is much faster to
        walk an index in the order of the page than to look up every call with that word.
        """
        return [*_of_call(query, without), *self._memberships(query, _calls.c.number + 0, without)]

    def _memberships(
        self, query: CallQuery, number: ColumnElement[int], without: Collection[str]
    ) -> list[ColumnElement[bool]]:
        """Return the conditions that are sets of calls, here of this `number`."""
        found: list[ColumnElement[bool]] = []
        for kind, values in query.marks.items():
            if kind not in without:
                labels = [_number_of((kind, value)) for value in sorted(values)]
                marked = select(_marks.c.call.label("marked")).where(_marks.c.label.in_(labels))
                found.append(number.in_(marked.correlate(None)))
        if query.terms:
            found.append(number.in_(self._text.matches(query.terms, query.who)))
        return found

    def series(self, query: SeriesQuery) -> Series:
        with self._reading() as connection:
            return _rollups.series(connection, query)

    def totals(self, query: SeriesQuery) -> Mapping[str, Series]:
        with self._reading() as connection:
            return _rollups.totals(connection, query)

    def recent(self, since_ms: int) -> Sequence[tuple[str, Measured]]:
        with self._reading() as connection:
            return _rollups.recent(connection, since_ms)

    # The connection.

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        engine = self._opened()
        try:
            with _understood(), engine.connect() as connection:
                yield connection
        except IndexDamaged as error:
            self._damage = str(error)
            raise

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        engine = self._opened()
        with _understood(), _transaction(engine) as connection:
            if self._path is None:
                connection.exec_driver_sql(f"LOCK TABLE {_calls.name} IN EXCLUSIVE MODE")
            yield connection

    def _opened(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise IndexUnavailable("the index of calls is not open")
        return engine

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes that make the file anew away: of two that delete it at once, one
        would go on with a file that has no name. PostgreSQL has a lock of its own (`_create`)."""
        if self._path is None:
            yield
            return
        try:
            private_files.make_folder(self._path.parent)
            descriptor = private_files.open_lock(self._path.with_suffix(".lock"))
        except OSError as error:
            raise self._not_made(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _not_made(self, error: OSError) -> IndexUnavailable:
        return IndexUnavailable(f"the index {self._path} cannot be made: {error.strerror}")

    def _file_is_gone(self) -> bool:
        """True if the file was deleted, or replaced, under our feet."""
        if self._path is None:
            return False
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def _connect(self) -> Engine:
        if self._path is None:
            return _postgres(self._url)
        try:
            private_files.make_folder(self._path.parent)
            if not self._path.exists():
                _delete(self._path)  # a log without its file
                os.close(private_files.open_lock(self._path))
            self._inode = self._path.stat().st_ino
        except OSError as error:
            raise self._not_made(error) from None
        engine = create_engine(f"sqlite:///{self._path}", connect_args={"timeout": LOCK_SECONDS})
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine

    def _version(self, engine: Engine) -> str | None:
        """Return the version of the tables; None if one of them is missing."""
        expected = {WORDS, *(each.name for each in _metadata.sorted_tables)}
        if not expected <= set(inspect(engine).get_table_names()):
            return None
        with engine.connect() as connection:
            return connection.scalar(select(_facts.c.value).where(_facts.c.name == "version"))

    def _create(self, engine: Engine, *, anew: bool = False) -> None:
        """Create the tables, unless another process was faster."""
        with _transaction(engine) as connection:
            if self._path is None:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7204719)")
            if not anew and self._version(engine) == VERSION:
                return
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {WORDS}")
            _metadata.drop_all(connection)
            _metadata.create_all(connection)
            self._text.create(connection)
            facts = [
                {"name": "version", "value": VERSION},
                {"name": "key", "value": secrets.token_hex(32)},
            ]
            connection.execute(insert(_facts), facts)

    def _read_key(self, engine: Engine) -> str:
        with engine.connect() as connection:
            key = connection.scalar(select(_facts.c.value).where(_facts.c.name == "key"))
        self._key = str(key).encode()
        return str(key)

    def _disconnect(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


@contextmanager
def _transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction that writes."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def _of_call(query: CallQuery, without: Collection[str]) -> list[ColumnElement[bool]]:
    """Return the conditions on a call's own columns."""
    call = _calls.c
    found: list[ColumnElement[bool]] = []
    of_kind = [
        _kinds.c[name].in_(sorted(values))
        for name, values in query.columns.items()
        if name not in without
    ]
    if query.within is not None:
        of_kind.append(_kinds.c.context.in_(sorted(query.within)))
    if of_kind:
        found.append(call.kind.in_(select(_kinds.c.kind).where(*of_kind)))
    exactly = (
        (call.id, query.id),
        (call.caller_number, query.number),
        (call.last4, query.number_last4),
        (call.called_number, query.called),
    )
    found += [place == value for place, value in exactly if value]
    if query.number_prefix:
        found.append(_begins(call.caller_number, query.number_prefix))
    return [*found, *_period(query, call.started_ms), *_bounds(query)]


def _period(query: CallQuery, started: ColumnElement[int]) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.since_ms is not None:
        found.append(started >= query.since_ms)
    if query.until_ms is not None:
        found.append(started < query.until_ms)
    return found


def _bounds(query: CallQuery) -> list[ColumnElement[bool]]:
    call = _calls.c
    found: list[ColumnElement[bool]] = []
    if query.waited_over_ms is not None:
        found.append(call.waited_ms > query.waited_over_ms)
    if query.longer_ms is not None:
        found.append(call.duration_ms >= query.longer_ms)
    if query.shorter_ms is not None:
        found.append(call.duration_ms <= query.shorter_ms)
    if query.cost_over is not None:
        found.append(call.cost > query.cost_over)
    return found


def _begins(place: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Return a condition that an index can answer, whatever characters are in the prefix."""
    after = ord(prefix[-1]) + 1
    if after > 0x10FFFF:
        return func.substr(place, 1, len(prefix)) == prefix
    after = 0xE000 if after == 0xD800 else after  # no text has surrogates
    return and_(place >= prefix, place < prefix[:-1] + chr(after))


def _count_group(
    counts: dict[str, dict[str, int]], query: CallQuery, values: Sequence[str], count: int
) -> None:
    """Add calls with equal values of all columns. A filter is not applied to its own counts."""
    failed = [
        name
        for name, value in zip(COLUMNS, values, strict=True)
        if name in query.columns and value not in query.columns[name]
    ]
    if len(failed) > 1:
        return
    for name, value in zip(COLUMNS, values, strict=True):
        if not failed or failed == [name]:
            counts[name][value] = counts[name].get(value, 0) + count


def _mark_rounds(query: CallQuery) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """Yield kinds of marks to count together, and the filters that are not applied to them."""
    yield [kind for kind in MARKS if kind not in query.marks], ()
    for kind in query.marks:
        yield [kind], [kind]


def _values(number: int, kind: int, row: CallRow) -> dict[str, Any]:
    digits = [each for each in row.caller_number if each.isdecimal()]
    values = {name: getattr(row, name) for name in _CALL}
    return {**values, "number": number, "kind": kind, "last4": "".join(digits[-4:])}


def _kind_of(row: CallRow) -> dict[str, str]:
    flags = {"recorded": row.recorded, "interrupted": bool(row.interruptions)}
    return {
        name: ("yes" if flags[name] else "no") if name in flags else getattr(row, name)
        for name in COLUMNS
    }


def _number_of(values: Iterable[str]) -> int:
    """Return the number that stands for these values in every index: 63 bits of their hash."""
    content = "\0".join(values).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big") >> 1


def _add_new(connection: Connection, table: Table, rows: Mapping[int, dict[str, Any]]) -> None:
    """Add the rows of which the table does not have the number."""
    (number,), keys = table.primary_key.columns, list(rows)
    for begin in range(0, len(keys), _AT_ONCE):
        some = keys[begin : begin + _AT_ONCE]
        known = set(connection.scalars(select(number).where(number.in_(some))))
        if new := [rows[key] for key in some if key not in known]:
            connection.execute(insert(table), new)


def _remove_with_names(
    connection: Connection, used: Column[int], of_these: ColumnElement[bool], name: Column[int]
) -> None:
    """Remove rows, and the names whose number `used` no other row has: they may be of a caller."""
    numbers = connection.scalars(select(used).where(of_these).distinct()).all()
    connection.execute(delete(used.table).where(of_these))
    for begin in range(0, len(numbers), _AT_ONCE):
        some = name.in_(numbers[begin : begin + _AT_ONCE])
        is_used = select(used).where(used == name).exists()
        connection.execute(delete(name.table).where(some, ~is_used))


def _row(found: Any, marks: Mapping[str, Sequence[str]]) -> CallRow:
    tools, failed, troubles, tags = (tuple(marks.get(kind, ())) for kind in MARKS)
    return CallRow(
        **{name: getattr(found, name) for name in _ROW},
        recorded=found.recorded == "yes",
        tools=tools,
        tools_failed=failed,
        troubles=troubles,
        tags=tags,
    )


def _check_url(url: str) -> None:
    try:
        backend = make_url(url).get_backend_name()
    except ArgumentError:
        backend = ""
    if backend != "postgresql":
        raise HistoryError(
            "calls.index.database: expected postgresql://user:password@host/database, or nothing "
            "for SQLite"
        )


def _postgres(url: str) -> Engine:
    try:
        parts = make_url(url).set(drivername="postgresql+pg8000")
        return create_engine(parts, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise ExtraMissing(
            "calls.index.database needs the extra `postgres`: pip install cordboard[postgres]"
        ) from None


def _delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _on_connect(connection: Any, _record: object) -> None:
    """Turn off the driver's transactions; let readers continue during a write; leave no deleted
    content in the file."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def _understood() -> Iterator[None]:
    """Turn the errors of databases into ours. They name no values: callers' words are values."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        origin = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(origin, "sqlite_errorcode", 0) & 0xFF
        missing = "no such table" in str(origin)
        reason = (str(origin) or type(error).__name__).splitlines()[0]
        if code in _DAMAGED or missing:
            raise IndexDamaged(f"the index of calls is damaged: {reason}") from None
        raise IndexUnavailable(f"the index of calls cannot be used: {reason}") from None
