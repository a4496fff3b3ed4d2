"""Workflows through the desk of a call."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import TypeAdapter
from tests.tools.desk.desk_stage import Scripted, Stage, takes

from cordboard.config.tools.entry import ToolEntry as Entry
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.tool import Effects, JsonObject, Status, ToolAsk, ToolResult, ToolRun
from cordboard.tools.workflow import WorkflowMaker, WorkflowTool
from cordboard_testkit.virtual_time import in_virtual_time

from .conftest import Line

Entries = TypeAdapter(dict[str, Entry])


def maker(**workflows: dict[str, Any]) -> WorkflowMaker:
    basis = {"kind": "workflow", "description": "d"}
    return WorkflowMaker(
        Entries.validate_python({name: basis | entry for name, entry in workflows.items()})
    )


def book(*steps: dict[str, Any], **more: Any) -> WorkflowTool:
    (tool,) = maker(book={"steps": list(steps), **more}).made({})
    return tool


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tool": name, **more}


@in_virtual_time
async def test_steps_follow_one_another_and_give_one_answer() -> None:
    free = Scripted("free", takes(1, ToolResult(message="Two.", data={"tables": [{"id": 7}]})))
    table = Scripted("table", takes(1, ToolResult(data={"code": "KA7"})))
    stage = Stage(
        free,
        table,
        book(
            step("free", arguments={"day": "{args.day}"}),
            step("table", arguments={"id": "{steps.free.data.tables.0.id}"}),
            parameters={"day": {"type": "string"}},
            result={"code": "{steps.table.data.code}"},
            speech_template="Booked under {result.code:spell}.",
        ),
    )
    reply = await stage.ask("book", day="Monday")
    assert (reply.status, reply.data) == (Status.OK, {"code": "KA7"})
    assert reply.message == "Booked under K A, 7."
    assert (free.given, table.given) == ([{"day": "Monday"}], [{"id": 7}])
    assert stage.log.now == 2
    assert (await stage.ask("book")).status is Status.REFUSED, "its own arguments are checked"


@in_virtual_time
async def test_parallel_steps_take_as_long_as_the_longest() -> None:
    tools = [Scripted(name, takes(1, ToolResult(message=f"{name}."))) for name in "abc"]
    stage = Stage(*tools, book({"parallel": [step(name) for name in "abc"]}))
    assert (await stage.ask("book")).message == "a. b. c."
    assert stage.log.now == 1


@in_virtual_time
async def test_a_failure_cuts_no_other_step_short() -> None:
    quick = Scripted("quick", takes(0, ToolResult(Status.ERROR, "It is closed.")))
    slow, never = Scripted("slow", takes(1)), Scripted("never")
    stage = Stage(
        quick, slow, never, book({"parallel": [step("quick"), step("slow")]}, step("never"))
    )
    reply = await stage.ask("book")
    assert (reply.status, reply.message) == (Status.ERROR, "It is closed.")
    assert (slow.finished, never.runs) == (1, 0)


@in_virtual_time
async def test_a_step_outside_the_toolbox_is_refused_and_the_workflow_says_so() -> None:
    other, tool = Scripted("other"), book(step("other"))
    catalogue = Catalogue((ToolEntry(other), ToolEntry(tool)))
    desk = Desk(catalogue.toolbox(["book"]), Line())
    reply = await desk.run(ToolAsk("1", "book", {}, 1))
    assert reply.status is Status.REFUSED
    assert reply.message == (
        "The step other was refused. There is no tool named 'other' in this conversation."
        " Available: book."
    )
    assert other.runs == 0


@in_virtual_time
async def test_wrong_arguments_of_a_step_are_refused_by_its_own_schema() -> None:
    schema = {"type": "object", "properties": {"seats": {"type": "integer"}}}
    table = Scripted("table", parameters=schema)
    stage = Stage(table, book(step("table", arguments={"seats": "four"})))
    reply = await stage.ask("book")
    assert reply.status is Status.REFUSED
    assert "The arguments of table are not valid: seats:" in reply.message
    assert table.runs == 0


@in_virtual_time
async def test_a_step_asks_the_caller_itself() -> None:
    pay = Scripted("pay", approval="caller", approval_question="Shall I pay?")
    line = Line(confirmed=False)
    stage = Stage(pay, book(step("pay")), line=line)
    reply = await stage.ask("book")
    assert line.questions == ["Shall I pay?"]
    assert reply.status is Status.REFUSED
    assert pay.runs == 0
    line.confirmed = True
    assert (await stage.ask("book", turn=2)).status is Status.OK
    assert pay.runs == 1


@in_virtual_time
async def test_who_cancels_the_workflow_cancels_its_steps() -> None:
    tools = [Scripted(name, takes(10), effects=Effects.READ_ONLY) for name in "ab"]
    spec = {tool.spec.name: tool.spec for tool in tools}
    (tool,) = maker(book={"steps": [{"parallel": [step("a"), step("b")]}]}).made(spec)
    stage = Stage(*tools, tool)
    asking = asyncio.create_task(stage.ask("book"))
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.wait({asking})
    assert [tool.cancelled for tool in tools] == [1, 1]
    assert stage.log.now == 1


@in_virtual_time
async def test_a_workflow_may_use_another() -> None:
    async def echo(arguments: JsonObject, run: ToolRun) -> ToolResult:
        return ToolResult(message=f"<{arguments['x']}>", data=arguments)

    inner = {"parameters": {"x": {}}, "steps": [step("echo", arguments={"x": "{args.x}"})]}
    outer = {"steps": [step("inner", arguments={"x": 5})], "result": {"y": "{steps.inner.data.x}"}}
    tools = maker(outer=outer, inner=inner).made({})
    stage = Stage(Scripted("echo", echo), *tools)
    assert (await stage.ask("outer")).data == {"y": 5}


def test_effects_are_the_strongest_of_the_steps() -> None:
    def spec(effects: Effects) -> Any:
        return Scripted("x", effects=effects).spec

    steps = [step("a"), step("b")]
    workflows = maker(
        outer={"steps": [step("inner")]},
        inner={"steps": steps},
        stated={"steps": steps, "effects": "read_only"},
        asking={"steps": steps, "effects": "destructive"},
    )
    read_only, idempotent = spec(Effects.READ_ONLY), spec(Effects.IDEMPOTENT)

    def effects(**specs: Any) -> dict[str, str]:
        return {tool.spec.name: tool.spec.effects for tool in workflows.made(specs)}

    assert effects()["inner"] == "destructive", "one that is not there may do anything"
    assert effects(a=read_only, b=idempotent) == {
        "inner": "idempotent",
        "outer": "idempotent",
        "stated": "read_only",
        "asking": "destructive",
    }
    before = workflows.made({"a": read_only, "b": read_only})
    assert workflows.made({"a": read_only, "b": read_only}) == before, "the same objects"
    approvals = {tool.spec.name: tool.spec.approval for tool in before}
    assert approvals["asking"] == "caller"
    assert approvals["inner"] == "none"


def test_secret_parameters_and_the_schema() -> None:
    tool = book(step("a"), parameters={"pin": {"type": "string", "secret": True}, "b": {}})
    assert tool.spec.secret_arguments == {"pin"}
    assert tool.spec.parameters["required"] == ["pin", "b"]
    assert tool.spec.limits.timeout_ms == 60_000
