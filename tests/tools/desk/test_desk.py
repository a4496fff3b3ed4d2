from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.tools.conftest import Journal, Line, Probe, ask, desk

from cordboard.errors import ToolError, ToolTimeout, TransferFailed
from cordboard.observe.tracing import ToolFacts, ToolSpan, Tracing
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk
from cordboard.tools.desk.policy import MAX_ROUNDS_PER_TURN
from cordboard.tools.tool import (
    Effects,
    Filler,
    JsonObject,
    Limits,
    Speech,
    Status,
    ToolResult,
)


async def for_ever(arguments: JsonObject) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_tool_is_run_and_recorded() -> None:
    journal = Journal()
    tool = Probe(speech=Speech(template="It is {sky}."))
    reply = await desk(tool, journal=journal).run(ask(sky="blue"))
    assert (reply.ask_id, reply.status, reply.message) == ("ask-1", Status.OK, "It is blue.")
    assert reply.data == {"sky": "blue"}
    assert journal.asks == [("probe", True)]
    assert journal.replies == [reply]


async def test_a_tool_outside_the_toolbox_is_refused_recorded_and_never_run() -> None:
    journal = Journal()
    mine, theirs = Probe("mine"), Probe("theirs")
    catalogue = Catalogue([ToolEntry(mine), ToolEntry(theirs)])
    reply = await Desk(catalogue.toolbox(["mine"]), Line(), journal).run(ask("theirs"))
    assert reply.status is Status.REFUSED
    assert "theirs" in reply.message
    assert "mine" in reply.message
    assert theirs.runs == 0
    assert journal.asks == [("theirs", False)]
    assert journal.replies == [reply]


async def test_wrong_arguments_are_refused_with_what_to_mend() -> None:
    schema = {
        "type": "object",
        "properties": {"icao": {"type": "string", "pattern": "^[A-Z]{4}$"}},
        "required": ["icao"],
    }
    tool = Probe(parameters=schema)
    at = desk(tool)
    assert "icao" in (await at.run(ask(icao="x"))).message
    missing = await at.run(ask())
    assert missing.status is Status.REFUSED
    assert '"icao" is a required property' in missing.message
    assert tool.runs == 0
    assert (await at.run(ask(icao="KJFK"))).ok


async def test_a_refusal_is_short_says_what_was_expected_and_repeats_no_secret() -> None:
    schema = {
        "type": "object",
        "properties": {
            "door_pin": {"type": "string", "pattern": "^[0-9]{4}$"},
            "when": {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 5}]},
            "old": False,
        },
        "additionalProperties": {"type": "integer"},
    }
    at = desk(Probe(parameters=schema))
    secret = await at.run(ask(door_pin="77x7"))
    assert "door_pin: the value does not fit pattern ^[0-9]{4}$" in secret.message
    assert "77x7" not in f"{secret}"
    for part in ({"minProperties": 3}, {"anyOf": [{"maxProperties": 0}, {"required": ["b"]}]}):
        inside = await desk(Probe(parameters={"type": "object", **part})).run(ask(pin="77x7"))
        assert inside.status is Status.REFUSED
        assert "77x7" not in f"{inside}"
    either = await at.run(ask(when="now"))
    assert '"now" is not of type "integer", or "now" is shorter than 5' in either.message
    assert "old: it must not be given" in (await at.run(ask(old=1))).message
    long = await at.run(ask(**{f"extra_{n}": "x" * 500 for n in range(9)}))
    assert len(long.message) <= 400
    assert "extra_0: " in long.message
    assert long.message.endswith("Correct them and ask again.")


async def test_failures_become_replies() -> None:
    async def fails(arguments: JsonObject) -> ToolResult:
        raise ToolError("Sorry, the weather office is closed.")

    async def is_slow(arguments: JsonObject) -> ToolResult:
        raise ToolTimeout("Sorry, the weather office does not answer.")

    async def has_a_bug(arguments: JsonObject) -> ToolResult:
        raise ZeroDivisionError("secret detail")

    at = desk(Probe("fails", fails), Probe("slow", is_slow), Probe("buggy", has_a_bug))
    failed = await at.run(ask("fails"))
    assert (failed.status, failed.message) == (Status.ERROR, "Sorry, the weather office is closed.")
    slow = await at.run(ask("slow"))
    assert (slow.status, slow.message) == (
        Status.TIMEOUT,
        "Sorry, the weather office does not answer.",
    )
    buggy = await at.run(ask("buggy"))
    assert buggy.status is Status.ERROR
    assert "secret" not in buggy.message + str(buggy.data)


