from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from cordboard.config.mcp import McpBreaker
from cordboard.errors import McpError, McpTimeout, McpUnavailable
from cordboard.mcp.supervision.breaker import Breaker, BreakerState
from cordboard.mcp.supervision.life import Life
from cordboard_testkit.virtual_time import in_virtual_time


class Far:
    """Connection and transport in one; answers as told."""

    def __init__(self) -> None:
        self.outcome: McpError | None = None
        self.seconds = 0.0
        self.asked: tuple[Any, ...] = ()
        self.closed = asyncio.Event()
        self.list_changed = asyncio.Event()

    async def call(self, *asked: Any) -> types.CallToolResult:
        self.asked = asked
        await asyncio.sleep(self.seconds)
        if self.outcome is not None:
            raise self.outcome
        return types.CallToolResult(content=[])

    async def list_tools(self, timeout: float) -> tuple[types.Tool, ...]:
        if self.outcome is not None:
            raise self.outcome
        return ()


def life(far: Far, *, may_hang: bool) -> Life:
    breaker = Breaker(McpBreaker(failures=1, open_ms=100))
    return Life(far, far, breaker, lambda: None, may_hang=may_hang)  # type: ignore[arg-type]


async def fail(one: Life, error: type[McpError]) -> None:
    with pytest.raises(error):
        await one.call("t", {}, 1, None)


@pytest.mark.parametrize("may_hang", [False, True])
@in_virtual_time
async def test_only_a_process_of_ours_is_ended_when_its_probe_is_not_answered(
    may_hang: bool,
) -> None:
    far = Far()
    one = life(far, may_hang=may_hang)
    far.outcome = McpTimeout("slow")
    await fail(one, McpTimeout)
    await fail(one, McpUnavailable)
    await asyncio.sleep(0.11)
    await fail(one, McpTimeout)
    assert one.hangs.is_set() is not may_hang
    assert one.breaker is BreakerState.OPEN


@in_virtual_time
async def test_requests_that_break_while_the_connection_lives_count() -> None:
    far = Far()
    one = life(far, may_hang=True)
    far.outcome = McpUnavailable("503")
    await fail(one, McpUnavailable)
    assert one.breaker is BreakerState.OPEN


@in_virtual_time
async def test_those_that_break_with_the_connection_do_not() -> None:
    far = Far()
    one = life(far, may_hang=True)
    far.closed.set()
    far.outcome = McpUnavailable("closed")
    await fail(one, McpUnavailable)
    assert one.breaker is BreakerState.CLOSED


@in_virtual_time
async def test_it_tells_when_no_call_is_under_way() -> None:
    one = life(Far(), may_hang=True)
    assert await one.quiet(0)
    call = asyncio.create_task(one.call("t", {}, 1, None))
    await call
    assert await one.quiet(5)


@in_virtual_time
async def test_a_call_that_is_waited_for_longer_is_unanswered_until_its_answer_comes() -> None:
    far = Far()
    one = life(far, may_hang=True)
    far.seconds = 0.1
    late = asyncio.create_task(one.call("t", {}, 0.02, None, 60.0))
    await asyncio.sleep(0.05)
    assert one.breaker is BreakerState.OPEN
    assert far.asked[2] == pytest.approx(0.02)
    assert far.asked[4] == 60
    await late
    assert one.breaker is BreakerState.CLOSED


@in_virtual_time
async def test_a_call_that_is_given_up_in_time_says_nothing_of_the_server() -> None:
    far = Far()
    one = life(far, may_hang=True)
    far.seconds = 10
    call = asyncio.create_task(one.call("t", {}, 5.0, None))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert one.breaker is BreakerState.CLOSED


@in_virtual_time
async def test_a_server_that_does_not_answer_a_check_is_not_called_for_a_while() -> None:
    far = Far()
    one = life(far, may_hang=True)
    await one.check(1)
    far.outcome = McpError("a strange list")  # an answer all the same
    await one.check(1)
    assert one.breaker is BreakerState.CLOSED
    far.outcome = McpTimeout("slow")
    await one.check(1)
    assert one.breaker is BreakerState.OPEN
    far.outcome = None
    await one.check(1)  # the next call decides
    await fail(one, McpUnavailable)
    await asyncio.sleep(0.11)
    await one.call("t", {}, 1, None)
    assert one.breaker is BreakerState.CLOSED


@in_virtual_time
async def test_a_check_that_ends_with_the_connection_says_nothing() -> None:
    far = Far()
    one = life(far, may_hang=True)
    far.outcome = McpUnavailable("closed")
    far.closed.set()
    await one.check(1)
    assert one.breaker is BreakerState.CLOSED
