"""The HTTP port in a crowd: connections that say nothing, drip, or do not read their answers."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cordboard.api.app import create_app
from cordboard.api.gate import HttpLimits
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard_testkit.patience import PATIENCE

from .conftest import ShownEngine, ask, ask_app

HALF = b"GET /live HTTP/1.1\r\nHost: local"
MOST_WAITING = 100
CROWD = 1_000


def app(engine: ShownEngine) -> ASGIApp:
    return create_app(engine, loopback_only=True)


@pytest.fixture
async def server(engine: ShownEngine) -> AsyncIterator[HttpServer]:
    made = HttpServer(Health(port=0), app(engine), most_waiting=MOST_WAITING)
    await made.start()
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def _room_for_a_crowd() -> Iterator[None]:
    """The clients' ends are in this process too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * CROWD + 500)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Crowd:
    """Clients that never send a whole request."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ends: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def come(self, count: int, sent: bytes) -> None:
        """So many more, each with this beginning of a request."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(sent)
            self.ends.append((reader, writer))

    def drip(self, sent: bytes) -> None:
        """Each sends a little more."""
        for _, writer in self.ends:
            writer.write(sent)

    async def turned_out(self, first: int) -> None:
        """Until the server has closed the first so many."""
        for reader, _ in self.ends[:first]:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), PATIENCE) == b""

    async def go(self) -> None:
        for _, writer in self.ends:
            writer.transport.abort()
        await asyncio.sleep(0)


@pytest.fixture
async def crowd(server: HttpServer) -> AsyncIterator[Crowd]:
    made = Crowd(server.port)
    yield made
    await made.go()


@pytest.mark.parametrize("sent", [b"", HALF])
async def test_a_thousand_idle_connections_keep_nobody_out_and_no_descriptors(
    server: HttpServer, crowd: Crowd, sent: bytes
) -> None:
    before = descriptors()
    await crowd.come(CROWD, sent)
    for path in ("/live", "/ready", "/health", "/metrics"):
        assert (await ask(server.port, path)).status == 200
    await crowd.turned_out(CROWD - MOST_WAITING)
    assert descriptors() - before <= CROWD + MOST_WAITING


async def test_drips_do_not_make_a_connection_younger(server: HttpServer, crowd: Crowd) -> None:
    await crowd.come(MOST_WAITING, HALF)
    for _ in range(20):
        crowd.drip(b"a")
        assert (await ask(server.port, "/live")).status == 200
    await crowd.come(CROWD - MOST_WAITING, HALF)
    assert (await ask(server.port, "/live")).status == 200
    await crowd.turned_out(CROWD - MOST_WAITING)


async def test_a_client_between_two_requests_has_waited_since_the_last_one(
    server: HttpServer, crowd: Crowd
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(3):
        await crowd.come(MOST_WAITING - 2, HALF)
        writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b'{"live":true}'), PATIENCE)
    writer.close()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /live HT", b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /li"]
)
async def test_a_connection_without_a_whole_request_is_closed(
    engine: ShownEngine, sent: bytes
) -> None:
    server = HttpServer(Health(port=0), app(engine), idle_seconds=0.1)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), PATIENCE)  # to its end
        writer.close()
    finally:
        await server.close()


async def test_a_client_that_does_not_read_its_answers_is_closed(
    engine: ShownEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its request would be under way for ever."""
    monkeypatch.setattr(engine, "metrics", AsyncMock(return_value=b"x" * 8_000_000))
    server = HttpServer(Health(port=0), app(engine), idle_seconds=1.0)
    await server.start()
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        alone = descriptors()
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        assert (await ask(server.port, "/live")).status == 200  # so the other one is accepted
        assert descriptors() > alone
        async with asyncio.timeout(PATIENCE):
            while descriptors() > alone:  # noqa: ASYNC110 - the client's end does not tell
                await asyncio.sleep(0.02)
    await server.close()


async def test_who_comes_while_many_are_answered_is_told_to_come_again(
    engine: ShownEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = asyncio.Semaphore(0), asyncio.Event()

    async def metrics() -> bytes:
        asked.release()
        await answer.wait()
        return b""

    monkeypatch.setattr(engine, "metrics", metrics)
    crowded = create_app(engine, loopback_only=True, limits=HttpLimits(most_at_once=2))
    async with asyncio.TaskGroup() as group:
        slow = [group.create_task(ask_app(crowded, "/metrics")) for _ in range(2)]
        for _ in slow:
            await asyncio.wait_for(asked.acquire(), PATIENCE)
        refused = await ask_app(crowded, "/health")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert (await ask_app(crowded, "/live")).status == 200
        answer.set()
    assert [task.result().status for task in slow] == [200, 200]
    assert (await ask_app(crowded, "/health")).status == 200


async def test_refused_requests_take_no_place_from_others(engine: ShownEngine) -> None:
    """A stranger without the token who does not read the refusals keeps nobody out."""
    off_loopback = create_app(
        engine,
        loopback_only=False,
        token=lambda: SecretStr("word"),
        limits=HttpLimits(most_at_once=2),
    )
    unread = asyncio.Event()

    async def of_a_stranger(scope: Scope, receive: Receive, send: Send) -> None:
        async def stuck(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.body":
                unread.set()
                await asyncio.Event().wait()

        await off_loopback(scope, receive, stuck)

    strangers = []
    for host in ("localhost", "elsewhere") * 2:
        unread.clear()
        strangers.append(asyncio.create_task(ask_app(of_a_stranger, "/ready", host=host)))
        await asyncio.wait_for(unread.wait(), PATIENCE)
    answer = await ask_app(off_loopback, "/ready", headers={"Authorization": "Bearer word"})
    assert answer.status == 200
    for stranger in strangers:
        stranger.cancel()
    await asyncio.wait(strangers)


async def test_clients_that_do_not_read_wait_in_the_same_queue(
    engine: ShownEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = b"x" * 8_000_000
    monkeypatch.setattr(engine, "metrics", AsyncMock(return_value=page))
    server = HttpServer(Health(port=0), app(engine), idle_seconds=1_000, most_waiting=2)
    await server.start()
    loop = asyncio.get_running_loop()
    clients = [socket.socket() for _ in range(4)]
    try:
        for client in clients:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", server.port))
            await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            await asyncio.wait_for(loop.sock_recv(client, 1), PATIENCE)  # the answer has begun
        received = 1
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while some := await loop.sock_recv(clients[0], 1_000_000):
                    received += len(some)
        assert received < 2 * len(page), "it was closed for those who came after it"
    finally:
        for client in clients:
            client.close()
        await server.close()
