"""The engine that hands its calls over, with other engines and a bus in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.calls.call import CallState
from cordboard.calls.speech_pause import Rest
from cordboard.cluster.call_records import CallRecords
from cordboard.cluster.wire import (
    CallRecord,
    EngineLease,
    HandOverAnswer,
    HandOverStep,
    decode_record,
)
from cordboard.runtime.call_giver import AT_ONCE, LEAVE_SECONDS, SPOKE, CallGiver
from cordboard_testkit.virtual_time import in_virtual_time

PLACE = "pbx:8088"
LINES = 7


class Call:
    """A live call, as the giver sees it."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.rest = Rest.QUIET
        self.state = CallState.TALKING
        self.offer = SimpleNamespace(outbound=None)


class Taker:
    """Another engine."""

    def __init__(self, world: World, name: str, free: int = 10) -> None:
        self.world, self.name = world, name
        self.lease = EngineLease(name, name, free_slots=free, asterisk=PLACE)
        self.records = CallRecords(FakeBucket(world.server), name)
        self.answer = HandOverAnswer(True)
        self.asked: list[str] = []
        self.does: Callable[[HandOverStep], Any] = self.takes
        self.at_once = self.most_at_once = 0

    def take(self, step: HandOverStep) -> HandOverAnswer:
        self.asked.append(step.call_id)
        if self.answer.agreed:
            self.world.spawn(self._work(step))
        return self.answer

    async def _work(self, step: HandOverStep) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0.3)
        await self.does(step)
        self.at_once -= 1

    def ready(self, step: HandOverStep) -> HandOverAnswer:
        return self.world.giver.ready(HandOverStep("ready", step.call_id, self.name, step.lines))

    async def claim(self, call_id: str) -> bool:
        return await self.records.claim(call_id, "a", handed_over=True) is not None

    async def takes(self, step: HandOverStep) -> None:
        if self.ready(step).agreed and await self.claim(step.call_id):
            self.world.leaves(step.call_id)

    async def claims_and_dies(self, step: HandOverStep) -> None:
        assert self.ready(step).agreed
        assert await self.claim(step.call_id)

    async def dies(self, step: HandOverStep) -> None:
        """Nothing more is heard of it."""

    async def fails(self, step: HandOverStep) -> None:
        failed = HandOverStep("failed", step.call_id, self.name, why="no agent")
        self.world.giver.failed(failed)


class World:
    """Engine `a` with its calls, and the others."""

    def __init__(self, calls: int, *others: str) -> None:
        self.server = FakeServer()
        self.records = CallRecords(
            FakeBucket(self.server), "a", taken=lambda call_id: self.taken.append(call_id)
        )
        self.calls = {f"c{n}": Call(f"c{n}") for n in range(calls)}
        self.own: dict[str, CallRecord] = {}
        self.others = {name: Taker(self, name) for name in others}
        self.errors: list[str] = []
        self.taken: list[str] = []
        """Calls that other engines have, as `a` sees it."""
        self.reaches_callers = True
        self.unseen: dict[str, str] = {}
        """Engines of callers of whom `a` has not seen yet that they have left."""
        self.let_go_of: list[str] = []
        self.tasks = {asyncio.ensure_future(self.records.run())}
        self.giver = CallGiver(lambda: self.member, lambda: self.calls, self, self.errors.append)  # type: ignore[arg-type,return-value]
        for call_id in self.calls:
            self.own[call_id] = CallRecord(call_id, "a", asterisk=PLACE)
            self.records.put(self.own[call_id])

    @property
    def member(self) -> Any:
        return SimpleNamespace(
            instance="a",
            records=self.records,
            events=SimpleNamespace(stored=lambda call_id: LINES),
            talk=SimpleNamespace(tell=self.tell),
            roster=SimpleNamespace(others={each.name: each.lease for each in self.others.values()}),
        )

    async def tell(self, instance: str, step: HandOverStep) -> HandOverAnswer:
        await asyncio.sleep(0.001)
        assert (step.step, step.lines) == ("take", LINES)
        return self.others[instance].take(step)

    def record_of(self, call_id: str) -> CallRecord | None:
        return self.own.get(call_id)

    def hand_to(self, call_id: str, instance: str) -> None:
        if call_id in self.own:
            self.own[call_id] = replace(self.own[call_id], handing_over_to=instance)
            self.records.put(self.own[call_id])

    async def is_with(self, call_id: str, instance: str) -> bool:
        return self.unseen.get(call_id) == instance

    def let_go(self, call_id: str) -> None:
        self.let_go_of.append(call_id)
        self.leaves(call_id)

    def leaves(self, call_id: str) -> None:
        """The caller is with another engine now."""
        self.calls.pop(call_id).state = CallState.ENDING
        self.own.pop(call_id)
        self.records.forget(call_id)
        self.giver.ended(call_id)

    def spawn(self, work: Any) -> None:
        self.tasks.add(asyncio.ensure_future(work))

    def owner(self, call_id: str) -> str:
        value = self.server.entries[call_id].value
        assert value is not None
        return decode_record(value).owner

    async def end(self) -> None:
        await self.giver.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        assert self.errors == []


