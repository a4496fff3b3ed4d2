"""Limits, identical asks, tries and kept answers."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.tools.conftest import Line

from cordboard.errors import ToolError, ToolTimeout
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Limits,
    Speech,
    Status,
    ToolResult,
    ToolRun,
)
from cordboard_testkit.virtual_time import in_virtual_time

from .desk_stage import Scripted, Stage, takes

# How often


@in_virtual_time
async def test_uses_in_a_call_are_limited() -> None:
    tool = Scripted("look_up", limits=Limits(per_call=2))
    stage = Stage(tool)
    replies = [await stage.ask("look_up", turn=turn, n=turn) for turn in range(3)]
    assert [reply.status for reply in replies] == [Status.OK, Status.OK, Status.REFUSED]
    assert "2 times in a conversation" in replies[2].message
    assert (replies[2].refused, replies[2].control) == ("limit", {"retryable": False})
    assert (tool.runs, replies[2].tries) == (2, 0)


@in_virtual_time
async def test_thousands_of_asks_in_a_turn_are_five_rounds_and_leave_nothing_behind() -> None:
    tool = Scripted("look_up", limits=Limits(per_turn=5_000))
    stage = Stage(tool)
    replies = [await stage.ask("look_up", n=number) for number in range(800)]
    assert sum(reply.ok for reply in replies) == tool.runs == 5
    assert "5 times in a row" in replies[-1].message
    assert not stage.desk.busy


@in_virtual_time
async def test_thousands_of_turns_are_all_answered() -> None:
    tool = Scripted("look_up")
    stage = Stage(tool)
    assert all([(await stage.ask("look_up", turn=turn)).ok for turn in range(500)])


@in_virtual_time
async def test_a_thousand_asks_at_once_are_one_round_within_the_limits_of_the_tool() -> None:
    tool = Scripted("look_up", takes(1), limits=Limits(per_turn=900))
    stage = Stage(tool)
    replies = await asyncio.gather(*(stage.start("look_up", n=number) for number in range(1_000)))
    assert sum(reply.ok for reply in replies) == tool.runs == 900
    assert stage.log.now == 1.0


# Identical asks


@pytest.mark.parametrize(
    ("duplicates", "runs", "last"),
    [("join", 1, (Status.OK, "joined")), ("allow", 2, (Status.OK, "run"))],
)
def test_a_second_identical_ask(duplicates: str, runs: int, last: tuple[Status, str]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = Scripted("look_up", takes(1), duplicates=duplicates)
        stage = Stage(tool)
        replies = await asyncio.gather(
            stage.start("look_up", a=1, b=2), stage.start("look_up", b=2, a=1)
        )
        assert [reply.ask_id for reply in replies] == ["ask-1", "ask-2"]
        assert (replies[1].status, replies[1].source) == last
        assert tool.runs == runs

    scenario()


@in_virtual_time
async def test_a_second_identical_ask_may_be_rejected() -> None:
    tool = Scripted("look_up", takes(1), duplicates="reject")
    stage = Stage(tool)
    first, second, other = await asyncio.gather(
        stage.start("look_up", a=1), stage.start("look_up", a=1), stage.start("look_up", a=2)
    )
    assert (first.ok, other.ok) == (True, True)
    assert (second.status, second.refused) == (Status.REFUSED, "duplicate")
    assert "at work already" in second.message
    assert (await stage.ask("look_up", a=1)).ok, "the first has ended"


# Tries


def failing(times: int, error: Exception) -> tuple[Scripted, list[float]]:
    at: list[float] = []

    async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
        at.append(asyncio.get_running_loop().time())
        if len(at) <= times:
            raise error
        return ToolResult(message="Got it.")

    return Scripted("look_up", script, limits=Limits(retries=3, timeout_ms=5_000)), at


@in_virtual_time
async def test_tries_are_a_little_apart_and_have_one_key() -> None:
    tool, at = failing(3, ToolError("Busy."))
    reply = await Stage(tool).ask("look_up")
    assert (reply.message, reply.tries) == ("Got it.", 4)
    pauses = [later - before for before, later in pairwise(at)]
    assert all(0.8 * most <= it <= most for it, most in zip(pauses, (0.1, 0.2, 0.4), strict=True))
    assert tool.keys == ["call-1:ask-1"] * 4


@in_virtual_time
async def test_all_tries_share_the_timeout() -> None:
    async def slowly(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(2)
        raise ToolError("Busy.")

    tool = Scripted("look_up", slowly, limits=Limits(retries=5, timeout_ms=5_000))
    stage = Stage(tool)
    reply = await stage.ask("look_up")
    assert (reply.status, reply.tries, stage.log.now) == (Status.TIMEOUT, 3, 5.0)


@in_virtual_time
async def test_a_timeout_of_the_tool_s_own_is_not_tried_again() -> None:
    tool, _ = failing(1, ToolTimeout("Sorry, it does not answer."))
    reply = await Stage(tool).ask("look_up")
    assert (reply.status, reply.message) == (Status.TIMEOUT, "Sorry, it does not answer.")
    assert (tool.runs, reply.tries) == (1, 1)


# Kept answers


def quote(counter: list[int], **limits: object) -> Scripted:
    async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
        counter.append(1)
        return ToolResult(data={"price": len(counter)})

    settings = {"cache_ttl_ms": 60_000} | limits
    return Scripted(
        "quote", script, limits=Limits(**settings), speech=Speech(template="It costs {price}.")
    )


@in_virtual_time
async def test_a_good_answer_is_given_again_until_it_is_too_old() -> None:
    runs: list[int] = []
    stage = Stage(quote(runs))
    first = await stage.ask("quote", a=1, b=[2])
    again = await stage.ask("quote", b=[2], a=1)
    assert (first.source, again.source, again.tries) == ("run", "cache", 0)
    assert (again.message, again.data, again.ask_id) == ("It costs 1.", {"price": 1}, "ask-2")
    other = await stage.ask("quote", a=1, b=[3])
    assert other.message == "It costs 2."
    await asyncio.sleep(61)
    assert (await stage.ask("quote", turn=2, a=1, b=[2])).message == "It costs 3."


@in_virtual_time
async def test_kept_answers_are_no_uses() -> None:
    runs: list[int] = []
    stage = Stage(quote(runs, per_call=2, per_turn=2))
    replies = [await stage.ask("quote", turn=turn) for turn in range(9)]
    assert [reply.source for reply in replies] == ["run"] + ["cache"] * 8
    assert (await stage.ask("quote", turn=10, other=1)).source == "run"
    assert (await stage.ask("quote", turn=11, other=2)).refused == "limit"


@in_virtual_time
async def test_only_what_is_for_everybody_leaves_the_call() -> None:
    for scope, expected in (("call", 2), ("all", 1)):
        runs: list[int] = []
        first = Stage(quote(runs, cache_scope=scope))
        await first.ask("quote")
        await Stage(quote(runs, cache_scope=scope), beside=first).ask("quote")
        assert len(runs) == expected
        await Stage(quote(runs, cache_scope=scope)).ask("quote")
        assert len(runs) == expected + 1, "another generation knows nothing of it"


@pytest.mark.parametrize(
    ("result", "effects"),
    [
        (ToolResult(Status.ERROR, "No."), Effects.READ_ONLY),
        (ToolResult(control={"call_ends": True}), Effects.READ_ONLY),
        (ToolResult(data={"no": object()}), Effects.READ_ONLY),
        (ToolResult(data={"rows": ["x" * 1_000] * 400}), Effects.READ_ONLY),
        (ToolResult(data={"fine": 1}), Effects.IDEMPOTENT),
        (ToolResult(data={"fine": 1}), Effects.DESTRUCTIVE),
    ],
)
def test_what_is_never_kept(result: ToolResult, effects: Effects) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = Scripted(
            "look_up", takes(0, result), effects=effects, limits=Limits(cache_ttl_ms=60_000)
        )
        stage = Stage(tool)
        for turn in range(2):
            await stage.ask("look_up", turn=turn)
        assert tool.runs == 2

    scenario()


@in_virtual_time
async def test_answers_to_secret_keys_are_not_kept() -> None:
    runs: list[int] = []
    line = Line(secret_keys={"keys-1": "4711"})
    stage = Stage(quote(runs), line=line)
    await stage.ask("quote", account="keys-1")
    await stage.ask("quote", account="keys-1")
    assert len(runs) == 2


@in_virtual_time
async def test_nobody_can_change_what_is_kept() -> None:
    async def changes(arguments: JsonObject, run: ToolRun) -> ToolResult:
        result = await run.step("quote", {})
        result.data["price"] = 99
        return result

    runs: list[int] = []
    stage = Stage(quote(runs), Scripted("changes", changes))
    await stage.ask("changes")
    assert (await stage.ask("quote")).data == {"price": 1}
    await stage.ask("changes", n=2)
    assert (await stage.ask("quote")).data == {"price": 1}
