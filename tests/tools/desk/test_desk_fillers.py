"""What is said while a tool is slow, and three slow tools at once."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.tools.conftest import Line

from cordboard.tools.desk.fillers import FillerChoice
from cordboard.tools.tool import Filler, JsonObject, Limits, ToolResult, ToolRun
from cordboard_testkit.virtual_time import in_virtual_time

from .desk_stage import Scripted, Stage, takes

TWO = ("One moment.", "Just a second.")


def slow(name: str, seconds: float, filler: Filler, **spec: object) -> Scripted:
    return Scripted(name, takes(seconds), filler=filler, **spec)


@in_virtual_time
async def test_at_the_threshold_and_then_after_each_repeat_at_most_three() -> None:
    stage = Stage(slow("look_up", 9, Filler(1_000, TWO, repeat_ms=2_000)))
    await stage.ask("look_up")
    assert stage.log.fillers == [
        (1.0, "One moment."),
        (3.0, "Just a second."),
        (5.0, "One moment."),
    ]


@in_virtual_time
async def test_once_without_a_repeat_and_never_for_a_quick_one() -> None:
    stage = Stage(
        slow("look_up", 9, Filler(1_000, TWO)),
        slow("quick", 0.9, Filler(1_000, TWO)),
        slow("silent", 9, Filler(0, TWO, repeat_ms=500)),
    )
    for name in ("look_up", "quick", "silent"):
        await stage.ask(name)
    assert stage.log.fillers == [(1.0, "One moment.")]


@in_virtual_time
async def test_progress_allows_one_more_each_time_and_extends_no_timeout() -> None:
    async def works(arguments: JsonObject, run: ToolRun) -> ToolResult:
        for _ in range(2):
            await asyncio.sleep(6)
            run.progress("still at work")
        await asyncio.sleep(100)
        raise AssertionError

    filler = Filler(1_000, TWO, repeat_ms=1_000)
    stage = Stage(Scripted("look_up", works, filler=filler, limits=Limits(timeout_ms=15_000)))
    reply = await stage.ask("look_up")
    assert [at for at, _ in stage.log.fillers] == [1.0, 2.0, 3.0, 6.0, 12.0]
    assert (reply.status, stage.log.now) == ("timeout", 15.0)


@in_virtual_time
async def test_never_the_same_twice_running_whatever_tool_it_is() -> None:
    first = slow("first", 4, Filler(1_000, TWO, repeat_ms=1_000))
    second = slow("second", 4, Filler(1_000, ("Just a second.", "Hold on."), repeat_ms=1_000))
    stage = Stage(first, second, slow("third", 2, Filler(1_000, TWO)))
    for turn, name in enumerate(["first", "second", "third", "first", "third", "third"]):
        await stage.ask(name, turn=turn)
    said = [text for _, text in stage.log.fillers]
    assert len(said) == 12
    assert all(one != other for one, other in itertools.pairwise(said))


def test_the_only_sentence_there_is_is_said_again() -> None:
    choice = FillerChoice()
    assert [choice.next(("Wait.",)) for _ in range(3)] == ["Wait."] * 3
    assert [choice.next(("Wait.", "Wait.")) for _ in range(2)] == ["Wait."] * 2
    assert choice.next(("Wait.", "Hold on.")) == "Hold on."


@in_virtual_time
async def test_identical_asks_have_one_filler() -> None:
    stage = Stage(slow("look_up", 3, Filler(1_000, TWO)))
    await asyncio.gather(*(stage.start("look_up", a=1) for _ in range(3)))
    assert stage.log.fillers == [(1.0, "One moment.")]


@in_virtual_time
async def test_a_workflow_s_filler_is_its_own_and_hears_of_its_steps() -> None:
    async def step(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(6)
        run.progress()
        await asyncio.sleep(4)
        return ToolResult()

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        return await run.step("step", {})

    stage = Stage(
        Scripted("step", step, filler=Filler(500, ("Not said.",), repeat_ms=500)),
        Scripted(
            "all", steps, kind="workflow", filler=Filler(1_000, TWO, repeat_ms=1_000),
            limits=Limits(timeout_ms=60_000),
        ),
    )  # fmt: skip
    await stage.ask("all")
    assert [at for at, _ in stage.log.fillers] == [1.0, 2.0, 3.0, 6.0]
    assert {text for _, text in stage.log.fillers} == set(TWO)


@in_virtual_time
async def test_while_a_step_asks_the_caller_the_workflow_waits_without_a_word() -> None:
    async def slowly(question: str) -> bool:
        await asyncio.sleep(30)
        return True

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.sleep(1)
        return await run.step("pay", {})

    pay = Scripted("pay", takes(2), approval="caller")
    both = Scripted(
        "both", steps, kind="workflow", filler=Filler(1_500, TWO), limits=Limits(timeout_ms=5_000)
    )
    stage = Stage(pay, both, line=Line(confirming=slowly))
    assert (await stage.ask("both")).ok
    assert stage.log.fillers == [(31.5, "One moment.")]


@in_virtual_time
async def test_two_questions_of_steps_at_once_stop_the_time_until_both_are_answered() -> None:
    async def slowly(question: str) -> bool:
        await asyncio.sleep(10)
        return True

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.gather(run.step("one", {}), run.step("two", {}))
        await asyncio.sleep(1)
        return ToolResult()

    filler = Filler(2_500, TWO)
    stage = Stage(
        Scripted("one", takes(1), approval="caller"),
        Scripted("two", takes(1), approval="caller"),
        Scripted("both", steps, kind="workflow", filler=filler, limits=Limits(timeout_ms=2_600)),
    )
    stage.line.confirming = slowly
    assert (await stage.ask("both")).ok
    assert stage.log.now == 22.0
    assert stage.log.fillers == []


@in_virtual_time
async def test_a_cancelled_ask_is_silent() -> None:
    stage = Stage(slow("look_up", 9, Filler(1_000, TWO)))
    asked = stage.start("look_up")
    await asyncio.sleep(0.5)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await asyncio.sleep(10)
    assert stage.log.fillers == []


@in_virtual_time
async def test_three_slow_tools_at_once_take_as_long_as_one() -> None:
    stage = Stage(*(Scripted(name, takes(1)) for name in "abc"))
    assert all(reply.ok for reply in await asyncio.gather(*map(stage.start, "abc")))
    assert stage.log.now == 1.0
