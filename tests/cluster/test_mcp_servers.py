"""MCP servers that run once in a cluster: the MCP parts of engines, each with its own connection to
a real NATS server, and real processes of a server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from tests.cluster.nats_server import NatsServer
from tests.mcp.conftest import faulty, gone

from cordboard.cluster.lease import LeaseTimes
from cordboard.cluster.mcp_relay import WINDOW, ArrivedRequests, RelayLine
from cordboard.cluster.mcp_servers import ClusterServers
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.sealed_bus import BusSeal
from cordboard.cluster.wire import ServerRequest, encode_server_request
from cordboard.config.mcp import McpServer
from cordboard.errors import McpError, McpRefused, McpTimeout, McpUnavailable
from cordboard.mcp.stdio.process import Launch, ServerProcess
from cordboard.mcp.supervision.breaker import BreakerState
from cordboard.mcp.supervision.pool import Lease, ServerPool
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import ServerState
from cordboard_testkit.patience import PATIENCE, until

SUBJECT = "test.mcp.shop.call"


def shop(*behaviour: str, **settings: Any) -> McpServer:
    return faulty(*behaviour, run="cluster", **settings)


class Engine:
    """The part of an engine that has MCP servers."""

    def __init__(
        self, nats: NatsServer, name: str, config: McpServer, seal: BusSeal | None = None
    ) -> None:
        self.name = name
        self.errors: list[str] = []
        self.bus = NatsBus(NatsConnection(nats.settings, name), "test")
        self.pool = ServerPool()
        self.sharing = self.pool.sharing = ClusterServers(
            self.bus.connection,
            self.bus.servers,
            self.pool,
            name,
            cluster="test",
            times=LeaseTimes(),
            seal=seal,
            internal_error=self.errors.append,
        )
        self._on_bus = asyncio.create_task(self.bus.run())
        self._sharing = asyncio.create_task(self.sharing.run())
        self.lease: Lease = self.pool.lease("shop", config, lambda: None)
        self.lease.start()

    @property
    def server(self) -> SupervisedServer:
        return self.lease.server

    @property
    def pid(self) -> int | None:
        return self.server.status().pid

    async def ready(self) -> None:
        assert await self.server.wait_ready(PATIENCE), self.lease.status()

    async def call(self, tool: str = "echo", timeout: float = PATIENCE, **arguments: Any) -> Any:
        return await self.server.call(tool, arguments, timeout)

    async def pid_of_echo(self) -> int:
        """Process id of the server, as it says itself."""
        result = await self.call(text="hello")
        return int(result.structured_content["pid"])

    async def stop(self) -> None:
        """Stop in order. Idempotent."""
        await self.sharing.close()
        await self.die()

    async def die(self) -> None:
        """End as a killed engine does: nobody is told, and the process ends with it."""
        for task in (self._on_bus, self._sharing):
            task.cancel()
        await asyncio.wait([self._on_bus, self._sharing])
        await self.pool.close()


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@asynccontextmanager
async def two(
    nats: NatsServer, config: McpServer, seal: BusSeal | None = None
) -> AsyncIterator[tuple[Engine, Engine]]:
    """An engine that runs the server, and one that does not."""
    first = Engine(nats, "a-1", config, seal)
    await first.ready()
    second = Engine(nats, "b-2", config, seal)
    try:
        await second.ready()
        yield first, second
    finally:
        await second.stop()
        await first.stop()
    assert not first.errors + second.errors


async def test_one_process_serves_all_engines_and_moves_with_an_orderly_stop(
    nats: NatsServer,
) -> None:
    async with two(nats, shop()) as (first, second):
        pid = first.pid
        assert await first.pid_of_echo() == await second.pid_of_echo() == pid
        assert (second.pid, second.lease.status().runs_at) == (None, "a-1")
        assert first.lease.status().runs_at == ""
        assert first.server.listing == second.server.listing  # definitions, too
        with pytest.raises(McpRefused, match="no such thing"):
            await second.call("rpc_error")
        refused = await second.call("fails")
        assert refused.is_error
        assert "No report" in refused.content[0].text
        big = await second.call("rows", count=20_000)  # parsed off the event loop
        assert len(big.structured_content["rows"]) == 20_000
        await first.stop()
        await until(lambda: second.pid is not None, "the process at the other engine")
        assert await gone(pid or 0)
        await second.ready()
        moved = second.pid
        assert await second.pid_of_echo() == moved != pid
    assert await gone(moved or 0)


async def test_a_timeout_and_a_cancellation_reach_the_process(nats: NatsServer) -> None:
    config = shop("good", "--tells", breaker={"failures": 2})
    async with two(nats, config) as (first, second):

        async def progressed(*news: object) -> None: ...

        def heard(words: str) -> int:
            return sum(line.startswith(words) for line in first.server.status().stderr)

        with pytest.raises(McpTimeout):
            await second.call("waits", timeout=0.5)
        await until(lambda: heard("cancelled") == 1, "the cancellation")
        waiting = asyncio.create_task(second.call("waits"))
        await until(lambda: heard("asked tools/call") == 2, "the call")
        waiting.cancel()
        await until(lambda: heard("cancelled") == 2, "the cancellation")
        with pytest.raises(McpTimeout):  # the engine that runs it counts the timeouts of all
            await second.server.call("waits", {}, 0.5, progressed)
        await until(lambda: first.server.status().breaker is BreakerState.OPEN, "the breaker")
        with pytest.raises(McpUnavailable):
            await second.call(text="hello")


async def test_the_next_engine_runs_the_server_of_one_that_was_killed(nats: NatsServer) -> None:
    config = shop("good", "--tells")
    async with two(nats, config) as (first, second):
        pid = first.pid
        third = Engine(nats, "c-3", config)
        await third.ready()
        calling = asyncio.create_task(second.call("hangs", timeout=60))

        def asked() -> bool:
            return any(line.startswith("asked tools/call") for line in first.server.status().stderr)

        await until(asked, "the call")
        await first.die()
        with pytest.raises(McpUnavailable):  # not repeated at the next engine
            await calling
        await until(lambda: bool(second.pid or third.pid), "the next process")
        await second.ready()
        await third.ready()
        assert await second.pid_of_echo() == await third.pid_of_echo() != pid
        assert (second.pid is None) is not (third.pid is None)
        await third.stop()


async def test_a_process_that_comes_after_its_lease_was_lost_is_ended_at_once(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start takes its time, and its turn; meanwhile there is no process that could be killed."""
    spawn = ServerProcess.spawn
    spawned: list[ServerProcess] = []

    async def late(launch: Launch) -> ServerProcess:
        if spawned:
            return await asyncio.Future()  # the next life
        [here] = engine.sharing.leading.values()
        here.lease.lost = True
        here.lease.renew_soon()
        await asyncio.sleep(here.lease.margin)  # longer than the time after which it is killed
        spawned.append(await spawn(launch))
        return spawned[0]

    monkeypatch.setattr(ServerProcess, "spawn", late)
    engine = Engine(nats, "a-1", shop("mute", start_timeout_ms=60_000))
    await until(lambda: bool(spawned))
    assert await gone(spawned[0].pid)
    await engine.stop()
    assert not engine.errors


