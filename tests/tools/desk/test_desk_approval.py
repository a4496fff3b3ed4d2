"""The caller's yes: asked for before a tool runs, and held for nothing else."""

from __future__ import annotations

import asyncio

import pytest
from tests.tools.conftest import ANY, Line

from cordboard.errors import LineError, LineGone, LineUnsupported
from cordboard.tools.call_line import NoCaller
from cordboard.tools.desk.approval import question
from cordboard.tools.tool import Effects, Filler, JsonObject, Limits, Status, ToolSpec
from cordboard_testkit.virtual_time import in_virtual_time

from .desk_stage import Scripted, Stage, takes


def booking(**spec: object) -> Scripted:
    return Scripted("book_table", approval="caller", effects=Effects.DESTRUCTIVE, **spec)


@in_virtual_time
async def test_it_runs_after_a_yes_and_each_ask_needs_its_own() -> None:
    tool = booking()
    stage = Stage(tool)
    assert (await stage.ask("book_table", guests=4, time="20:00")).ok
    assert stage.line.questions == [
        "I am about to do this: book table, with guests 4, time 8 PM. Shall I?"
    ]
    assert (await stage.ask("book_table", turn=2, guests=4, time="20:00")).ok
    assert (len(stage.line.questions), tool.runs) == (2, 2)


@pytest.mark.parametrize(
    ("answer", "words", "retryable"),
    [(False, "The caller said no.", False), (None, "no clear answer", True)],
)
def test_without_a_yes_nothing_is_run(answer: bool | None, words: str, retryable: bool) -> None:
    @in_virtual_time
    async def scenario() -> None:
        tool = booking(limits=Limits(per_call=1, per_turn=1))
        stage = Stage(tool, line=Line(confirmed=answer))
        reply = await stage.ask("book_table", guests=4)
        assert (reply.status, reply.refused, reply.tries) == (Status.REFUSED, "approval", 0)
        assert words in reply.message
        assert reply.control["retryable"] is retryable
        assert tool.runs == 0
        stage.line.confirmed = True
        assert (await stage.ask("book_table", guests=5)).ok, "what was not run was not used up"

    scenario()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (LineUnsupported("no"), Status.REFUSED, "there is no caller to ask here"),
        (LineError("keys are being collected"), Status.REFUSED, "ask again later"),
        (LineGone("hung up"), Status.CANCELLED, "The caller has gone."),
    ],
)
def test_a_caller_who_cannot_be_asked_has_not_said_yes(
    error: LineError, status: Status, words: str
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async def fails(text: str) -> bool | None:
            raise error

        tool = booking()
        reply = await Stage(tool, line=Line(confirming=fails)).ask("book_table")
        assert reply.status is status
        assert words in reply.message
        assert tool.runs == 0

    scenario()


@in_virtual_time
async def test_where_nobody_is_on_the_line_it_is_refused() -> None:
    tool = booking()
    stage = Stage(tool, line=NoCaller("call-1", "demo"))  # type: ignore[arg-type]
    reply = await stage.ask("book_table")
    assert (reply.status, reply.control["retryable"], tool.runs) == (Status.REFUSED, False, 0)


@in_virtual_time
async def test_an_agent_that_has_the_yes_already_need_not_ask() -> None:
    tool = booking()
    stage = Stage(tool)
    assert (await stage.start("book_table", confirmed=True)).ok
    assert (stage.line.questions, tool.runs) == ([], 1)


@in_virtual_time
async def test_the_wait_for_an_answer_is_no_time_of_the_tool_and_has_no_filler() -> None:
    async def slowly(text: str) -> bool:
        await asyncio.sleep(30)
        return True

    tool = booking(
        script=takes(3), limits=Limits(timeout_ms=4_000), filler=Filler(2_000, ("Moment.",))
    )
    stage = Stage(tool, line=Line(confirming=slowly))
    assert (await stage.ask("book_table")).ok
    assert stage.log.fillers == [(32.0, "Moment.")]


@in_virtual_time
async def test_two_questions_at_once_are_asked_one_after_the_other() -> None:
    asked_at: list[tuple[float, str]] = []

    async def slowly(text: str) -> bool:
        asked_at.append((stage.log.now, text))
        await asyncio.sleep(5)
        return "first" in text

    stage = Stage(booking(approval_question="The {which} table?"), line=Line(confirming=slowly))
    first, second = (
        stage.start("book_table", which="first"),
        stage.start("book_table", which="second"),
    )
    assert [(await first).status, (await second).status] == [Status.OK, Status.REFUSED]
    assert asked_at == [(0.0, "The first table?"), (5.0, "The second table?")]


@in_virtual_time
async def test_a_question_is_withdrawn_with_its_ask() -> None:
    withdrawn = 0

    async def for_ever(text: str) -> bool:
        nonlocal withdrawn
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            withdrawn += 1
            raise
        return True

    tool = booking()
    stage = Stage(tool, line=Line(confirming=for_ever))
    waiting = stage.start("book_table")
    await asyncio.sleep(1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.sleep(100)
    assert (withdrawn, tool.runs, stage.desk.busy) == (1, 0, False)
    assert stage.log.late_replies == [], "nothing was done, so nothing is late"


@in_virtual_time
async def test_an_identical_ask_is_no_second_question() -> None:
    tool = booking()

    async def slowly(text: str) -> bool:
        await asyncio.sleep(1)
        return True

    stage = Stage(tool, line=Line(confirming=slowly))
    replies = await asyncio.gather(*(stage.start("book_table", guests=2) for _ in range(3)))
    assert [reply.source for reply in replies] == ["run", "joined", "joined"]
    assert (len(stage.line.questions), tool.runs) == (1, 1)


@in_virtual_time
async def test_no_secret_is_spoken() -> None:
    tool = booking(
        approval_question="Pay with card {card} and {password|nothing}, {missing|no tip}?",
        secret_arguments=frozenset({"card"}),
    )
    plain = booking(secret_arguments=frozenset({"card"}))
    given: JsonObject = {"card": "4111 1111", "password": "hush", "amount": 5}
    stage = Stage(tool)
    await stage.ask("book_table", **given)
    other = Stage(plain, line=stage.line)
    await other.ask("book_table", **given, reference="keys-1")
    assert stage.line.questions == [
        "Pay with card what you entered and what you entered, no tip?",
        "I am about to do this: book table, with amount 5, reference keys-1. Shall I?",
    ]


def test_the_words_of_a_question_are_fit_to_be_spoken() -> None:
    spec = ToolSpec(
        "mcp_crm_deleteCustomer", "mcp", "", ANY, origin="mcp:crm:deleteCustomer", server="crm"
    )
    arguments: JsonObject = {
        "note": "<b>*bold*</b> \u202eevil\U0001f600",
        "rows": [{"a": 1}],
        "long": "x" * 500,
        "${HOME}": "${HOME}",
        **{f"n{number}": number for number in range(10)},
    }
    words = question(spec, arguments)
    assert words.startswith("I am about to do this: delete customer, with note bold evil, ")
    assert "\u202e" not in words
    assert "xxx" not in words
    assert words.endswith(", and more. Shall I?")
    assert "/root" not in words
    assert question(spec, {}) == "I am about to do this: delete customer. Shall I?"


@in_virtual_time
async def test_a_template_that_names_missing_fields_is_not_said() -> None:
    stage = Stage(booking(approval_question="For {guests} at {time:time}?"))
    await stage.ask("book_table", guests=4)
    assert stage.line.questions == ["I am about to do this: book table, with guests 4. Shall I?"]
