"""What is secret in a tool call: where it goes, and that it goes nowhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.tools.conftest import Line

from cordboard.errors import ToolError
from cordboard.tools.known_secrets import KnownSecrets
from cordboard.tools.masking import MASK
from cordboard.tools.speech.speech import FAILED
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

PIN = "471188"
PINNED = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "pattern": "^[0-9]{4,6}$"},
        "account": {"type": "integer"},
    },
    "required": ["code"],
}


def keyed() -> Line:
    return Line(secret_keys={"keys-1": PIN, "keys-2": "12"})


@pytest.mark.parametrize("kind", ["http", "python", "mcp"])
def test_a_tool_is_given_the_keys_in_place_of_their_reference(kind: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = Scripted("log_in", takes(0), kind=kind, parameters=PINNED)
        stage = Stage(tool, line=keyed())
        assert (await stage.ask("log_in", code="keys-1", account=3)).ok
        assert tool.given == [{"code": PIN, "account": 3}]
        assert stage.log.asks[0].arguments == {"code": MASK, "account": 3}

    scenario()


@in_virtual_time
async def test_a_built_in_tool_is_not() -> None:
    tool = Scripted("say", kind="builtin", origin="builtin:say")
    stage = Stage(tool, line=keyed())
    reply = await stage.ask("say", text="keys-1")
    assert tool.given == [{"text": "keys-1"}]
    assert PIN not in f"{reply}{stage.log.all_text}"


@in_virtual_time
async def test_only_an_argument_that_is_exactly_a_reference_of_this_call_is_replaced() -> None:
    tool = Scripted("log_in")
    stage = Stage(tool, line=keyed())
    given: JsonObject = {
        "text": "my code is keys-1", "other": "keys-9", "deep": [{"a": ["keys-1"]}], "keys-1": 1,
    }  # fmt: skip
    await stage.ask("log_in", **given)
    assert tool.given == [given | {"deep": [{"a": [PIN]}]}]
    assert stage.log.asks[0].arguments == given | {"deep": [{"a": [MASK]}]}


@in_virtual_time
async def test_what_a_tool_answers_is_searched_for_the_keys() -> None:
    spoken = " ".join(PIN)
    data = {
        "echo": PIN, "number": int(PIN), PIN: "key", "rows": [f"code={PIN}.", spoken], "fine": 47,
    }  # fmt: skip
    answer = ToolResult(message=f"Logged in with {PIN}.", data=data)
    tool = Scripted("log_in", takes(0, answer), origin="http:log_in", kind="http")
    fails = Scripted("fails", fail_with(f"Sorry, {spoken} is wrong."), kind="http")
    stage = Stage(tool, fails, line=keyed())
    reply = await stage.ask("log_in", code="keys-1")
    assert reply.data["rows"] == [f"code={MASK}.", MASK]
    assert (reply.data["echo"], reply.data["number"], reply.data["fine"]) == (MASK, MASK, 47)
    failed = await stage.ask("fails", code="keys-1")
    assert failed.status is Status.ERROR
    said = f"{reply}{failed}{stage.log.all_text}"
    assert PIN not in said
    assert spoken not in said


def fail_with(text: str) -> Any:
    async def script(arguments: JsonObject, run: ToolRun) -> ToolResult:
        raise ToolError(text)

    return script


@in_virtual_time
async def test_short_keys_are_masked_as_words_only() -> None:
    answer = ToolResult(data={"text": "12 o'clock, 128 rooms", "n": 12, "m": 120})
    stage = Stage(Scripted("log_in", takes(0, answer)), line=keyed())
    reply = await stage.ask("log_in", code="keys-2")
    assert reply.data == {"text": f"{MASK} o'clock, 128 rooms", "n": MASK, "m": 120}


@in_virtual_time
async def test_keys_that_do_not_fit_the_schema_are_not_told() -> None:
    tool = Scripted("log_in", parameters=PINNED)
    stage = Stage(tool, line=Line(secret_keys={"keys-1": "12#471188"}))
    reply = await stage.ask("log_in", code="keys-1")
    assert (reply.status, tool.runs) == (Status.REFUSED, 0)
    assert "code: the value does not fit pattern ^[0-9]{4,6}$" in reply.message
    assert "471188" not in f"{reply}{stage.log.all_text}"


@in_virtual_time
async def test_a_step_hides_the_keys_of_its_workflow_too() -> None:
    steps_given: list[ToolResult] = []

    async def python_steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        steps_given.append(await run.step("echo", {"said": f"code {arguments['code']}"}))
        return ToolResult(data=arguments)

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        assert arguments == {"code": "keys-1"}, "a workflow is given the reference"
        steps_given.append(await run.step("log_in", {"code": arguments["code"]}))
        return ToolResult()

    log_in = Scripted("log_in", python_steps)
    echo = Scripted("echo")
    stage = Stage(log_in, echo, Scripted("flow", steps, kind="workflow"), line=keyed())
    assert (await stage.ask("flow", code="keys-1")).ok
    assert log_in.given == [{"code": PIN}]
    assert echo.given == [{"said": f"code {PIN}"}]
    assert stage.log.asks[2].arguments == {"said": f"code {MASK}"}
    assert PIN not in f"{stage.log.all_text}{steps_given}"


@in_virtual_time
async def test_what_comes_late_is_searched_too() -> None:
    answer = ToolResult(message=f"Paid with {PIN}.", data={"code": PIN})
    tool = Scripted(
        "pay", takes(5, answer), effects=Effects.DESTRUCTIVE, limits=Limits(timeout_ms=1_000)
    )
    stage = Stage(tool, line=keyed())
    await stage.ask("pay", code="keys-1")
    await asyncio.sleep(10)
    again = await stage.ask("pay", code="keys-1")
    assert again.source == "late"
    assert len(stage.log.late_replies) == 1
    assert PIN not in f"{again}{stage.log.all_text}"


SECRETS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "iban": {"type": "string", "secret": True, "minLength": 5},
        "card": {"$ref": "#/$defs/card"},
        "owner": {
            "type": "object",
            "properties": {"born": {"anyOf": [{"type": "string", "secret": True}]}},
        },
    },
    "$defs": {"card": {"type": "object", "properties": {"cvc": {"secret": True}}}},
}


@in_virtual_time
async def test_secret_arguments_are_recorded_nowhere() -> None:
    async def echoes(arguments: JsonObject, run: ToolRun) -> ToolResult:
        return ToolResult(message=f"IBAN {arguments['iban']}", data=arguments)

    tool = Scripted("pay", echoes, parameters=SECRETS, secret_arguments=frozenset({"nickname"}))
    stage = Stage(tool)
    given: JsonObject = {
        "city": "Oslo", "iban": "NO93 8601", "card": {"cvc": 987654, "type": "visa"},
        "owner": {"born": "1980-02-03"}, "nickname": ["Bo the Great"], "api_key": {"a": "sk-12345"},
        "door_pin": True,
    }  # fmt: skip
    with capture_logs() as log:
        reply = await stage.ask("pay", **given)
    assert reply.data == given, "the agent gave them itself"
    assert tool.given == [given]
    assert stage.log.asks[0].arguments == {
        "city": "Oslo", "iban": MASK, "card": {"cvc": MASK, "type": "visa"},
        "owner": {"born": MASK}, "nickname": MASK, "api_key": MASK, "door_pin": True,
    }  # fmt: skip
    recorded = f"{stage.log.all_text}{log}"
    for secret in ("NO93", "987654", "1980-02-03", "Bo the Great", "sk-12345"):
        assert secret not in recorded


@in_virtual_time
async def test_what_is_secret_in_a_workflow_is_so_in_its_steps() -> None:
    async def looks_up(arguments: JsonObject, run: ToolRun) -> ToolResult:
        reply = await run.step("greet", {"who": f"Ann {arguments['about']}"})
        return ToolResult(message=reply.message)

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        reply = await run.step("look_up", {"about": arguments["iban"], "city": "Oslo"})
        return ToolResult(message=reply.message)

    async def greets(arguments: JsonObject, run: ToolRun) -> ToolResult:
        return ToolResult(message=f"Hello {arguments['who']}", data=arguments)

    look_up, greet = Scripted("look_up", looks_up, kind="python"), Scripted("greet", greets)
    stage = Stage(look_up, greet, Scripted("flow", steps, kind="workflow", parameters=SECRETS))
    with capture_logs() as log:
        assert (await stage.ask("flow", iban="NO93 8601")).ok
    assert look_up.given == [{"about": "NO93 8601", "city": "Oslo"}]
    assert stage.log.asks[1].arguments == {"about": MASK, "city": "Oslo"}
    assert stage.log.asks[2].arguments == {"who": f"Ann {MASK}"}
    assert "8601" not in f"{stage.log.all_text}{log}"


@in_virtual_time
async def test_a_refusal_repeats_no_secret() -> None:
    tool = Scripted("pay", parameters=SECRETS | {"additionalProperties": {"type": "integer"}})
    stage = Stage(tool)
    reply = await stage.ask("pay", iban="NO9", city=5)
    assert (reply.status, reply.refused) == (Status.REFUSED, "arguments")
    assert "iban: the value does not fit minLength 5" in reply.message
    assert "city: 5 is not of type" in reply.message
    assert "NO9" not in f"{reply}{stage.log.all_text}"
    unknown = await stage.ask("transfer_money", password="hush-hush")
    assert unknown.refused == "not_in_toolbox"
    assert stage.log.asks[-1].arguments == {"password": MASK}


@in_virtual_time
async def test_a_crash_with_keys_leaves_no_trace_of_them() -> None:
    async def crashes(arguments: JsonObject, run: ToolRun) -> ToolResult:
        raise ValueError(f"invalid code {arguments['code']}")

    stage = Stage(Scripted("log_in", crashes), line=keyed())
    with capture_logs() as log:
        reply = await stage.ask("log_in", code="keys-1")
    assert reply.status is Status.ERROR
    assert [entry["type"] for entry in log if entry["event"] == "tool_crashed"] == ["ValueError"]
    assert all("exc_info" not in entry for entry in log)
    assert PIN not in f"{reply}{stage.log.all_text}{log}"


TOKEN = "SECRETENV77"
KNOWN = KnownSecrets([TOKEN, "Bearer sk-proj-abcdef"])


@in_virtual_time
async def test_a_secret_of_the_configuration_leaves_the_desk_on_no_way() -> None:
    echo = ToolResult(
        message=f"your key is Bearer {TOKEN}",
        data={"headers": {"auth": f"Bearer {TOKEN}"}, TOKEN: 1},
    )
    seen: list[ToolResult] = []

    async def steps(arguments: JsonObject, run: ToolRun) -> ToolResult:
        seen.append(await run.step("echo", {}))
        return ToolResult(data={"step": seen[0].data, "own": "sk-proj-abcdef"})

    cached = Limits(cache_ttl_ms=60_000)
    spoken = Speech(field="headers.auth")
    stage = Stage(
        Scripted("echo", takes(0, echo), limits=cached),
        Scripted("spoken", takes(0, echo), speech=spoken),
        Scripted("fails", fail_with(f"Sorry, {TOKEN} is not known.")),
        Scripted("flow", steps, kind="workflow"),
        secrets=KNOWN,
    )
    with capture_logs() as log:
        replies = [await stage.ask(name) for name in ("echo", "echo", "spoken", "fails", "flow")]
    assert [reply.source for reply in replies[:2]] == ["run", "cache"]
    assert replies[0].message == f"your key is Bearer {MASK}"
    assert replies[1].data == {"headers": {"auth": f"Bearer {MASK}"}, MASK: 1}
    assert replies[3].message == FAILED
    assert replies[3].data == {"error": f"Sorry, {MASK} is not known."}
    everything = f"{replies}{seen}{stage.log.all_text}{log}"
    assert TOKEN not in everything
    assert "sk-proj" not in everything


@in_virtual_time
async def test_nor_does_one_that_comes_late() -> None:
    answer = ToolResult(message=f"Paid by {TOKEN}.", data=[TOKEN])
    tool = Scripted(
        "pay", takes(5, answer), effects=Effects.DESTRUCTIVE, limits=Limits(timeout_ms=1_000)
    )
    stage = Stage(tool, secrets=KNOWN)
    await stage.ask("pay")
    await asyncio.sleep(10)
    ((_, _, late),) = stage.log.late_replies
    assert (late.message, late.data) == (f"Paid by {MASK}.", {"result": [MASK]})
    assert TOKEN not in f"{await stage.ask('pay')}{stage.log.all_text}"


@in_virtual_time
async def test_a_secret_that_an_agent_repeats_is_not_recorded() -> None:
    stage = Stage(Scripted("mail", parameters=PINNED), secrets=KNOWN)
    refused = await stage.ask("mail", code=TOKEN, account=TOKEN)
    assert refused.refused == "arguments"
    assert stage.log.asks[0].arguments == {"code": MASK, "account": MASK}
    await stage.ask(f"tool_{TOKEN}")
    assert stage.log.asks[1].name == f"tool_{MASK}"
    assert TOKEN not in stage.log.all_text


@in_virtual_time
async def test_an_error_quotes_no_secret_parameter() -> None:
    quoted = "401 for url: https://api.example.com/v1?api_key=SK123&city=Oslo"
    answer = ToolResult(Status.ERROR, quoted, {"error": quoted})
    stage = Stage(Scripted("look", takes(0, answer)), Scripted("fails", fail_with(quoted)))
    for name in ("look", "fails"):
        reply = await stage.ask(name)
        assert reply.message == FAILED
        assert reply.data["error"].endswith(f"?api_key={MASK}&city=Oslo")
    assert "SK123" not in stage.log.all_text
