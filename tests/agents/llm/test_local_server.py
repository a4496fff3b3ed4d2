"""A model on a server of one's own that is cold: it is waited for, and reads ahead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.agents.llm.scripted_model import WEATHER
from tests.agents.llm.test_services import Call

from cordboard.agents.llm import local_server
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.making import model_brain
from cordboard.errors import BrainError
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script

MODEL = "qwen3:8b"
HELLO = (Answer("Hello."), Answer("Bye."))


@asynccontextmanager
async def served(
    *, key: str = "", model: str = MODEL, faults: tuple[Fault, ...] = (), **settings: Any
) -> AsyncIterator[tuple[LlmBrain, OpenAITextEmulator]]:
    script = Script(HELLO, faults=faults, thinking_ms=1)
    async with OpenAITextEmulator(script, key=key, models=(model,)) as emulator:
        told = {"base_url": emulator.url, "model": model, "max_retries": 0, **settings}
        brain = model_brain(OpenAIChatBrain(type="openai_chat", api_key=key or None, **told), {})
        try:
            yield brain, emulator
        finally:
            await brain.close()
        assert emulator.violations == []


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - the service's side gives no event
            await asyncio.sleep(0.01)


async def test_a_cold_server_has_more_time_and_a_warm_one_has_not() -> None:
    async with served(first_token_ms=1_000) as (brain, emulator):
        emulator.cold_seconds = 2.0
        call = Call(brain, emulator)
        assert await call.say("hi") == "Hello."
    faults = (Fault("answer", "stall", after=2),)
    async with served(first_token_ms=2_000, faults=faults) as (brain, emulator):
        call = Call(brain, emulator)
        await until(lambda: emulator.connections == 1)
        assert await call.say("hi") == "Hello."
        with pytest.raises(BrainError) as failure:
            await call.say("bye")
        assert failure.value.kind == "stalled"


@pytest.mark.parametrize("model", [MODEL, "gpt-5.4-mini"])
async def test_each_prompt_is_read_ahead_at_the_start(model: str) -> None:
    """Also of a model behind a gateway that refuses `max_tokens`: `served` has no violations. The
    emulated model does not stop by itself."""
    async with served(model=model) as (brain, emulator):
        for prompt in ("Be kind.", "Be brief."):
            await asyncio.to_thread(brain.warm, (WEATHER,), prompt)
        assert emulator.asked == []
        brain.begin()
        await until(lambda: len(emulator.asked) == 2)
        call = Call(brain, emulator)
        assert await call.say("hi") == "Hello."
        first, _, asked = emulator.asked
        assert emulator.gave_up == 2
        assert asked["messages"][:2] == first["messages"], "the call begins as it was read"
        assert asked["tools"] == first["tools"]


async def test_a_call_that_finds_it_cold_lets_it_read_while_the_greeting_is_spoken() -> None:
    async with served() as (brain, emulator):
        call = Call(brain, emulator)
        await until(lambda: len(emulator.asked) == 1)
        assert emulator.asked[0]["messages"][-1] == {"role": "assistant", "content": "Welcome."}
        assert await call.say("hi") == "Hello."
        await call.say("bye")
        assert len(emulator.asked) == 3, "a server that has just answered is not cold"


async def test_a_call_without_a_greeting_gives_a_warm_server_nothing_to_read() -> None:
    """It would read between the caller's turns, and might forget the conversation for that."""
    async with served() as (brain, emulator):
        await asyncio.to_thread(brain.warm, (WEATHER,), "Be kind.")
        brain.begin()
        await until(lambda: len(emulator.asked) == 1)
        for _ in range(2):
            assert await Call(brain, emulator, greeting="").say("hi") == "Hello."
        await asyncio.sleep(0.2)
        assert len(emulator.asked) == 3


async def test_a_server_that_cannot_be_read_ahead_answers_all_the_same() -> None:
    async with served(faults=(Fault("answer", "refuse", 500),)) as (brain, emulator):
        call = Call(brain, emulator)
        await until(lambda: emulator.connections == 1)
        assert await call.say("hi") == "Hello."


@pytest.mark.parametrize(
    "settings", [{"key": "k"}, {"cold_start_ms": 0}], ids=["with a key", "switched off"]
)
async def test_other_services_are_not_asked_before_there_is_a_question(
    settings: dict[str, Any],
) -> None:
    async with served(**settings) as (brain, emulator):
        await asyncio.to_thread(brain.warm, (WEATHER,), "Be kind.")
        brain.begin()
        call = Call(brain, emulator)
        assert await call.say("hi") == "Hello."
        assert len(emulator.asked) == 1


async def test_a_caller_does_not_wait_for_the_reading_of_other_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_server, "IDLE_SECONDS", 0.1)
    async with served() as (brain, emulator):
        call = Call(brain, emulator)
        await until(lambda: len(emulator.asked) == 1 and not readings())
        assert await call.say("hi") == "Hello."
        emulator.cools_down(600.0)
        await asyncio.to_thread(brain.warm, (WEATHER,), "Be brief.")
        brain.begin()
        await until(lambda: len(emulator.asked) == 3)
        held = readings()
        emulator.cools_down(0.0)
        assert await call.say("bye") == "Bye."
        assert [task.cancelled() for task in held] == [True], "it was left for the caller"
        await until(lambda: len(emulator.asked) == 5)
        assert emulator.asked[-1] == emulator.asked[2], "and is read when the server is idle"


def readings() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if "_read_ahead" in repr(task.get_coro())]


def greetings(emulator: OpenAITextEmulator) -> list[str]:
    """The greetings of the conversations that the server was given to read."""
    return [body["messages"][-1]["content"] for body in emulator.asked]


async def test_the_conversation_of_a_call_that_has_ended_is_not_read() -> None:
    async with served() as (brain, emulator):
        emulator.cold_seconds = 2.0
        calls = [Call(brain, emulator, greeting) for greeting in ("One.", "Two.", "Three.")]
        await until(lambda: len(emulator.asked) == 1)
        calls[1].dialogue.close()
        await until(lambda: not readings())
        assert sorted(greetings(emulator)) == ["One.", "Three."]


async def test_a_reading_is_given_up_when_its_call_ends_and_the_next_one_is_read() -> None:
    async with served() as (brain, emulator):
        emulator.cold_seconds = 1.0
        calls = {said: Call(brain, emulator, said) for said in ("One.", "Two.", "Three.")}
        await until(lambda: len(emulator.asked) == 1)
        emulator.cools_down(600.0)
        await until(lambda: len(emulator.asked) == 2)
        (held,) = readings()
        emulator.cools_down(0.0)
        calls[greetings(emulator)[1]].dialogue.close()
        await until(lambda: len(emulator.asked) == 3 and not readings())
        assert held.cancelled()
        assert set(greetings(emulator)) == set(calls)


async def test_a_model_that_is_being_loaded_is_not_given_up_with_the_call() -> None:
    async with served() as (brain, emulator):
        emulator.cold_seconds = 1.5
        call = Call(brain, emulator)
        await until(lambda: len(emulator.asked) == 1)
        call.dialogue.close()
        (held,) = readings()
        await asyncio.wait((held,))
        assert not held.cancelled()


async def test_closing_leaves_no_reading_behind() -> None:
    async with served() as (brain, emulator):
        emulator.cold_seconds = 600.0
        await asyncio.to_thread(brain.warm, (WEATHER,), "Be kind.")
        brain.begin()
        await until(lambda: len(emulator.asked) == 1)
        await brain.close()
        assert readings() == []
