"""Asks of a workflow's steps: the same way through the desk, and its bounds."""

from __future__ import annotations

import asyncio

from tests.tools.conftest import Line

from cordboard.errors import ToolError
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Limits,
    Speech,
    Status,
    ToolAsk,
    ToolResult,
    ToolRun,
)
from cordboard_testkit.virtual_time import in_virtual_time

from .desk_stage import Log, Script, Scripted, Stage, takes


def workflow(name: str, script: Script, **spec: object) -> Scripted:
    return Scripted(name, script, kind="workflow", origin=f"workflow:{name}", **spec)


@in_virtual_time
async def test_a_step_is_answered_with_words_and_the_whole_data_and_recorded_as_an_ask() -> None:
    rows = {"rows": list(range(5_000))}
    results: list[ToolResult] = []

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        results.append(await run.step("look_up", {"place": arguments["place"]}))
        results.append(await run.step("fails", {}))
        return ToolResult(message="Both done.")

    async def fails(arguments: JsonObject, run: ToolRun) -> ToolResult:
        raise ToolError("Sorry, it is closed.")

    stage = Stage(
        Scripted(
            "look_up", takes(0, ToolResult(data=rows)), speech=Speech(template="{rows:number} rows")
        ),
        Scripted("fails", fails),
        workflow("both", steps),
    )
    assert (await stage.ask("both", turn=3, place="Oslo")).message == "Both done."
    good, bad = results
    assert (good.status, good.message, good.data) == (Status.OK, "5,000 rows", rows)
    assert (bad.status, bad.message) == (Status.ERROR, "Sorry, it is closed.")
    assert stage.log.asks[1:] == [
        ToolAsk("ask-1.1", "look_up", {"place": "Oslo"}, 3, parent="ask-1"),
        ToolAsk("ask-1.2", "fails", {}, 3, parent="ask-1"),
    ]
    assert [reply.ask_id for reply in stage.log.replies] == ["ask-1.1", "ask-1.2", "ask-1"]
    assert len(str(stage.log.replies[0].data)) < 2_000, "what is recorded is capped"


@in_virtual_time
async def test_a_step_outside_the_toolbox_is_refused_recorded_and_never_run() -> None:
    results: list[ToolResult] = []

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        results.append(await run.step("theirs", {}))
        results.append(await run.step("look_up", {"n": "one"}))
        return ToolResult()

    theirs, mine = Scripted("theirs"), workflow("mine", steps)
    typed = {"type": "object", "properties": {"n": {"type": "integer"}}}
    look_up = Scripted("look_up", parameters=typed)
    catalogue = Catalogue(ToolEntry(tool) for tool in (theirs, mine, look_up))
    log = Log()
    desk = Desk(catalogue.toolbox(["mine", "look_up"]), Line(), log)
    assert (await desk.run(ToolAsk("1", "mine", {}))).ok
    assert [result.status for result in results] == [Status.REFUSED, Status.REFUSED]
    assert "no tool named 'theirs'" in results[0].message
    assert "not of type" in results[1].message
    assert (theirs.runs, look_up.runs) == (0, 0)
    assert [(ask.ask_id, spec is None) for ask, spec in zip(log.asks, log.specs, strict=True)] == [
        ("1", False),
        ("1.1", True),
        ("1.2", False),
    ]
    assert [reply.refused for reply in log.replies] == ["not_in_toolbox", "arguments", ""]


@in_virtual_time
async def test_steps_are_no_rounds_and_no_uses_of_the_turn_but_uses_of_the_call() -> None:
    results: list[Status] = []

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        results.extend([(await run.step("look_up", {"n": n})).status for n in range(12)])
        return ToolResult()

    stage = Stage(
        Scripted("look_up", limits=Limits(per_turn=1, per_call=10)), workflow("many", steps)
    )
    assert (await stage.ask("many")).ok
    assert results == [Status.OK] * 10 + [Status.REFUSED] * 2
    assert (await stage.ask("look_up", turn=2)).refused == "limit"


@in_virtual_time
async def test_steps_may_be_nested_four_deep() -> None:
    def leads_to(name: str) -> Script:
        async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
            result = await run.step(name, {})
            return ToolResult(result.status, result.message)

        return script

    tools = [workflow(f"w{n}", leads_to(f"w{n + 1}")) for n in range(6)]
    stage = Stage(*tools, Scripted("w6"))
    reply = await stage.ask("w0")
    assert [tool.runs for tool in tools] == [1, 1, 1, 1, 1, 0]
    assert reply.status is Status.REFUSED
    assert "w5 is nested too deep" in reply.message
    assert (await stage.ask("w2", turn=2)).ok


@in_virtual_time
async def test_nothing_is_a_step_of_itself_however_far_down() -> None:
    def leads_to(name: str) -> Script:
        async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
            return await run.step(name, {"again": True})

        return script

    one, two = workflow("one", leads_to("two")), workflow("two", leads_to("one"))
    stage = Stage(one, two, Scripted("self", leads_to("self")))
    assert "running already" in (await stage.ask("one")).message
    assert (one.runs, two.runs) == (1, 1)
    assert "running already" in (await stage.ask("self")).message


@in_virtual_time
async def test_two_workflows_that_lead_to_each_other_do_not_wait_for_each_other() -> None:
    def leads_to(name: str) -> Script:
        async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
            await asyncio.sleep(1)
            return await run.step(name, {})

        return script

    stage = Stage(workflow("one", leads_to("two")), workflow("two", leads_to("one")))
    replies = await asyncio.gather(stage.start("one"), stage.start("two"))
    assert [reply.status for reply in replies] == [Status.REFUSED, Status.REFUSED]
    assert stage.log.now < 4


@in_virtual_time
async def test_steps_at_once_run_side_by_side() -> None:
    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        results = await asyncio.gather(*(run.step(name, {}) for name in "abc"))
        return ToolResult(data={"done": len(results)})

    stage = Stage(*(Scripted(name, takes(1)) for name in "abc"), workflow("all", steps))
    assert (await stage.ask("all")).data == {"done": 3}
    assert stage.log.now == 1.0
    assert sorted(reply.ask_id for reply in stage.log.replies[:3]) == [
        "ask-1.1",
        "ask-1.2",
        "ask-1.3",
    ]


@in_virtual_time
async def test_a_workflow_is_stopped_with_its_steps_but_for_those_that_change_the_world() -> None:
    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        await asyncio.gather(run.step("read", {}), run.step("pay", {}))
        return ToolResult()

    read, pay = Scripted("read", takes(5)), Scripted("pay", takes(5), effects=Effects.DESTRUCTIVE)
    stage = Stage(read, pay, workflow("both", steps, limits=Limits(timeout_ms=1_000)))
    assert (await stage.ask("both")).status is Status.TIMEOUT
    await asyncio.sleep(10)
    assert (read.cancelled, pay.finished) == (1, 1)
    assert [ask.ask_id for _, ask, _ in stage.log.late_replies] == ["ask-1.2"]


@in_virtual_time
async def test_the_caller_is_asked_for_a_step_too() -> None:
    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        result = await run.step("pay", {"amount": 5})
        return ToolResult(result.status, result.message)

    pay = Scripted("pay", approval="caller")
    stage = Stage(pay, workflow("order", steps, approval="caller"), line=Line(confirmed=True))
    assert (await stage.ask("order")).ok
    assert stage.line.questions == [
        "I am about to do this: order. Shall I?",
        "I am about to do this: pay, with amount 5. Shall I?",
    ]
