"""The figures of `bench mcp` are only as good as its clocks, and its servers have to be broken."""

from __future__ import annotations

import asyncio
import importlib
import time

from bench import mcp_boot, mcp_calls
from bench.__main__ import BENCHMARKS
from bench.mcp_deaths import BEFORE, OtherCalls, Victim
from bench.mcp_hold import ticking
from bench.report import Report

from cordboard.config.mcp import Mcp
from cordboard.mcp.supervision.server import ServerState


def test_every_benchmark_that_is_offered_exists() -> None:
    for name in BENCHMARKS:
        assert callable(importlib.import_module(f"bench.{name}").measure)


async def test_the_ticker_sees_for_how_long_the_loop_was_held() -> None:
    async with ticking() as gaps:
        time.sleep(0.05)  # noqa: ASYNC251 - that is the hold
    assert gaps.longest >= 0.05


def test_calls_are_told_apart_by_when_they_began() -> None:
    others = OtherCalls()
    others.calls = [(9.9 - BEFORE, 1.0), (9.9, 2.0), (10.0, 3.0), (10.9, 4.0), (11.0, 5.0)]
    others.sort_in(10.0, 11.0)
    assert (others.before, others.during) == ([2.0], [3.0, 4.0])
    assert others.calls == []


async def test_a_killed_server_is_timed_from_the_kill_on() -> None:
    victim = Victim()
    victim.server.start()
    try:
        assert await victim.server.wait_ready(60)
        victim.kill()
        failed_at = await victim.last_call()
        await asyncio.wait_for(victim.down.wait(), 60)
        assert victim.server.state in (ServerState.RESTARTING, ServerState.STARTING)
        assert victim.killed_at < victim.down_at
        assert victim.killed_at < failed_at
        assert not victim.back.is_set()
    finally:
        await victim.server.close()


async def test_both_ways_make_the_same_calls() -> None:
    report = Report("mcp")
    await mcp_calls.measure_calls(report, lambda text: None, calls=4, warm_up=1)
    assert [row[1] for row in report.tables[0][2]] == ["4", "4"]
    assert [target.limit for target in report.targets] == [0.1, 0.7]


def test_five_of_the_twenty_servers_are_broken() -> None:
    servers = Mcp.model_validate({"servers": mcp_boot.servers()}).servers
    assert len(servers) == 20
    assert len([name for name in servers if not name.startswith("good_")]) == 5
    assert list(servers) != sorted(servers, key=lambda name: name.startswith("good_"))