async def test_the_bus_is_away_and_comes_back(nats: NatsServer) -> None:
    async with two(nats, shop("ignores-end", stop_grace_ms=60_000)) as (first, second):
        pid = first.pid or 0
        nats.stop()
        await until(lambda: first.pid is None, "the end of the process")
        assert await gone(pid)  # long before its time for a shutdown is over
        with pytest.raises(McpUnavailable):
            await first.call(text="hello", timeout=0.2)
        assert second.pid is None
        nats.go_on()
        for engine in (first, second):
            await engine.ready()
        assert await first.pid_of_echo() == await second.pid_of_echo() != pid
        assert (first.pid is None) is not (second.pid is None)
        os.killpg(first.pid or second.pid or 0, signal.SIGKILL)  # it would take its minute


async def test_what_does_not_fit_and_what_is_not_meant_for_us(nats: NatsServer) -> None:
    config = shop(env={"SHOP_KEY": "a-secret-of-the-shop"})
    async with two(nats, config) as (first, second):
        with pytest.raises(McpRefused, match=r"longer than the \d+ bytes"):
            await second.call("huge", bytes=1_200_000)
        with pytest.raises(McpRefused, match="arguments are longer"):
            await second.call(text="x" * 1_200_000)

        heard: list[bytes] = []
        link = await second.bus.connection.link()

        async def hear(message: Any) -> None:
            heard.append(message.data)

        await link.client.subscribe(">", cb=hear)
        seen = (await second.call("environment")).structured_content
        assert seen["SHOP_KEY"] == "***"
        await link.settle()
        assert not any(b"a-secret-of-the-shop" in data for data in heard)

        stranger = ServerRequest("x", "another life", "tools/call", "echo")
        later = encode_server_request(stranger).replace(b'"v":1', b'"v":2')
        for data in (b"", b"{", b"\xff\x00", b'{"v":1,"kind":"mcp_request"}\n', later):
            await link.answer(SUBJECT, data)
        answer = await link.ask(SUBJECT, encode_server_request(stranger))
        assert b'"unavailable"' in answer.data
        assert await second.pid_of_echo() == first.pid


