"""Who takes over the calls of a dead engine: each call once, by one that may, and soon."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.fake_bus import FakeBucket, FakeJournal, FakeServer

from cordboard.cluster.adoption import Adoption, plan
from cordboard.cluster.bus import Entry
from cordboard.cluster.call_records import CallRecords, Claimed
from cordboard.cluster.events import EventSink, Story
from cordboard.cluster.lease import Lease
from cordboard.cluster.roster import Roster
from cordboard.cluster.unsent import UnsentNotes
from cordboard.cluster.wire import CallRecord, EngineLease, EventBatch, encode_batch, encode_record
from cordboard.errors import AsteriskError, LineGone, RevisionLost
from cordboard_testkit.virtual_time import in_virtual_time


class World:
    """What all engines share."""

    def __init__(self) -> None:
        self.leases, self.calls, self.journal = FakeServer(), FakeServer(), FakeJournal()
        self.fenced: list[str] = []
        self.adopted: list[tuple[float, str, str]] = []
        """Time, call and engine."""
        self.without_room: list[str] = []
        self.stories: dict[str, Story] = {}

    def place(self, owner: str, count: int, labels: tuple[str, ...] = ()) -> None:
        """Give an engine calls."""
        for number in range(count):
            call_id = f"{owner}-call-{len(self.calls.entries)}-{number}"
            record = CallRecord(call_id, owner, asterisk="pbx:8088", labels=labels)
            revision = self.calls.next_revision()
            self.calls.store(Entry(call_id, encode_record(record), revision))

    def owners(self) -> Counter[str]:
        return Counter(engine for _, _, engine in self.adopted)


class Engine:
    """An engine without media: it adopts by remembering."""

    def __init__(self, world: World, name: str, free: int = 50, **more: object) -> None:
        loop = asyncio.get_running_loop()
        self.world, self.name, self.free = world, name, free
        self.lease_is = EngineLease(name, name, asterisk="pbx:8088", **more)  # type: ignore[arg-type]
        leases = self.leases = FakeBucket(world.leases)
        self.calls = FakeBucket(world.calls)
        self.lease = Lease(leases, name, self.describe, clock=loop.time)
        self.records = CallRecords(self.calls, name)
        self.sink = EventSink(world.journal, UnsentNotes(Path("/nowhere"), name))
        self.roster = Roster(leases, self.lease, lambda instance: self.adoption.gone(instance))
        self.adoption = Adoption(
            self.calls, self.records, self.sink, self.roster, self.lease, self.describe, self
        )
        self.fence_fails = 0
        self.slow = 0.0
        self.no_caller: set[str] = set()
        self.internal_errors = 0
        """Attempts to adopt a call that fail unexpectedly."""
        self.given_up: list[str] = []
        self.tasks = [
            asyncio.create_task(part.run()) for part in (self.lease, self.roster, self.records)
        ]

    def describe(self) -> EngineLease:
        return replace(self.lease_is, free_slots=0 if self.lease_is.draining else self.free)

    async def fence(self, instance: str) -> None:
        if self.fence_fails:
            self.fence_fails -= 1
            raise AsteriskError("not now")
        self.world.fenced.append(instance)

    async def adopt(self, claimed: Claimed, story: Story, *, has_room: bool) -> None:
        call_id = claimed.record.call_id
        assert self.world.fenced
        if self.internal_errors:
            self.internal_errors -= 1
            raise ValueError("a mistake")
        await asyncio.sleep(self.slow)
        if call_id in self.no_caller:
            raise LineGone("hung up")
        self.free -= has_room
        self.world.stories[call_id] = story
        if not has_room:
            self.world.without_room.append(call_id)
        self.world.adopted.append((asyncio.get_running_loop().time(), call_id, self.name))

    async def give_up(self, claimed: Claimed) -> None:
        if claimed.record.call_id in self.no_caller:
            raise LineGone("hung up")
        self.given_up.append(claimed.record.call_id)

    async def stop(self) -> None:
        """Leave in order, as `Member.stop` does."""
        for task in self.tasks:
            task.cancel()
        if await self.adoption.close():
            await self.lease.give_up()

    async def die(self) -> None:
        for task in self.tasks:
            task.cancel()
        await self.adoption.close()
        await asyncio.wait(self.tasks)


@asynccontextmanager
async def living(*engines: Engine) -> AsyncIterator[float]:
    await asyncio.sleep(10)
    try:
        yield asyncio.get_running_loop().time()
    finally:
        for engine in engines:
            await engine.die()


@in_virtual_time
async def test_every_call_is_adopted_once_and_within_three_seconds() -> None:
    world = World()
    a, b, c, d = (Engine(world, name) for name in "abcd")
    world.place("a", 40)
    async with living(a, b, c, d) as began:
        await a.die()
        await asyncio.sleep(10)
        assert len(world.adopted) == len({call for _, call, _ in world.adopted}) == 40
        assert max(at for at, _, _ in world.adopted) - began < 3.0
        owners = world.owners()
        assert set(owners) == {"b", "c", "d"}
        assert min(owners.values()) >= 6
        assert set(world.fenced) == {"a"}
        assert len(world.fenced) <= 3
        assert world.without_room == []


@in_virtual_time
async def test_calls_of_an_engine_that_stops_while_it_adopts_them_are_adopted_by_the_next() -> None:
    world = World()
    world.place("a", 5)
    first, second, third = Engine(world, "a"), Engine(world, "b", 500), Engine(world, "c", 1)
    second.slow = 5.0
    async with living(second, third):
        await first.die()
        await asyncio.sleep(3)
        assert len(world.adopted) < 5
        await second.stop()
        await asyncio.sleep(10)
    assert len({call for _, call, _ in world.adopted}) == 5
    assert world.owners().keys() == {"c"}


@in_virtual_time
async def test_calls_that_no_engine_may_take_at_first_are_taken_when_one_may() -> None:
    world = World()
    world.place("a", 5)
    first, second = Engine(world, "a"), Engine(world, "b")
    async with living(second):
        second.lease_is = replace(second.lease_is, asterisk="")  # cut off from it for a moment
        await first.die()
        await asyncio.sleep(10)
        assert world.adopted == []
        second.lease_is = replace(second.lease_is, asterisk="pbx:8088")
        await asyncio.sleep(5)
        assert len(world.adopted) == 5


@in_virtual_time
async def test_a_revocation_that_is_on_its_way_is_waited_for() -> None:
    """NATS refuses the second of two writes before the first one can be read."""
    world = World()
    world.place("a", 5)
    first, second = Engine(world, "a"), Engine(world, "b")
    async with living(second):
        put, tries = second.leases.put, 0

        async def refused_first(key: str, value: bytes, **how: int) -> int:
            nonlocal tries
            tries += key == "a"
            if key != "a" or tries != 1:
                return await put(key, value, **how)
            raise RevisionLost("another write is on its way")

        second.leases.put = refused_first  # type: ignore[method-assign, assignment]
        await first.die()
        await asyncio.sleep(10)
        assert (tries, len(world.adopted)) == (2, 5)


@in_virtual_time
async def test_an_end_that_the_bus_has_not_told_is_found_all_the_same() -> None:
    world = World()
    world.place("a", 5)
    first, second = Engine(world, "a"), Engine(world, "b")
    async with living(second):
        second.leases.tell = lambda entry: None  # type: ignore[method-assign]
        await first.die()
        await asyncio.sleep(20)
        assert len(world.adopted) == 5


@in_virtual_time
async def test_a_call_that_the_bus_stores_late_is_adopted() -> None:
    """The dead engine's last write waited in a server that was busy."""
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 1)
    async with living(a, b):
        await a.die()
        while not world.adopted:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        world.place("a", 1)
        await asyncio.sleep(5)
        assert len({call for _, call, _ in world.adopted}) == len(world.adopted) == 2
        assert world.fenced == ["a"]


