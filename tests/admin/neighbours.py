"""Two admin ports whose engines are of one cluster, without a bus between them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cordboard.admin.cluster_door import BusSeen, EngineSeen, NodeOrder, Serve
from cordboard.admin.forwarded import ForwardedRequests
from cordboard.admin.other_engines import OtherEngines
from cordboard.cluster.forwarding import Exchange
from cordboard.cluster.wire import (
    AdminRequest,
    decode_frame,
    decode_request,
    encode_request,
)
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import BusAway, NodeGone

from .conftest import Room


@dataclass
class Doors:
    """The bus."""

    doors: dict[str, NearDoor] = field(default_factory=dict)
    away: bool = False
    requests: list[AdminRequest] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)


class NearDoor:
    """A `ClusterDoor` to engines in the same process."""

    def __init__(self, doors: Doors, node: str) -> None:
        self.node = node
        self.instance = f"{node}-1"
        self.draining = False
        self._doors = doors
        self._serve: Serve | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        doors.doors[self.instance] = self

    @property
    def bus(self) -> BusSeen:
        away = self._doors.away
        return BusSeen(not away, "nats://x", "not connected" if away else "", "held")

    def engines(self) -> Sequence[EngineSeen]:
        return [
            EngineSeen(
                each.instance, each.node, "1.2.3", ("gpu",), "oslo", 7, 1, each.draining,
                "pbx:8088", "2026-11-24T03:00:00+01:00", None if each is self else 250,
                each is self,
            )
            for each in self._doors.doors.values()
        ]  # fmt: skip

    async def look(self) -> None:
        """All are known."""

    async def order(self, node: str, order: NodeOrder) -> int:
        if self._doors.away:
            raise BusAway("not connected")
        self._doors.doors[f"{node}-1"].draining = order != "undrain"
        return 3 if order == "hand_over" else 0

    async def begin(self, instance: str, fields: Mapping[str, Any]) -> Exchange:
        if self._doors.away:
            raise BusAway("not connected")
        other = self._doors.doors.get(instance)
        if other is None or other._serve is None:
            raise NodeGone(f"{instance} does not answer")
        sent = encode_request(AdminRequest("s1", self.instance, self.node, 0, **fields))
        request = decode_request(sent)
        self._doors.requests.append(request)

        async def to_other(data: bytes) -> None:
            theirs.take(decode_frame(data))

        async def to_us(data: bytes) -> None:
            ours.take(decode_frame(data))

        ours, theirs = Exchange("s1", to_other), Exchange("s1", to_us)
        task = asyncio.create_task(other._carry_out(request, theirs))
        other._tasks.add(task)
        self._doors.exchanges += [ours, theirs]
        task.add_done_callback(other._tasks.discard)
        return ours

    async def _carry_out(self, request: AdminRequest, exchange: Exchange) -> None:
        assert self._serve is not None
        with contextlib.suppress(NodeGone):
            await self._serve(request, exchange)
            await exchange.send("end")

    async def end(self, exchange: Any) -> None:
        with contextlib.suppress(NodeGone):
            await exchange.send("end", code=1001)

    def take_requests(self, serve: Serve | None) -> None:
        self._serve = serve

    def die(self) -> None:
        """As by SIGKILL: its exchanges are silent, and its lease expires."""
        for exchange in self._doors.exchanges:
            exchange.lose("no sign of life")
        del self._doors.doors[self.instance]

    def cut_off(self) -> None:
        """As when the bus is away."""
        self._doors.away = True
        for exchange in self._doors.exchanges:
            exchange.lose("the bus is away")


@dataclass
class Neighbours:
    a: Room
    b: Room
    doors: Doors
    door_a: NearDoor
    door_b: NearDoor


def room_of(folder: Path, door: Any) -> Room:
    """An admin port behind a door of a cluster."""
    folder.mkdir()
    room = Room(folder, AdminUi())
    room.services.others = OtherEngines(door, room.services.feed.live, room.errors.append)
    door.take_requests(ForwardedRequests(room.app))
    return room


@contextlib.asynccontextmanager
async def neighbours(folder: Path) -> AsyncIterator[Neighbours]:
    doors = Doors()
    door_a, door_b = NearDoor(doors, "a"), NearDoor(doors, "b")
    a, b = room_of(folder / "a", door_a), room_of(folder / "b", door_b)
    a.calls.clear()
    b.calls.clear()
    try:
        yield Neighbours(a, b, doors, door_a, door_b)
    finally:
        for room in (a, b):
            if room.services.others is not None:
                room.services.others.close()
        await asyncio.sleep(0)
        for room in (a, b):
            assert room.errors == []
            room.close()
