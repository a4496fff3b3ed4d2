"""What becomes of a run that nobody waits for any more, or that takes too long."""

from __future__ import annotations

import asyncio

import pytest
from tests.tools.conftest import Line

from cordboard.config.tools.entry import LONGEST_RETURN_MS, TransferDestination
from cordboard.errors import ToolError
from cordboard.tools.builtin import Transfer
from cordboard.tools.call_line import TransferResult
from cordboard.tools.desk.running import CUT_SHORT, LATE_SECONDS
from cordboard.tools.tool import (
    Effects,
    ErrorWords,
    JsonObject,
    Limits,
    Speech,
    Status,
    ToolResult,
    ToolRun,
)
from cordboard_testkit.virtual_time import in_virtual_time

from .desk_stage import Scripted, Stage, takes

DONE = ToolResult(message="Your table is booked.", data={"number": 7})


def booking(seconds: float = 5, **spec: object) -> Scripted:
    settings = {"effects": Effects.DESTRUCTIVE, "limits": Limits(timeout_ms=2_000)} | spec
    return Scripted("book", takes(seconds, DONE), **settings)


async def give_up(stage: Stage, seconds: float, **arguments: object) -> None:
    asked = stage.start("book", **arguments)
    await asyncio.sleep(seconds)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


@in_virtual_time
async def test_what_changes_the_world_goes_on_after_its_timeout_and_is_told_late() -> None:
    tool = booking(speech=Speech(errors=ErrorWords(timeout="That takes its time.")))
    stage = Stage(tool)
    reply = await stage.ask("book", guests=2)
    assert (reply.status, reply.message) == (Status.TIMEOUT, "That takes its time.")
    assert stage.log.now == 2.0
    await asyncio.sleep(10)
    assert (tool.finished, tool.cancelled) == (1, 0)
    ((at, ask, late),) = stage.log.late_replies
    assert (at, ask.ask_id, late.ask_id) == (5.0, "ask-1", "ask-1")
    assert (late.status, late.message) == (Status.OK, "Your table is booked.")
    assert (late.source, late.control, late.data) == ("late", {"late": True}, {"number": 7})
    assert late.took_ms == 5_000
    assert len(stage.log.replies) == 1, "an ask is answered once"


@in_virtual_time
async def test_an_identical_ask_is_given_what_came_late_once_and_nothing_is_run_twice() -> None:
    tool = booking(approval="caller")
    stage = Stage(tool)
    await stage.ask("book", guests=2)
    await asyncio.sleep(10)
    again = await stage.ask("book", turn=2, guests=2)
    assert (again.status, again.source, again.message) == (
        Status.OK,
        "late",
        "Your table is booked.",
    )
    assert (again.ask_id, again.control, again.tries) == ("ask-2", {"late": True}, 0)
    assert (tool.runs, len(stage.line.questions)) == (1, 1)
    other = stage.start("book", turn=2, guests=3)
    once_more = stage.start("book", turn=3, guests=2)
    await asyncio.gather(other, once_more)
    assert tool.runs == 3, "it was told; what is wanted now is another table"
    await stage.desk.close(0)


@in_virtual_time
async def test_an_identical_ask_joins_the_run_that_is_late() -> None:
    tool = booking()
    stage = Stage(tool)
    assert (await stage.ask("book")).status is Status.TIMEOUT
    await asyncio.sleep(1.5)
    again = await stage.ask("book")
    assert (again.status, again.source, again.took_ms) == (Status.OK, "joined", 1_500)
    assert tool.runs == 1
    assert stage.log.late_replies == [], "somebody waited for it"


@in_virtual_time
async def test_who_joins_a_late_run_waits_no_longer_than_the_timeout() -> None:
    tool = booking(seconds=9)
    stage = Stage(tool)
    replies = [await stage.ask("book") for _ in range(2)]
    assert [(reply.status, reply.took_ms) for reply in replies] == [(Status.TIMEOUT, 2_000)] * 2
    await asyncio.sleep(10)
    ((at, ask, _),) = stage.log.late_replies
    assert (at, ask.ask_id) == (9.0, "ask-2")


@in_virtual_time
async def test_giving_up_does_not_stop_what_changes_the_world() -> None:
    tool = booking()
    stage = Stage(tool)
    await give_up(stage, 1)
    assert stage.log.now == 1.0, "who gives up does not wait"
    assert [reply.status for reply in stage.log.replies] == [Status.CANCELLED]
    assert stage.desk.busy
    await asyncio.sleep(10)
    assert tool.finished == 1
    assert [late.status for _, _, late in stage.log.late_replies] == [Status.OK]


