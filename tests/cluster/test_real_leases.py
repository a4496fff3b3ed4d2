"""Leases and the roster on real NATS servers: nobody dies because of the bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.nats_server import NatsServer, bus, three_servers

from cordboard.cluster.events import EventSink
from cordboard.cluster.lease import Lease, LeaseState, LeaseTimes
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.roster import Roster
from cordboard.cluster.unsent import UnsentNotes
from cordboard.cluster.wire import EngineLease
from cordboard.config.sections.cluster import Nats
from cordboard.errors import BusAway
from cordboard_testkit.patience import PATIENCE, until

USUAL = LeaseTimes()


class Engine:
    """The part of an engine that the others see."""

    def __init__(self, found: NatsBus, name: str, times: LeaseTimes) -> None:
        self.bus = found
        self.gone: list[str] = []
        self.states: list[LeaseState] = []
        self.lease = Lease(
            found.leases, name, lambda: EngineLease(name, name), times, changed=self.states.append
        )
        found.connection.changed = lambda connected: self.lease.renew_soon()
        self.roster = Roster(found.leases, self.lease, self.gone.append)
        self.tasks: list[asyncio.Task[None]] = []

    def live(self) -> None:
        self.tasks = [
            asyncio.create_task(self.lease.run()),
            asyncio.create_task(self.roster.run()),
        ]

    async def die(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


@asynccontextmanager
async def engine(
    settings: Nats, name: str, replicas: int = 1, times: LeaseTimes = USUAL
) -> AsyncIterator[Engine]:
    async with bus(settings, replicas=replicas, patient=False) as found:
        made = Engine(found, name, times)
        made.live()
        await until(lambda: made.lease.state == "held", "the lease")
        try:
            yield made
        finally:
            await made.die()


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


async def test_a_dead_engine_is_noticed_revoked_and_loses_everything(server: NatsServer) -> None:
    async with engine(server.settings, "a-1") as a, engine(server.settings, "b-1") as b:
        await until(lambda: "a-1" in b.roster.others, "the other engine")
        await until(lambda: b.lease.steady_seconds > 4, "trust in the bus")
        loop = asyncio.get_running_loop()
        await a.die()
        died = loop.time()
        await until(lambda: b.gone == ["a-1"], "the loss")
        assert loop.time() - died < 30  # its lease is two seconds
        assert await b.roster.revoke("a-1")
        a.live()  # it wakes
        await until(lambda: a.lease.state == "lost", "the revocation")
        assert a.lease.lost_to == "b-1"
        assert b.gone == ["a-1"]
        assert a.gone == []


@pytest.mark.parametrize("fault", ["stop", "kill"])
async def test_six_seconds_without_the_bus_kill_nobody(server: NatsServer, fault: str) -> None:
    async with engine(server.settings, "a-1") as a, engine(server.settings, "b-1") as b:
        await until(lambda: min(a.lease.steady_seconds, b.lease.steady_seconds) > 4, "trust")
        server.stop() if fault == "stop" else server.kill()
        await asyncio.sleep(6)
        assert [a.lease.state, b.lease.state] == ["in_doubt"] * 2
        server.go_on() if fault == "stop" else server.start()
        await until(lambda: a.lease.state == b.lease.state == "held", "the leases")
        await until(lambda: min(a.lease.steady_seconds, b.lease.steady_seconds) > 5, "trust")
        assert a.gone == b.gone == []
        assert list(a.roster.others) == ["b-1"]
        assert list(b.roster.others) == ["a-1"]
        for states in (a.states, b.states):
            assert {*states} == {"held", "in_doubt"}
            assert (states[0], states[-1]) == ("held", "held")


async def test_an_engine_that_leaves_in_order_is_not_missed(server: NatsServer) -> None:
    async with engine(server.settings, "a-1") as a, engine(server.settings, "b-1") as b:
        await until(lambda: "a-1" in b.roster.others, "the other engine")
        await a.die()
        await a.lease.give_up()
        await until(lambda: not b.roster.others, "the farewell")
        await until(lambda: b.lease.steady_seconds > 5, "time")
        assert b.gone == []


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[list[NatsServer], Nats]]:
    servers = three_servers()
    try:
        for each in servers:
            each.start()
        yield servers, Nats(servers=tuple(each.url for each in servers), replicas=3)
    finally:
        for each in servers:
            each.__exit__(None, None, None)


async def leader_of(found: NatsBus, stream: str) -> str:
    info = await found.connection.api(f"STREAM.INFO.{stream}", seconds=PATIENCE)
    leader: str = info["cluster"]["leader"]
    return leader


async def whole(sink: EventSink, call_id: str) -> tuple[bytes, ...]:
    """The lines of a call; the server that answers may be behind for a moment."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return (await sink.read(call_id)).lines
            except BusAway:
                await asyncio.sleep(0.05)


