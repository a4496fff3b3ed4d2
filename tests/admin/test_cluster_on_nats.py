"""Two admin ports whose engines share a real NATS server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.cluster.nats_server import NatsServer, engines_have_time

from cordboard.accounts.rights import Grant, Role
from cordboard.admin import live_feed, other_engines
from cordboard.admin.steering import PROTOCOL as LISTEN
from cordboard.admin.tickets import PREFIX
from cordboard.cluster.member import Member, MemberEvents, Standing
from cordboard.cluster.orders import Order
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.runtime.cluster_administration import ClusterAdministration
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Room
from .neighbours import room_of
from .test_cluster import begin


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


@dataclass
class Engine:
    room: Room
    member: Member
    orders: list[Order]


@contextlib.asynccontextmanager
async def engine(server: NatsServer, folder: Path, node: str) -> AsyncIterator[Engine]:
    orders: list[Order] = []
    secret = SecretStr("a secret of all of them")
    settings = Cluster(node=node, nats=server.settings, secret=secret, lease_ms=6_000)
    member = Member(
        settings,
        lambda: Standing(10, 0, orders[-1:] == ["drain"]),
        folder / f"calls-{node}",
        encryption=Encryption(),
        asterisk=f"pbx-{node}:8088",  # another one: neither hears of the other's calls
        events=MemberEvents(ordered=orders.append),
    )
    room = room_of(folder / node, ClusterAdministration(member, settings))
    room.calls.clear()
    await member.start()
    try:
        yield Engine(room, member, orders)
    finally:
        assert room.services.others is not None
        room.services.others.close()
        await asyncio.sleep(0)
        await member.stop()
        room.close()


async def test_calls_of_another_node_are_seen_steered_and_heard_and_it_is_drained(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_feed, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(other_engines, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(other_engines, "LOOK_SECONDS", 30.0)
    engines_have_time(monkeypatch)
    async with engine(server, tmp_path, "a") as a, engine(server, tmp_path, "b") as b:
        await until(lambda: a.member.lease.state == b.member.lease.state == "held")
        a.room.add("adam", Role.ADMIN, (Grant.LISTEN, Grant.PERSONAL))
        begin(b.room, "far")
        begin(a.room, "near")
        browser = a.room.browser("adam")
        rows: list[dict[str, Any]] = []
        async with asyncio.timeout(PATIENCE):
            while len(rows) < 2:
                rows = (await browser.get("/calls/live")).json()["calls"]
        assert {(row["call_id"], row["node"]) for row in rows} == {("near", "a"), ("far", "b")}
        operator = b.room.calls["far"].operator
        assert (await browser.post("/calls/far/hint", {"text": "be brief"})).status_code == 200
        assert operator.asked == [("hint", "be brief", "adam@a")]
        operator.frames = [b"\1" * 1600] * 100  # five seconds
        ticket = (await browser.post("/calls/far/listen")).json()["ticket"]
        visit = await browser.connect("/listen/far", LISTEN, PREFIX + ticket)
        assert (await visit.frame())["encoding"] == "slin"
        for _ in range(100):
            assert await visit.binary() == b"\1" * 1600
        await visit.leave()
        await until(lambda: operator.asked[-1] == ("listened", "adam@a"))
        assert (await browser.post("/cluster/nodes/b/drain")).status_code == 200
        assert b.orders == ["drain"]
        b.member.lease.renew_soon()

        def seen() -> dict[str, bool]:
            assert a.room.services.others is not None
            return {each.node: each.draining for each in a.room.services.others.door.engines()}

        await until(lambda: seen() == {"a": False, "b": True})
        nodes = {each["node"]: each for each in (await browser.get("/cluster")).json()["nodes"]}
        assert (nodes["b"]["draining"], nodes["b"]["problem"]) == (True, "")
        assert nodes["b"]["lease_age_ms"] < 60_000
        await b.member.stop()
        await until(lambda: seen() == {"a": False})
        gone = await browser.post("/calls/far/hangup")
        assert gone.status_code in (404, 503)
        rows = (await browser.get("/calls/live")).json()["calls"]
        assert [row["call_id"] for row in rows] == ["near"]