@in_virtual_time
async def test_who_has_more_room_takes_more_and_nobody_more_than_it_has() -> None:
    world = World()
    a, b, c = Engine(world, "a"), Engine(world, "b", free=30), Engine(world, "c", free=10)
    world.place("a", 40)
    async with living(a, b, c):
        await a.die()
        await asyncio.sleep(10)
        assert world.owners() == {"b": 30, "c": 10}
        assert world.without_room == []


@in_virtual_time
async def test_callers_for_whom_nobody_has_room_get_a_decent_end() -> None:
    world = World()
    a, b, c = Engine(world, "a"), Engine(world, "b", free=3), Engine(world, "c", free=2)
    world.place("a", 8)
    async with living(a, b, c) as began:
        await a.die()
        await asyncio.sleep(10)
        assert len({call for _, call, _ in world.adopted}) == len(world.adopted) == 8
        assert len(world.without_room) == 3
        assert max(at for at, _, _ in world.adopted) - began < 4.5


@in_virtual_time
async def test_labels_asterisk_and_drains_are_respected() -> None:
    world = World()
    a = Engine(world, "a")
    gpu = Engine(world, "gpu", labels=("gpu",))
    plain = Engine(world, "plain")
    drains = Engine(world, "drains", labels=("gpu",), draining=True)
    elsewhere = Engine(world, "elsewhere", labels=("gpu",))
    elsewhere.lease_is = replace(elsewhere.lease_is, asterisk="other:8088")
    world.place("a", 10, ("gpu",))
    world.place("a", 10)
    async with living(a, gpu, plain, drains, elsewhere):
        await a.die()
        await asyncio.sleep(10)
        assert len(world.adopted) == 20
        assert set(world.owners()) <= {"gpu", "plain"}
        assert world.owners()["gpu"] >= 10


