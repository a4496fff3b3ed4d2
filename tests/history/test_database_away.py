"""PostgreSQL goes away under a running engine.

Calls are written to their ledgers as always, and their rows come later, each once.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from sqlalchemy import make_url
from tests.examples.postgres import PostgresServer

from cordboard.history.keeper import IndexKeeper
from cordboard.history.query import CallQuery
from cordboard.history.sql_store import SqlHistoryStore
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import until

from .ledgers import Told


class Door:
    """The way to the server, which may be shut: its connections end, and new ones are refused."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self._there = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._there)
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()
        self._writers.discard(writer)


async def test_rows_of_calls_that_were_made_without_the_database_come_later_and_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = make_url(postgres.new_database())
    assert url.port is not None
    door = Door(url.port)
    await door.open()
    through = url.set(host="127.0.0.1", port=door.port)
    store = SqlHistoryStore(tmp_path, through.render_as_string(hide_password=False))
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
        door.shut()