@in_virtual_time
async def test_all_calls_leave_few_at_a_time_and_to_engines_with_room() -> None:
    world = World(20, "b", "c", "full")
    world.others["full"].lease = EngineLease("full", "full", free_slots=0, asterisk=PLACE)
    world.giver.begin()
    assert world.giver.moving == 20
    await asyncio.sleep(30)
    assert world.calls == {}
    assert {world.owner(f"c{n}") for n in range(20)} == {"b", "c"}
    assert sum(each.most_at_once for each in world.others.values()) <= 2 * AT_ONCE
    assert max(each.most_at_once for each in world.others.values()) <= AT_ONCE
    assert world.giver.moving == 0
    await world.end()


@in_virtual_time
async def test_a_call_that_cannot_move_stays_and_leaves_when_it_can() -> None:
    world = World(1, "b")
    world.calls["c0"].rest = Rest.BUSY
    world.giver.begin()
    await asyncio.sleep(500)
    assert world.others["b"].asked == []
    world.calls["c0"].rest = Rest.QUIET
    await asyncio.sleep(5)
    assert world.calls == {}
    await world.end()


@in_virtual_time
async def test_one_whom_we_have_called_is_not_handed_over() -> None:
    world = World(1, "b")
    world.calls["c0"].offer.outbound = object()
    world.giver.begin()
    await asyncio.sleep(60)
    assert (world.giver.moving, world.others["b"].asked) == (0, [])
    await world.end()


@in_virtual_time
async def test_who_speaks_again_meanwhile_stays_until_the_next_pause() -> None:
    world = World(1, "b")
    answers: list[HandOverAnswer] = []

    async def asks(step: HandOverStep) -> None:
        if not answers:
            world.calls["c0"].rest = Rest.SPEECH
        answers.append(world.others["b"].ready(step))
        if answers[-1].agreed and await world.others["b"].claim(step.call_id):
            world.leaves(step.call_id)

    world.others["b"].does = asks
    world.giver.begin()
    await asyncio.sleep(5)
    assert answers == [HandOverAnswer(False, SPOKE)]
    assert world.owner("c0") == "a"
    world.calls["c0"].rest = Rest.QUIET
    await asyncio.sleep(5)
    assert world.owner("c0") == "b"
    await world.end()


@in_virtual_time
async def test_an_engine_that_refuses_or_fails_is_left_for_another() -> None:
    for fault in ("refuses", "fails", "dies"):
        world = World(1, "b")
        if fault == "refuses":
            world.others["b"].answer = HandOverAnswer(False, "it has no room")
        else:
            world.others["b"].does = getattr(world.others["b"], fault)
        world.giver.begin()
        await asyncio.sleep(2)
        assert world.owner("c0") == "a"
        world.others["c"] = Taker(world, "c")
        await asyncio.sleep(60)
        assert world.owner("c0") in ("b", "c")
        assert world.calls == {}, fault
        await world.end()


@in_virtual_time
async def test_a_call_whose_taker_dies_after_its_claim_is_claimed_back() -> None:
    world = World(1, "b")
    world.others["b"].does = world.others["b"].claims_and_dies
    world.giver.begin()
    await asyncio.sleep(1.5)
    assert world.owner("c0") == "b"
    world.giver.cancel()
    await asyncio.sleep(LEAVE_SECONDS + 1)
    assert world.owner("c0") == "a"
    assert "c0" in world.calls
    await asyncio.sleep(10)
    assert world.own["c0"].handing_over_to == ""
    assert not await world.others["b"].claim("c0"), "it is not handed over any more"
    await world.end()


