"""Conversations as whoever writes sees them; the tools are those of a real MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from cordboard.chat.sessions import ChatSessions
from cordboard.errors import ChatRefused

from .conftest import PATIENCE, Parlour, Script, names, read, say, server, until, words

ECHO = {"tools": ["mcp_s_echo"], "greeting": "Good day, {caller_name}."}


async def echo(script: Script, text: str) -> AsyncGenerator[str, None]:
    reply = await script.ask("mcp_s_echo", text=text)
    yield "You said this."
    yield str(reply.data["text"])


async def opened(parlour: Parlour, respond: Any = echo, **more: Any) -> ChatSessions:
    contexts = more.pop("contexts", {"demo": ECHO})
    servers = {"s": more.pop("server", server())}
    return await parlour.open(respond, contexts=contexts, mcp={"servers": servers}, **more)


async def test_greeting_tokens_tools_and_the_ledger(parlour: Parlour) -> None:
    sessions = await opened(parlour)
    assert parlour.succession is not None
    parlour.succession.generation.version = "c7f3a9"
    session, answer = sessions.begin("demo", "hello", {"caller_name": "Ada"})
    first = await read(answer)
    assert names(first) == [
        "session", "token", "tool_call", "tool_result", "token", "token", "done"
    ]  # fmt: skip
    introduction, greeting, call, result, _, _, done = (event.data for event in first)
    assert introduction["session_id"] == session.session_id
    assert introduction["tools"] == ["mcp_s_echo"]
    assert greeting == {"turn": 0, "text": "Good day, Ada."}
    assert (call["name"], call["tool"]) == ("mcp_s_echo", "mcp:s:echo")
    assert call["arguments"] == {"text": "hello"}
    assert (result["status"], result["source"], result["cut"]) == ("ok", "run", [])
    assert (done["turn"], done["state"], done["reason"]) == (1, "open", "")
    assert words(first) == "You said this. hello"

    second = await say(session, "again")
    assert names(second)[0] == "session"
    assert words(second) == "You said this. again"

    await session.end("completed", "caller_hangup")
    assert parlour.script is not None
    assert parlour.script.closed == 1
    lines = parlour.ledger(session.session_id)
    assert [line["type"] for line in lines] == [
        "call.offered", "call.bound", "call.connected", "agent.text",
        "caller.stopped", "caller.text", "tool.asked", "tool.answered", "agent.text", "agent.text",
        "caller.stopped", "caller.text", "tool.asked", "tool.answered", "agent.text", "agent.text",
        "call.ended",
    ]  # fmt: skip
    assert (lines[0]["source"], lines[0]["caller_name"]) == ("chat", "Ada")
    assert lines[0]["config"] == "c7f3a9"
    found = await sessions.transcript(session.session_id)
    said = [(m["turn"], m["who"], m["text"]) for m in found["messages"]]
    assert said[:3] == [
        (0, "agent", "Good day, Ada."), (1, "user", "hello"), (1, "agent", "You said this.")
    ]  # fmt: skip
    assert (found["state"], found["reason"]) == ("ended", "caller_hangup")
    assert [(tool["name"], tool["status"]) for tool in found["tools"]] == [("mcp_s_echo", "ok")] * 2
    assert len(sessions) == 0


async def test_a_tool_of_another_context_is_neither_shown_nor_run(parlour: Parlour) -> None:
    async def greedy(script: Script, text: str) -> AsyncGenerator[str, None]:
        reply = await script.ask(text)
        yield str(reply.status)

    contexts = {"demo": ECHO, "other": {"tools": ["mcp_s_plain"]}}
    sessions = await opened(parlour, greedy, contexts=contexts)
    session, answer = sessions.begin("demo", "mcp_s_plain")
    events = await read(answer)
    assert events[0].data["tools"] == ["mcp_s_echo"]
    assert parlour.script is not None
    assert [spec.name for spec in parlour.script.sessions[0].toolbox] == ["mcp_s_echo"]
    assert words(events) == "refused"
    result = next(event.data for event in events if event.name == "tool_result")
    assert result["status"] == "refused"
    assert not any("tools/call" in line for line in parlour.told()), "the server was asked"
    (refused,) = parlour.logged("tool_refused")
    assert (refused["context_name"], refused["exposed_name"]) == ("demo", "mcp_s_plain")
    assert b'ai_agent_tool_calls_total{status="refused",tool="unknown"} 1.0' in (
        parlour.metrics.render()
    )
    figures = parlour.metrics.usage.day(parlour.metrics.usage.today)["demo", "unknown"].figures()
    assert (figures["calls"], figures["refused"], figures["p50_ms"]) == (1, 1, None)
    asked = [line for line in parlour.ledger(session.session_id) if line["type"] == "tool.asked"]
    assert [(line["name"], line["tool"]) for line in asked] == [("mcp_s_plain", "")]


@pytest.mark.parametrize(
    ("answers", "ran"),
    [(["yes please"], True), (["No!"], False), (["what?", "y"], True), (["hm", "dunno"], False)],
)
async def test_a_tool_that_needs_a_yes_waits_for_the_next_message(
    parlour: Parlour, answers: list[str], ran: bool
) -> None:
    tools = [{"name": "plain", "expose_as": "book", "approval": "caller",
              "approval_question": "Book it for {name}?"}]  # fmt: skip

    async def book(script: Script, text: str) -> AsyncGenerator[str, None]:
        reply = await script.ask("book", name="Ada")
        yield f"{reply.status}."

    sessions = await opened(
        parlour, book, contexts={"demo": {"tools": ["book"]}}, server=server(tools=tools)
    )
    session, answer = sessions.begin("demo", "book it")
    events = await read(answer)
    assert names(events) == ["session", "tool_call", "approval", "done"]
    assert events[2].data["question"] == "Book it for Ada?"
    assert events[3].data["state"] == "approval"
    for number, message in enumerate(answers):
        events = await say(session, message)
        if number + 1 < len(answers):
            assert events[-2].data["question"] == "Please answer yes or no. Book it for Ada?"
    assert words(events) == ("ok." if ran else "refused.")
    assert (events[-1].data["turn"], events[-1].data["state"]) == (1 + len(answers), "open")


async def test_the_agent_hangs_up_after_its_goodbye(parlour: Parlour) -> None:
    async def goodbye(script: Script, text: str) -> AsyncGenerator[str, None]:
        await script.ask("hangup_call", reason="all said")
        yield "Goodbye."

    sessions = await opened(parlour, goodbye, contexts={"demo": {"tools": ["hangup_call"]}})
    session, answer = sessions.begin("demo", "bye")
    events = await read(answer)
    assert words(events) == "Goodbye."
    assert (events[-1].data["state"], events[-1].data["reason"]) == ("ended", "agent_hangup")
    with pytest.raises(ChatRefused) as refusal:
        session.take("are you there?")
    assert refusal.value.reason == "unknown_session"
    await session.end("completed", "later")
    ended = parlour.ledger(session.session_id)[-1]
    assert (ended["type"], ended["reason"]) == ("call.ended", "agent_hangup")


async def test_what_a_line_in_writing_cannot_do_is_said_in_words(parlour: Parlour) -> None:
    async def ask(script: Script, text: str) -> AsyncGenerator[str, None]:
        arguments = {"transfer": {"destination": "sales"}, "send_digits": {"digits": "1"}}
        reply = await script.ask(text, **arguments.get(text, {}))
        yield f"{reply.status}: {reply.message}"

    sessions = await opened(
        parlour,
        ask,
        contexts={"demo": {"tools": ["transfer", "collect_digits", "pause_recording"]}},
        tools={"transfer": {"destinations": {"sales": {"target": "6001"}}}},
    )
    session, answer = sessions.begin("demo", "transfer")
    assert words(await read(answer)).startswith("error: ")
    assert "keys" in words(await say(session, "collect_digits"))
    assert words(await say(session, "pause_recording")) == (
        "error: This call is not being recorded."
    )


async def test_an_error_is_an_event_and_the_conversation_goes_on(parlour: Parlour) -> None:
    async def fails(script: Script, text: str) -> AsyncGenerator[str, None]:
        yield "Well."
        if text == "fail":
            raise LookupError("secret-of-the-house")
        yield "Fine."

    sessions = await opened(parlour, fails)
    session, answer = sessions.begin("demo", "fail")
    events = await read(answer)
    assert names(events)[-2:] == ["error", "done"]
    assert events[-2].data == {"code": "internal_error", "message": "internal error: LookupError"}
    assert events[-1].data["state"] == "open"
    assert words(await say(session, "go on")) == "Well. Fine."
    assert len(parlour.logged("chat_turn_failed")) == 1


async def test_a_tool_that_fails_and_a_server_that_dies_are_results(parlour: Parlour) -> None:
    async def ask(script: Script, text: str) -> AsyncGenerator[str, None]:
        reply = await script.ask(text)
        yield f"{reply.status}: {reply.message}"

    context = {"tools": ["mcp_s_fails", "mcp_s_exits", "mcp_s_hangs"]}
    tools = [{"name": "fails"}, {"name": "exits"}, {"name": "hangs", "timeout_ms": 400}]
    settings = server(defaults={"timeout_ms": 60_000}, tools=tools)
    sessions = await opened(parlour, ask, contexts={"demo": context}, server=settings)
    session, answer = sessions.begin("demo", "mcp_s_fails")
    assert "No report for that station" in words(await read(answer))
    assert words(await say(session, "mcp_s_hangs")).startswith("timeout: ")
    assert "error: " in words(await say(session, "mcp_s_exits"))


async def test_one_message_at_a_time(parlour: Parlour) -> None:
    release = asyncio.Event()

    async def waits(script: Script, text: str) -> AsyncGenerator[str, None]:
        await release.wait()
        yield "Now."

    sessions = await opened(parlour, waits)
    session, answer = sessions.begin("demo", "one")
    with pytest.raises(ChatRefused) as refusal:
        session.take("two")
    assert refusal.value.reason == "busy"
    release.set()
    assert words(await read(answer)) == "Now."
    assert words(await say(session, "two")) == "Now."


async def test_who_goes_away_stops_what_only_reads(parlour: Parlour) -> None:
    async def looks(script: Script, text: str) -> AsyncGenerator[str, None]:
        yield "Looking."
        await script.ask("mcp_s_waits")
        yield "Found."

    sessions = await opened(parlour, looks, contexts={"demo": {"tools": ["mcp_s_waits"]}})
    session, answer = sessions.begin("demo", "look")
    async for event in answer:
        if event.name == "tool_call":
            break
    answer.leave()
    await until(lambda: any("cancel" in line for line in parlour.told()))
    assert parlour.script is not None
    assert parlour.script.cut == ["Looking."]
    answered = [
        line["status"] for line in parlour.ledger(session.session_id)
        if line["type"] == "tool.answered"
    ]  # fmt: skip
    assert answered == ["cancelled"]


async def test_what_changes_the_world_goes_on_and_is_told_with_the_next_message(
    parlour: Parlour,
) -> None:
    tools = [{"name": "slow", "expose_as": "book", "effects": "destructive", "approval": "none"}]

    async def book(script: Script, text: str) -> AsyncGenerator[str, None]:
        if text == "book":
            await script.ask("book", seconds=1.5)
        yield "Anything else?"

    sessions = await opened(
        parlour, book, contexts={"demo": {"tools": ["book"]}}, server=server(tools=tools)
    )
    session, answer = sessions.begin("demo", "book")
    async for event in answer:
        if event.name == "tool_call":
            break
    answer.leave()
    await until(lambda: parlour.logged("tool_late"))
    events = await say(session, "hello?")
    assert names(events) == ["session", "tool_result", "token", "token", "done"]
    assert (events[1].data["status"], events[1].data["source"]) == ("ok", "late")
    assert words(events) == "About your earlier request: At last. Anything else?"
    (late,) = [line for line in parlour.ledger(session.session_id) if line["type"] == "tool.late"]
    assert (late["status"], late["told"]) == ("ok", True)


@pytest.mark.parametrize("before", ["nothing", "the reader leaves", "it is ended"])
async def test_a_hung_booking_does_not_hold_up_an_engine_that_stops(
    parlour: Parlour, before: str
) -> None:
    tools = [{"name": "waits", "expose_as": "book", "effects": "destructive", "approval": "none",
              "timeout_ms": 600_000}]  # fmt: skip

    async def book(script: Script, text: str) -> AsyncGenerator[str, None]:
        await script.ask("book")
        yield "Booked."

    parlour.times = {"close_seconds": 0.1, "tool_grace": 3_600}
    sessions = await opened(
        parlour, book, contexts={"demo": {"tools": ["book"]}}, server=server(tools=tools)
    )
    session, answer = sessions.begin("demo", "book")
    async for event in answer:
        if event.name == "tool_call":
            break
    if before == "the reader leaves":
        answer.leave()
    elif before == "it is ended":
        session.end_soon("completed", "caller_hangup")
    await asyncio.wait_for(sessions.close(grace=3_600), 60)
    lines = parlour.ledger(session.session_id)
    reason = "caller_hangup" if before == "it is ended" else "engine_stopped"
    assert (lines[-1]["type"], lines[-1]["reason"]) == ("call.ended", reason)
    results = [e for e in lines if e["type"] in ("tool.answered", "tool.late")]
    assert "cancelled" in {line["status"] for line in results}


async def test_a_filler_bridges_a_slow_tool(parlour: Parlour) -> None:
    tools = [{"name": "slow", "expose_as": "look", "effects": "read_only",
              "slow_response_threshold_ms": 50, "slow_response_message": "A moment."}]  # fmt: skip

    async def look(script: Script, text: str) -> AsyncGenerator[str, None]:
        await script.ask("look", seconds=1.5)
        yield "Done."

    sessions = await opened(
        parlour, look, contexts={"demo": {"tools": ["look"]}}, server=server(tools=tools)
    )
    events = await read(sessions.begin("demo", "look")[1])
    assert names(events) == ["session", "tool_call", "filler", "tool_result", "token", "done"]
    assert events[2].data["text"] == "A moment."
    assert words(events) == "Done."


async def test_an_answer_that_never_comes_is_given_up(parlour: Parlour) -> None:
    async def never(script: Script, text: str) -> AsyncGenerator[str, None]:
        if text == "wait":
            await script.ask("mcp_s_waits")
        yield "There."

    sessions = await opened(
        parlour,
        never,
        contexts={"demo": {"tools": ["mcp_s_waits"]}},
        chat={"turn_timeout_ms": 2_000},
    )
    session, answer = sessions.begin("demo", "wait")
    events = await read(answer)
    assert names(events)[-3:] == ["error", "tool_result", "done"]
    assert events[-3].data == {"code": "turn_timeout", "message": "no answer within 2 s"}
    assert events[-1].data["state"] == "open"
    assert words(await say(session, "again")) == "There."


async def test_who_writes_no_more_is_gone_after_a_while(parlour: Parlour) -> None:
    sessions = await opened(parlour, chat={"idle_ms": 2_000})
    session, answer = sessions.begin("demo", None)
    assert names(await read(answer)) == ["session", "token", "done"]
    assert words(await say(session, "hello")) == "You said this. hello"
    await until(lambda: len(sessions) == 0)
    assert parlour.ledger(session.session_id)[-1]["reason"] == "caller_silent"
    assert parlour.succession is not None
    assert parlour.succession.generation.calls == 0


async def test_there_is_an_end_to_conversations_and_messages(parlour: Parlour) -> None:
    limits = {"max_sessions": 2, "max_message_chars": 10}
    sessions = await opened(parlour, chat=limits)

    def refused(*arguments: Any) -> str:
        with pytest.raises(ChatRefused) as refusal:
            sessions.begin(*arguments)
        return refusal.value.reason

    assert refused("demo", "x" * 11) == "too_long"
    assert refused("nowhere", None) == "unknown_context"
    assert refused("demo", None, {"order": "4711"}) == "bad_variable"
    first, answer = sessions.begin("demo", None)
    await read(answer)
    sessions.begin("demo", None)
    assert refused("demo", None) == "full"
    assert b"ai_agent_chat_sessions 2.0" in parlour.metrics.render()
    with pytest.raises(ChatRefused):
        first.take("y" * 11)
    await first.end("completed", "caller_hangup")
    sessions.begin("demo", None)
    await sessions.close()
    assert refused("demo", None) == "stopping"


async def test_a_stop_ends_all_and_lets_a_booking_finish(parlour: Parlour) -> None:
    tools = [{"name": "slow", "expose_as": "book", "effects": "destructive", "approval": "none"}]

    async def book(script: Script, text: str) -> AsyncGenerator[str, None]:
        await script.ask("book", seconds=1.5)
        yield "Booked."

    parlour.times = {"close_seconds": PATIENCE, "tool_grace": PATIENCE}
    sessions = await opened(
        parlour, book, contexts={"demo": {"tools": ["book"]}}, server=server(tools=tools)
    )
    session, answer = sessions.begin("demo", "book")
    reading = asyncio.create_task(read(answer))
    await until(lambda: any("tools/call" in line for line in parlour.told()))
    await sessions.close()
    assert (await reading)[-1].data["reason"] == "engine_stopped"
    lines = parlour.ledger(session.session_id)
    outcomes = [(line["type"], line["status"]) for line in lines if "status" in line]
    assert outcomes == [("tool.answered", "cancelled"), ("tool.late", "ok")]
    assert lines[-1]["outcome"] == "shutdown"


async def test_a_reload_leaves_a_conversation_with_what_it_began_with(parlour: Parlour) -> None:
    sessions = await opened(parlour)
    session, answer = sessions.begin("demo", "one")
    await read(answer)
    pid = parlour.pid()
    await parlour.reload(contexts={"demo": {"tools": [], "greeting": "New."}}, mcp={"servers": {}})
    assert words(await say(session, "two")) == "You said this. two"
    assert session.generation == 1
    _, answer = sessions.begin("demo", None)
    events = await read(answer)
    assert (events[0].data["generation"], events[0].data["tools"]) == (2, [])
    assert events[1].data["text"] == "New."
    await session.end("completed", "caller_hangup")
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def test_what_a_context_looks_up_before_and_does_after(parlour: Parlour) -> None:
    context = {
        "tools": [],
        "pre_call_timeout_ms": 30_000,
        "greeting": "For {caller_name}: {note.text|nothing}.",
        "pre_call": [
            {"tool": "mcp_s_echo", "arguments": {"text": "{call.caller_number}"}, "save_as": "note"}
        ],
        "post_call": [
            {"tool": "mcp_s_echo", "arguments": {"text": "{call.transcript_text}"}},
        ],
    }

    async def answer(script: Script, text: str) -> AsyncGenerator[str, None]:
        yield f"Your number is {script.sessions[-1].greeting}"

    sessions = await opened(parlour, answer, contexts={"demo": context})
    given = {"caller_name": "Ada", "caller_number": "4711"}
    session, first = sessions.begin("demo", "hello", given)
    events = await read(first)
    assert events[0].data["tools"] == [], "the agent has no such tool"
    assert events[1].data == {"turn": 0, "text": "For Ada: 4711."}
    assert words(events) == "Your number is For Ada: 4711."
    await session.end("completed", "caller_hangup")
    types = [line["type"] for line in parlour.ledger(session.session_id)]
    assert types[3:6] == ["tool.asked", "tool.answered", "call.pre_call"]
    (job,) = parlour.jobs
    assert job.call_id == session.session_id
    assert "hello" in job.arguments["text"]
