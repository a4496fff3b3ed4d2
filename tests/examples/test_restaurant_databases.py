"""The same book on SQLite and on a real PostgreSQL, and two backends on one of them."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import NOW, opened, settings_for
from .postgres import PostgresServer

# isort: split
from restaurant.book import Book
from restaurant.database import Database
from restaurant.errors import NoTableFree
from restaurant.model import Booking, NewBooking


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_backends_on_one_database_never_give_one_table_twice(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each with connections of its own, and asked by four callers at the same moment."""
    database_url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    if kind == "postgresql":
        database_url = request.getfixturevalue("postgres").new_database()
    databases = [Database(database_url) for _ in range(2)]
    databases[0].prepare(lambda: NOW)
    start = threading.Barrier(8)
    wanted = NewBooking.model_validate(
        {"people": 2, "date": dt.date(2026, 11, 28), "time": dt.time(20), "name": "Mary Jones"}
    )

    def caller(number: int) -> Booking | None:
        book = Book(databases[number % 2], lambda: NOW)
        start.wait(20)
        try:
            return book.book(wanted)
        except NoTableFree:
            return None

    try:
        with ThreadPoolExecutor(8) as callers:
            found = list(callers.map(caller, range(8)))
    finally:
        for database in databases:
            database.close()
    booked = [booking for booking in found if booking is not None]
    assert len(booked) == len({booking.table for booking in booked}) == 6
    assert len({booking.code for booking in booked}) == 6


async def test_the_api_on_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()
    async with opened(settings_for(tmp_path, database_url=url)) as system:
        booking = (await system.book("2026-11-27", "19:30", people=8)).json()
        assert booking["table"] == "Garden 1"
        assert (await system.book("2026-11-27", "19:30", people=8)).status_code == 409
        path = f"/bookings/{booking['code']}"
        assert (await system.api("DELETE", path)).json()["status"] == "cancelled"
        assert (await system.book("2026-11-27", "19:30", people=8)).status_code == 201
        query = {"customQuery": 'name ~ "BROWN" and created_at < 2025-03-01', "sort": "-name"}
        page = (await system.api("GET", "/customers", params=query)).json()
        names = [customer["name"] for customer in page["items"]]
        assert page["total"] == len(names) > 0
        assert names == sorted(names, reverse=True)
        assert (await system.api("GET", "/opening-hours")).status_code == 200
        given = await system.api("POST", "/feedback", json={"rating": 5, "comment": "Good"})
        assert given.status_code == 201
