"""Twenty servers that start at once begin their processes one after the other."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from cordboard.mcp.stdio.spawn_turns import APART, SpawnTurns
from cordboard_testkit.virtual_time import virtual_time


def test_starts_are_apart_and_in_order_and_one_alone_does_not_wait() -> None:
    async def scenario() -> list[tuple[int, float]]:
        loop, turns = asyncio.get_running_loop(), SpawnTurns()
        begun: list[tuple[int, float]] = []

        async def begin(number: int) -> None:
            async with turns.turn():
                begun.append((number, loop.time()))

        await begin(0)
        await asyncio.sleep(5)
        await asyncio.gather(*(begin(number) for number in range(1, 21)))
        return begun

    with virtual_time() as loop:
        begun = loop.run_until_complete(scenario())
    assert [number for number, _ in begun] == list(range(21))
    at = [moment for _, moment in begun]
    assert at[1] - at[0] == pytest.approx(5), "nobody was waiting"
    assert [b - a for a, b in pairwise(at[1:])] == pytest.approx([APART] * 19)


def test_a_start_that_fails_or_is_cancelled_holds_nobody_up() -> None:
    async def scenario() -> bool:
        turns = SpawnTurns()

        async def fail() -> None:
            async with turns.turn():
                raise OSError("no such program")

        hanging = asyncio.Event()

        async def hang() -> None:
            async with turns.turn():
                await hanging.wait()

        await asyncio.gather(fail(), return_exceptions=True)
        stuck = asyncio.create_task(hang())
        await asyncio.sleep(1)
        stuck.cancel()
        async with asyncio.timeout(1), turns.turn():
            return True

    with virtual_time() as loop:
        assert loop.run_until_complete(scenario())
