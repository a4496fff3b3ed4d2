"""Conversations that test an agent: to whom they belong, which tools run, what is on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from cordboard.chat.session import ChatSession, ChatTest
from cordboard.chat.sessions import MOST_OF_ONE, ChatSessions
from cordboard.errors import ChatRefused
from cordboard.tools.tool import Effects
from cordboard.tools.tool_use import READ_ONLY, REAL, CannedAnswer, ToolUse

from .conftest import Parlour, Script, names, say, server, words

TOOLS = [
    {"name": "echo", "expose_as": "look", "effects": "read_only", "cache_ttl_ms": 60_000},
    {"name": "plain", "expose_as": "book", "effects": "destructive", "approval": "caller"},
]
BOTH = {
    "kind": "workflow",
    "description": "Both.",
    "steps": [
        {"id": "one", "tool": "look", "arguments": {"text": "step"}},
        {"id": "two", "tool": "book"},
    ],
    "result": {"text": "{steps.one.message}"},
}


async def does(script: Script, text: str) -> AsyncGenerator[str, None]:
    """Run the tool that the message names."""
    arguments = {"text": "x"} if text == "look" else {}
    reply = await script.ask(text, **arguments)
    yield f"{reply.status}: {reply.message}"


async def opened(parlour: Parlour, **context: Any) -> ChatSessions:
    demo = {"tools": ["look", "book", "both", "hangup_call"], "greeting": "Hi.", **context}
    return await parlour.open(
        does,
        contexts={"demo": demo},
        tools={"both": BOTH},
        mcp={"servers": {"s": server(tools=TOOLS)}},
    )


async def test_tools_that_may_not_run_are_refused_unasked_and_the_model_learns_why(
    parlour: Parlour,
) -> None:
    sessions = await opened(parlour)
    session = sessions.open("demo", test=ChatTest(owner="anna", tools=READ_ONLY))
    assert words(await say(session, "look")).startswith("ok:")
    refused = await say(session, "book")
    assert "approval" not in names(refused)
    assert words(refused).startswith("refused: This conversation is a test in which book")
    assert "plain" not in " ".join(parlour.told())
    both = await say(session, "both")
    assert "plain" not in " ".join(parlour.told()), "nor as a step"
    assert not words(both).startswith("ok")
    await say(session, "hangup_call")
    (ended,) = [line for line in parlour.ledger(session.session_id) if line["type"] == "call.ended"]
    assert ended["reason"] == "agent_hangup", "the line of the test is its own"


async def test_canned_answers_take_the_place_of_tools_and_reach_no_caller(
    parlour: Parlour,
) -> None:
    sessions = await opened(parlour)
    answers = {
        "look": CannedAnswer("It is canned.", {"text": "canned"}),
        "book": CannedAnswer("No room.", failed=True),
    }
    session = sessions.open("demo", test=ChatTest(owner="anna", tools=ToolUse(canned=answers)))
    asked = len(parlour.told())
    assert words(await say(session, "look")) == "ok: It is canned."
    question = await say(session, "book")
    assert question[-1].data["state"] == "approval", "the agent behaves as in a call"
    assert words(await say(session, "yes")) == "error: No room."
    assert len(parlour.told()) == asked
    real = sessions.open("demo", test=ChatTest(owner="anna"))
    assert "canned" not in words(await say(real, "look")), "no kept answer is shared"


async def test_a_canned_answer_takes_its_time(parlour: Parlour) -> None:
    sessions = await opened(parlour)
    slow = {"look": CannedAnswer("At last.", after_ms=150)}
    session = sessions.open("demo", test=ChatTest(owner="anna", tools=ToolUse(canned=slow)))
    began = asyncio.get_running_loop().time()
    assert words(await say(session, "look")) == "ok: At last."
    assert asyncio.get_running_loop().time() - began >= 0.149


async def test_the_ledger_says_that_it_is_a_test_and_its_steps_after_do_not_run(
    parlour: Parlour,
) -> None:
    after = {"post_call": [{"tool": "book"}]}
    sessions = await opened(parlour, **after)
    for tools, jobs in ((READ_ONLY, 0), (ToolUse(canned={}), 0), (REAL, 1)):
        session = sessions.open("demo", test=ChatTest(owner="anna", tools=tools))
        await say(session, "look")
        await session.end("completed", "caller_hangup")
        first = parlour.ledger(session.session_id)[0]
        assert (first["type"], first["test"], first["trial"]) == ("call.offered", True, "")
        assert len(parlour.jobs) == jobs
    plain, _ = sessions.begin("demo", "look")
    assert parlour.ledger(plain.session_id)[0]["test"] is False


async def test_look_ups_before_it_obey_too(parlour: Parlour) -> None:
    before = {"pre_call": [{"tool": "book", "save_as": "booked"}]}
    sessions = await opened(parlour, **before)
    session = sessions.open("demo", test=ChatTest(owner="anna", tools=READ_ONLY))
    await say(session, "look")
    (done,) = [line for line in parlour.ledger(session.session_id) if "pre_call" in line["type"]]
    assert [step["status"] for step in done["steps"]] == ["refused"]


async def test_it_belongs_to_one_person_who_has_a_bounded_number(parlour: Parlour) -> None:
    sessions = await opened(parlour)
    tests: list[ChatSession] = [
        sessions.open("demo", test=ChatTest(owner="anna")) for _ in range(MOST_OF_ONE)
    ]
    with pytest.raises(ChatRefused, match="you have 10") as caught:
        sessions.open("demo", test=ChatTest(owner="anna"))
    assert caught.value.reason == "full"
    bert = sessions.open("demo", test=ChatTest(owner="bert"))
    assert sessions.find(bert.session_id, "bert") is bert
    for owner in ("anna", ""):
        with pytest.raises(ChatRefused):
            sessions.find(bert.session_id, owner)
    plain, _ = sessions.begin("demo", "look")
    with pytest.raises(ChatRefused):
        sessions.find(plain.session_id, "anna")
    assert len(tests) == MOST_OF_ONE


def test_a_use_is_real_only_if_everything_runs() -> None:
    assert REAL.is_real
    assert not READ_ONLY.is_real
    assert not ToolUse(canned={}).is_real
    assert not ToolUse(frozenset({Effects.READ_ONLY, Effects.IDEMPOTENT})).is_real