async def test_a_tool_is_stopped_at_its_timeout() -> None:
    tool = Probe(body=for_ever, limits=Limits(timeout_ms=50))
    reply = await desk(tool).run(ask())
    assert reply.status is Status.TIMEOUT
    assert reply.message
    assert tool.cancelled == 1


async def test_the_filler_is_said_once_for_a_slow_tool_and_never_for_a_quick_one() -> None:
    journal = Journal()

    async def until_filled(arguments: JsonObject) -> ToolResult:
        await journal.filled.wait()
        return ToolResult()

    filler = Filler(threshold_ms=10, messages=("One moment.",))
    quick = Probe("quick", filler=Filler(threshold_ms=5_000, messages=("Never said.",)))
    at = desk(Probe("slow", until_filled, filler=filler), quick, journal=journal)
    assert (await at.run(ask("slow"))).ok
    assert (await at.run(ask("quick"))).ok
    assert journal.fillers == ["One moment."]


async def test_cancelling_an_ask_cancels_the_tool_and_is_recorded() -> None:
    journal = Journal()
    begun = asyncio.Event()

    async def begins(arguments: JsonObject) -> ToolResult:
        begun.set()
        return await for_ever(arguments)

    tool = Probe(body=begins)
    at = desk(tool, journal=journal)
    running = asyncio.create_task(at.run(ask()))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert tool.cancelled == 1
    assert [reply.status for reply in journal.replies] == [Status.CANCELLED]
    assert not at.busy


async def test_identical_running_asks_share_one_run() -> None:
    gate = asyncio.Event()

    async def waits(arguments: JsonObject) -> ToolResult:
        await gate.wait()
        return ToolResult(data=arguments)

    tool = Probe(body=waits)
    at = desk(tool)
    asks = [ask(number=number, b=1, a=2) for number in (1, 2, 3)] + [ask(number=4, a=3)]
    running = [asyncio.create_task(at.run(each)) for each in asks]
    await asyncio.sleep(0)
    running[0].cancel()  # the others still want it
    await asyncio.sleep(0)
    gate.set()
    replies = await asyncio.gather(*running[1:])
    assert [reply.ask_id for reply in replies] == ["ask-2", "ask-3", "ask-4"]
    assert all(reply.ok for reply in replies)
    assert tool.runs == 2
    assert (await at.run(ask(number=5, a=2, b=1))).ok
    assert tool.runs == 3, "a finished run is not joined"


async def test_tool_rounds_of_a_turn_are_limited() -> None:
    tools = [Probe(f"probe_{number}") for number in range(MAX_ROUNDS_PER_TURN + 1)]
    at = desk(*tools)
    replies = [await at.run(ask(tool.spec.name)) for tool in tools]
    assert [reply.ok for reply in replies] == [True] * MAX_ROUNDS_PER_TURN + [False]
    assert replies[-1].status is Status.REFUSED
    assert (await at.run(ask("probe_5", turn=2))).ok, "a new turn begins anew"


async def test_asks_at_once_are_one_round() -> None:
    tools = [Probe(f"probe_{number}") for number in range(12)]
    at = desk(*tools)
    replies = await asyncio.gather(*(at.run(ask(tool.spec.name)) for tool in tools))
    assert all(reply.ok for reply in replies)


async def test_calls_of_one_tool_in_a_turn_are_limited() -> None:
    tool = Probe(limits=Limits(per_turn=2))
    at = desk(tool)
    results = [(await at.run(ask(number=n, n=n))).status for n in range(3)]
    assert results == [Status.OK, Status.OK, Status.REFUSED]
    assert tool.runs == 2


@pytest.mark.parametrize(
    ("effects", "runs"),
    [(Effects.READ_ONLY, 3), (Effects.IDEMPOTENT, 3), (Effects.DESTRUCTIVE, 1)],
)
async def test_only_harmless_tools_are_tried_again(effects: Effects, runs: int) -> None:
    async def fails(arguments: JsonObject) -> ToolResult:
        raise ToolError("No.")

    tool = Probe(body=fails, effects=effects, limits=Limits(retries=2))
    assert (await desk(tool).run(ask())).status is Status.ERROR
    assert tool.runs == runs