async def test_the_leader_is_killed_and_neither_an_engine_nor_an_event_is_lost(
    tmp_path: Path,
) -> None:
    """The leader of leases and events; the bus is away for some seconds."""
    notes = UnsentNotes(tmp_path, "a-1")
    async with (
        cluster() as (servers, settings),
        engine(settings, "a-1", 3) as a,
        engine(settings, "b-1", 3) as b,
    ):
        sink = EventSink(a.bus.events, notes)
        assert notes.lock()
        a.tasks.append(asyncio.create_task(sink.run()))
        sink.open("c1", lambda: tmp_path / "c1.jsonl")
        sink.owned("c1", 1)
        lines = [b'{"at_ms":%d}\n' % number for number in range(600)]
        await until(lambda: min(a.lease.steady_seconds, b.lease.steady_seconds) > 4, "trust")
        leader = await leader_of(a.bus, a.bus.leases.stream)
        if await leader_of(a.bus, a.bus.events.stream) != leader:
            request = {"placement": {"preferred": leader}}
            name = f"STREAM.LEADER.STEPDOWN.{a.bus.events.stream}"
            await a.bus.connection.api(name, request, PATIENCE)
        for number, line in enumerate(lines):
            if number == 100:
                next(each for each in servers if each.name == leader).kill()
            sink.take("c1", line)
            await asyncio.sleep(0.01)
        sink.close("c1")
        await sink.idle()
        assert await whole(sink, "c1") == tuple(lines)
        await until(lambda: min(a.lease.steady_seconds, b.lease.steady_seconds) > 5, "trust")
        assert a.gone == b.gone == []
        assert "lost" not in a.states + b.states
    notes.close()


async def test_an_engine_whose_server_hangs_goes_to_another_before_its_lease_ends() -> None:
    """The server that it is connected to, and not the leader of the leases. It takes 1.5 s; a busy
    machine of tests has ten."""
    patient = LeaseTimes(lease=10)
    async with (
        cluster() as (servers, settings),
        engine(settings, "a-1", 3, patient) as a,
        engine(settings, "b-1", 3, patient) as b,
    ):
        leader = await leader_of(a.bus, a.bus.leases.stream)
        if b.bus.connection.server == leader_url(servers, leader):
            link = await b.bus.connection.link()
            link.lose()  # to the next server
            await until(lambda: b.bus.connection.connected, "the next server")
        hung = next(each for each in servers if each.url == b.bus.connection.server)
        assert hung.name != leader
        await until(lambda: min(a.lease.steady_seconds, b.lease.steady_seconds) > 4, "trust")
        hung.stop()
        await until(lambda: b.bus.connection.server != hung.url, "the other server")
        await asyncio.sleep(3)  # a renewal there, and whatever else it may have done
        assert b.states == ["held"]
        assert a.gone == []


def leader_url(servers: list[NatsServer], name: str) -> str:
    return next(each.url for each in servers if each.name == name)
