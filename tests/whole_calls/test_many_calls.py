"""Thirty calls in a row and ten at once: each is served, and afterwards nothing of them is left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cordboard.calls.events import ToolAnswered
from cordboard_testkit.leaks import LeakSnapshot

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


def resident_megabytes() -> float:
    """The memory of this process: engine, phones and tests."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


async def short_call(hotline) -> None:
    """Hear the greeting and hang up."""
    caller = await hotline.dial("ctx-orders")
    await caller.greeted()
    caller.line.hangup()
    history = await caller.history()
    assert (history.outcome, history.troubles) == ("completed", [])


async def question(hotline) -> str:
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    await caller.ask("What are the opening times?")
    answered = await caller.event(ToolAnswered)
    caller.line.hangup()
    await caller.history()
    return str(answered.status)


async def test_thirty_calls_in_a_row(hotline):
    assert await question(hotline) == "ok"
    await hotline.idle()
    before, memory = LeakSnapshot.take(), resident_megabytes()
    for _ in range(30):
        await short_call(hotline)
    await hotline.idle()

    await before.assert_nothing_left()
    assert resident_megabytes() - memory < 30
    outcome = {"context": "orders", "provider": "local", "outcome": "completed"}
    assert await hotline.metric("ai_agent_calls_total", **outcome) >= 30


async def test_ten_calls_at_once(hotline):
    assert await question(hotline) == "ok"
    await hotline.idle()
    before, memory = LeakSnapshot.take(), resident_megabytes()
    await asyncio.gather(*(short_call(hotline) for _ in range(10)))
    statuses = []
    for _ in range(2):  # two processors understand no more callers in time
        statuses += await asyncio.gather(*(question(hotline) for _ in range(5)))
    await hotline.idle()

    await before.assert_nothing_left()
    assert resident_megabytes() - memory < 60
    assert statuses == ["ok"] * 10