@in_virtual_time
async def test_a_caller_who_has_left_unseen_is_let_go_and_not_claimed_back() -> None:
    """The connection to Asterisk broke, or it was slow, after the two engines had agreed."""
    world = World(1, "b")

    async def takes_unseen(step: HandOverStep) -> None:
        await world.others["b"].claims_and_dies(step)
        world.unseen["c0"] = "b"

    world.others["b"].does = takes_unseen
    world.giver.begin()
    await asyncio.sleep(LEAVE_SECONDS + 3)
    assert world.owner("c0") == "b"
    assert world.let_go_of == ["c0"]
    assert world.calls == {}
    await world.end()


@in_virtual_time
async def test_an_engine_that_would_not_see_a_caller_leave_lets_none_go() -> None:
    world = World(1, "b")
    world.reaches_callers = False
    world.giver.begin()
    await asyncio.sleep(5)
    assert world.owner("c0") == "a"
    assert "c0" in world.calls
    world.reaches_callers = True
    await asyncio.sleep(60)
    assert world.owner("c0") == "b"
    await world.end()


@in_virtual_time
async def test_a_record_that_others_have_removed_is_written_again() -> None:
    world = World(1, "b")

    async def removes(step: HandOverStep) -> None:
        await world.others["b"].claims_and_dies(step)
        bucket = FakeBucket(world.server)
        await bucket.remove("c0", last=world.server.entries["c0"].revision)

    world.others["b"].does = removes
    world.giver.begin()
    await asyncio.sleep(1.5)
    world.giver.cancel()
    await asyncio.sleep(LEAVE_SECONDS + 3)
    assert world.owner("c0") == "a"
    await world.end()


@in_virtual_time
async def test_after_a_cancel_nothing_leaves_any_more() -> None:
    world = World(2, "b")
    for call in world.calls.values():
        call.rest = Rest.SPEECH
    world.giver.begin()
    await asyncio.sleep(1)
    world.giver.cancel()
    for call in world.calls.values():
        call.rest = Rest.QUIET
    await asyncio.sleep(60)
    assert (len(world.calls), world.others["b"].asked, world.giver.moving) == (2, [], 0)
    await world.end()


@in_virtual_time
async def test_calls_leave_after_an_order_that_was_taken_back_at_once() -> None:
    world = World(2, "b")
    world.giver.begin()
    await asyncio.sleep(0)  # the calls are about to be handed over
    world.giver.cancel()
    await asyncio.sleep(1)
    world.giver.begin()
    await asyncio.sleep(10)
    assert world.calls == {}
    await world.end()


@in_virtual_time
async def test_a_late_ready_is_not_agreed_to() -> None:
    world = World(1, "b")
    late = world.giver.ready(HandOverStep("ready", "c0", "b", LINES))
    assert not late.agreed
    world.giver.failed(HandOverStep("failed", "c0", "b"))
    await world.end()


@in_virtual_time
async def test_nobody_is_agreed_with_in_the_moment_of_a_cancel() -> None:
    world = World(1, "b")
    world.giver.begin()
    await asyncio.sleep(0.5)
    assert world.others["b"].asked == ["c0"]
    world.giver.cancel()
    assert not world.giver.ready(HandOverStep("ready", "c0", "b", LINES)).agreed
    await asyncio.sleep(5)
    assert world.owner("c0") == "a"
    await world.end()


@in_virtual_time
async def test_a_claim_in_the_moment_in_which_the_call_is_kept_takes_no_caller_away() -> None:
    world = World(1, "b")
    get = world.records._bucket.get

    async def agrees_only(step: HandOverStep) -> None:
        assert world.others["b"].ready(step).agreed
        await asyncio.sleep(LEAVE_SECONDS / 2)

        async def claimed_after(key: str) -> Any:
            found = await get(key)
            world.records._bucket.get = get  # type: ignore[method-assign]
            assert await world.others["b"].claim("c0")
            return found

        world.records._bucket.get = claimed_after  # type: ignore[method-assign]

    world.others["b"].does = agrees_only
    world.giver.begin()
    await asyncio.sleep(1.5)
    world.giver.cancel()
    await asyncio.sleep(LEAVE_SECONDS + 3)
    assert world.taken == [], "the caller is dropped"
    assert world.owner("c0") == "a"
    await world.end()


@in_virtual_time
async def test_why_a_call_stays_is_logged_once() -> None:
    world = World(3)
    with capture_logs() as logs:
        world.giver.begin()
        await asyncio.sleep(60)
    assert [entry["event"] for entry in logs].count("call_stays") == 3
    await world.end()
