"""The index of calls in SQLite (default) or PostgreSQL (extra `postgres`), by SQLAlchemy Core."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, delete, func, insert, select, tuple_

from cordboard.calls.resumption import MOVED
from cordboard.errors import HistoryError, IndexUnavailable
from cordboard.history.claims import NUMBERS, numbers_of
from cordboard.history.conditions import Lookup, asks_for_hashes, begins, candidates, conditions
from cordboard.history.database import IndexDatabase, understood
from cordboard.history.facets import count_facets
from cordboard.history.index_keys import IndexKeys
from cordboard.history.measured import Measured
from cordboard.history.query import MOST_ROWS, CallQuery, CallRow, Cursor, Facets, Page
from cordboard.history.removal import remove_files
from cordboard.history.sealed_rows import Hashes, opened, stored
from cordboard.history.search import MOST_OPENED, answers, opens
from cordboard.history.series import Series, SeriesQuery
from cordboard.history.store import FileState, IndexedFile
from cordboard.history.tables import (
    CALLS,
    FACTS,
    FILES,
    KINDS,
    LABELS,
    MARKED,
    ROLLUPS,
    SEALED,
    STATE,
    UNSCRUBBED,
    add_new,
    kind_of,
    number_of,
    of_node,
    row_in,
    values_of,
)
from cordboard.privacy.sealed_file import PLAIN, Vault

log = structlog.get_logger()

_BREATH = 20
"""Encrypted rows that are opened without a pause, for the sound of live calls in another thread."""


class SqlHistoryStore:
    """A `HistoryStore`. Its methods may be called by any thread."""

    def __init__(
        self, directory: Path, url: str = "", vault: Vault = PLAIN, node: str = ""
    ) -> None:
        """`directory` is that of the calls: without a `url`, the index is a file in it. `vault` has
        the keys of encrypted calls. `node` is that of a cluster, whose engines may share a database
        (`claims`). Raises `HistoryError` for a `url` that is not of PostgreSQL."""
        self._directory = directory
        self._database = IndexDatabase(directory, url, node)
        self.node = self._database.node
        self._here = of_node(self.node)
        self._own_numbers = numbers_of(self.node)
        """Name of the fact that is the id of our key of hashes."""
        self._vault = vault
        self._hashes: dict[str, Hashes] = {}
        """By the id of their key."""
        self._keys = IndexKeys(directory, vault)
        self._cleaned = ""
        """The index before which no key is left."""

    def __reduce__(self) -> tuple[type[SqlHistoryStore], tuple[Path, str, Vault, str]]:
        """Return the same index, not yet open, for another process."""
        return SqlHistoryStore, (self._directory, self._database.url, self._vault, self.node)

    def open(self) -> str:
        index = self._database.open()
        if index != self._cleaned:
            self._erase_old_keys()
            self._cleaned = index
        return index

    def recreate(self, *, take_over: bool = False) -> str:
        with suppress(
            HistoryError
        ):  # damaged: its key is on the list, unless an old program made it
            self.open()
        index = self._database.recreate(take_over=take_over)
        self._erase_old_keys()
        self._cleaned = index
        return index

    def _erase_old_keys(self) -> None:
        """Delete the keys of indexes before this one: hashes in backups of them can be compared
        with no number any more. Logs if that fails, and goes on."""
        try:
            with self._database.reading() as connection:
                present = self._fact(connection, self._own_numbers)
            if self._keys.ids() == ({present} if present else set()):
                return
            with self._database.writing() as connection:  # while no other process makes a key
                self._keys.keep_only(self._fact(connection, self._own_numbers))
        except OSError as error:
            log.warning("index_keys_not_erased", error=str(error))

    @staticmethod
    def _fact(connection: Connection, name: str) -> str:
        chosen = select(FACTS.c.value).where(FACTS.c.name == name)
        return connection.scalar(chosen) or ""

    def _lookup(self, connection: Connection, query: CallQuery) -> Lookup:
        """Return the ways in which this index finds the values of a query. Raises
        `IndexUnavailable` if it asks for what is hashed, and the key of the hashes is away."""
        try:
            found = [self._hashes_of(self._fact(connection, self._own_numbers))]
        except IndexUnavailable:
            if asks_for_hashes(query):
                raise
            found = []
        found += self._hashes_elsewhere(connection).values()
        hashes = tuple(each for each in found if each is not None)
        return Lookup(self._database.text, hashes, self._moved(connection, query))

    def _hashes_elsewhere(self, connection: Connection) -> dict[str, Hashes | None]:
        """Return the hashes of the other nodes that have encrypted calls; None if their key is not
        here."""
        if not self.node:
            return {}
        found: dict[str, Hashes | None] = {}
        chosen = select(FACTS.c.name, FACTS.c.value).where(FACTS.c.name.like(f"{NUMBERS} %"))
        for name, key in connection.execute(chosen):
            if name != self._own_numbers:
                node = name.removeprefix(f"{NUMBERS} ")
                try:
                    found[node] = self._hashes_of(key)
                except IndexUnavailable:
                    found[node] = None
        return found

    def _moved(self, connection: Connection, query: CallQuery) -> tuple[int, ...]:
        """Return the kinds of calls that went on in another node, unless a query asks for them."""
        if not self.node or query.moved or MOVED in query.columns.get("outcome", ()):
            return ()
        chosen = select(KINDS.c.kind).where(KINDS.c.outcome == MOVED)
        return tuple(connection.scalars(chosen))

    def _new_hashes(self, connection: Connection) -> Hashes | None:
        """Return the hashes for rows to come; their key is made with the first encrypted one."""
        key = self._fact(connection, self._own_numbers)
        if not key:
            seal = self._vault.new_key()
            self._keys.add(seal.key_id)
            self._vault.keep(seal)
            key = seal.key_id
            connection.execute(insert(FACTS), {"name": self._own_numbers, "value": key})
        return self._hashes_of(key)

    def _hashes_of(self, key: str) -> Hashes | None:
        if key and key not in self._hashes:
            try:
                self._hashes[key] = Hashes(self._vault.seal_by(key).key)
            except OSError as error:
                raise IndexUnavailable(
                    f"numbers and tags of encrypted calls cannot be compared: {error}; `cordboard "
                    "history rebuild` makes the index anew"
                ) from None
        return self._hashes.get(key)

    def close(self) -> None:
        self._database.close()

    # Writing.

    def days(self) -> Collection[str]:
        day = func.substr(FILES.c.file, 1, len("2026-11-22"))
        chosen = select(day).where(FILES.c.node == self.node).distinct()
        with self._database.reading() as connection:
            return connection.scalars(chosen).all()

    def states(self, day: str) -> Mapping[str, FileState]:
        with self._database.reading() as connection:
            of_day = FILES.c.node == self.node, begins(FILES.c.file, f"{day}/")
            rows = connection.execute(select(FILES).where(*of_day)).all()
        return {row.file: FileState(**{name: getattr(row, name) for name in STATE}) for row in rows}

    def open_files(self) -> Collection[str]:
        with self._database.reading() as connection:
            chosen = select(FILES.c.file).where(FILES.c.node == self.node, FILES.c.is_open)
            return {*connection.scalars(chosen), *self._unreadable(connection)}

    def unreadable(self) -> Mapping[str, str]:
        with self._database.reading() as connection:
            return self._unreadable(connection)

    def _unreadable(self, connection: Connection) -> dict[str, str]:
        chosen = select(FILES.c.file, FILES.c.unreadable)
        chosen = chosen.where(FILES.c.node == self.node, FILES.c.unreadable > "")
        return {row.file: row.unreadable for row in connection.execute(chosen)}

    def put(self, files: Sequence[IndexedFile]) -> Collection[str]:
        with self._database.writing() as connection:
            left_out = self._misfits(connection, files)
            files = [each for each in files if each.file not in left_out]
            stays = {each.file for each in files if each.after or each.state.unreadable}
            self._remove(connection, [each.file for each in files if each.file not in stays])
            again = FILES.c.node == self.node, FILES.c.file.in_(stays)
            connection.execute(delete(FILES).where(*again))
            number = connection.scalar(select(func.max(CALLS.c.number))) or 0
            rows: list[dict[str, Any]] = []
            kinds: dict[int, dict[str, Any]] = {}
            labels: dict[int, dict[str, Any]] = {}
            marks: list[dict[str, Any]] = []
            words: list[dict[str, Any]] = []
            measured: list[tuple[int, Measured]] = []
            sealed: list[dict[str, Any]] = []
            calls = [call for each in files for call in each.calls]
            hashes = None
            if any(call.seal is not None for call in calls):
                hashes = self._new_hashes(connection)
            for call in calls:
                number += 1
                has = stored(replace(call.row, node=self.node), call.seal, hashes)
                values = kind_of(has.row)
                kind = number_of(values.values())
                kinds[kind] = {"kind": kind, **values}
                rows.append(values_of(number, kind, has.row, has.keys))
                if has.body:
                    sealed.append({"call": number, "body": has.body})
                for name, value in has.row.marks():
                    label = number_of((name, value))
                    labels[label] = {"label": label, "kind": name, "value": value}
                    at = has.row.started_ms
                    marks.append({"label": label, "call": number, "started_ms": at})
                said = (" ".join(call.caller_words), " ".join(call.agent_words))
                if call.measured is not None:
                    measured.append((number, call.measured))
                if any(said):
                    words.append({"call": number, "caller": said[0], "agent": said[1]})
            states = [
                {
                    "node": self.node,
                    "file": each.file,
                    **{name: getattr(each.state, name) for name in STATE},
                }
                for each in files
            ]
            add_new(connection, KINDS, kinds)
            add_new(connection, LABELS, labels)
            added = ((FILES, states), (CALLS, rows), (MARKED, marks), (SEALED, sealed))
            for target, lines in added:
                if lines:
                    connection.execute(insert(target), lines)
            if words:
                self._database.text.add(connection, words)
            ROLLUPS.put_in(connection, measured)
        return left_out

    def _misfits(self, connection: Connection, files: Sequence[IndexedFile]) -> Collection[str]:
        """Return the files of which the index does not have as much as is to be added to."""
        after = {each.file: each.after for each in files if each.after}
        chosen = select(FILES.c.file, FILES.c.size)
        chosen = chosen.where(FILES.c.node == self.node, FILES.c.file.in_(after))
        known = {row.file: row.size for row in connection.execute(chosen)} if after else {}
        return {file for file, size in after.items() if known.get(file) != size}

    def remove(self, files: Collection[str]) -> None:
        with self._database.writing() as connection:
            self._remove(connection, list(files))
            connection.execute(delete(FACTS).where(FACTS.c.name == UNSCRUBBED))
            mark = {"name": UNSCRUBBED, "value": secrets.token_hex(8)}
            connection.execute(insert(FACTS), mark)

    def _remove(self, connection: Connection, files: Sequence[str]) -> None:
        remove_files(connection, self._database.text, self.node, files)

    def needs_scrub(self) -> bool:
        return self._removal() is not None

    def _removal(self) -> str | None:
        """Return a value of the last removal that was not scrubbed."""
        chosen = select(FACTS.c.value).where(FACTS.c.name == UNSCRUBBED)
        with self._database.reading() as connection:
            return connection.scalar(chosen)

    def scrub(self) -> None:
        with self._database.scrubbing():
            removal = self._removal()
            if removal is None and self.node:
                return  # another engine has done it
            self._overwrite_removed()
            with self._database.writing() as connection:  # not the mark of a removal meanwhile
                mark = FACTS.c.name == UNSCRUBBED, FACTS.c.value == removal
                connection.execute(delete(FACTS).where(*mark))

    def _overwrite_removed(self) -> None:
        engine = self._database.opened()
        with understood():
            if self._database.path is None:
                with engine.connect() as connection:
                    connection.connection.rollback()  # the pool's ping has begun a transaction
                    connection.execution_options(isolation_level="AUTOCOMMIT")
                    self._database.text.forget(connection)
                    for each in (CALLS, KINDS, MARKED, LABELS, SEALED, *ROLLUPS.tables):
                        connection.exec_driver_sql(f"VACUUM (FULL) {each.name}")
                return
            with self._database.writing() as connection:
                self._database.text.forget(connection)
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
        place = (CALLS.c.started_ms, CALLS.c.id)
        key = self._database.key
        with self._database.reading() as connection:
            lookup = self._lookup(connection, query)
            looks_into = opens(query) and self._has_sealed(connection)
            found = candidates(lookup, query) if looks_into else conditions(lookup, query)
            # Numbers first: an index alone can filter and sort them, without the rows.
            chosen = select(CALLS.c.number).where(*found)
            if cursor:
                after = Cursor.check(cursor, query, key)
                chosen = chosen.where(tuple_(*place) < (after.started_ms, after.id))
            most = max(limit, MOST_OPENED) if looks_into else limit
            chosen = chosen.order_by(*(each.desc() for each in place)).limit(most + 1)
            numbers = connection.scalars(chosen).all()
            stored_rows = self._rows(connection, numbers[:most])
        rows: list[CallRow] = []
        last: CallRow | None = None
        for at, (row, body) in enumerate(stored_rows):
            if len(rows) == limit:
                break
            repeated = self.node and not query.moved and last is not None and _is_part(row, last)
            last = self._opened(row, body, at)
            if not repeated and (not (looks_into and body) or self._answers(query, last)):
                rows.append(last)
        else:
            if len(numbers) <= most:
                return Page(tuple(rows), "")
        assert last is not None  # noqa: S101 - a page that is full has rows
        following = Cursor(last.started_ms, last.id).sign(query, key)
        return Page(tuple(rows), following, last.started_ms if looks_into else None)

    def _answers(self, query: CallQuery, row: CallRow) -> bool:
        """True if an encrypted call has what only the call itself can answer. Those of other nodes
        cannot be opened here."""
        return row.node == self.node and answers(query, row, self._directory, self._vault)

    def _has_sealed(self, connection: Connection) -> bool:
        return connection.scalar(select(SEALED.c.call).limit(1)) is not None

    def leaves_out(self, query: CallQuery) -> bool:
        if not opens(query):
            return False
        with self._database.reading() as connection:
            return self._has_sealed(connection)

    def _rows(
        self, connection: Connection, numbers: Sequence[int]
    ) -> list[tuple[CallRow, bytes | None]]:
        """Return rows as they are stored, the newest first, and what is encrypted of each."""
        whole = select(CALLS, KINDS, SEALED.c.body).join(KINDS, KINDS.c.kind == CALLS.c.kind)
        whole = whole.outerjoin(SEALED, SEALED.c.call == CALLS.c.number)
        whole = whole.where(CALLS.c.number.in_(numbers))
        place = CALLS.c.started_ms, CALLS.c.id, CALLS.c.number
        ordered = whole.order_by(*(each.desc() for each in place))
        found = connection.execute(ordered).all()
        marks = self._marks_of(connection, numbers)
        return [(row_in(row, marks.get(row.number, {})), row.body) for row in found]

    def _opened(self, row: CallRow, body: bytes | None, at: int) -> CallRow:
        """Return a row with what is personal; without it if it cannot be decrypted."""
        if body is None:
            return row
        if at % _BREATH == 0:
            time.sleep(0.001)
        try:
            return opened(row, body, self._vault)
        except OSError:
            return replace(row, tags=())

    def _marks_of(
        self, connection: Connection, numbers: Sequence[int]
    ) -> dict[int, dict[str, list[str]]]:
        found: dict[int, dict[str, list[str]]] = {}
        chosen = select(MARKED.c.call, LABELS.c.kind, LABELS.c.value)
        chosen = chosen.join_from(MARKED, LABELS, LABELS.c.label == MARKED.c.label)
        chosen = chosen.where(MARKED.c.call.in_(numbers)).order_by(LABELS.c.value)
        for row in connection.execute(chosen):
            found.setdefault(row.call, {}).setdefault(row.kind, []).append(row.value)
        return found

    def contexts(self) -> Collection[str]:
        with self._database.reading() as connection:
            return connection.scalars(select(KINDS.c.context).distinct()).all()

    def facets(self, query: CallQuery) -> Facets:
        with self._database.reading() as connection:
            return count_facets(connection, self._lookup(connection, query), query, self._vault)

    def elsewhere(self, query: CallQuery) -> Mapping[str, int | None]:
        if not self.node:
            return {}
        with self._database.reading() as connection:
            hidden = self._hashes_elsewhere(connection) if asks_for_hashes(query) else {}
        found: dict[str, int | None] = dict(self.facets(query).get("node", {}))
        found |= {node: None for node, hashes in hidden.items() if hashes is None}
        found.pop(self.node, None)
        return found

    def series(self, query: SeriesQuery) -> Series:
        with self._database.reading() as connection:
            return ROLLUPS.series(connection, query)

    def totals(self, query: SeriesQuery) -> Mapping[str, Series]:
        with self._database.reading() as connection:
            return ROLLUPS.totals(connection, query)

    def recent(self, since_ms: int) -> Sequence[tuple[str, Measured]]:
        with self._database.reading() as connection:
            return ROLLUPS.recent(connection, since_ms, self._here)


def _is_part(row: CallRow, before: CallRow) -> bool:
    """True for the same call as the row before, in another node: it went on in that one, and the
    lost engine has not ended its part yet."""
    same = (row.started_ms, row.id) == (before.started_ms, before.id)
    return same and row.node != before.node
