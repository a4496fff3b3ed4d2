"""The counts of the firewall over a restart: a SQLite file, written once a second in a thread.

A crash loses at most the last seconds. The file holds keyed digests of callers and their sums of
today and the two days before, no number; older ones are deleted with each write, and once a day
where there is none, also while no cap is configured. A damaged file is set aside; then the counts
begin at zero. If the disk refuses, or the file is busy, counting continues in memory, and reading
and writing are tried again: nothing is written before the earlier counts are read.

`forget_caller` works on the file, with or without an engine. A running engine finds the digest
there when it writes next, and drops its own counts of that caller. In a cluster it does so again
until the bus has heard of it: what an earlier engine has counted there would come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import structlog

from cordboard import private_files
from cordboard.errors import StoreUnavailable
from cordboard.firewall.counts import Counts, Key, Row, digest_of

FILE = "firewall.sqlite3"
WRITE_SECONDS = 1.0
EXPIRE_SECONDS = 86_400.0
"""Pause between two looks for rows that are kept no longer."""
BUSY_SECONDS = 5.0
"""Longest wait for another program that has the file."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLES = """
CREATE TABLE IF NOT EXISTS salt (value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counts (
    direction TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, hour TEXT NOT NULL,
    calls INTEGER NOT NULL, seconds REAL NOT NULL, cost REAL NOT NULL,
    PRIMARY KEY (direction, scope, name, hour)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forgotten (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_EXPIRE = "DELETE FROM counts WHERE hour < ?"
_FORGET = "DELETE FROM counts WHERE scope = 'caller' AND name IN (SELECT name FROM forgotten)"

log = structlog.get_logger()


class CountStore:
    """The file of one engine's counts."""

    def __init__(
        self,
        counts: Counts,
        folder: Path,
        wanted: Callable[[], bool],
        *,
        write_seconds: float = WRITE_SECONDS,
    ) -> None:
        """`wanted()` returns True if a cap is configured; otherwise nothing is written."""
        self.counts = counts
        """The counts that are kept."""
        self._path = folder / FILE
        self._wanted = wanted
        self._write_seconds = write_seconds
        self._ending = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._trouble = ""
        self._restored = False
        self._written_ns = 0
        """Time of the file's newest change that is known here."""
        self._expire_at = -math.inf
        self._notes = True
        """Each row that is not in the file is noted as changed."""
        counts.expect_earlier()

    async def start(self) -> None:
        """Continue from the counts of the earlier engine, and begin to write."""
        try:
            await self._restore()
        except (OSError, sqlite3.Error) as error:
            log.error("firewall_counts_not_read", path=str(self._path), error=str(error))
        self._writing = asyncio.create_task(self._keep_writing(), name="firewall counts")

    async def close(self) -> None:
        """Write the rest, and stop. Idempotent."""
        self._ending.set()
        if self._writing is not None:
            await self._writing

    async def _keep_writing(self) -> None:
        ending = False
        while not ending:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._write_seconds):
                    await self._ending.wait()
            ending = self._ending.is_set()
            try:
                await self._restore()
                self._want()
                if self.counts.changed or self.counts.dropped or await self._is_touched():
                    await self._write()
                await self._expire()
                self._trouble = ""
            except (OSError, sqlite3.Error) as error:
                if str(error) != self._trouble:
                    log.error("firewall_counts_not_written", path=str(self._path), error=str(error))
                self._trouble = str(error)

    def _want(self) -> None:
        """Note no changes while no cap is configured; with the first cap, all rows are changed."""
        wanted = self._wanted()
        if not wanted:
            self.counts.take_rows()
        elif not self._notes:
            self.counts.change_all()
        self._notes = wanted

    async def _restore(self) -> None:
        """Take the earlier counts from the file, once. Raises `OSError`, `sqlite3.Error`."""
        if self._restored:
            return
        salt, rows = await asyncio.to_thread(self._load)
        if salt is not None:
            self.counts.restore(salt, rows)
        else:
            self.counts.nothing_earlier()
        self._restored = True

    async def _is_touched(self) -> bool:
        """True if another program has changed the file: it may have a caller to be forgotten, also
        by the other engines of a cluster, before there is another call."""
        return self._notes and await asyncio.to_thread(self._changed_ns) > self._written_ns

    async def _write(self) -> None:
        """Write the changed rows. Raises `OSError`, `sqlite3.Error`."""
        shared = self.counts.shared
        is_away = shared is not None and shared.away
        rows, gone = self.counts.take_rows()
        try:
            forgotten = await asyncio.to_thread(self._save, rows, gone, is_away)
        except (OSError, sqlite3.Error):
            self.counts.not_written(rows, gone)
            raise
        for digest in forgotten:
            self.counts.forget(digest)

    async def _expire(self) -> None:
        """Delete what is kept no longer, once a day: of an engine without calls, or without caps,
        nothing is written. Raises `OSError`, `sqlite3.Error`."""
        now = time.monotonic()
        if now >= self._expire_at:
            await asyncio.to_thread(self._delete_old)
            self._expire_at = now + EXPIRE_SECONDS

    # In threads.

    def _load(self) -> tuple[bytes | None, list[Row]]:
        """Return salt and rows; a damaged file is set aside. Raises `OSError`, `sqlite3.Error`."""
        if not self._path.exists():
            return None, []
        try:
            with closing(_open(self._path)) as database:
                salt = database.execute("SELECT value FROM salt").fetchone()
                rows: list[Row] = database.execute(
                    "SELECT direction, scope, name, hour, calls, seconds, cost FROM counts"
                ).fetchall()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:  # busy, or a bad disk
                raise
            aside = self._path.with_suffix(".damaged")
            os.replace(self._path, aside)  # noqa: PTH105 - over an older one
            log.error("firewall_counts_damaged", path=str(aside), error=str(error))
            return None, []
        return (bytes(salt[0]) if salt is not None else None), rows

    def _delete_old(self) -> None:
        if self._path.exists():
            with closing(_open(self._path)) as database, database:
                database.execute(_EXPIRE, (_oldest(),))

    def _save(self, rows: list[Row], gone: list[Key], is_away: bool) -> list[str]:
        """Write, and return the digests of callers to be forgotten: now, and again at the next
        write while the bus `is_away`."""
        with closing(_open(self._path)) as database, database:
            known = database.execute("SELECT value FROM salt").fetchone()
            if known is None or bytes(known[0]) != self.counts.salt:  # it has joined a cluster
                database.execute("DELETE FROM salt")
                database.execute("INSERT INTO salt VALUES (?)", (self.counts.salt,))
            database.executemany(
                "DELETE FROM counts WHERE direction = ? AND scope = ? AND name = ?", gone
            )
            database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute(_EXPIRE, (_oldest(),))
            database.execute(_FORGET)
            forgotten = database.execute("SELECT name FROM forgotten").fetchall()
            if not is_away:
                database.execute("DELETE FROM forgotten")
        self._written_ns = 0 if is_away and forgotten else self._changed_ns()
        return [name for (name,) in forgotten]

    def _changed_ns(self) -> int:
        return self._path.stat().st_mtime_ns if self._path.exists() else 0


def forget_caller(folder: Path, caller: str) -> None:
    """Delete the counts of a caller's past calls (`numbers.caller_of`). Nothing is deleted for an
    empty number, which stands for all withheld ones. Blocks. Raises `StoreUnavailable`."""
    path = folder / FILE
    if not caller or not path.exists():
        return
    try:
        with closing(_open(path)) as database, database:
            for (salt,) in database.execute("SELECT value FROM salt").fetchall():
                digest = digest_of(caller, bytes(salt))
                database.execute("INSERT OR IGNORE INTO forgotten VALUES (?)", (digest,))
            database.execute(_FORGET)
    except (OSError, sqlite3.Error) as error:
        message = f"the firewall's counts {path} cannot be changed: {error}"
        raise StoreUnavailable(message) from error


def _oldest() -> str:
    """Return the first day that is kept. The day of the caps is that of the policy's zone, which
    may be a day away."""
    return f"{datetime.datetime.now().astimezone() - datetime.timedelta(days=2):%Y-%m-%d}"


def _open(path: Path) -> sqlite3.Connection:
    private_files.make_folder(path.parent)
    private_files.make_database(path)
    database = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        database.executescript(f"PRAGMA secure_delete=ON; {_TABLES}")
    except sqlite3.Error:
        database.close()
        raise
    return database
