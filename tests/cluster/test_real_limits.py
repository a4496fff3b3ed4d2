"""Shared limits of members on a real NATS server."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.cluster.nats_server import NatsServer

from cordboard.cluster.bus import listing
from cordboard.cluster.member import Member, Standing
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.firewall.counts import Counts
from cordboard.outbound.campaigns.store import CampaignStore
from cordboard.runtime.shared_limits import SharedLimits
from cordboard_testkit.patience import until

NOON = datetime.datetime.now(datetime.UTC).replace(minute=30, second=30)
KARI = "+4722000001"


class Engine:
    def __init__(self, server: NatsServer, folder: Path, node: str, encryption: Encryption) -> None:
        self.calls = 0
        self.counts = Counts()
        self.campaigns = folder / f"{node}.sqlite3"
        self.member = Member(
            Cluster(node=node, nats=server.settings),
            lambda: Standing(10, self.calls, False),
            folder / node,
            encryption=encryption,
            asterisk=f"{node}:8088",
        )
        self.limits = SharedLimits(
            self.member,
            node,
            f"{node}:8088",
            self.counts,
            lambda: self.calls,
            lambda: True,
            self.campaigns,
        )

    def used(self) -> int:
        return self.counts.used("in", "caller", KARI, NOON).calls


@asynccontextmanager
async def running(*engines: Engine) -> AsyncIterator[None]:
    for each in engines:
        await each.member.start()
    try:
        yield
    finally:
        for each in engines:
            await each.member.stop()


@pytest.mark.parametrize("key", ["", "A" * 43 + "="])
async def test_caps_calls_blocks_and_people_are_shared_and_survive_an_outage(
    tmp_path: Path, key: str
) -> None:
    encryption = Encryption(enabled=bool(key), master_key=key or None)
    with NatsServer() as server:
        a, b = (Engine(server, tmp_path, node, encryption) for node in "ab")
        async with running(a, b):
            await until(lambda: a.limits.counts.engines == b.limits.counts.engines == 2)
            a.counts.begin("in", KARI, "demo", NOON)
            a.calls = 1
            a.limits.counts.calls_moved()
            await until(lambda: b.used() == 1 and b.limits.counts.calls_filled(2))
            with closing(CampaignStore(a.campaigns)) as store:
                store.block([KARI])
            await until(lambda: b.campaigns.exists())
            with closing(CampaignStore(b.campaigns)) as store:
                await until(lambda: store.is_blocked(KARI))
            assert (await a.limits.claims.take("spring", KARI)).state == "ours"
            assert (await b.limits.claims.take("spring", KARI)).state == "later"
            entries = {
                **await listing(a.member.bus.counts),
                **await listing(a.member.bus.blocks),
                **await listing(a.member.bus.claims),
            }
            assert len(entries) >= 6
            if key:
                assert all(
                    (each.value or b"").startswith(b'{"sealed"') for each in entries.values()
                )
            server.kill()
            await until(lambda: not b.member.bus.connection.connected)
            b.counts.begin("in", KARI, "demo", NOON)
            await until(lambda: b.limits.health()["last_share"])
            assert a.used() == 1
            server.start()
            await until(lambda: a.used() == 2 and not b.limits.health()["last_share"])