@pytest.mark.parametrize("gave_up_after", [1, 100])
def test_giving_up_leaves_a_long_tool_the_time_that_it_needs(gave_up_after: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = booking(seconds=500, limits=Limits(timeout_ms=600_000))
        stage = Stage(tool)
        await give_up(stage, gave_up_after)
        await asyncio.sleep(600)
        assert (tool.finished, tool.cancelled) == (1, 0)
        assert [late.status for _, _, late in stage.log.late_replies] == [Status.OK]

    scenario()


@in_virtual_time
async def test_a_caller_comes_back_at_the_last_moment_though_the_agent_gave_up_waiting() -> None:
    """`return_within_ms` begins when the caller has left: after the agent's last sentence."""

    class Away(Line):
        async def transfer_after_speech(self, destination: str, reason: str = "") -> TransferResult:
            await asyncio.sleep(30 + LONGEST_RETURN_MS / 1000)
            return TransferResult("no_answer", returned=True)

    keys = {"type": "queue", "target": "q", "returns": True, "return_within_ms": LONGEST_RETURN_MS}
    queue = TransferDestination.model_validate(keys)
    stage = Stage(Transfer({"queue": queue}), line=Away())
    asked = stage.start("transfer", destination="queue")
    await asyncio.sleep(0.1)
    asked.cancel()
    await asyncio.sleep(60 + LONGEST_RETURN_MS / 1000)
    ((_, _, late),) = stage.log.late_replies
    assert late.data["outcome"] == "no_answer"
    assert not stage.desk.busy


@pytest.mark.parametrize("effects", [Effects.READ_ONLY, Effects.IDEMPOTENT])
def test_everything_else_is_stopped(effects: Effects) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = booking(effects=effects)
        stage = Stage(tool)
        await give_up(stage, 1)
        assert (await stage.ask("book", guests=2)).status is Status.TIMEOUT
        await asyncio.sleep(100)
        assert (tool.finished, tool.cancelled) == (0, 2)
        assert (stage.log.late_replies, stage.desk.busy) == ([], False)

    scenario()


@in_virtual_time
async def test_nothing_goes_on_for_ever() -> None:
    tool = booking(seconds=10_000)
    stage = Stage(tool)
    assert (await stage.ask("book")).status is Status.TIMEOUT
    await asyncio.sleep(LATE_SECONDS + 1)
    ((at, _, late),) = stage.log.late_replies
    assert (at, late.status, late.message) == (2 + LATE_SECONDS, Status.CANCELLED, CUT_SHORT)
    assert (tool.cancelled, stage.desk.busy) == (1, False)
    await give_up(stage, 1, guests=3)
    await asyncio.sleep(LATE_SECONDS + 1)
    assert tool.cancelled == 2


@in_virtual_time
async def test_a_failure_that_comes_late_is_told_but_not_kept() -> None:
    async def fails(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(5)
        raise ToolError("Sorry, the book is full.")

    tool = Scripted("book", fails, effects=Effects.DESTRUCTIVE, limits=Limits(timeout_ms=2_000))
    stage = Stage(tool)
    await stage.ask("book")
    await asyncio.sleep(10)
    assert [late.message for _, _, late in stage.log.late_replies] == ["Sorry, the book is full."]
    await stage.ask("book")
    assert tool.runs == 2
    await stage.desk.close(0)


@in_virtual_time
async def test_an_answer_that_comes_in_the_moment_of_giving_up_is_not_lost() -> None:
    async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_soon(asked.cancel)
        return DONE

    stage = Stage(Scripted("book", script, effects=Effects.DESTRUCTIVE))
    asked = stage.start("book")
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert [late.status for _, _, late in stage.log.late_replies] == [Status.OK]


# The end of the call


@in_virtual_time
async def test_closing_waits_for_what_changes_the_world_and_for_nothing_else() -> None:
    tool = booking(limits=Limits(timeout_ms=60_000))
    reading = Scripted("read", takes(500))
    stage = Stage(tool, reading)
    asks = [stage.start("book"), stage.start("read")]
    await asyncio.sleep(1)
    for asked in asks:
        asked.cancel()
    await asyncio.gather(*asks, return_exceptions=True)
    await stage.desk.close(10)
    assert stage.log.now == 5.0
    assert (tool.finished, reading.cancelled, stage.desk.busy) == (1, 1, False)
    assert [late.status for _, _, late in stage.log.late_replies] == [Status.OK]


@in_virtual_time
async def test_but_not_longer_than_the_grace() -> None:
    tool = booking(seconds=100, limits=Limits(timeout_ms=600_000))
    stage = Stage(tool)
    asked = stage.start("book")
    await asyncio.sleep(1)
    await stage.desk.close(10)
    assert stage.log.now == 11.0
    assert (await asked).status is Status.CANCELLED, "who still waits is told"
    assert (tool.cancelled, stage.desk.busy) == (1, False)


@in_virtual_time
async def test_a_tool_that_cannot_be_cancelled_holds_up_nobody() -> None:
    async def stubborn(arguments: JsonObject, run: ToolRun) -> ToolResult:
        while True:
            try:
                await asyncio.sleep(30)
                return DONE
            except asyncio.CancelledError:
                continue

    stage = Stage(Scripted("book", stubborn, limits=Limits(timeout_ms=2_000)))
    assert (await stage.ask("book")).status is Status.TIMEOUT
    assert stage.log.now == 2.0
    again = stage.start("book")
    await asyncio.sleep(0.5)
    await stage.desk.close(0.2)
    assert stage.log.now == 3.7
    assert (await again).status is Status.CANCELLED
    assert stage.log.now == 3.7
    await asyncio.sleep(60)
    assert not stage.desk.busy


@in_virtual_time
async def test_nothing_is_run_after_the_end() -> None:
    tool = booking()
    stage = Stage(tool)
    await stage.desk.close(1)
    reply = await stage.ask("book")
    assert (reply.status, reply.refused, tool.runs) == (Status.REFUSED, "limit", 0)


@in_virtual_time
async def test_a_workflow_that_changes_the_world_still_takes_its_steps() -> None:
    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(3)
        return await run.step("pay", {})

    pay = Scripted("pay", takes(1, DONE), effects=Effects.DESTRUCTIVE)
    workflow = Scripted("book", steps, kind="workflow", effects=Effects.DESTRUCTIVE)
    stage = Stage(workflow, pay)
    await give_up(stage, 1)
    await stage.desk.close(10)
    assert (pay.finished, stage.log.now) == (1, 4.0)
    assert [late.message for _, _, late in stage.log.late_replies] == ["Your table is booked."]
