"""One campaign on two nodes: its people are shared, and a lost node loses nobody."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster import claims as claims_module
from cordboard.cluster.claims import PeopleClaims
from cordboard.outbound.campaigns import runner as runner_module
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.campaigns.store import CALLBACKS, CampaignSettings, CampaignStore

from .test_campaign_runner import people, states, until
from .test_campaign_store import ALWAYS, running
from .test_placing import NUMBERS, Town


class Node:
    def __init__(self, server: FakeServer, folder: Path, name: str, dead: set[str]) -> None:
        self.path = folder / name
        self.town = Town(self.path)
        self.bucket = FakeBucket(server)
        self.claims = PeopleClaims(
            self.bucket, f"{name}-1", lambda other: other not in dead, self._key
        )
        self.sending = asyncio.create_task(self.claims.run())
        self.runner = CampaignRunner(
            lambda: self.path, self.town.calls, print, look_seconds=0.01, claims=self.claims
        )

    async def _key(self) -> bytes:
        return b"key"

    async def close(self) -> None:
        await self.runner.close()
        self.sending.cancel()
        await asyncio.wait([self.sending])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(runner_module, "PUT_OFF_SECONDS", 0.05)


async def test_two_nodes_share_the_people_and_both_know_the_ends(tmp_path: Path) -> None:
    server = FakeServer()
    nodes = [Node(server, tmp_path, name, set()) for name in "ab"]
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(CampaignStore(each.path))) for each in nodes]
        for store in stores:
            running(store, CampaignSettings("demo", concurrency=2, **ALWAYS), people(4))
        for each in nodes:
            each.runner.start()
        for store in stores:
            await until(lambda store=store: states(store) == [("done", "answered", 1)] * 4)
        for each in nodes:
            await each.close()
        reasons = [row["reason"] for store in stores for row in store.results("spring")]
    assert sorted(nodes[0].town.dialled + nodes[1].town.dialled) == list(NUMBERS)
    assert reasons.count("called_elsewhere") == 4


async def test_the_others_go_on_with_the_people_of_a_lost_node(tmp_path: Path) -> None:
    server, dead = FakeServer(), set[str]()
    lost, other = (Node(server, tmp_path, name, dead) for name in "ab")
    assert (await lost.claims.take("spring", NUMBERS[0])).state == "ours"
    with closing(CampaignStore(other.path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(3))
        other.runner.start()
        await until(lambda: states(store).count(("done", "answered", 1)) == 2)
        assert NUMBERS[0] not in other.town.dialled
        dead.add("a-1")
        await until(lambda: ("done", "interrupted", 1) in states(store))
    await lost.close()
    await other.close()
    assert sorted(other.town.dialled) == list(NUMBERS[1:3])


async def test_whom_a_paused_node_has_not_dialled_the_others_may_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer()
    paused, other = (Node(server, tmp_path, name, set()) for name in "ab")
    refused = asyncio.Event()
    loop = asyncio.get_running_loop()

    def full(*_: object) -> bool:
        loop.call_soon_threadsafe(refused.set)
        raise sqlite3.OperationalError("disk I/O error")

    with closing(CampaignStore(paused.path)) as store, closing(CampaignStore(other.path)) as there:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        with monkeypatch.context() as patched:
            patched.setattr(CampaignStore, "begin", full)
            paused.runner.start()
            await refused.wait()
            store.set_state("spring", "paused")
            await until(lambda: states(store) == [("pending", "", 0)])
        running(there, CampaignSettings("demo", **ALWAYS), people(1))
        other.runner.start()
        await until(lambda: other.town.dialled == [NUMBERS[0]])
    await paused.close()
    await other.close()
    assert not paused.town.dialled


async def test_a_campaign_waits_for_the_bus_and_a_promised_call_back_does_not(
    tmp_path: Path,
) -> None:
    node = Node(FakeServer(), tmp_path, "a", set())
    node.bucket.away = True
    with closing(CampaignStore(node.path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        node.runner.start()
        await until(lambda: "cannot be asked" in store.status("spring")[0]["waits"])
        assert not node.town.dialled
        callbacks = store.add(f"{CALLBACKS}demo", CampaignSettings("demo", **ALWAYS))
        assert not list(store.add_people(callbacks, people(2)[1:]))
        store.set_state(f"{CALLBACKS}demo", "running")
        await until(lambda: node.town.dialled == [NUMBERS[1]])
        node.bucket.come_back()
        await until(lambda: states(store) == [("done", "answered", 1)])
    await node.close()
    assert node.town.dialled == [NUMBERS[1], NUMBERS[0]]
