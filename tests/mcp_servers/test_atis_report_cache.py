"""Politeness towards upstream, and no stale answer, with a clock in the test's hands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from cordboard.mcp_servers.aviation_atis.model import ReportUnavailableError
from cordboard.mcp_servers.aviation_atis.report_cache import Fetched, ReportCache


@dataclass
class Upstream:
    now: float = 1000.0
    answers: list[Fetched | ReportUnavailableError] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def fetch(self, key: str, last_modified: str | None) -> Fetched:
        self.asked.append((key, last_modified))
        self.arrived.set()
        await self.gate.wait()
        answer = self.answers.pop(0)
        if isinstance(answer, ReportUnavailableError):
            raise answer
        return answer

    def cache(self, refresh: bool = False) -> ReportCache:
        return ReportCache(
            self.fetch,
            ttl_seconds=300,
            retry_pause_seconds=5,
            used_within_seconds=3600,
            refresh=refresh,
            clock=lambda: self.now,
        )


def body(text: str, last_modified: str | None = None, expires_in: float | None = None) -> Fetched:
    return Fetched(text, last_modified, expires_in)


def failure(retry_after: float | None = None) -> ReportUnavailableError:
    return ReportUnavailableError("upstream_error", "It failed.", retry_after=retry_after)


async def test_an_answer_is_reused_for_the_ttl_and_then_asked_again_conditionally() -> None:
    upstream = Upstream(answers=[body("one", "Mon"), Fetched(None, None, None), body("two")])
    cache = upstream.cache()
    assert await cache.get("ENGM") == "one"
    upstream.now += 299
    assert await cache.get("ENGM") == "one"
    assert upstream.asked == [("ENGM", None)]
    upstream.now += 2
    assert await cache.get("ENGM") == "one"  # not modified
    upstream.now += 301
    assert await cache.get("ENGM") == "two"
    assert upstream.asked == [("ENGM", None), ("ENGM", "Mon"), ("ENGM", "Mon")]


async def test_upstream_is_not_asked_before_its_expires() -> None:
    upstream = Upstream(answers=[body("one", expires_in=900), body("two")])
    cache = upstream.cache()
    await cache.get("ENGM")
    upstream.now += 899
    assert await cache.get("ENGM") == "one"
    upstream.now += 2
    assert await cache.get("ENGM") == "two"


async def test_many_callers_share_one_request_and_one_who_leaves_does_not_stop_it() -> None:
    upstream = Upstream(answers=[body("one")])
    upstream.gate.clear()
    cache = upstream.cache()
    callers = [asyncio.create_task(cache.get("ENGM")) for _ in range(5)]
    await upstream.arrived.wait()
    callers[0].cancel()
    await asyncio.wait([callers[0]])
    upstream.gate.set()
    assert await asyncio.gather(*callers[1:]) == ["one"] * 4
    assert len(upstream.asked) == 1


async def test_an_old_answer_is_not_given_out_when_upstream_fails() -> None:
    upstream = Upstream(answers=[body("one"), failure(), body("two")])
    cache = upstream.cache()
    await cache.get("ENGM")
    upstream.now += 301
    with pytest.raises(ReportUnavailableError):
        await cache.get("ENGM")
    with pytest.raises(ReportUnavailableError):
        await cache.get("ENGM")  # at once, without asking again
    assert len(upstream.asked) == 2
    upstream.now += 6
    assert await cache.get("ENGM") == "two"


async def test_retry_after_is_honoured() -> None:
    upstream = Upstream(answers=[failure(retry_after=120), body("one")])
    cache = upstream.cache()
    for _ in range(2):
        with pytest.raises(ReportUnavailableError):
            await cache.get("ENGM")
        upstream.now += 60
    assert len(upstream.asked) == 1
    upstream.now += 61
    assert await cache.get("ENGM") == "one"


async def test_aerodromes_used_of_late_are_refreshed_before_they_run_out() -> None:
    upstream = Upstream(answers=[body("one"), body("two")])
    cache = ReportCache(
        upstream.fetch,
        ttl_seconds=0.2,
        retry_pause_seconds=5,
        used_within_seconds=3600,
        refresh=True,
    )
    assert await cache.get("ENGM") == "one"
    upstream.arrived.clear()
    await asyncio.wait_for(upstream.arrived.wait(), 20)
    await cache.close()
    assert not [task for task in asyncio.all_tasks() if "metar" in task.get_name()]
