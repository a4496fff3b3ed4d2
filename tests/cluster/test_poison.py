"""Entries and events that cannot be read, of a later version or of no program at all: nobody falls
over them, and nobody else's calls are harmed."""

from __future__ import annotations

import asyncio

import pytest
from tests.cluster.test_adoption import Engine, World, living
from tests.cluster.test_lease import engines

from cordboard.cluster.bus import Entry
from cordboard.cluster.wire import (
    CallRecord,
    EngineLease,
    EventBatch,
    decode_lease,
    encode_batch,
    encode_lease,
    encode_record,
)
from cordboard_testkit.virtual_time import in_virtual_time

POISON = b'{"v":1,"kind":"\xff'


def later(message: bytes) -> bytes:
    """The message as a later version might write it."""
    return message.replace(b'"v":1', b'"v":2', 1)


@in_virtual_time
async def test_calls_whose_records_cannot_be_read_are_left_and_the_others_adopted() -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 2)
    future = later(encode_record(CallRecord("later", "a", asterisk="pbx:8088")))
    for call_id, content in (("poison", POISON), ("later", future)):
        world.calls.store(Entry(call_id, content, world.calls.next_revision()))
    async with living(a, b):
        await a.die()
        await asyncio.sleep(10)
        assert len(world.adopted) == 2
        await b.adoption.find_orphans()  # as one that starts later
        assert world.calls.entries["later"].value == future  # an engine that reads it takes it
        assert world.calls.entries["poison"].value == POISON


@pytest.mark.parametrize(
    "poison", [POISON, later(encode_batch(EventBatch("x", 1, 2, 1, 3, 6, b"{}\n")))]
)
@in_virtual_time
async def test_an_unreadable_batch_costs_its_lines_only(poison: bytes) -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 1)
    (call_id,) = world.calls.entries
    async with living(a, b):
        first = encode_batch(EventBatch(call_id, 1, 1, 1, 0, 8, b'{"n":1}\n'))
        third = encode_batch(EventBatch(call_id, 1, 3, 1, 16, 24, b'{"n":3}\n'))
        last = await world.journal.append(call_id, first, last=0)
        last = await world.journal.append(call_id, poison, last=last)
        await world.journal.append(call_id, third, last=last)
        await a.die()
        await asyncio.sleep(5)
        lines = world.stories[call_id].lines
        assert (lines[0], lines[2], len(lines)) == (b'{"n":1}\n', b'{"n":3}\n', 3)
        assert b"ledger.gap" in lines[1]


@in_virtual_time
async def test_an_engine_whose_lease_is_overwritten_writes_it_again() -> None:
    async with engines("a", "b") as (server, (a, b)):
        server.store(Entry("a", POISON, server.next_revision()))
        await asyncio.sleep(10)
        entry = server.entries["a"]
        assert entry.value is not None
        assert decode_lease(entry.value).instance == "a"
        assert a.lease.state == "held"
        assert a.states == ["held"]
        assert b.gone == []


@in_virtual_time
async def test_an_engine_that_a_later_version_has_revoked_gives_up() -> None:
    async with engines("a", "b") as (server, (a, _)):
        mark = later(encode_lease(EngineLease("a", "a", revoked_by="n")))
        server.store(Entry("a", mark, server.next_revision()))
        await asyncio.sleep(5)
        assert a.lease.state == "lost"


@in_virtual_time
async def test_a_living_engine_of_a_later_version_keeps_its_calls_whatever_is_suspected() -> None:
    async with engines("a", "b") as (server, (_, b)):
        message = later(encode_lease(EngineLease("n", "n")))
        server.store(Entry("n", message, server.next_revision()), ttl=3)
        b.roster.suspect("n")
        assert not await b.roster.revoke("n")
        await asyncio.sleep(1)
        assert b.gone == []
        assert "n" in b.roster.others
        await asyncio.sleep(5)  # it has expired
        assert b.gone_names == ["n"]
        assert await b.roster.revoke("n")
