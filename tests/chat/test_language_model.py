"""A language model in writing: the same loop of tools as in a call, against an emulated service."""

from __future__ import annotations

from typing import Any

from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

from .conftest import Parlour, names, read, say, server, words

TOOLS = ["mcp_s_echo"]
BRAIN = {"type": "openai_chat", "api_key": "test-key", "max_retries": 0}


async def open_with(parlour: Parlour, url: str, **more: Any) -> Any:
    context = {"prompt": "Be kind.", "greeting": "Good day.", "provider": "cloud", "tools": TOOLS}
    return await parlour.open(
        None,
        providers={"cloud": {"type": "pipeline", "brain": {**BRAIN, "base_url": url}}},
        contexts={"demo": {**context, **more.pop("context", {})}},
        mcp={"servers": {"s": server()}},
        **more,
    )


async def test_it_runs_tools_and_remembers(parlour: Parlour) -> None:
    asks = (Use("mcp_s_echo", {"text": "one"}), Use("mcp_s_echo", {"text": "two"}))
    script = Script(
        (Answer("One moment.", asks=asks, then="Both are done."), Answer("Goodbye.")),
        thinking_ms=1,
    )
    async with OpenAITextEmulator(script) as emulator:
        sessions = await open_with(parlour, emulator.url)
        session, answer = sessions.begin("demo", "say one and two", {})
        first = await read(answer)
        assert words(first) == "One moment. Both are done."
        assert names(first).count("tool_result") == 2
        assert words(await say(session, "bye")) == "Goodbye."
        await session.end("completed", "caller_hangup")
        assert emulator.violations == []
        roles = [message["role"] for message in emulator.asked[-1]["messages"]]
        assert roles == [
            "system", "user", "assistant", "user", "assistant", "tool", "tool", "assistant", "user"
        ]  # fmt: skip
        lines = parlour.ledger(session.session_id)
        used = [line for line in lines if line["type"] == "agent.used"]
        assert [line["provider"] for line in used] == ["openai_chat"] * 3
        assert [line["tool"] for line in lines if line["type"] == "tool.asked"] == [
            "mcp:s:echo", "mcp:s:echo"
        ]  # fmt: skip


async def test_a_failure_is_told_and_the_conversation_goes_on(parlour: Parlour) -> None:
    script = Script(
        (Answer("Never heard."), Answer("Here I am.")),
        faults=(Fault("answer", "refuse", 500),),
        thinking_ms=1,
    )
    async with OpenAITextEmulator(script) as emulator:
        sessions = await open_with(parlour, emulator.url)
        session, answer = sessions.begin("demo", "hello", {})
        (error,) = [event.data for event in await read(answer) if event.name == "error"]
        assert error["code"] == "agent_failed"
        assert "500" in error["message"]
        assert words(await say(session, "hello?")) != ""
        await session.end("completed", "caller_hangup")


async def test_a_budget_ends_it_politely(parlour: Parlour) -> None:
    script = Script((Answer("That was expensive."),), thinking_ms=1)
    units = ("input_text_tokens", "cached_text_tokens", "output_text_tokens")
    prices = {"currency": "EUR", "models": {"openai_chat/gpt-5.4": dict.fromkeys(units, 1_000_000)}}
    async with OpenAITextEmulator(script) as emulator:
        sessions = await open_with(
            parlour,
            emulator.url,
            prices=prices,
            context={"budget": {"max_cost_per_call": 0.5, "goodbye": "The budget is used up."}},
        )
        _, answer = sessions.begin("demo", "hello", {})
        events = await read(answer)
        assert words(events) == "That was expensive. The budget is used up."
        assert events[-1].data["reason"] == "budget"


async def test_a_writer_may_choose_another_model(parlour: Parlour) -> None:
    """By the name of the provider, and by that of its model; the context's own are the rules."""
    script = Script((Answer("I am the model."),), otherwise=Answer("I am the model."))
    async with OpenAITextEmulator(script) as emulator:
        brain = {**BRAIN, "model": "gpt-5.4-mini", "base_url": emulator.url}
        sessions = await parlour.open(
            None,
            providers={
                "local": {"type": "pipeline"},
                "cloud": {"type": "pipeline", "brain": brain},
            },
            contexts={"demo": {"provider": "local", "tools": []}},
        )
        for model in ("cloud", "gpt-5.4-mini"):
            session, answer = sessions.begin(None, "hello", {}, model)
            events = await read(answer)
            assert words(events) == "I am the model."
            assert (session.context_name, session.provider_name) == ("demo", "cloud")
            await session.end("completed", "caller_hangup")
        session, answer = sessions.begin("demo", "hello")
        assert "model" not in words(await read(answer))
        await session.end("completed", "caller_hangup")
