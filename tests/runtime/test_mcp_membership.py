"""The membership of an engine has its MCP servers run once in the cluster, and releases them when
it leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.nats_server import NatsServer
from tests.mcp.conftest import faulty

from cordboard.cluster.member import Standing
from cordboard.config.schema import Config
from cordboard.mcp.supervision.pool import Lease, ServerPool
from cordboard.runtime.membership import Membership
from cordboard_testkit.patience import PATIENCE, until


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@asynccontextmanager
async def engine(
    nats: NatsServer, folder: Path, node: str
) -> AsyncIterator[tuple[Membership, Lease]]:
    config = Config.model_validate(
        {
            "contexts": {"demo": {}},
            "calls": {"directory": folder / node},
            "cluster": {"node": node, "nats": {"servers": [nats.url]}},
        }
    )
    errors: list[str] = []
    pool = ServerPool()
    membership = Membership(
        config,
        dict,
        lambda: Standing(50, 0, False),
        lambda order: None,
        errors.append,
        pool,
    )
    (folder / node).mkdir()
    await membership.start()
    lease = pool.lease("shop", faulty(run="cluster"), lambda: None)
    lease.start()
    try:
        assert await lease.server.wait_ready(PATIENCE)
        yield membership, lease
    finally:
        await membership.close()
        await pool.close()
    assert not errors


async def test_a_server_moves_when_its_engine_leaves(nats: NatsServer, tmp_path: Path) -> None:
    async with engine(nats, tmp_path, "a") as (first, here):
        assert here.status().pid is not None
        async with engine(nats, tmp_path, "b") as (_, there):
            assert there.status().runs_at == first.member.instance
            await first.close()
            assert here.status().pid is None  # before the bus is left
            await until(lambda: there.status().pid is not None, "the server")
