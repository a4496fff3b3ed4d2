"""What the administrations of two engines ask each other, over a real NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.cluster.nats_server import NatsServer

from cordboard.cluster import forwarding
from cordboard.cluster.forwarding import MOST_PART, WINDOW, Exchange, Forwarding
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.sealed_bus import BusSeal
from cordboard.cluster.wire import AdminRequest
from cordboard.errors import BusAway, NodeGone
from cordboard_testkit.patience import PATIENCE, until

REQUEST = AdminRequest("", "", "a", 0, "POST", "/calls/c1/say", body=b'{"text":"plum"}')


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@asynccontextmanager
async def engine(
    server: NatsServer, instance: str, serve: Any = None, **more: Any
) -> AsyncIterator[Forwarding]:
    connection = NatsConnection(server.settings, instance)
    found = Forwarding(connection, "test", instance, **more)
    found.serve = serve
    tasks = [asyncio.create_task(connection.run()), asyncio.create_task(found.run())]
    async with asyncio.timeout(PATIENCE):
        link = await connection.link()
        if serve is not None:
            await until(lambda: len(link.client._subs) > 1)
        await link.client.flush()
    yield found
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def nothing(request: AdminRequest, exchange: Exchange) -> None:
    """Of an engine that only asks."""


async def echo(request: AdminRequest, exchange: Exchange) -> None:
    """Answers with the body, then with each frame."""
    await exchange.send("start", code=200, headers={"x": request.sender})
    await exchange.send("body", request.body)
    while (frame := await exchange.receive()).type != "end":
        await exchange.send(frame.type, frame.content)


async def test_a_request_and_its_answer_then_frames_both_ways_of_any_size(
    server: NatsServer,
) -> None:
    async with engine(server, "a-1", nothing) as a, engine(server, "b-1", echo) as b:
        exchange = await a.begin("b-1", REQUEST)
        start, body = await exchange.receive(), await exchange.receive()
        assert (start.type, start.code, start.headers) == ("start", 200, {"x": "a-1"})
        assert body.content == REQUEST.body
        big = bytes(range(256)) * (3 * MOST_PART // 256)
        for number in range(3 * WINDOW):  # more than may be on their way
            content = big if number == 9 else b"%d" % number
            await exchange.send("bytes", content)
            assert (await exchange.receive()).content == content
        await exchange.send("end")
        assert (await exchange.receive()).type == "end"
        a.end(exchange)
        await until(lambda: not b._exchanges and not a._exchanges)


async def test_a_sender_waits_for_one_that_takes_nothing(server: NatsServer) -> None:
    sent = 0

    async def flood(request: AdminRequest, exchange: Exchange) -> None:
        nonlocal sent
        while True:
            await exchange.send("bytes", b"x")
            sent += 1

    async with engine(server, "a-1", nothing) as a, engine(server, "b-1", flood):
        exchange = await a.begin("b-1", REQUEST)
        await until(lambda: sent == WINDOW)
        await asyncio.sleep(0.1)
        assert sent == WINDOW
        for _ in range(WINDOW // 2):
            await exchange.receive()
        await until(lambda: sent >= WINDOW + WINDOW // 2)


async def test_an_engine_that_is_not_there_or_dies_is_noticed(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(forwarding, "LOST_SECONDS", 2.0)

    async def silent(request: AdminRequest, exchange: Exchange) -> None:
        await asyncio.Future()

    async with engine(server, "a-1", nothing) as a:
        with pytest.raises(NodeGone, match="does not answer"):
            await a.begin("b-1", REQUEST)
        async with engine(server, "b-1"):  # without an administration
            with pytest.raises(NodeGone, match=r"admin\.ui is off"):
                await a.begin("b-1", REQUEST)
        async with engine(server, "b-1", silent) as b:
            exchange = await a.begin("b-1", REQUEST)
            await asyncio.sleep(2.3)  # a silent handler is alive
            waiting = asyncio.create_task(exchange.receive())
            await asyncio.sleep(0)
            assert not waiting.done()
            monkeypatch.setattr(forwarding, "LOST_SECONDS", 0.3)
            b._exchanges.clear()  # as one that is killed says nothing
            with pytest.raises(NodeGone, match="no sign of life"):
                await waiting
        assert exchange._lost


async def test_without_the_bus_exchanges_end_on_both_sides_and_new_ones_are_refused(
    server: NatsServer,
) -> None:
    ended = asyncio.Event()

    async def waits(request: AdminRequest, exchange: Exchange) -> None:
        try:
            await exchange.receive()
        finally:
            ended.set()

    async with engine(server, "a-1", nothing) as a, engine(server, "b-1", waits):
        exchange = await a.begin("b-1", REQUEST)
        server.kill()
        with pytest.raises(NodeGone, match="the bus is away"):
            await exchange.receive()
        await asyncio.wait_for(ended.wait(), PATIENCE)
        with pytest.raises(BusAway):
            await a.begin("b-1", REQUEST)
        server.start()
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await a.begin("b-1", REQUEST)
                    break
                except (BusAway, NodeGone):
                    await asyncio.sleep(0.05)


async def test_with_a_secret_only_those_who_know_it_are_heard_and_each_request_once(
    server: NatsServer,
) -> None:
    served: list[AdminRequest] = []

    async def note(request: AdminRequest, exchange: Exchange) -> None:
        served.append(request)

    key, other = BusSeal(b"1" * 32), BusSeal(b"2" * 32)
    async with (
        engine(server, "b-1", note, seal=key),
        engine(server, "a-1", nothing, seal=BusSeal(b"1" * 32)) as a,
        engine(server, "eve-1", nothing, seal=other) as eve,
        engine(server, "old-1", nothing) as plain,
        engine(server, "late-1", nothing, seal=key, clock=lambda: 1_000_000.0) as late,
    ):
        seen: list[Any] = []
        link = await plain._connection.link()
        async with link.inbox("test.admin.b-1.*") as (_, arrived):
            await link.client.flush()
            await a.begin("b-1", REQUEST)
            seen.append(await asyncio.wait_for(arrived.get(), PATIENCE))
        assert b"plum" not in seen[0].data
        await until(lambda: len(served) == 1)
        for stranger in (eve, plain):
            with pytest.raises(NodeGone, match="not encrypted with this cluster's secret"):
                await stranger.begin("b-1", REQUEST)
        with pytest.raises(NodeGone, match="clocks"):
            await late.begin("b-1", REQUEST)
        again = await link.ask(seen[0].subject, seen[0].data)
        assert b"sent before" in again.data
        moved = await link.ask(f"{seen[0].subject}x", seen[0].data)
        assert b"not encrypted" in moved.data
        assert len(served) == 1
