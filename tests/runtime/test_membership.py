"""What the membership of an engine does with calls that are handed over when engines die, and when
the engine takes calls again. Without a bus, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from tests.cluster.fake_bus import FakeBucket, FakeServer

from cordboard.calls.call import CallState
from cordboard.calls.offer import Offer
from cordboard.calls.speech_pause import Rest
from cordboard.cluster.bus import Entry
from cordboard.cluster.call_records import Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.lease import Lease
from cordboard.cluster.member import Standing
from cordboard.cluster.wire import CallRecord, EngineLease, encode_record
from cordboard.config.schema import Config
from cordboard.errors import LineError
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.runtime.membership import Membership
from cordboard.telephony.asterisk.shared import KeptCall
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.virtual_time import in_virtual_time

CALL = str(uuid4())


class Source:
    """An Asterisk with one caller, of which a call here may have a line."""

    ready = True

    def __init__(self) -> None:
        self.has_line: Callable[[], bool] = lambda: False
        self.adopted: list[KeptCall] = []
        self.channels: set[str] = set()
        """Those of a dead engine."""
        self.taken: list[tuple[str, set[str]]] = []
        """Dead engines whose waiting callers were taken, and the callers of known calls."""
        self.withdrawn: list[str] = []
        self.cleared: list[str] = []
        self.shared = SimpleNamespace(
            publish_room=lambda *room: None,
            publish_engines=lambda names: None,
            holders=self.holders,
            take_waiting=self.take_waiting,
            channels_of=self.channels_of,
            withdraw=self.withdrawn.append,
            clear=self.cleared.append,
            record=lambda offer: KeptCall(offer.call_id, "b", "caller"),
        )

    async def wait_ready(self, seconds: float) -> bool:
        return True

    async def holders(self, channel: str) -> frozenset[str]:
        return frozenset({"a"})

    async def take_waiting(self, instance: str, known: set[str]) -> int:
        self.taken.append((instance, known))
        return 0

    async def channels_of(self, instance: str) -> set[str]:
        return self.channels

    async def adopt(self, kept: KeptCall, *, complete: Callable[[Offer], Offer]) -> None:
        if self.has_line():
            raise LineError("not adopted: the caller is in a call here")
        self.adopted.append(kept)


class Call:
    """A call here; of a caller who is to come, it takes a while to end."""

    call_id = CALL
    context_name = provider_name = ""
    state = CallState.TALKING
    rest = Rest.BUSY
    ledger_path = Path("none")
    started_at = SimpleNamespace(isoformat=lambda timespec: "")

    def __init__(self, calls: dict[str, Any]) -> None:
        self.offer = FakeLine(CALL).offer()
        self.calls = calls
        self.ends: list[tuple[str, str]] = []

    def end(self, outcome: str, reason: str) -> None:
        if not self.ends:
            asyncio.get_running_loop().call_later(3, self.calls.pop, CALL)
        self.ends.append((outcome, reason))


class World:
    def __init__(self, folder: Path) -> None:
        config = Config.model_validate(
            {
                "contexts": {"demo": {}},
                "calls": {"directory": folder},
                "cluster": {"node": "b", "nats": {"servers": ["nats://127.0.0.1:1"]}},
            }
        )
        self.calls: dict[str, Any] = {}
        self.draining = False
        self.source = Source()
        self.membership = Membership(
            config,
            lambda: self.calls,
            lambda: Standing(5, len(self.calls), self.draining),
            self.ordered,
            lambda where: None,
            ServerPool(),
        )
        self.membership.attach(self.source)  # type: ignore[arg-type]
        self.claimed = Claimed(CallRecord(CALL, "b", caller_channel="caller", epoch=7), 7, "a")
        self.bus = FakeServer()
        self.membership.member.calls = FakeBucket(self.bus)  # type: ignore[assignment]
        self.alive_after_all = False

    def is_on_the_bus(self, content: bytes) -> None:
        self.bus.store(Entry(CALL, content, self.bus.next_revision()))

    async def dies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Engine `a` seems to have died."""

        async def revoke(instance: str) -> bool:
            return not self.alive_after_all

        async def fence(instance: str) -> None:
            pass

        monkeypatch.setattr(self.membership.member.roster, "revoke", revoke)
        monkeypatch.setattr(self.membership, "fence", fence)
        self.membership._gone("a")
        await asyncio.sleep(10)

    def ordered(self, order: str) -> None:
        self.draining = order != "undrain"


