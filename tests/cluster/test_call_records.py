"""Records of calls on the bus: written behind the calls, owned by one engine at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.cluster.bus import Entry
from cordboard.cluster.call_records import CallRecords
from cordboard.cluster.wire import CallRecord, decode_record
from cordboard.errors import BusAway
from cordboard_testkit.virtual_time import in_virtual_time


@dataclass
class Engine:
    bucket: FakeBucket
    records: CallRecords
    taken: list[str] = field(default_factory=list)
    owned: list[tuple[str, int]] = field(default_factory=list)


@asynccontextmanager
async def engines(*names: str) -> AsyncIterator[tuple[FakeServer, list[Engine]]]:
    server, made, tasks = FakeServer(), [], []
    for name in names:
        bucket = FakeBucket(server)
        taken: list[str] = []
        owned: list[tuple[str, int]] = []
        records = CallRecords(
            bucket,
            name,
            taken=taken.append,
            owned=lambda call_id, epoch, owned=owned: owned.append((call_id, epoch)),
        )
        made.append(Engine(bucket, records, taken, owned))
        tasks.append(asyncio.create_task(records.run()))
    try:
        yield server, made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def record(state: str = "offered", call_id: str = "c1", **more: str) -> CallRecord:
    return CallRecord(call_id, "", state=state, **more)


def stored(server: FakeServer, call_id: str = "c1") -> CallRecord:
    value = server.entries[call_id].value
    assert value is not None
    return decode_record(value)


@in_virtual_time
async def test_a_call_from_offer_to_end() -> None:
    async with engines("a") as (server, (a,)):
        a.records.put(record())
        assert a.records.epoch("c1") is None
        await asyncio.sleep(0.1)
        epoch = server.entries["c1"].revision
        assert a.owned == [("c1", epoch)]
        assert a.records.epoch("c1") == epoch
        a.records.put(record("answered", caller_channel="17.1"))
        await asyncio.sleep(0.1)
        assert stored(server) == CallRecord(
            "c1", "a", epoch, caller_channel="17.1", state="answered"
        )
        a.records.remove("c1")
        await asyncio.sleep(0.1)
        assert server.entries["c1"].value is None
        assert a.records.epoch("c1") is None
        assert a.taken == []


@in_virtual_time
async def test_the_newest_state_of_a_call_wins_while_the_bus_is_away() -> None:
    async with engines("a") as (server, (a,)):
        a.records.put(record())
        await asyncio.sleep(0.1)
        a.bucket.away = True
        for state in ("answered", "talking", "ending"):
            a.records.put(record(state))
            await asyncio.sleep(1)
        a.records.put(record("offered", "c2"))
        a.records.put(record("offered", "c3"))
        await asyncio.sleep(1)
        a.records.remove("c3")  # came and went
        assert a.records.unwritten == 3
        a.bucket.away = False
        await asyncio.sleep(2)
        assert stored(server).state == "ending"
        assert stored(server, "c2").owner == "a"
        assert server.entries["c3"].value is None
        assert "c3" in [call_id for call_id, _ in a.owned], "its events may leave"
        assert a.bucket.writes == 4
        assert a.records.unwritten == 0
        assert a.taken == []


@in_virtual_time
async def test_writes_whose_answers_are_lost_are_written_once() -> None:
    async with engines("a") as (server, (a,)):
        a.bucket.loses_answers = True
        a.records.put(record())
        await asyncio.sleep(0.3)
        a.bucket.loses_answers = False
        await asyncio.sleep(3)
        assert stored(server).owner == "a"
        ((_, epoch),) = a.owned
        assert epoch == 1
        a.bucket.loses_answers = True
        a.records.remove("c1")
        await asyncio.sleep(0.3)
        a.bucket.loses_answers = False
        await asyncio.sleep(3)
        assert server.entries["c1"].value is None
        assert a.taken == []
        assert a.records.unwritten == 0


@in_virtual_time
async def test_one_of_two_adopters_gets_a_call_and_the_old_owner_learns_it() -> None:
    async with engines("a", "b", "c") as (server, (a, b, c)):
        a.records.put(record("talking"))
        await asyncio.sleep(0.1)
        before = a.records.epoch("c1")
        claims = await asyncio.gather(b.records.claim("c1", "a"), c.records.claim("c1", "a"))
        (won,) = [claim for claim in claims if claim is not None]
        winner = b if claims[0] else c
        assert before is not None
        assert won.epoch > before
        assert won.record.state == "talking"
        assert winner.owned == [("c1", won.epoch)]
        winner.records.put(won.record)
        await asyncio.sleep(0.1)
        assert stored(server).epoch == won.epoch
        a.records.put(record("ending"))
        await asyncio.sleep(2)
        assert a.taken == ["c1"]
        assert stored(server).state == "talking"
        a.records.put(record("ending"))  # and is not written again and again
        await asyncio.sleep(2)
        assert stored(server).owner == won.record.owner


@in_virtual_time
async def test_a_claim_whose_answer_was_lost_may_be_repeated() -> None:
    async with engines("a", "b") as (_, (a, b)):
        a.records.put(record())
        await asyncio.sleep(0.1)
        b.bucket.loses_answers = True
        with pytest.raises(BusAway):
            await b.records.claim("c1", "a")
        b.bucket.loses_answers = False
        claimed = await b.records.claim("c1", "a")
        assert claimed is not None
        assert claimed.record.owner == "b"
        assert b.records.epoch("c1") == claimed.epoch


@in_virtual_time
async def test_nothing_is_claimed_that_has_ended_or_belongs_to_another() -> None:
    async with engines("a", "b") as (server, (a, b)):
        assert await b.records.claim("c1", "a") is None
        a.records.put(record())
        await asyncio.sleep(0.1)
        assert await b.records.claim("c1", "dead") is None
        a.records.remove("c1")
        await asyncio.sleep(0.1)
        assert await b.records.claim("c1", "a") is None
        server.store(Entry("c2", b"poison", server.next_revision()))
        assert await b.records.claim("c2", "a") is None
        assert await b.records.find("c2") is None


@in_virtual_time
async def test_the_former_owner_ends_a_call_that_the_new_one_has_ended_already() -> None:
    async with engines("a", "b") as (_, (a, b)):
        a.records.put(record())
        await asyncio.sleep(0.1)
        assert await b.records.claim("c1", "a") is not None
        b.records.remove("c1")
        await asyncio.sleep(0.1)
        a.records.put(record("ending"))
        await asyncio.sleep(2)
        assert a.taken == ["c1"]
        assert a.records.unwritten == 0


@in_virtual_time
async def test_ended_calls_need_no_room_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest removals are given up."""
    async with engines("a") as (_, (a,)):
        monkeypatch.setattr("cordboard.cluster.call_records.MOST_REMOVALS", 10)
        for number in range(30):
            a.records.put(record(call_id=f"c{number}"))
        await asyncio.sleep(1)
        a.bucket.away = True
        for number in range(30):
            a.records.remove(f"c{number}")
        assert a.records.unwritten <= 11


@in_virtual_time
async def test_a_call_that_is_forgotten_while_it_is_written_is_not_written_again() -> None:
    """This engine was fenced without its bus: another one has the caller, as a new call."""
    async with engines("a") as (server, (a,)):
        a.bucket.away = True
        a.records.put(record())
        await asyncio.sleep(0.3)  # the write has not failed yet
        a.records.forget("c1")
        await asyncio.sleep(1)
        a.bucket.away = False
        await asyncio.sleep(5)
        assert "c1" not in server.entries
        assert a.records.unwritten == 0
