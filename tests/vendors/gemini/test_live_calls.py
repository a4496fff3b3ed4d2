"""Gemini Live whole: the shell and its protocol against the strict emulator, by TLS."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from tests.agents.realtime.plain_service import Caller

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentFailed,
    AgentTrouble,
    AgentWords,
    CallerPartial,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
    Used,
)
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.audio.format import SLIN_8K
from cordboard.errors import AgentError
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.live.protocol import GeminiProtocol
from cordboard_testkit.emulators.gemini.live import KEY, GeminiLiveEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
BOOK = dataclasses.replace(WEATHER, name="book", effects=Effects.DESTRUCTIVE)


class Talk:
    """One call with the emulated service."""

    def __init__(self, emulator: GeminiLiveEmulator, caller: Caller, agent: RealtimeAgent) -> None:
        self.emulator, self.caller, self.agent = emulator, caller, agent

    def speak(self, ms: int = 300, silence_ms: int = 600) -> None:
        """The caller speaks, at once: the emulator's clock is the sound."""
        times = np.arange(8 * ms) / 8_000
        speech = (8000 * np.sin(2 * np.pi * 300 * times)).astype("<i2").tobytes()
        pcm = speech + bytes(16 * silence_ms)
        for start in range(0, len(pcm), 320):
            self.agent.hear(pcm[start : start + 320])

    async def asked(self, count: int = 1) -> str:
        event = await self.caller.until(ToolAsked, count)
        return str(event.ask.ask_id)

    def answer(self, ask_id: str, message: str) -> None:
        self.agent.answer_tool(ToolReply(ask_id, "x", Status.OK, message))

    @property
    def words(self) -> str:
        return "".join(event.text for event in self.caller.of(AgentWords))

    async def until_said(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.words:
                await self.caller.until(AgentWords, len(self.caller.of(AgentWords)) + 1)


@contextlib.asynccontextmanager
async def talking(
    script: Script,
    greeting: str = "",
    start: bool = True,
    guess: str = "",
    **settings: Any,
) -> AsyncIterator[Talk]:
    async with GeminiLiveEmulator(script, pace=50, versions=("v1beta",), guess=guess) as emulator:
        values = {"type": "gemini_live", "base_url": emulator.url, **settings}
        provider = GeminiLiveProvider.model_validate(values)
        caller = Caller(greeting, (WEATHER, BOOK))
        caller.session = dataclasses.replace(caller.session, format=SLIN_8K)
        parts = RealtimeParts(emulator.certificate.client_context)
        protocol = GeminiProtocol(provider, KEY)
        agent = caller.agent = RealtimeAgent(protocol, provider, "gemini_live", parts)
        if start:
            await agent.start(caller.session)
        try:
            yield Talk(emulator, caller, agent)
        finally:
            await agent.close()


def script(*answers: Answer, faults: tuple[Fault, ...] = ()) -> Script:
    return Script(answers, faults=faults, thinking_ms=5)


async def test_a_greeting_a_turn_and_a_tool() -> None:
    book = Answer(asks=(Use("book"),), then="Done: {results}", heard="Book a table.")
    async with talking(script(book), greeting="Good day.") as talk:
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Good day."
        talk.speak()
        talk.answer(await talk.asked(), "Booked.")
        await talk.until_said("Done: Booked.")
        await talk.caller.until(AgentAudioDone, 2)
        assert talk.caller.of(CallerText)[0].text == "Book a table."
        so_far = [event.text for event in talk.caller.of(CallerPartial)]
        assert so_far == ["Book a", "Book a table."]  # the emulator sends two halves
        assert (await talk.caller.until(Used)).usage.provider == "gemini_live"
        sound = b"".join(event.pcm for event in talk.caller.of(AgentAudio))
        assert len(sound) > 16 * 500
        assert talk.emulator.violations == []


async def test_words_before_a_tool_and_a_slow_result() -> None:
    book = Answer("One moment.", asks=(Use("book"),), then="Done: {results}")
    async with talking(script(book)) as talk:
        talk.speak()
        ask_id = await talk.asked()
        for _ in range(35):  # 0.7 s, beyond which the emulator closes for sound
            talk.speak(20, 0)
            await asyncio.sleep(0.02)
        talk.answer(ask_id, "Booked.")
        await talk.until_said("Done: Booked.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "One moment.Done: Booked."
        assert talk.emulator.violations == []


async def test_two_tools_that_the_model_waits_for_are_answered_together() -> None:
    both = Answer(asks=(Use("book"), Use("book", {"a": 1})), then="So: {results}")
    async with talking(script(both)) as talk:
        talk.speak()
        first, second = await talk.asked(1), await talk.asked(2)
        talk.answer(second, "Two.")
        await asyncio.sleep(0.6)
        talk.speak(0, 20)
        talk.answer(first, "One.")
        talk.speak(0, 20)
        await talk.until_said("So: One. Two.")
        await talk.caller.until(AgentAudioDone)
        assert talk.emulator.violations == []


async def test_two_tools_beside_the_conversation_make_one_answer() -> None:
    both = Answer(asks=(Use("weather"), Use("weather", {"a": 1})), then="So: {results}")
    async with talking(script(both), function_behavior="non_blocking") as talk:
        talk.speak()
        first, second = await talk.asked(1), await talk.asked(2)
        talk.answer(second, "Two.")
        talk.answer(first, "One.")
        await talk.until_said("So: Two. One.")
        await talk.caller.until(AgentAudioDone)
        assert talk.emulator.violations == []


GUESS = "It is fifteen degrees with some clouds, I should think, but let me see."


async def test_the_model_does_not_answer_a_look_up_out_of_its_head() -> None:
    ask = Answer(asks=(Use("weather"),), then="It says: {results}")
    async with talking(script(ask), guess=GUESS) as talk:
        talk.speak()
        talk.answer(await talk.asked(), "Fog, 12 degrees.")
        await talk.until_said("It says: Fog, 12 degrees.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "It says: Fog, 12 degrees."
        assert talk.emulator.violations == []


async def test_a_result_beside_the_conversation_cuts_what_the_model_makes_up() -> None:
    ask = Answer(asks=(Use("weather"),), then="It says: {results}")
    async with talking(script(ask), guess=GUESS, function_behavior="non_blocking") as talk:
        talk.speak()
        ask_id = await talk.asked()
        await talk.caller.until(AgentAudio)
        talk.caller.speaking = True
        talk.answer(ask_id, "Fog, 12 degrees.")
        await talk.caller.until(Interrupted)
        await talk.until_said("It says: Fog, 12 degrees.")
        assert GUESS not in talk.words
        assert not talk.caller.of(AgentTrouble)
        assert talk.emulator.violations == []


async def test_extended_thinking_holds_a_conversation_with_a_tool() -> None:
    book = Answer(asks=(Use("book"),), then="Done: {results}")
    async with talking(script(book), model="gemini-3.8-live-extended-thinking") as talk:
        talk.speak()
        talk.answer(await talk.asked(), "Booked.")
        await talk.until_said("Done: Booked.")
        assert talk.emulator.violations == []


async def test_barge_in_cuts_the_answer() -> None:
    async with talking(script(Answer("A very long answer " * 40), Answer("Short."))) as talk:
        talk.speak()
        await talk.caller.until(AgentAudio, 5)
        talk.caller.speaking = True
        talk.speak()
        await talk.caller.until(Interrupted)
        await talk.until_said("Short.")
        assert len(talk.caller.of(CallerText)) == 2
        assert talk.emulator.violations == []


@pytest.mark.parametrize("tool", ["book", "weather"])
async def test_a_result_is_taken_within_a_second_of_a_forced_1011(tool: str) -> None:
    """At the first of three attempts, unless the machine is busy."""
    took: list[float] = []
    while len(took) < 3 and min(took, default=1.0) >= 1.0:
        took.append(await seconds_until_a_result_is_taken(tool))
    assert min(took) < 1.0


async def seconds_until_a_result_is_taken(tool: str) -> float:
    """In a conversation whose connection is closed with 1011 after the call of the tool."""
    ask = Answer(asks=(Use(tool),), then="It says: {results}")
    fault = Fault("ask", "close", code=1011)
    behavior = "by_effects"  # so that the model waits for one of the two
    async with talking(script(ask, faults=(fault,)), function_behavior=behavior) as talk:
        talk.speak()
        ask_id = await talk.asked()
        clock = asyncio.get_running_loop().time
        begun = clock()
        await talk.caller.until(AgentTrouble)
        talk.answer(ask_id, "Four.")
        await talk.until_said("It says: Four.")
        took = clock() - begun
        assert talk.emulator.connections == 2
        assert talk.emulator.violations == []
        return took


@pytest.mark.parametrize("tool", ["book", "weather"])
@pytest.mark.parametrize("do", ["close", "drop"])
async def test_a_result_that_the_loss_swallowed_is_given_again(tool: str, do: Any) -> None:
    ask = Answer(asks=(Use(tool),), then="It says: {results}")
    fault = Fault("result", do, code=1011 if do == "close" else 0)
    behavior = "by_effects"
    async with talking(script(ask, faults=(fault,)), function_behavior=behavior) as talk:
        talk.speak()
        talk.answer(await talk.asked(), "Four.")
        await talk.until_said("It says: Four.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words.count("Four.") == 1
        assert talk.emulator.violations == []


async def test_a_service_that_fell_silent_is_left_and_the_answer_comes_from_the_next() -> None:
    ask = Answer(asks=(Use("book"),), then="It says: {results}")
    async with talking(script(ask, faults=(Fault("result", "stall"),))) as talk:
        talk.speak()
        talk.answer(await talk.asked(), "Four.")
        await talk.emulator.until("toolResponse")
        assert talk.agent.recover("no answer")
        await talk.until_said("It says: Four.")
        assert talk.emulator.connections == 2
        assert talk.emulator.violations == []


async def test_a_handle_that_ran_out_is_replaced_by_the_conversation_so_far() -> None:
    answers = (Answer("Hello you."), Answer("Fine."))
    async with talking(script(*answers, faults=(Fault("answer", "close", 1011, 1),))) as talk:
        talk.speak()
        await talk.caller.until(AgentAudioDone)
        talk.emulator.forget_handles()
        talk.speak()
        await talk.until_said("Fine.")
        assert talk.emulator.connections == 3
        assert talk.emulator.violations == ["1008: Invalid session resumption handle."]
        setup = talk.emulator.messages("setup")[-1]
        assert setup["historyConfig"] == {"initialHistoryInClientContent": True}


async def test_the_service_goes_away_and_the_call_goes_on() -> None:
    answers = (Answer("Hello you."), Answer("Fine."))
    async with talking(script(*answers, faults=(Fault("turn", "go_away"),))) as talk:
        talk.speak()
        await talk.until_said("Hello you.")
        await talk.caller.until(AgentAudioDone)
        async with asyncio.timeout(60):
            while talk.emulator.connections < 2 or not talk.caller.of(AgentTrouble):
                talk.speak(0, 20)
                await asyncio.sleep(0.02)
        talk.speak()
        await talk.until_said("Fine.")
        assert talk.emulator.close_codes == []


async def test_tools_that_are_taken_back_are_never_answered() -> None:
    ask = Answer(asks=(Use("book"),))
    async with talking(script(ask, Answer("On."), faults=(Fault("ask", "cancel_tool"),))) as talk:
        talk.speak()
        ask_id = await talk.asked()
        await talk.caller.until(ToolCancelled)
        talk.answer(ask_id, "Too late.")
        talk.speak()
        await talk.until_said("On.")
        assert talk.emulator.messages("toolResponse") == []
        assert talk.emulator.violations == []


@pytest.mark.parametrize("do", ["garbage", "duplicate"])
async def test_what_makes_no_sense_changes_nothing(do: Any) -> None:
    ask = Answer(asks=(Use("weather"),), then="It says: {results}")
    async with talking(script(ask, faults=(Fault("ask", do), Fault("answer", do)))) as talk:
        talk.speak()
        talk.answer(await talk.asked(), "Four.")
        await talk.until_said("It says: Four.")
        assert len(talk.caller.of(ToolAsked)) == 1
        assert not talk.caller.of(AgentFailed)


async def test_a_version_without_the_live_api_is_named_and_not_tried_again() -> None:
    async with talking(script(), start=False, api_version="v1") as talk:
        with pytest.raises(AgentError, match="`api_version: v1`") as refused:
            await talk.agent.start(talk.caller.session)
        assert refused.value.kind == "refused"


async def test_a_wrong_key_and_a_wrong_model_are_not_tried_again() -> None:
    async with talking(script(), start=False, model="gemini-9") as talk:
        with pytest.raises(AgentError, match="not found") as refused:
            await talk.agent.start(talk.caller.session)
        assert refused.value.kind == "refused"
        assert talk.emulator.connections == 1
    async with GeminiLiveEmulator(key="another") as emulator:
        values = {"type": "gemini_live", "base_url": emulator.url}
        provider = GeminiLiveProvider.model_validate(values)
        parts = RealtimeParts(emulator.certificate.client_context)
        agent = RealtimeAgent(GeminiProtocol(provider, KEY), provider, "gemini_live", parts)
        with pytest.raises(AgentError) as denied:
            await agent.prepare()
        assert denied.value.kind == "auth"
        assert str(denied.value) == "Gemini does not accept the API key (HTTP 401)"
        assert KEY not in str(denied.value)
        await agent.close()