@in_virtual_time
async def test_calls_claimed_by_an_engine_that_dies_too_are_taken_from_it() -> None:
    world = World()
    a, b, c = (Engine(world, name) for name in "abc")
    b.slow = 1.0
    world.place("a", 20)
    async with living(a, b, c):
        await a.die()
        await asyncio.sleep(2.3)
        await b.die()  # it has claimed its share, and adopted none
        assert world.owners()["b"] == 0
        await asyncio.sleep(10)
        assert world.owners() == {"c": 20}


@in_virtual_time
async def test_calls_of_engines_that_died_unseen_are_found_at_the_start() -> None:
    world = World()
    world.place("long-dead", 5)
    a = Engine(world, "a")
    async with living(a):
        await a.adoption.find_orphans()
        await asyncio.sleep(10)
        assert world.owners() == {"a": 5}


@in_virtual_time
async def test_an_engine_that_comes_back_keeps_its_calls() -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 5)
    async with living(a, b):
        b.adoption.gone("a")  # it was believed for a moment
        await asyncio.sleep(10)
        assert world.adopted == []
        assert world.fenced == []


@in_virtual_time
async def test_the_words_so_far_come_with_the_call() -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 1)
    (call_id,) = world.calls.entries
    batch = EventBatch(call_id, 1, 1, 1, 0, 3, b"{}\n")
    async with living(a, b):
        await world.journal.append(call_id, encode_batch(batch), last=0)
        await a.die()
        await asyncio.sleep(5)
        assert world.stories[call_id].lines == (b"{}\n",)


@in_virtual_time
async def test_a_caller_who_is_gone_leaves_no_record_and_a_fence_is_tried_again() -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 2)
    first, second = world.calls.entries
    b.no_caller.add(first)
    b.fence_fails = 3
    async with living(a, b):
        await a.die()
        await asyncio.sleep(5)
        assert [call for _, call, _ in world.adopted] == [second]
        assert world.calls.entries[first].value is None
        assert world.fenced == ["a"]


@in_virtual_time
async def test_a_call_whose_adoption_fails_unexpectedly_is_adopted_at_the_next_attempt() -> None:
    world = World()
    world.place("a", 1)
    first, second = Engine(world, "a"), Engine(world, "b")
    second.internal_errors = 2
    async with living(second):
        await first.die()
        await asyncio.sleep(10)
        assert (len(world.adopted), second.given_up) == (1, [])