async def test_an_answer_of_a_stranger_costs_its_own_call_only(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(nats, shop()) as (first, second):
        link = await first.bus.connection.link()
        forged = [
            b"",
            b"not JSON",
            b'{"v":9,"kind":"mcp_answer","outcome":"result"}\n{}',
            b'{"v":1,"kind":"mcp_answer","outcome":"result"}\n{"content":',
            b'{"v":1,"kind":"mcp_answer","outcome":"result"}\n{"content":7}',
            b'{"v":1,"kind":"mcp_answer","outcome":"result"}\n{}},"id":{"a":{}',
            b'{"v":1,"kind":"mcp_answer","outcome":"new"}\n',
        ]
        left = list(forged)

        async def lie(message: Any) -> None:
            if left:
                await link.answer(message.reply, left.pop())

        # Of every desk: after a stall the server may be placed anew.
        desk = type(first.sharing.leading["shop"].desk)
        monkeypatch.setattr(desk, "_take", lambda *request: None)
        await link.client.subscribe(SUBJECT, cb=lie)
        await link.settle()
        for _ in forged:
            with pytest.raises(McpError):
                await second.call("plain", timeout=1)
        await until(lambda: second.server.state is ServerState.READY, "the server")


async def test_a_change_of_the_tools_is_told(nats: NatsServer) -> None:
    async with two(nats, shop()) as (_, second):
        await second.call("new_tool")
        await until(
            lambda: any(tool.name == "surprise" for tool in second.server.listing), "the tool"
        )
        assert (await second.call("surprise")).content[0].text == "boo"


async def test_a_server_that_cannot_start_here_runs_elsewhere(nats: NatsServer) -> None:
    first = Engine(nats, "a-1", shop("exits", restart={"max_restarts": 0}))
    await until(lambda: first.server.state is ServerState.FAILED, "the failure")
    second = Engine(nats, "b-2", shop())
    await first.ready()
    assert await first.pid_of_echo() == second.pid
    await second.stop()
    await first.stop()


async def test_what_is_relayed_is_encrypted(nats: NatsServer) -> None:
    async with two(nats, shop(), BusSeal(b"k" * 32)) as (first, second):
        heard: list[bytes] = []
        link = await second.bus.connection.link()

        async def hear(message: Any) -> None:
            heard.append(message.data)

        await link.client.subscribe("test.mcp.>", cb=hear)
        second.server.messages.hide(["1234-5678"])
        result = await second.call(text="my PIN is 1234-5678")
        assert result.structured_content["text"] == "my PIN is 1234-5678"
        await link.settle()
        assert heard
        assert not any(b"1234" in data for data in heard)
        shown = first.server.messages.after(0).items
        assert not any("1234-5678" in message.content for message in shown)


async def test_what_somebody_has_recorded_does_nothing_again(nats: NatsServer) -> None:
    seal = BusSeal(b"k" * 32)
    async with two(nats, shop("good", "--tells"), seal) as (first, second):
        recorded: list[Any] = []
        link = await second.bus.connection.link()

        async def record(message: Any) -> None:
            recorded.append(message)

        def asked() -> int:
            lines = first.server.status().stderr
            return sum(line.startswith("asked tools/call") for line in lines)

        await link.client.subscribe(SUBJECT, cb=record)
        await second.call(text="hello")
        await second.server.restart()  # the next relay counts from 1, too
        await second.ready()
        await second.call(text="hello")
        await link.settle()
        await until(lambda: asked() == 2, "both calls")
        life = first.sharing.leading["shop"].life
        words = b'{"text":"hello"}'
        plain = ServerRequest("b-2-f00-1", life, "tools/call", "echo", 4_000, arguments=words)
        for data in [*(each.data for each in recorded), encode_server_request(plain)]:
            await link.answer(SUBJECT, data)
        await link.settle()
        await second.call(text="hello")
        await until(lambda: asked() >= 3, "the call")
        assert asked() == 3


async def test_a_recorded_answer_belongs_to_no_later_request(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = BusSeal(b"k" * 32)
    async with two(nats, shop(), seal) as (first, second):
        link = await first.bus.connection.link()
        recorded: list[bytes] = []

        async def record(message: Any) -> None:
            recorded.append(message.data)

        async def lie(message: Any) -> None:
            await link.answer(message.reply, recorded[-1])

        listening = await link.client.subscribe("_INBOX.>", cb=record)
        await link.settle()
        await second.call(text="hello")
        await link.settle()
        await listening.unsubscribe()
        opened = [seal.open_sealed("mcp shop", data) for data in recorded]
        recorded[:] = [
            data for data, text in zip(recorded, opened, strict=True) if b"hello" in text
        ]
        assert recorded

        async def silent(*_: object) -> None: ...

        monkeypatch.setattr(RelayLine, "answer", silent)
        await link.client.subscribe(SUBJECT, cb=lie)
        await link.settle()
        with pytest.raises(McpError, match="to another request"):
            await second.call(text="hello", timeout=1)


def test_requests_may_overtake_each_other_and_arrive_once() -> None:
    arrived = ArrivedRequests()
    order = [2, 1, 5, 3, 4, WINDOW + 5, 7, 6]
    assert all(arrived.is_new(f"b-2-{number}") for number in order)
    assert not any(arrived.is_new(f"b-2-{number}") for number in [*order, 0])
    assert not any(map(arrived.is_new, ("", "x", "b-2-", "b-2-x", "b-2-1.5", f"b-2-{'9' * 5_000}")))
    assert arrived.is_new("c-3-1"), "each relay counts its own"


async def test_an_open_breaker_is_told_and_the_others_ask_the_server_themselves(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.cluster.mcp_servers.CHECK_SECONDS", 0.5)
    config = shop(breaker={"failures": 1, "open_ms": 60_000}, stop_grace_ms=200)
    async with two(nats, config) as (first, second):
        second.sharing.changed(second.server, breaker_open=True)
        await until(lambda: first.lease.status().breaker_reported_by == ("b-2",), "the report")
        assert second.lease.status().breaker_reported_by == ()
        await first.call(text="hello")
        assert first.server.status().breaker is BreakerState.CLOSED  # it answers this engine
        second.sharing.changed(second.server, breaker_open=False)
        await until(lambda: first.lease.status().breaker_reported_by == (), "its end")

        await first.call("stops_reading")  # from now on the process answers nobody
        second.sharing.changed(second.server, breaker_open=True)
        await until(lambda: first.server.status().breaker is BreakerState.OPEN, "the breaker")
        await until(lambda: second.lease.status().breaker_reported_by == ("a-1",), "the report")


def test_a_request_is_one_line_of_json_and_the_arguments() -> None:
    request = ServerRequest("b-2-f00-1", "f00", "tools/call", "echo", 4_000, arguments=b'{"a":1}')
    head, _, arguments = encode_server_request(request).partition(b"\n")
    assert orjson.loads(head)["v"] == 1
    assert arguments == b'{"a":1}'
