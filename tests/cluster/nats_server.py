"""A client of the test kit's NATS server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.config.sections.cluster import Nats
from cordboard_testkit.nats_server import NatsServer, three_servers
from cordboard_testkit.patience import PATIENCE

__all__ = ["NatsServer", "bus", "three_servers"]


@asynccontextmanager
async def bus(
    settings: Nats, name: str = "test", replicas: int = 1, *, asterisk: str = ""
) -> AsyncIterator[NatsBus]:
    """A client that has made its streams."""
    found = NatsBus(NatsConnection(settings, "a-test"), name, replicas, asterisk=asterisk)
    running = asyncio.create_task(found.run())
    async with asyncio.timeout(PATIENCE):
        await found.ready()
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.wait([running])
