"""A campaign on several nodes: nobody is called twice, and nobody is lost with a node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.calls.outbound_order import PersonTaken
from cordboard.cluster.bus import Entry
from cordboard.cluster.claims import BUSY_SECONDS, PeopleClaims
from cordboard.errors import BusAway, CampaignRefused
from cordboard_testkit.virtual_time import in_virtual_time

KARI = "+4722000001"


class Engine:
    def __init__(self, server: FakeServer, instance: str, dead: set[str]) -> None:
        self.bucket = FakeBucket(server)
        self.claims = PeopleClaims(
            self.bucket,
            instance,
            lambda other: other not in dead,
            self._key,
            clock=asyncio.get_running_loop().time,
        )
        self.task = asyncio.create_task(self.claims.run())

    async def _key(self) -> bytes:
        return b"key"

    async def take(self, number: str = KARI) -> PersonTaken:
        return await self.claims.take("spring", number)

    async def finish(self, outcome: str, again: float | None = None) -> None:
        again_at = None if again is None else asyncio.get_running_loop().time() + again
        await self.claims.finish("spring", KARI, outcome, again_at)
        await asyncio.sleep(0.1)


@asynccontextmanager
async def engines(*instances: str) -> AsyncIterator[tuple[FakeServer, set[str], list[Engine]]]:
    server, dead = FakeServer(), set[str]()
    made = [Engine(server, each, dead) for each in instances]
    try:
        yield server, dead, made
    finally:
        for each in made:
            each.task.cancel()
        await asyncio.wait([each.task for each in made])


OURS = PersonTaken("ours")


@in_virtual_time
async def test_one_engine_calls_a_person_and_the_other_learns_the_end() -> None:
    async with engines("a-1", "b-1") as (server, _, (a, b)):
        assert sorted(each.state for each in await asyncio.gather(a.take(), b.take())) == [
            "later", "ours",
        ]  # fmt: skip
        caller, other = (a, b) if (await a.take()).state == "ours" else (b, a)
        assert await other.take() == PersonTaken("later", 1, "", BUSY_SECONDS)
        await caller.finish("busy", again=60)
        waits = await other.take()
        assert (waits.state, waits.attempts, waits.outcome) == ("later", 1, "busy")
        assert 59 < waits.seconds <= 60
        await asyncio.sleep(61)
        assert await other.take() == PersonTaken("ours", 1, "busy")
        await other.finish("answered")
        assert await caller.take() == PersonTaken("done", 2, "answered")
        assert (await caller.take("+4722000002")) == OURS
        assert not any("4722" in name for name in server.entries)


@in_virtual_time
async def test_whom_a_dead_engine_was_calling_is_not_called_again() -> None:
    async with engines("a-1", "b-1", "a-2") as (_, dead, (a, b, again)):
        assert await a.take() == OURS
        assert await a.take("+4722000002") == OURS
        dead.add("a-1")
        assert await b.take() == PersonTaken("done", 1, "interrupted")
        assert await again.take() == PersonTaken("done", 1, "interrupted")
        assert await again.take("+4722000002") == OURS, "its own file says: not dialled"


@in_virtual_time
async def test_who_was_not_dialled_is_free_for_all() -> None:
    async with engines("a-1", "b-1") as (_, _, (a, b)):
        assert await a.take() == OURS
        await a.claims.give_back("spring", KARI)
        await asyncio.sleep(0.1)
        assert await b.take() == OURS


@in_virtual_time
async def test_without_the_bus_nobody_is_called_and_ends_are_sent_later() -> None:
    async with engines("a-1", "b-1") as (_, _, (a, b)):
        assert await a.take() == OURS
        a.bucket.away = True
        await a.finish("answered")
        with pytest.raises(CampaignRefused, match="cannot be asked"):
            await a.take("+4722000002")
        await asyncio.sleep(30)
        assert a.claims.unsent == 1
        assert (await b.take()).state == "later"
        a.bucket.come_back()
        await asyncio.sleep(3)
        assert a.claims.unsent == 0
        assert await b.take() == PersonTaken("done", 1, "answered")


@in_virtual_time
async def test_a_claim_whose_answer_is_lost_is_given_back() -> None:
    """Its campaign may be paused here before it is taken again."""
    async with engines("a-1", "b-1") as (_, _, (a, b)):
        a.bucket.loses_answers = True
        with pytest.raises(CampaignRefused, match="cannot be asked"):
            await a.take()
        a.bucket.loses_answers = False
        await asyncio.sleep(3)
        assert a.claims.unsent == 0
        assert await b.take() == OURS


@in_virtual_time
async def test_a_claim_that_never_was_on_the_bus_undoes_nothing() -> None:
    async with engines("a-1", "b-1") as (_, _, (a, b)):
        put = a.bucket.put

        async def lost(*_: object, **__: object) -> int:
            a.bucket.away = True
            raise BusAway("no answer")

        a.bucket.put = lost  # type: ignore[method-assign]
        with pytest.raises(CampaignRefused, match="cannot be asked"):
            await a.take()
        a.bucket.put = put  # type: ignore[method-assign]
        assert await b.take() == OURS
        await b.finish("answered")
        a.bucket.come_back()
        assert await a.take() == PersonTaken("done", 1, "answered")
        await asyncio.sleep(3)
        assert await b.take() == PersonTaken("done", 1, "answered")


@in_virtual_time
async def test_an_unreadable_claim_counts_as_called_and_is_left_alone() -> None:
    async with engines("a-1") as (server, _, (a,)):
        assert await a.take() == OURS
        (name,) = server.entries
        later = b'{"v":2,"kind":"claim"}'
        server.store(Entry(name, later, server.next_revision()))
        assert (await a.take()).state == "done"
        await a.finish("answered")
        assert server.entries[name].value == later
        assert a.claims.unsent == 0


@in_virtual_time
async def test_a_living_engine_with_the_same_nodes_name_calls_nobody_twice() -> None:
    async with engines("a-1", "a-2") as (_, dead, (a, twin)):
        assert await a.take() == OURS
        assert (await twin.take()).state == "later"
        dead.add("a-1")
        assert (await twin.take()).state == "ours"