@in_virtual_time
async def test_a_call_that_was_being_handed_over_here_is_adopted_when_its_engine_dies(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    call = world.calls[CALL] = Call(world.calls)
    world.source.has_line = lambda: CALL in world.calls
    await world.membership.adopt(world.claimed, Story(), has_room=True)
    assert [kept.call_id for kept in world.source.adopted] == [CALL]
    assert call.ends[0][0] == "moved"


@in_virtual_time
async def test_a_call_whose_caller_has_not_left_goes_on_when_the_next_engine_dies(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    call = world.calls[CALL] = Call(world.calls)
    world.source.has_line = lambda: True
    world.membership.copy_line(CALL, b'{"at_ms":0,"type":"call.connected"}\n')
    world.membership.hand_to(CALL, "c")
    await world.membership.adopt(world.claimed, Story(), has_room=True)
    assert (call.ends, world.source.adopted) == ([], [])
    record = world.membership.record_of(CALL)
    assert record is not None
    assert record.handing_over_to == ""


@in_virtual_time
async def test_an_engine_that_takes_calls_again_keeps_those_that_it_has(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.calls[CALL] = Call(world.calls)
    world.membership.copy_line(CALL, b'{"at_ms":0,"type":"call.connected"}\n')
    giver = world.membership._giver
    watching = asyncio.ensure_future(world.membership._watch_room())
    world.membership._order("hand_over")
    await asyncio.sleep(1)
    assert giver.moving == 1
    world.draining = False  # an operator has said so by HTTP
    await asyncio.sleep(1)
    assert giver.moving == 0
    watching.cancel()


@in_virtual_time
async def test_an_engine_that_stops_hands_over_whatever_is_ordered(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.calls[CALL] = Call(world.calls)
    world.membership.copy_line(CALL, b'{"at_ms":0,"type":"call.connected"}\n')
    giver = world.membership._giver
    world.membership.hand_over_before_end(60)
    world.membership._order("undrain")
    await asyncio.sleep(1)
    assert giver.moving == 1


@in_virtual_time
async def test_another_engine_of_the_same_node_is_told_and_is_no_reason_to_take_no_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    monkeypatch.setattr(Lease, "state", "held")
    world.membership.limits = SimpleNamespace(counts=SimpleNamespace(twin="b-1234"))  # type: ignore[assignment]
    state = world.membership.state()
    assert (state.ready, state.required) == (False, False)
    assert "b-1234" in state.detail
    world.membership.limits.counts.twin = ""  # type: ignore[misc]
    assert world.membership.state().ready


@in_virtual_time
async def test_a_caller_who_talks_with_a_human_keeps_them_when_their_engine_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This engine, or another, has claimed the call, and waits until the two have parted."""
    world = World(tmp_path)
    world.is_on_the_bus(encode_record(CallRecord(CALL, "c", caller_channel="caller", epoch=7)))
    world.source.channels = {"caller"}
    await world.dies(monkeypatch)
    assert world.source.taken == [("a", {"caller"})] * 2
    assert world.source.cleared == []


@in_virtual_time
async def test_all_is_cleared_up_behind_a_dead_engine_whose_callers_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.is_on_the_bus(encode_record(CallRecord(CALL, "c", caller_channel="caller", epoch=7)))
    await world.dies(monkeypatch)
    assert world.source.cleared == ["a"]


@in_virtual_time
@pytest.mark.parametrize("others", [["c"], ["c", "d", "e"]])
async def test_callers_who_still_ring_are_taken_by_every_engine_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    """The one whose turn is first may not reach Asterisk."""
    world = World(tmp_path)
    living = {name: EngineLease(name, name, free_slots=50_000) for name in others}
    monkeypatch.setattr(world.membership.member.roster, "_others", living)
    await world.dies(monkeypatch)
    assert [instance for instance, _ in world.source.taken] == ["a", "a"]


@in_virtual_time
async def test_callers_who_still_ring_are_taken_once_an_engine_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.draining = True
    await world.dies(monkeypatch)
    assert world.source.taken == []
    world.draining = False
    await asyncio.sleep(10)
    assert len(world.source.taken) == 2


@in_virtual_time
async def test_callers_whose_records_cannot_be_read_are_not_taken_for_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.is_on_the_bus(b"sealed with another key")
    await world.dies(monkeypatch)
    assert (world.source.taken, world.source.cleared) == ([], [])


@in_virtual_time
async def test_an_engine_that_is_alive_after_all_keeps_its_place_in_the_dialplan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not write its room again before that changes."""
    world = World(tmp_path)
    world.alive_after_all = True
    await world.dies(monkeypatch)
    assert world.source.withdrawn == []


@pytest.mark.parametrize(("moves", "is_adopted"), [(0, True), (1, True), (2, False)])
@in_virtual_time
async def test_a_killed_call_was_adopted_if_it_has_changed_its_engine_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int, is_adopted: bool
) -> None:
    world = World(tmp_path)
    moved = b'{"at_ms":1,"type":"call.adopted","engine":"b-000001"}\n'

    async def find(call_id: str) -> None:
        return None

    async def read(call_id: str) -> Story:
        return Story((b'{"at_ms":0,"type":"call.offered"}\n', moved, moved))

    monkeypatch.setattr(world.membership.member.records, "find", find)
    monkeypatch.setattr(world.membership.member.events, "read", read)
    assert await world.membership.is_adopted(CALL, moves) is is_adopted


@in_virtual_time
async def test_no_more_calls_than_a_fifth_too_many_go_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are adopted in the same moment, and no one of them has begun yet."""
    world = World(tmp_path)
    most = world.membership._most_calls
    went_on: list[bool] = []

    async def adopt(kept: KeptCall, *, complete: Callable[[Offer], Offer]) -> None:
        resumed = complete(FakeLine(kept.call_id).offer()).resumed
        assert resumed is not None
        went_on.append(resumed.has_room)

    monkeypatch.setattr(world.source, "adopt", adopt)
    for _ in range(2 * most):
        call_id = str(uuid4())
        claimed = Claimed(CallRecord(call_id, "b", caller_channel=call_id, epoch=7), 7, "a")
        await world.membership.adopt(claimed, Story(), has_room=False)
    assert sum(went_on) == most * 1.2
