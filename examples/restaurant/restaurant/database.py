"""The database: SQLite for one machine, PostgreSQL by URL; created and filled when it is empty.

Everything in here blocks; the API calls it in threads. Reading and writing have sessions of their
own: on SQLite a writer takes the write lock at once (`BEGIN IMMEDIATE`), so that the second writer
waits instead of failing half-way.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session

from .schema import Base, TableRow
from .seed import fill

LOCK_SECONDS = 10
"""Timeout of a writer that waits for another one (SQLite)."""
_WRITES = "restaurant_writes"


class DatabaseError(Exception):
    """The database cannot be used; the text has the reason, without the password."""


class Database:
    """Sessions on one database."""

    def __init__(self, url: str) -> None:
        """Raises `DatabaseError` for a URL that cannot be used. Connects at first use."""
        self._engine = _engine(url)
        self._writer = self._engine.execution_options(**{_WRITES: True})

    @property
    def url(self) -> str:
        """Its address, without the password."""
        return self._engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with Session(self._engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction: committed at the end, rolled back on an exception."""
        with Session(self._writer) as session, session.begin():
            yield session

    def prepare(self, now: Callable[[], dt.datetime]) -> None:
        """Make the tables, and fill them if they are empty. Raises `DatabaseError`."""
        try:
            Base.metadata.create_all(self._writer)
            with self.writing() as session:
                if session.scalar(select(TableRow.id).limit(1)) is None:
                    fill(session, now().date())
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise DatabaseError(f"{self.url} cannot be used: {reason}") from error

    def close(self) -> None:
        self._engine.dispose()


def _engine(url: str) -> Engine:
    try:
        parts = make_url(url)
        if parts.drivername == "postgresql":
            parts = parts.set(drivername="postgresql+pg8000")
        backend = parts.get_backend_name()
        if backend not in ("sqlite", "postgresql"):
            raise DatabaseError(f"expected a URL of sqlite or postgresql, found {backend!r}")
        if backend != "sqlite":
            return create_engine(parts, pool_pre_ping=True)
        if parts.database and parts.database != ":memory:":
            Path(parts.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parts, connect_args={"timeout": LOCK_SECONDS})
    except ArgumentError as error:
        raise DatabaseError(f"the database URL cannot be read: {error}") from None
    except ModuleNotFoundError as error:
        raise DatabaseError(f"the package {error.name} is missing") from error
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: object) -> None:
    """Turn off the driver's transactions, check references, and let readers continue during a
    write."""
    connection.isolation_level = None
    for pragma in ("foreign_keys=ON", "journal_mode=WAL", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
