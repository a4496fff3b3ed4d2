"""The database of the index: connecting, creating, locking, and the meaning of its errors.

SQLite: one writer at a time, and readers that continue meanwhile (WAL). The file is 0600. An index
of another version is deleted and made anew: it holds nothing that the ledgers do not hold.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import sqlite3
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from cordboard import private_files
from cordboard.errors import ExtraMissing, HistoryError, IndexDamaged, IndexUnavailable
from cordboard.history import claims
from cordboard.history.full_text import NAME as WORDS
from cordboard.history.full_text import FullText, PostgresText, SqliteText
from cordboard.history.removal import remove_node
from cordboard.history.tables import CALLS, FACTS, METADATA, UNSCRUBBED, VERSION

LOCK_SECONDS = 30.0
"""Longest wait of a writer for another one (SQLite)."""
CONNECT_SECONDS = 10.0
"""Longest wait for a connection to PostgreSQL."""
_GONE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}
"""Options of a connection to PostgreSQL, in seconds, the last one in ms: a server whose machine is
silent for 25 s is gone. By default that takes 16 minutes to hours, in which threads of the engine
wait."""
_WRITES = "cordboard_writes"
_CREATE, _SCRUB = 7204719, 7204720
"""Advisory locks of PostgreSQL."""


class IndexDatabase:
    """The database of one index. Its methods may be called by any thread."""

    def __init__(self, directory: Path, url: str = "", node: str = "") -> None:
        """As `SqlHistoryStore`."""
        self._directory = directory
        self.node = node if url else ""
        """Node of the rows that are written; empty if no other engine has rows in it."""
        self._refused = ""
        """Reason why the database is not used."""
        self.path = None if url else directory / "history" / "index.sqlite3"
        """The file of SQLite; None for PostgreSQL."""
        self.url = url
        self.text: FullText = PostgresText() if url else SqliteText()
        self.key = b""
        """Random bytes of the index itself, which sign its cursors."""
        self._engine: Engine | None = None
        self._owner = ""
        """Identity of our directory of calls, of which the rows in PostgreSQL are."""
        self._inode = 0
        self._damage = ""
        """Damage that a reader has met; the writer may never look there."""
        self._changing = threading.Lock()
        if url:
            _check_url(url)

    def open(self) -> str:
        """As `HistoryStore.open`."""
        with self._changing, understood():
            if self._damage:
                raise IndexDamaged(self._damage)
            engine = self._engine
            if engine is None or self._file_is_gone() or not self._is_ready(engine):
                self._disconnect()
                with self._alone():
                    engine = self._connect()
                    self._publish(engine)
            return self._name(engine)

    def recreate(self, *, take_over: bool = False) -> str:
        """As `HistoryStore.recreate`."""
        with self._changing, understood():
            self._disconnect()
            self._damage = ""
            with self._alone():
                if self.path is not None:
                    _delete(self.path)
                engine = self._connect()
                self._publish(engine, anew=True, take_over=take_over)
            return self._name(engine)

    def _publish(self, engine: Engine, *, anew: bool = False, take_over: bool = False) -> None:
        """Create the tables if they are missing or of another version, or `anew`; only then may
        readers have the engine."""
        self._refused = ""
        try:
            if anew or not self._is_ready(engine):
                self._create(engine, anew=anew, take_over=take_over)
            self._read_key(engine)
            self._owner = self._identity() if self.path is None else ""
        except BaseException:
            engine.dispose()
            raise
        self._engine = engine

    def _is_ready(self, engine: Engine) -> bool:
        """True if the tables are those of this version, and have rows of our directory."""
        if self._version(engine) != VERSION:
            return False
        return self.path is not None or self._claim(engine).startswith(f"{self._identity()} ")

    def _identity(self) -> str:
        try:
            return claims.identity_of(self._directory)
        except OSError as error:
            reason = f"{self._directory / claims.NAME} cannot be used: {error.strerror or error}"
            raise IndexUnavailable(reason) from None

    def _claim(self, engine: Engine) -> str:
        with engine.connect() as connection:
            return claims.claim_of(connection, self.node)

    def _name(self, engine: Engine) -> str:
        own = f"{self._inode} {self._read_key(engine)}"
        return own if self.path is not None else f"{own} {self._claim(engine)}"

    def close(self) -> None:
        """Disconnect. Idempotent."""
        with self._changing:
            self._disconnect()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads."""
        engine = self.opened()
        try:
            with understood(), engine.connect() as connection:
                yield connection
        except IndexDamaged as error:
            if engine is self._engine:  # not an index that was made anew meanwhile
                self._damage = str(error)
            raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes, alone."""
        engine = self.opened()
        with understood(), _transaction(engine) as connection:
            if self.path is None:
                _lock_writers(connection)
                self._check_ours(connection)
            yield connection

    def _check_ours(self, connection: Connection) -> None:
        """Raise `IndexUnavailable` if the tables, or our rows in them, are those of others by now:
        a pass takes a while, and other engines may have made them anew since `open`."""
        version = connection.scalar(select(FACTS.c.value).where(FACTS.c.name == "version"))
        owner = claims.claim_of(connection, self.node).partition(" ")[0]
        if (version, owner) != (VERSION, self._owner):
            raise IndexUnavailable("the index of calls was made anew by another engine")

    @contextmanager
    def scrubbing(self) -> Iterator[None]:
        """Keep other engines that overwrite remains away (PostgreSQL): it is done for all."""
        if self.path is not None:
            yield
            return
        with understood(), self.opened().connect() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCRUB})")
            yield

    def opened(self) -> Engine:
        """Return the engine. Raises `IndexUnavailable` if the index is not open."""
        engine = self._engine
        if engine is None:
            raise IndexUnavailable(self._refused or "the index of calls is not open")
        return engine

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes that make the file away: of two that delete it at once, one would go
        on with a file that has no name, and a log that is left would be deleted under one that has
        just made the file. PostgreSQL has a lock of its own (`_create`)."""
        if self.path is None:
            yield
            return
        try:
            private_files.make_folder(self.path.parent)
            descriptor = private_files.open_lock(self.path.with_suffix(".lock"))
        except OSError as error:
            raise self._not_made(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _not_made(self, error: OSError) -> IndexUnavailable:
        return IndexUnavailable(f"the index {self.path} cannot be made: {error.strerror}")

    def _file_is_gone(self) -> bool:
        """True if the file was deleted, or replaced, under our feet."""
        if self.path is None:
            return False
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def _connect(self) -> Engine:
        """Connect, within `_alone`; create the file if it is missing."""
        if self.path is None:
            return _postgres(self.url)
        try:
            private_files.make_folder(self.path.parent)
            if not self.path.exists():
                _delete(self.path)  # a log without its file
                private_files.make_database(self.path)
            self._inode = self.path.stat().st_ino
        except OSError as error:
            raise self._not_made(error) from None
        engine = create_engine(f"sqlite:///{self.path}", connect_args={"timeout": LOCK_SECONDS})
        event.listen(engine, "connect", _on_connect)
        event.listen(engine, "begin", _on_begin)
        return engine

    def _version(self, engine: Engine) -> str | None:
        """Return the version of the tables; None if one of them is missing."""
        expected = {WORDS, *(each.name for each in METADATA.sorted_tables)}
        if not expected <= set(inspect(engine).get_table_names()):
            return None
        with engine.connect() as connection:
            return connection.scalar(select(FACTS.c.value).where(FACTS.c.name == "version"))

    def _create(self, engine: Engine, *, anew: bool = False, take_over: bool = False) -> None:
        """Create the tables, unless another process was faster; claim our rows in them
        (`claims`)."""
        with _transaction(engine) as connection:
            if self.path is not None:
                if anew or self._version(engine) != VERSION:
                    self._fill(engine, connection)
                return
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATE})")
            version, known = self._version(engine), self._claims(engine, connection)
            identity = self._identity()
            self._check(version, claims.refusal(self.node, identity, known), take_over=take_over)
            others = claims.others_of(self.node, identity, known)
            if not self.node or "" in others:
                others = {}  # taken over
            elif anew and others and version == VERSION:
                _lock_writers(connection)
                remove_node(connection, self.text, self.node)
                claims.set_claim(connection, self.node, identity)
                return
            mine = known.get(self.node) == identity
            renamed = identity in (each for name, each in known.items() if name != self.node)
            if anew or version != VERSION or (renamed and not mine):
                self._fill(engine, connection)
                for name, each in others.items():
                    claims.set_claim(connection, name, each)
                mine = False
            if not mine:
                claims.set_claim(connection, self.node, identity)

    def _claims(self, engine: Engine, connection: Connection) -> dict[str, str]:
        known = inspect(engine).has_table(FACTS.name)
        return claims.claims_in(connection) if known else {}

    def _check(self, version: str | None, refusal: str, *, take_over: bool) -> None:
        """Raise `IndexUnavailable` for tables that this engine must not change."""
        if refusal and not take_over:
            self._refused = refusal
        elif self.node and version is not None and int(version) > int(VERSION):
            self._refused = (
                "the index of calls was made by a newer version of Cordboard: upgrade this engine"
            )
        if self._refused:
            raise IndexUnavailable(self._refused)

    def _fill(self, engine: Engine, connection: Connection) -> None:
        """Create the tables, in place of those that are there."""
        replaced = inspect(engine).has_table(FACTS.name)
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {WORDS}")
        METADATA.drop_all(connection)
        METADATA.create_all(connection)
        self.text.create(connection)
        facts = [
            {"name": "version", "value": VERSION},
            {"name": "key", "value": secrets.token_hex(32)},
        ]
        if replaced:
            facts.append({"name": UNSCRUBBED, "value": "tables of another version"})
        connection.execute(insert(FACTS), facts)

    def _read_key(self, engine: Engine) -> str:
        with engine.connect() as connection:
            key = connection.scalar(select(FACTS.c.value).where(FACTS.c.name == "key"))
        self.key = str(key).encode()
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


