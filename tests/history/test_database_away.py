"""PostgreSQL goes away under a running engine.

Calls are written to their ledgers as always, and their rows come later, each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, make_url, text
from tests.examples.postgres import PostgresServer

from cordboard.errors import IndexUnavailable
from cordboard.history import database, tables
from cordboard.history.database import understood
from cordboard.history.keeper import IndexKeeper
from cordboard.history.query import CallQuery
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.history.store import FileState, IndexedFile
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import until

from .ledgers import Told


class Door:
    """The way to the server, which may be shut: its connections are reset, new ones are refused."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.is_silent = False
        """True: what is sent does not arrive."""
        self.asked = asyncio.Event()
        """Set when something was sent that does not arrive."""
        self._there = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._there)
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self.is_silent:
                    self.asked.set()
                else:
                    writer.write(data)
        writer.close()
        self._writers.discard(writer)


@contextlib.asynccontextmanager
async def door_to(url: URL) -> AsyncIterator[tuple[Door, str]]:
    """A door to a server, and the URL by which it is used."""
    assert url.port is not None
    door = Door(url.port)
    await door.open()
    through = url.set(host="127.0.0.1", port=door.port)
    try:
        yield door, through.render_as_string(hide_password=False)
    finally:
        door.shut()


async def test_rows_of_calls_that_were_made_without_the_database_come_later_and_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with door_to(make_url(postgres.new_database())) as (door, through):
        await rows_come_later_and_once(door, SqlHistoryStore(tmp_path, through), tmp_path)


async def rows_come_later_and_once(door: Door, store: SqlHistoryStore, tmp_path: Path) -> None:
    keeper = IndexKeeper(tmp_path, store, interval=0.1)
    keeper.start()

    async def listed() -> list[str]:
        rows = (await asyncio.to_thread(store.find, CallQuery())).rows
        return sorted(row.id for row in rows)

    try:
        Told("before").write(tmp_path)
        await until(lambda: keeper.up_to_date)
        door.shut()
        Told("meanwhile").write(tmp_path)
        await until(lambda: bool(keeper.problem))
        assert not keeper.up_to_date
        await door.open()
        await until(lambda: not keeper.problem and keeper.up_to_date)
        Told("after").write(tmp_path)
        passes = keeper.passes
        await until(lambda: keeper.passes >= passes + 2)
        assert await listed() == ["after", "before", "meanwhile"]
    finally:
        await asyncio.to_thread(keeper.close)


async def test_a_server_that_is_gone_before_its_answer_makes_the_index_unavailable(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with door_to(make_url(postgres.new_database())) as (door, through):
        store = SqlHistoryStore(tmp_path, through)
        await asyncio.to_thread(store.open)
        door.is_silent = True
        finding = asyncio.create_task(asyncio.to_thread(store.find, CallQuery()))
        await door.asked.wait()
        door.shut()
        with pytest.raises(IndexUnavailable, match="the index of calls cannot be used: Connection"):
            await finding
        with pytest.raises(IndexUnavailable, match="no connection to 127"):
            await asyncio.to_thread(store.find, CallQuery())
        store.close()


def test_a_server_that_refuses_says_why_in_a_sentence(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = make_url(postgres.new_database()).set(username="somebody")
    store = SqlHistoryStore(tmp_path, url.render_as_string(hide_password=False))
    with pytest.raises(IndexUnavailable) as refused:
        store.open()
    assert str(refused.value) == (
        'the index of calls cannot be used: role "somebody" does not exist'
    )


def test_an_error_of_the_database_does_not_name_the_values_of_rows(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    engine = create_engine(make_url(postgres.new_database()).set(drivername="postgresql+pg8000"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE person (number TEXT, name TEXT NOT NULL)"))
    person = text("INSERT INTO person VALUES ('+4533112233', NULL)")
    with pytest.raises(IndexUnavailable) as refused, understood(), engine.begin() as connection:
        connection.execute(person)
    assert "null value in column" in str(refused.value)
    assert "33112233" not in str(refused.value)
    engine.dispose()


def test_a_server_whose_machine_is_silent_is_given_up(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of connections that is full takes no other one, as a machine that is switched off."""
    monkeypatch.setattr(database, "CONNECT_SECONDS", 0.2)
    with socket.socket() as silent, contextlib.ExitStack() as waiting:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        address = silent.getsockname()
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        store = SqlHistoryStore(tmp_path, f"postgresql://user@127.0.0.1:{address[1]}/calls")
        with pytest.raises(IndexUnavailable, match=rf"no connection to 127.0.0.1:{address[1]} "):
            store.open()
    store = SqlHistoryStore(tmp_path, postgres.new_database())
    store.open()
    with store._database.opened().connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        option = raw._usock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert (option, raw._usock.gettimeout()) == (25_000, None)
    store.close()


def test_a_pass_does_not_go_on_in_tables_that_were_made_anew_for_a_newer_version(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_database()
    stores = [SqlHistoryStore(tmp_path / node, url, node=node) for node in "ab"]
    old, new = stores
    for store in stores:
        store.open()
    call = IndexedFile(Told("x").file, FileState(1, 1), [])
    old.put([call])
    with monkeypatch.context() as newer:
        newer.setattr(database, "VERSION", str(int(tables.VERSION) + 1))
        new.open()
    with pytest.raises(IndexUnavailable, match="was made anew"):
        old.put([call])
    with pytest.raises(IndexUnavailable, match="was made anew"):
        old.remove([call.file])
    for store in stores:
        store.close()


def test_a_pass_does_not_go_on_in_rows_that_another_directory_has_taken_over(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_database()
    stores = [SqlHistoryStore(tmp_path / folder, url, node="a") for folder in ("one", "two")]
    before, after = stores
    before.open()
    after.recreate(take_over=True)
    call = IndexedFile(Told("x").file, FileState(1, 1), [])
    with pytest.raises(IndexUnavailable, match="was made anew"):
        before.put([call])
    after.put([call])
    for store in stores:
        store.close()
