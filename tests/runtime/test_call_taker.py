"""The engine that takes calls which a living one hands over, with a bus in memory, in virtual
time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.offer import Offer
from cordboard.cluster.call_records import CallRecords, Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.member import Standing
from cordboard.cluster.wire import (
    CallRecord,
    HandOverAnswer,
    HandOverStep,
    decode_record,
    encode_record,
)
from cordboard.errors import CallerStays, LineError, LineGone, MediaError
from cordboard.runtime.call_taker import COME_SECONDS, CallTaker
from cordboard.telephony.asterisk.control import AsteriskLine
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.virtual_time import in_virtual_time

CALL = str(uuid4())


class World:
    """Engine `b`, to which `a` hands a call."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.bucket = FakeBucket(self.server)
        self.records = CallRecords(self.bucket, "b")
        self.adopted: dict[str, tuple[Claimed, Story]] = {}
        self.told: list[HandOverStep] = []
        self.looked_at: list[str] = []
        """Engines whose calls are adopted once more."""
        self.draining = False
        self.agreed: Callable[[], Any] = lambda: None
        """What happens when `a` has agreed."""
        self.offers: list[Offer] = []
        self.media: Callable[[AsteriskLine], Any] = self.comes
        self.taker = CallTaker(
            lambda: self.member,
            lambda: self,  # type: ignore[arg-type,return-value]
            dict,
            lambda: Standing(5, 0, self.draining),
            self.adopted,
            lambda where: None,
        )
        self.writing = asyncio.ensure_future(self.records.run())

    ready = True

    @property
    def member(self) -> Any:
        return SimpleNamespace(
            instance="b",
            records=self.records,
            events=SimpleNamespace(read=self.read),
            talk=SimpleNamespace(tell=self.tell),
            lease=SimpleNamespace(state="held"),
            adopt_again=self.looked_at.append,
        )

    async def read(self, call_id: str) -> Story:
        return Story()

    async def tell(self, instance: str, step: HandOverStep) -> HandOverAnswer:
        await asyncio.sleep(0.001)
        self.told.append(step)
        if step.step == "ready":
            self.agreed()
        return HandOverAnswer(True)

    async def adopt(
        self,
        kept: Any,
        *,
        at_once: bool,
        complete: Callable[[Offer], Offer],
        agree: Callable[[], Awaitable[None]],
    ) -> None:
        line = AsteriskLine.__new__(AsteriskLine)
        line.is_expected = True

        async def media(formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Any:
            await agree()
            return await self.media(line)

        self.offers.append(
            complete(Offer(call_id=CALL, source="asterisk", media=media, control=line))
        )

    async def comes(self, line: AsteriskLine) -> FakeMedia:
        line.is_expected = False
        return FakeMedia()

    async def take(self) -> Offer:
        record = CallRecord(CALL, "a", handing_over_to="b")
        await FakeBucket(self.server).put(CALL, encode_record(record), last=0)
        assert self.taker.take(HandOverStep("take", CALL, "a")).agreed
        await asyncio.sleep(0.1)
        return self.offers[-1]

    async def come(self) -> str:
        """Have the caller come, as `Call` does; return why they have not."""
        offer = await self.take()
        assert offer.resumed is not None
        assert offer.resumed.hand_over is not None
        try:
            await offer.media((SLIN_8K,))
        except (LineError, MediaError) as error:
            if not offer.resumed.hand_over.came:
                offer.resumed.hand_over.failed(str(error))
            return repr(error)
        return ""

    @property
    def record(self) -> CallRecord | None:
        value = self.server.entries[CALL].value
        return None if value is None else decode_record(value)

    @property
    def owner(self) -> str:
        return self.record.owner if self.record is not None else ""

    async def end(self) -> None:
        await self.taker.close()
        self.writing.cancel()
        await asyncio.wait([self.writing])


@in_virtual_time
async def test_the_caller_comes() -> None:
    world = World()
    assert await world.come() == ""
    assert world.owner == "b"
    assert CALL in world.adopted
    assert [step.step for step in world.told] == ["ready"]
    await world.end()


@in_virtual_time
async def test_a_call_that_was_claimed_too_late_is_its_owners_again_who_may_be_dead() -> None:
    for fault in ("slow", "unsure", "asterisk"):
        world = World()

        def slow(world: World = world, fault: str = fault) -> None:
            if fault != "asterisk":
                world.bucket.loses_answers = True
                asyncio.get_running_loop().call_later(
                    COME_SECONDS + 0.5, setattr, world.bucket, "loses_answers", False
                )

        async def fails(line: AsteriskLine) -> Any:
            raise MediaError("Asterisk does not answer")

        world.agreed, world.media = slow, fails
        if fault == "slow":
            answer = world.bucket._answer

            async def late(answer: Any = answer, world: World = world) -> None:
                await answer()
                await asyncio.sleep(COME_SECONDS)

            def slow_answers(world: World = world, late: Any = late) -> None:
                world.bucket._answer = late  # type: ignore[method-assign]

            world.agreed = slow_answers
        assert await world.come() != ""
        await asyncio.sleep(20)
        assert world.owner == "a", fault
        assert world.looked_at == ["a"], fault
        assert [step.step for step in world.told] == ["ready", "failed"]
        assert world.adopted == {}
        assert world.taker.take(HandOverStep("take", CALL, "a")).agreed
        await world.end()


@in_virtual_time
async def test_a_call_whose_caller_has_hung_up_on_the_way_leaves_no_record() -> None:
    world = World()

    async def gone(line: AsteriskLine) -> Any:
        raise LineGone("the caller has hung up")

    world.media = gone
    assert "hung up" in await world.come()
    await asyncio.sleep(1)
    assert world.record is None
    await world.end()


@in_virtual_time
async def test_a_caller_who_comes_late_is_claimed_again() -> None:
    world = World()
    other = CallRecords(FakeBucket(world.server), "a")

    async def late(line: AsteriskLine) -> FakeMedia:
        await asyncio.sleep(3.5)  # Asterisk has stood still, and `a` has claimed the call back
        assert await other.claim(CALL, "b") is not None
        return await world.comes(line)

    world.media = late
    assert await world.come() == ""
    assert world.owner == "b"
    (claimed, _) = world.adopted[CALL]
    resumed = world.offers[-1].resumed
    assert resumed is not None
    assert resumed.hand_over is not None
    assert resumed.hand_over.epoch == claimed.epoch
    world.records.put(replace(claimed.record, state="talking"))
    await asyncio.sleep(1)
    assert world.record is not None
    assert world.record.state == "talking"
    await world.end()


@in_virtual_time
async def test_an_engine_that_stops_meanwhile_asks_for_no_caller() -> None:
    world = World()
    offer = await world.take()
    world.draining = True
    with pytest.raises(CallerStays, match="no calls"):
        await offer.media((SLIN_8K,))
    assert world.told == []
    await world.end()
