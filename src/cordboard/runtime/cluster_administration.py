"""The cluster, as the admin port of one engine needs it (`cordboard.admin.cluster_door`).

Imported only where the configuration has both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from cordboard.admin.cluster_door import BusSeen, EngineSeen, Exchange, NodeOrder, Serve
from cordboard.cluster import forwarding
from cordboard.cluster.bus import Entry
from cordboard.cluster.member import Member
from cordboard.cluster.orders import give
from cordboard.cluster.wire import AdminRequest, EngineLease, decode_lease
from cordboard.config.sections.cluster import Cluster
from cordboard.errors import NodeGone, WireUnreadable

KEEP_SECONDS = 30.0
"""Time for which the engines at other Asterisks are followed after they were asked for."""
LOOK_SECONDS = 1.0

log = structlog.get_logger()


class ClusterAdministration:
    """A `ClusterDoor`."""

    def __init__(self, member: Member, settings: Cluster) -> None:
        self._member = member
        self._settings = settings
        self._everywhere = _Everywhere()
        self._watching: asyncio.Task[None] | None = None
        self._until = 0.0

    @property
    def node(self) -> str:
        return self._settings.node

    @property
    def bus(self) -> BusSeen:
        connection = self._member.bus.connection
        return BusSeen(
            connection.connected, connection.server, connection.problem, self._member.lease.state
        )

    def engines(self) -> Sequence[EngineSeen]:
        """See `ClusterDoor`."""
        now = asyncio.get_running_loop().time()
        own = _seen(self._member.describe(), None)
        found = {**self._everywhere.leases, **self._member.roster.others}
        renewed = {**self._everywhere.renewed_at, **self._member.roster.renewed_at}
        others = [
            _seen(lease, round((now - renewed.get(instance, now)) * 1000))
            for instance, lease in found.items()
            if instance != own.instance
        ]
        return sorted([own, *others], key=lambda each: (each.node, each.instance))

    async def look(self) -> None:
        """See `ClusterDoor`."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + KEEP_SECONDS
        if self._watching is None or self._watching.done():
            self._everywhere = _Everywhere()
            self._watching = loop.create_task(self._watch(), name="all-engines")
        if not self._member.bus.connection.connected:
            return  # our own calls need not wait for the bus
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._everywhere.known.wait()

    async def _watch(self) -> None:
        """Follow the leases of all engines for as long as they are asked for."""
        loop = asyncio.get_running_loop()
        watch = loop.create_task(self._member.bus.all_leases.watch(self._everywhere))
        try:
            while loop.time() < self._until and not watch.done():
                await asyncio.wait({watch}, timeout=1.0)
        finally:
            watch.cancel()
            await asyncio.wait({watch})
            if not watch.cancelled() and (error := watch.exception()) is not None:
                log.error("all_engines_not_followed", error=repr(error))
            self._everywhere = _Everywhere()

    async def order(self, node: str, order: NodeOrder) -> int:
        """See `ClusterDoor`."""
        obeyed = await give(self._member.bus.connection, self._settings.name, node, order)
        return obeyed.moving

    async def begin(self, instance: str, fields: Mapping[str, Any]) -> Exchange:
        """See `ClusterDoor`."""
        request = AdminRequest("", "", self.node, 0, **fields)
        return await self._member.forwarding.begin(instance, request)

    async def end(self, exchange: Exchange) -> None:
        """See `ClusterDoor`."""
        if isinstance(exchange, forwarding.Exchange):
            with suppress(NodeGone):
                await exchange.send("end", code=1001)
            self._member.forwarding.end(exchange)

    def take_requests(self, serve: Serve | None) -> None:
        """See `ClusterDoor`."""
        self._member.forwarding.serve = serve
        if serve is None and self._watching is not None:
            self._watching.cancel()


class _Everywhere:
    """The leases of all engines. A `cordboard.cluster.bus.BucketListener`."""

    def __init__(self) -> None:
        self.leases: dict[str, EngineLease] = {}
        self.renewed_at: dict[str, float] = {}
        self.known = asyncio.Event()

    def listed(self, entries: Mapping[str, Entry]) -> None:
        for instance in self.leases.keys() - set(map(_instance_in, entries)):
            self._forget(instance)
        for entry in entries.values():
            self.changed(entry)
        self.known.set()

    def changed(self, entry: Entry) -> None:
        instance, lease = _instance_in(entry.key), None
        if entry.value is not None:
            with suppress(WireUnreadable):
                lease = decode_lease(entry.value)
        if lease is None or lease.revoked_by:
            self._forget(instance)
        else:
            self.leases[instance] = lease
            self.renewed_at[instance] = asyncio.get_running_loop().time()

    def _forget(self, instance: str) -> None:
        self.leases.pop(instance, None)
        self.renewed_at.pop(instance, None)


def _instance_in(key: str) -> str:
    return key.rpartition(".")[2]  # of `<place>.<instance>`


def _seen(lease: EngineLease, age_ms: int | None) -> EngineSeen:
    return EngineSeen(
        lease.instance,
        lease.node,
        lease.version,
        lease.labels,
        lease.region,
        lease.free_slots,
        lease.live_calls,
        lease.draining,
        lease.asterisk,
        lease.started_at,
        age_ms,
        own=age_ms is None,
    )
