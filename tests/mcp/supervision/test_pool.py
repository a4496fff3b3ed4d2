"""Servers shared by several holders: who starts, waits and ends when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from tests.mcp.conftest import faulty, until

from cordboard.mcp.supervision.pool import Lease, Replacement, ServerPool
from cordboard.mcp.supervision.status import ServerState


class Board:
    """A ServerObserver that shows the present."""

    def __init__(self) -> None:
        self.up: dict[str, bool] = {}
        self.gone: list[str] = []
        self.restarts = 0

    def mcp_server_up(self, server: str, up: bool) -> None:
        self.up[server] = up

    def mcp_server_restarted(self, server: str) -> None:
        self.restarts += 1

    def mcp_breaker(self, server: str, is_open: bool) -> None:
        """Not looked at."""

    def internal_error(self, where: str) -> None:
        raise AssertionError(f"a mistake of ours: {where}")

    def mcp_server_gone(self, server: str) -> None:
        del self.up[server]
        self.gone.append(server)


class Pool(ServerPool):
    def __init__(self, **more: Any) -> None:
        self.board = Board()
        super().__init__(self.board, **more)

    def take(self, version: str = "1", how: Replacement = Replacement.BESIDE, **more: Any) -> Lease:
        return self.lease("s", faulty(env={"VERSION": version}, **more), lambda: None, how)

    async def run(self, version: str = "1", how: Replacement = Replacement.BESIDE) -> Lease:
        lease = self.take(version, how)
        lease.start()
        assert await lease.server.wait_ready(20)
        return lease


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[Pool]:
    made = Pool()
    yield made
    await made.close()
    assert made.entries == ()
    assert made.board.up == {}


async def test_a_server_is_shared_and_ends_with_its_last_lease(pool: Pool) -> None:
    first = await pool.run()
    second = pool.take()
    assert second.server is first.server
    await asyncio.wait_for(first.release(), 60)
    assert second.server.state is ServerState.READY
    assert pool.board.gone == []
    await asyncio.wait_for(second.release(), 60)
    assert second.server.state is ServerState.STOPPED
    assert pool.board.gone == ["s"]
    await asyncio.wait_for(second.release(), 60)  # harmless


async def test_nothing_starts_before_the_pool_is_opened() -> None:
    pool = Pool(is_open=False)
    lease = pool.take()
    lease.start()
    await asyncio.sleep(0.02)
    assert lease.server.state is ServerState.STOPPED
    assert lease.status().state is ServerState.STARTING, "as everybody should see it"
    pool.open()
    assert await lease.server.wait_ready(20)
    await pool.close()


async def test_a_pool_that_is_closed_before_it_was_opened() -> None:
    pool = Pool(is_open=False)
    lease = pool.take()
    lease.start()
    await asyncio.wait_for(pool.close(), 60)
    assert lease.server.status().pid is None
    assert pool.entries == ()


async def test_the_new_one_after_the_old_one_with_its_tools_until_its_own_are_known(
    pool: Pool,
) -> None:
    old = await pool.run("1")
    new = pool.take("2", Replacement.AFTER)
    old.release()
    new.start()
    assert new.status().state is ServerState.STARTING
    assert new.listing == old.server.listing != ()
    assert pool.board.up == {"s": False}, "the metrics tell of the one that new calls get"
    assert await new.server.wait_ready(20)
    assert old.server.state is ServerState.STOPPED
    assert new.listing is new.server.listing
    assert pool.board.up == {"s": True}


async def test_the_new_one_beside_the_old_one(pool: Pool) -> None:
    old = await pool.run("1")
    new = await pool.run("2")
    assert old.server.state is new.server.state is ServerState.READY
    await asyncio.wait_for(old.release(), 60)
    assert pool.board.up == {"s": True}
    assert pool.board.gone == []


async def test_when_the_new_one_goes_the_old_one_counts_again(pool: Pool) -> None:
    await pool.run("1")
    new = pool.take("2")
    assert pool.board.up == {"s": False}
    await asyncio.wait_for(new.release(), 60)
    assert pool.board.up == {"s": True}


async def test_the_old_one_for_the_time_being(pool: Pool) -> None:
    old = await pool.run("1")
    later = pool.take("2", Replacement.LATER)
    assert later.server is old.server
    assert (old.outdated, later.outdated) == (False, True)


async def test_an_old_one_that_nobody_can_miss_is_not_kept(pool: Pool) -> None:
    ghost = faulty(command=["no-such-program-anywhere"])
    old = pool.lease("s", ghost, lambda: None)
    old.start()
    await until(lambda: old.server.state is ServerState.FAILED)
    new = pool.take("2", Replacement.LATER)
    assert not new.outdated
    new.start()
    assert await new.server.wait_ready(20), "though the old one still has its holder"


async def test_a_failed_start_does_not_go_on_offering_what_it_inherited(pool: Pool) -> None:
    old = await pool.run("1")
    ghost = faulty(command=["no-such-program-anywhere"])
    new = pool.lease("s", ghost, lambda: None, Replacement.AFTER)
    old.release()
    new.start()
    assert new.listing != ()
    await until(lambda: new.server.state is ServerState.FAILED)
    assert new.listing == ()


async def test_who_waits_and_is_released_is_never_started(pool: Pool) -> None:
    old = await pool.run("1")
    new = pool.take("2", Replacement.AFTER)
    new.start()
    await asyncio.wait_for(new.release(), 60)
    await asyncio.wait_for(old.release(), 60)
    assert new.server.status().pid is None
    assert new.server.state is ServerState.STOPPED


async def test_stopped_by_the_operator_it_stays_so_until_it_is_started_again(pool: Pool) -> None:
    lease = await pool.run()
    await asyncio.wait_for(lease.stop(), 60)
    another = pool.take()
    another.start()
    assert another.server.state is ServerState.STOPPED
    another.start_again()
    assert await lease.server.wait_ready(20)
    await asyncio.wait_for(lease.restart(), 60)
    assert await lease.server.wait_ready(20)
    assert pool.board.restarts == 1