@in_virtual_time
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_caller_whom_no_attempt_can_adopt_is_hung_up(is_there: bool) -> None:
    """Else they would be in silence for good: this engine lives, and owns their call."""
    world = World()
    world.place("a", 1)
    (call_id,) = world.calls.entries
    first, second = Engine(world, "a"), Engine(world, "b")
    second.internal_errors = 1_000_000
    if not is_there:
        second.no_caller.add(call_id)
    async with living(second):
        await first.die()
        await asyncio.sleep(10)
        assert second.given_up == ([call_id] if is_there else [])
        assert world.calls.entries[call_id].value is None
        assert await second.adoption.close()


@in_virtual_time
async def test_an_engine_that_does_not_reach_asterisk_leaves_the_calls_to_the_next() -> None:
    """Else the dead one would never be fenced, and the callers would wait until this one has been
    taken for dead too."""
    world = World()
    world.place("a", 5)
    first, second, third = Engine(world, "a"), Engine(world, "b", 5000), Engine(world, "c", 5)
    second.fence_fails = 1_000_000
    async with living(second, third) as began:
        await first.die()
        await asyncio.sleep(10)
        assert world.owners() == {"c": 5}
        assert max(at for at, _, _ in world.adopted) - began < 4.0
        assert world.fenced == ["a"]


@in_virtual_time
async def test_an_adopter_that_is_taken_for_dead_itself_claims_nothing() -> None:
    world = World()
    a, b, c = Engine(world, "a"), Engine(world, "b"), Engine(world, "c")
    world.place("a", 6)
    async with living(a, b, c):
        c.lease_is = replace(c.lease_is, labels=("none",), asterisk="elsewhere:8088")
        await a.die()
        await asyncio.sleep(1.3)
        b.leases.away = True  # it sees no bus from now on, but can write records
        await asyncio.sleep(5)
        assert await c.roster.revoke("b")
        b.adoption.gone("a")
        b.leases.come_back()
        await asyncio.sleep(5)
        assert b.lease.state == "lost"
        assert world.adopted == []


@in_virtual_time
async def test_a_bus_that_fails_in_the_middle_delays_only() -> None:
    world = World()
    a, b = Engine(world, "a"), Engine(world, "b")
    world.place("a", 5)
    async with living(a, b):
        await a.die()
        await asyncio.sleep(1.2)
        b.calls.away = world.journal.away = True
        await asyncio.sleep(5)
        assert world.adopted == []
        b.calls.away = world.journal.away = False
        await asyncio.sleep(5)
        assert len(world.adopted) == 5


ENGINES = st.lists(
    st.builds(
        EngineLease,
        st.sampled_from([f"e{number}" for number in range(6)]),
        st.just("n"),
        free_slots=st.integers(0, 20),
        draining=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda engine: engine.instance,
)


@given(ENGINES, st.integers(0, 60))
def test_every_engine_makes_the_same_plan_and_fills_nobody_beyond_its_room(
    engines: list[EngineLease], count: int
) -> None:
    records = [CallRecord(f"c{number}", "dead") for number in range(count)]
    turns = plan(records, engines)
    assert plan(reversed(records), list(reversed(engines))) == turns
    able = {engine.instance for engine in engines if not engine.draining}
    first = Counter(order[0] for order in turns.values() if order)
    for order in turns.values():
        assert set(order) == able
        assert len(order) == len(able)
    if count <= sum(engine.free_slots for engine in engines if not engine.draining):
        for engine in engines:
            assert first[engine.instance] <= engine.free_slots


def test_most_calls_stay_with_their_engine_when_another_one_joins() -> None:
    """So that engines that know of each other at different moments rarely disagree."""
    records = [CallRecord(f"c{number}", "dead") for number in range(300)]
    three = [EngineLease(name, name, free_slots=500) for name in "abc"]
    before = plan(records, three)
    after = plan(records, [*three, EngineLease("d", "d", free_slots=500)])
    moved = [each for each in before if before[each][0] != after[each][0]]
    assert all(after[each][0] == "d" for each in moved)
    assert 45 <= len(moved) <= 105
