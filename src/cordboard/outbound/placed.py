"""The single calls that were placed, on the disk: a request that is sent again is the same call,
also when the first one's engine was killed.

    begin, before the number is dialled ──▶ finish
      │                                       engine killed: no end, `interrupted`
      └──▶ drop: nothing was dialled

The table is in the campaigns' file. It has ids, contexts and ends, no numbers, of the newest
`MOST_CALLS`. Several engines may share the file. Each call has the name of its engine, which locks
a file of that name in `FILE.engines` while it lives: so the others know a call that goes on from
one that was cut.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from cordboard import private_files
from cordboard.calls.outbound_order import OutboundResult
from cordboard.errors import CampaignRefused
from cordboard.outbound.campaigns.store import missing_columns, open_database

MOST_CALLS = 100_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS placed (
  id INTEGER PRIMARY KEY, call_id TEXT NOT NULL UNIQUE, began REAL NOT NULL, ended REAL,
  outcome TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '', duration_ms INTEGER NOT NULL DEFAULT 0,
  engine TEXT NOT NULL DEFAULT '', context TEXT NOT NULL DEFAULT '');
"""
_LATER = ("engine", "context")
"""Columns that earlier versions did not have."""
_UNFINISHED = "."
"""First character of an engine's file that is not locked yet."""

Found = TypeVar("Found")


class PlacedCalls:
    """Implements `placing.CallBook`. The file is opened for each act, in a thread."""

    def __init__(self, path: Path) -> None:
        """`path`: the campaigns' file."""
        self._path = path
        self._engine = secrets.token_hex(8)
        self._locks: dict[Path, int] = {}
        """Campaigns' file → descriptor of this engine's locked file beside it."""
        self._locking = threading.Lock()

    async def begin(self, call_id: str, context: str) -> bool:
        """See `CallBook.begin`."""
        path = self._path

        def work(database: sqlite3.Connection) -> bool:
            self._lock(path)
            added = database.execute(
                "INSERT OR IGNORE INTO placed (call_id, began, engine, context)"
                " VALUES (?, ?, ?, ?)",
                (call_id, time.time(), self._engine, context),
            )
            database.execute(
                "DELETE FROM placed WHERE id <= (SELECT max(id) FROM placed) - ?", (MOST_CALLS,)
            )
            return added.rowcount == 1

        return await self._do(path, work)

    async def drop(self, call_id: str) -> None:
        """See `CallBook.drop`."""
        await self._write(
            "DELETE FROM placed WHERE call_id = ? AND engine = ? AND ended IS NULL",
            call_id,
            self._engine,
        )

    async def finish(self, result: OutboundResult) -> None:
        """See `CallBook.finish`."""
        await self._write(
            "UPDATE placed SET ended = ?, outcome = ?, answer = ?, reason = ?, duration_ms = ?"
            " WHERE call_id = ?",
            time.time(),
            result.outcome,
            result.answer,
            result.reason,
            result.duration_ms,
            result.call_id,
        )

    async def find(self, call_id: str) -> OutboundResult | None:
        """See `CallBook.find`."""
        path = self._path

        def work(database: sqlite3.Connection) -> OutboundResult | None:
            row = _row(database, call_id)
            if row["ended"] is not None:
                return OutboundResult(
                    call_id, row["outcome"], row["reason"], row["answer"], row["duration_ms"]
                )
            engine = row["engine"]
            if engine not in ("", self._engine) and _is_locked(_engines(path) / engine):
                return None
            return OutboundResult(call_id, "interrupted", "engine_killed")

        return await self._look(path, call_id, work)

    async def context_of(self, call_id: str) -> str:
        """See `CallBook.context_of`."""

        def work(database: sqlite3.Connection) -> str:
            context: str = _row(database, call_id)["context"]
            return context

        return await self._look(self._path, call_id, work)

    async def close(self) -> None:
        """See `CallBook.close`."""
        await asyncio.to_thread(self._unlock)

    async def _write(self, statement: str, *values: object) -> None:
        await self._do(self._path, lambda database: database.execute(statement, values))

    async def _look(
        self, path: Path, call_id: str, act: Callable[[sqlite3.Connection], Found]
    ) -> Found:
        """Read the file, without making it. Raises `KeyError` if it is not there."""
        if not await asyncio.to_thread(path.exists):
            raise KeyError(call_id)
        return await self._do(path, act)

    async def _do(self, path: Path, act: Callable[[sqlite3.Connection], Found]) -> Found:
        def work() -> Found:
            try:
                with closing(open_database(path, _SCHEMA)) as database:
                    _add_columns(database)
                    return act(database)
            except (sqlite3.Error, OSError) as error:
                message = f"the campaigns' file {path} cannot be used: {error}"
                raise CampaignRefused(message) from error

        return await asyncio.to_thread(work)

    def _lock(self, path: Path) -> None:
        """Lock this engine's file, before others can see it. Raises `OSError`."""
        with self._locking:
            if path in self._locks:
                return
            folder = _engines(path)
            private_files.make_folder(folder)
            for left in folder.glob(f"[!{_UNFINISHED}]*"):
                if not _is_locked(left):
                    left.unlink(missing_ok=True)
            making = folder / f"{_UNFINISHED}{self._engine}"
            lock = private_files.open_lock(making)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                making.rename(folder / self._engine)
            except OSError:
                os.close(lock)
                raise
            self._locks[path] = lock

    def _unlock(self) -> None:
        with self._locking:
            while self._locks:
                path, lock = self._locks.popitem()
                (_engines(path) / self._engine).unlink(missing_ok=True)
                os.close(lock)


def _engines(path: Path) -> Path:
    """Return the folder of the engines' files."""
    return path.with_name(f"{path.name}.engines")


def _is_locked(file: Path) -> bool:
    """Return True if an engine's file is there, and its engine lives. Raises `OSError`."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may ask, too
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _row(database: sqlite3.Connection, call_id: str) -> sqlite3.Row:
    """Return a call. Raises `KeyError` if it was never placed."""
    found: sqlite3.Row | None = database.execute(
        "SELECT * FROM placed WHERE call_id = ?", (call_id,)
    ).fetchone()
    if found is None:
        raise KeyError(call_id)
    return found


def _add_columns(database: sqlite3.Connection) -> None:
    """Add the columns that a table of an earlier version lacks."""
    for name in missing_columns(database, "placed", _LATER):
        database.execute(f"ALTER TABLE placed ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