def _lock_writers(connection: Connection) -> None:
    """Keep other writers of PostgreSQL away until the end of the transaction."""
    connection.exec_driver_sql(f"LOCK TABLE {CALLS.name} IN EXCLUSIVE MODE")


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
        engine = create_engine(parts, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise ExtraMissing(
            "calls.index.database needs the extra `postgres`: pip install cordboard[postgres]"
        ) from None
    event.listen(engine, "do_connect", _connect_postgres)
    return engine


def _connect_postgres(
    dialect: Any, _record: object, _arguments: object, parameters: dict[str, Any]
) -> Any:
    """Connect by a socket that notices that the server's machine is gone. A server that works, or
    waits for a lock, may take its time."""
    if "unix_sock" in parameters:
        return None  # as usual
    address = parameters.get("host", "localhost"), parameters.get("port", 5432)
    try:
        connected = socket.create_connection(address, CONNECT_SECONDS)
    except OSError as error:
        host, port = address
        raise IndexUnavailable(
            f"the index of calls cannot be used: no connection to {host}:{port} "
            f"({error.strerror or error})"
        ) from None
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _GONE.items():
        if hasattr(socket, name):  # not on every system
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    try:
        return dialect.loaded_dbapi.Connection(**parameters, sock=connected)
    except BaseException:
        connected.close()
        raise


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
_NETWORK = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)


@contextmanager
def understood() -> Iterator[None]:
    """Turn the errors of databases into ours. They name no values: callers' words are values."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        origin = (error.orig or error) if isinstance(error, DBAPIError) else error
        code = getattr(origin, "sqlite_errorcode", 0) & 0xFF
        missing = "no such table" in str(origin)
        reason = (_words_of(origin) or type(error).__name__).splitlines()[0]
        if code in _DAMAGED or missing:
            raise IndexDamaged(f"the index of calls is damaged: {reason}") from None
        raise IndexUnavailable(f"the index of calls cannot be used: {reason}") from None
    except OSError as error:  # the driver of PostgreSQL lets some through, as they are
        of_network = isinstance(error, (ConnectionError, TimeoutError, ssl.SSLError))
        if not of_network and error.errno not in _NETWORK:
            raise
        raise IndexUnavailable(
            f"the index of calls cannot be used: {error.strerror or error}"
        ) from None


def _words_of(error: BaseException) -> str:
    """Return the words of an error. PostgreSQL's have fields: `M` is the sentence, and others, such
    as `D`, name the values of rows."""
    fields = error.args[0] if error.args else ""
    return str(fields.get("M", "")) if isinstance(fields, dict) else str(error)