async def test_large_results_are_capped() -> None:
    async def large(arguments: JsonObject) -> ToolResult:
        return ToolResult(data={"rows": ["x" * 100] * 100_000})

    reply = await desk(Probe(body=large)).run(ask())
    assert len(str(reply.data)) < 20_000


async def test_a_tool_that_cancels_itself_does_not_cancel_the_call() -> None:
    async def odd(arguments: JsonObject) -> ToolResult:
        raise asyncio.CancelledError

    reply = await desk(Probe(body=odd)).run(ask())
    assert reply.status is Status.CANCELLED


async def test_transfer_error_of_the_line_is_no_crash() -> None:
    async def fails(arguments: JsonObject) -> ToolResult:
        raise TransferFailed("busy")

    assert (await desk(Probe(body=fails)).run(ask())).status is Status.ERROR


SECRET = "pin-4711-of-the-caller"


async def lines_of(at: Desk, *asks: Any) -> list[Mapping[str, Any]]:
    """The `tool_call` lines of these asks, each of which is given up when it takes long."""
    with capture_logs() as log:
        for each in asks:
            running = asyncio.create_task(at.run(each))
            await asyncio.wait({running}, timeout=0.2)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert SECRET not in str(log)
    return [entry for entry in log if entry["event"] == "tool_call"]


async def test_each_ask_is_one_log_line_without_arguments_and_results() -> None:
    async def fails(arguments: JsonObject) -> ToolResult:
        raise ToolError(f"Sorry, {arguments['pin']} is wrong.")

    mcp = {"kind": "mcp", "server": "crm"}
    wanted = {"type": "object", "properties": {"pin": {"type": "string"}}}
    at = desk(
        Probe("works", origin="mcp:crm:works", parameters=wanted, **mcp),
        Probe("fails", fails, origin="mcp:crm:fails", parameters=wanted, **mcp),
        Probe("hangs", for_ever, origin="python:hangs"),
    )
    lines = await lines_of(
        at,
        ask("works", pin=SECRET),
        ask("works", pin=[SECRET]),
        ask("fails", pin=SECRET),
        ask("hangs", pin=SECRET),
        ask("invented" * 100, pin=SECRET),
    )
    assert [(line["tool"], line["server"], line["outcome"]) for line in lines] == [
        ("mcp:crm:works", "crm", "ok"),
        ("mcp:crm:works", "crm", "refused"),
        ("mcp:crm:fails", "crm", "error"),
        ("python:hangs", "", "cancelled"),
        ("", "", "refused"),
    ]
    who = {"call_id": "call-1", "context_name": "demo", "provider_name": "local"}
    for line in lines:
        assert line.items() >= who.items()
        assert isinstance(line["ms"], int)
    assert [line["exposed_name"] for line in lines[:4]] == ["works", "works", "fails", "hangs"]
    assert lines[4]["exposed_name"] == ("invented" * 100)[:100]
    assert lines[3]["ms"] >= 150


class Tracer(Tracing, ToolSpan):
    """A tracing that writes down what it is told, as its own span."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def tool_call(self, facts: ToolFacts) -> ToolSpan:
        self.notes.append((facts.exposed_name, facts.server, facts.tool, facts.turn))
        return self

    def answered(self, status: str) -> None:
        self.notes.append(status)

    def __exit__(self, *_: Any) -> None:
        self.notes.append("over")


async def test_each_ask_is_one_span_however_it_ends() -> None:
    tracer = Tracer()
    tools = [Probe("works", origin="mcp:crm:works", server="crm"), Probe("hangs", for_ever)]
    catalogue = Catalogue(ToolEntry(tool) for tool in tools)
    at = Desk(catalogue.toolbox(catalogue), Line(), tracing=tracer)
    assert (await at.run(ask("works", turn=3))).ok
    await lines_of(at, ask("hangs"), ask("invented"))
    assert tracer.notes == [
        ("works", "crm", "mcp:crm:works", 3), "ok", "over",
        ("hangs", "", "python:hangs", 1), "cancelled", "over",
        ("invented", "", "", 1), "refused", "over",
    ]  # fmt: skip
