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

from cordboard.calls.call import CallState
from cordboard.calls.offer import Offer
from cordboard.calls.speech_pause import Rest
from cordboard.cluster.call_records import Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.lease import Lease
from cordboard.cluster.member import Standing
from cordboard.cluster.wire import CallRecord
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
        self.shared = SimpleNamespace(
            publish_room=lambda *room: None,
            publish_engines=lambda names: None,
            holders=self.holders,
            record=lambda offer: KeptCall(offer.call_id, "b", "caller"),
        )

    async def wait_ready(self, seconds: float) -> bool:
        return True

    async def holders(self, channel: str) -> frozenset[str]:
        return frozenset({"a"})

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
