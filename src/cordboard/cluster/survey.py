"""The whole cluster at one moment, read from the bus by a client that is no engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cordboard.cluster.bus import Entry, listing
from cordboard.cluster.nats_bus import NatsBucket, NatsBus
from cordboard.cluster.nats_connection import NatsConnection, require_nats
from cordboard.cluster.orders import Obeyed, Order, give
from cordboard.cluster.sealed_bus import SealedBucket, seal_of
from cordboard.cluster.wire import CallRecord, EngineLease, decode_lease, decode_record
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import BusAway, WireUnreadable

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Survey:
    """Engines and calls, by name."""

    engines: tuple[EngineLease, ...]
    """Those with a lease."""
    calls: tuple[CallRecord, ...]
    unreadable: tuple[str, ...]
    """Problems of entries of another version."""

    @property
    def orphans(self) -> tuple[CallRecord, ...]:
        """Calls whose owner has no lease: they wait for an engine that takes them over."""
        living = {engine.instance for engine in self.engines}
        return tuple(call for call in self.calls if call.owner not in living)


async def survey(settings: Cluster, encryption: Encryption) -> Survey:
    """Look at the cluster. `encryption` is that of the calls. Raises `BusAway`, `ClusterError` and
    `ExtraMissing`."""
    async with visit(settings) as connection:
        bus = NatsBus(connection, settings.name)
        leases, calls = await asyncio.gather(_listed(bus.all_leases), _listed(bus.all_calls))
    if (seal := seal_of(encryption)) is not None:
        calls = SealedBucket(bus.all_calls, seal).opened(calls)
    return _survey(leases, calls)


async def order_node(settings: Cluster, node: str, order: Order) -> Obeyed:
    """Give an order to a node. Raises `BusAway`, `ClusterError` and `ExtraMissing`."""
    async with visit(settings) as connection:
        return await give(connection, settings.name, node, order)


@asynccontextmanager
async def visit(settings: Cluster) -> AsyncIterator[NatsConnection]:
    """Connect for a few requests. Raises `BusAway`, `ClusterError` and `ExtraMissing`."""
    require_nats()
    connection = NatsConnection(settings.nats, f"{settings.node} (command)")
    running = asyncio.create_task(connection.run())
    connecting = asyncio.create_task(connection.link())
    try:
        await asyncio.wait(
            {running, connecting}, timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if running.done():
            running.result()  # raises
        if not connecting.done():
            raise BusAway(f"the bus cannot be reached: {connection.problem}")
        yield connection
    finally:
        for task in (running, connecting):
            task.cancel()
        await asyncio.wait({running, connecting})


async def _listed(bucket: NatsBucket) -> Mapping[str, Entry]:
    """Return all entries; none if no engine has been there yet. Raises `BusAway`."""
    return await listing(bucket) if await bucket.exists() else {}


def _survey(leases: Mapping[str, Entry], calls: Mapping[str, Entry]) -> Survey:
    engines: list[EngineLease] = []
    records: list[CallRecord] = []
    unreadable: list[str] = []
    for _, entry in sorted([*leases.items(), *calls.items()]):
        if entry.value is None:
            continue
        try:
            if entry.key in leases:
                lease = decode_lease(entry.value)
                if not lease.revoked_by:
                    engines.append(lease)
            else:
                records.append(decode_record(entry.value))
        except WireUnreadable as error:
            unreadable.append(f"{entry.key}: {error}")
    return Survey(tuple(engines), tuple(records), tuple(unreadable))
