"""The lease of an MCP server in virtual time: two processes never run at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cluster.fake_bus import FakeBucket, FakeServer
from tests.mcp.conftest import faulty

from cordboard.cluster.bus import Entry
from cordboard.cluster.lease import LeaseTimes
from cordboard.cluster.mcp_board import Board, ServerLease, report_key
from cordboard.cluster.mcp_servers import ClusterServers
from cordboard.cluster.wire import (
    BreakerReport,
    ServerHolder,
    decode_holder,
    encode_holder,
    encode_report,
)
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard_testkit.virtual_time import in_virtual_time, virtual_time

TIMES = LeaseTimes(2, 0.5)


class Link:
    """A connection that carries nothing."""

    async def settle(self) -> None: ...

    @asynccontextmanager
    async def inbox(self, subject: str) -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
        yield subject, asyncio.Queue()


class Connection:
    """Connected for ever: whether the bus answers is up to the bucket."""

    current = None

    async def link(self) -> Link:
        return Link()


class Process:
    """A process that neither the end of its input nor SIGTERM ends."""

    pid = 7
    ending = "ended"

    def __init__(self, runs: list[list[float]], stop_seconds: float) -> None:
        self._runs = runs
        self._stop_seconds = stop_seconds
        self._killed = asyncio.Event()
        self.closed = asyncio.Event()
        self._run: list[float] = []

    async def __aenter__(self) -> Any:
        self._run = [asyncio.get_running_loop().time()]
        self._runs.append(self._run)
        return None

    async def __aexit__(self, *_: object) -> None:
        try:
            async with asyncio.timeout(self._stop_seconds):
                await self._killed.wait()
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        if len(self._run) == 1:
            self._run.append(asyncio.get_running_loop().time())
        self._killed.set()
        self.closed.set()


class Engine:
    """Runs a server whenever it may."""

    def __init__(self, server: FakeServer, name: str, stop_seconds: float = 6.0) -> None:
        self.bucket = FakeBucket(server)
        self.runs: list[list[float]] = []
        pool = ServerPool()
        loop = asyncio.get_running_loop()
        self.sharing = ClusterServers(
            Connection(),  # type: ignore[arg-type]
            self.bucket,
            pool,
            name,
            times=TIMES,
            clock=loop.time,
        )
        self._server = SupervisedServer("shop", faulty(run="cluster"))
        self._stop_seconds = stop_seconds
        self._tasks = [loop.create_task(self.sharing.run()), loop.create_task(self._live())]

    async def _live(self) -> None:
        while True:
            made: Any = lambda: Process(self.runs, self._stop_seconds)  # noqa: E731
            transport = self.sharing.transport(self._server, made)
            async with transport:
                await transport.closed.wait()
            await asyncio.sleep(0.1)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.sharing.close()

    @property
    def runs_now(self) -> bool:
        return bool(self.runs) and len(self.runs[-1]) == 1


def overlap(engines: list[Engine], now: float) -> float:
    """Most seconds for which two processes ran at once."""
    runs = [(run[0], run[1] if len(run) > 1 else now) for each in engines for run in each.runs]
    pairs = [(a, b) for number, a in enumerate(runs) for b in runs[number + 1 :]]
    return max((min(a[1], b[1]) - max(a[0], b[0]) for a, b in pairs), default=0.0)


@in_virtual_time
async def test_a_holder_without_the_bus_is_gone_before_the_next_one_begins() -> None:
    server, loop = FakeServer(), asyncio.get_running_loop()
    first = Engine(server, "a")
    await asyncio.sleep(1)
    second = Engine(server, "b")
    await asyncio.sleep(3)
    assert first.runs_now
    assert not second.runs
    first.bucket.away = True
    away_at = loop.time()
    await asyncio.sleep(5)
    assert not first.runs_now
    assert second.runs_now
    ended, began = first.runs[0][1], second.runs[0][0]
    assert away_at + 0.9 < ended < began < away_at + 2.6
    first.bucket.come_back()
    await asyncio.sleep(5)
    assert not first.runs_now  # it is the other one's now
    await second.end()
    await asyncio.sleep(3)
    assert first.runs_now
    await first.end()
    assert overlap([first, second], loop.time()) <= 0


@in_virtual_time
async def test_a_holder_whose_answers_are_lost_for_a_moment_goes_on() -> None:
    server = FakeServer()
    only = Engine(server, "a")
    await asyncio.sleep(3)
    only.bucket.loses_answers = True  # the renewal is carried out all the same
    await asyncio.sleep(0.5)
    only.bucket.loses_answers = False
    await asyncio.sleep(5)
    assert len(only.runs) == 1
    assert only.runs_now
    await only.end()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["away", "back", "loses", "answers"]),
            st.floats(0.01, 3.0),
        ),
        max_size=12,
    )
)
def test_whatever_the_bus_does_two_processes_never_run_at_once(
    story: list[tuple[int, str, float]],
) -> None:
    async def play() -> float:
        server = FakeServer()
        engines = [Engine(server, name) for name in "abc"]
        for number, deed, pause in story:
            bucket = engines[number].bucket
            match deed:
                case "away":
                    bucket.away = True
                case "back":
                    bucket.come_back()
                case _:
                    bucket.loses_answers = deed == "loses"
            await asyncio.sleep(pause)
        for each in engines:
            each.bucket.loses_answers = False
            each.bucket.come_back()
        await asyncio.sleep(10)
        assert sum(each.runs_now for each in engines) == 1  # and one does run
        for each in engines:
            await each.end()
        return overlap(engines, asyncio.get_running_loop().time())

    with virtual_time() as loop:
        assert loop.run_until_complete(play()) <= 0


@in_virtual_time
async def test_a_lease_is_released_at_once_and_not_taken_from_another_one() -> None:
    bucket = FakeBucket(FakeServer())
    clock = asyncio.get_running_loop().time

    def lease(life: str) -> ServerLease:
        return ServerLease(bucket, lambda: ServerHolder("shop", life, life), TIMES, clock)

    first, second = lease("a"), lease("b")
    assert await first.acquire()
    assert not await second.acquire()
    assert first.holds()
    await first.release()
    assert await second.acquire()
    await first.release()  # not the other one's
    entry = await bucket.get("shop")
    assert entry is not None
    assert entry.value is not None
    assert decode_holder(entry.value).life == "b"


def test_what_cannot_be_read_is_nobody_to_call_and_nobody_to_replace() -> None:
    told: list[tuple[str, str, bool]] = []
    board = Board(FakeBucket(FakeServer()), reported=lambda *report: told.append(report))
    report = encode_report(BreakerReport("shop", "b-2"))
    board.listed(
        {
            "shop": Entry("shop", b"{}", 1),
            "desk": Entry("desk", encode_holder(ServerHolder("desk", "a-1", "f", True, "h")), 2),
            "breaker.shop.b-2": Entry("breaker.shop.b-2", report, 3),
            "breaker.desk.b-2": Entry("breaker.desk.b-2", report, 4),
            "breaker.x": Entry("breaker.x", b"\x00", 5),
        }
    )
    shop, desk = board.holder("shop"), board.holder("desk")
    assert shop is not None
    assert not shop.ready
    assert desk is not None
    assert desk.ready
    assert board.reported_by("shop") == ("b-2",)
    assert board.reported_by("desk") == ()
    assert told == [("shop", "b-2", True)]
    board.changed(Entry(report_key("shop", "b-2"), report, 6))  # renewed
    board.changed(Entry(report_key("shop", "b-2"), None, 7, expired=True))
    assert told == [("shop", "b-2", True), ("shop", "b-2", False)]
    board.listed({})
    assert board.holder("desk") is None


@pytest.mark.parametrize("bad", [b"", b"{", b'{"v":1,"kind":"lease"}', b'{"v":2}'])
def test_a_poisoned_report_is_passed_over(bad: bytes) -> None:
    board = Board(FakeBucket(FakeServer()))
    board.changed(Entry("breaker.shop.b-2", bad, 1))
    assert board.reported_by("shop") == ()
