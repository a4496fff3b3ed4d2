"""Whole conversations with the emulated OpenAI Live: the real shell, a real websocket."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
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
    CallerStarted,
    CallerStopped,
    CallerText,
    ToolAsked,
    ToolCancelled,
    Used,
)
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.errors import AgentError
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAILiveProvider
from cordboard.vendors.openai.live.protocol import OpenAILiveProtocol
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SPEECH = linear_to_ulaw((8000 * np.sin(np.arange(8000 // 2) * 0.3)).astype("<i2").tobytes())
"""0.5 s of a tone."""
SILENCE = ULAW_8K.silence(600)
SUN = Answer(
    asks=(Use("weather", {"day": 1}), Use("weather", {"day": 2})), heard="And the weather?"
)


class Conversation:
    """A caller on a line with the emulator."""

    def __init__(self, emulator: OpenAILiveEmulator, greeting: str, **values: Any) -> None:
        values = {"type": "openai_live", "base_url": emulator.url, **values}
        settings = OpenAILiveProvider.model_validate(values)
        self.emulator = emulator
        self.caller = Caller(greeting, (WEATHER,))
        protocol = OpenAILiveProtocol(settings, emulator.key)
        self.agent = RealtimeAgent(protocol, settings, "openai_live", RealtimeParts(TLS))
        self.caller.agent = self.agent

    def say(self, sound: bytes = SPEECH + SILENCE) -> None:
        for at in range(0, len(sound), 160):
            self.agent.hear(sound[at : at + 160])

    async def until(self, kind: type, count: int = 1) -> Any:
        async with asyncio.timeout(60):
            return await self.caller.until(kind, count)

    def words(self, turn: int) -> str:
        events = self.caller.of(AgentWords)
        return "".join(event.text for event in events if event.turn == turn)

    async def answer_both(self) -> None:
        await self.until(ToolAsked, 2)
        for ask, message in zip(self.caller.of(ToolAsked), ("Sun.", "Rain."), strict=False):
            self.agent.answer_tool(ToolReply(ask.ask.ask_id, "weather", Status.OK, message))


@contextlib.asynccontextmanager
async def talking(
    *answers: Answer, faults: tuple[Fault, ...] = (), greeting: str = "", **values: Any
) -> AsyncIterator[Conversation]:
    script = Script(answers, faults=faults, thinking_ms=5)
    async with OpenAILiveEmulator(script, speed=values.pop("speed", 20.0)) as emulator:
        conversation = Conversation(emulator, greeting, **values)
        try:
            await conversation.agent.start(conversation.caller.session)
            yield conversation
        finally:
            await conversation.agent.close()


async def test_a_greeting_a_turn_with_two_tools_and_the_answer() -> None:
    async with talking(SUN, greeting="Hello, this is Ada.") as talk:
        await talk.until(AgentAudioDone)
        assert talk.words(0) == "Hello, this is Ada."
        talk.say()
        await talk.answer_both()
        await talk.until(AgentAudioDone, 2)
        (text,) = talk.caller.of(CallerText)
        assert (text.turn, text.text) == (1, "And the weather?")
        assert talk.words(1) == "Sun. Rain."
        assert [ask.ask.arguments for ask in talk.caller.of(ToolAsked)] == [{"day": 1}, {"day": 2}]
        assert len(talk.emulator.of_type("response.create")) == 1
        used: dict[str, dict[str, float]] = {}
        for event in talk.caller.of(Used):
            amounts = used.setdefault(event.usage.model, {})
            for unit, amount in event.usage.amounts.items():
                amounts[unit] = amounts.get(unit, 0) + amount
        assert used["gpt-5.4-mini"] == {
            "input_text_tokens": 120,
            "cached_text_tokens": 80,
            "output_text_tokens": 40,
        }
        assert used["gpt-live-1"]["seconds"] >= 1
        assert not talk.emulator.violations
        (start,) = talk.emulator.of_type("session.start")
        session = start["session"]
        assert session["audio"]["format"] == {"type": "audio/pcmu", "rate": 8000}
        backend = session["delegation"]["responses"]
        assert [tool["name"] for tool in backend["tools"]] == ["weather"]


async def test_the_silent_track_is_not_passed_on() -> None:
    async with talking(Answer("It is nine.", heard="What time is it?")) as talk:
        talk.say()
        await talk.until(AgentAudioDone)
        heard_ms = sum(len(event.pcm) for event in talk.caller.of(AgentAudio)) // 8
        assert 11 * 40 <= heard_ms <= 11 * 60 + 2 * 40 + 100 + 500
        await asyncio.sleep(0.2)  # 4 s of the track
        assert sum(len(event.pcm) for event in talk.caller.of(AgentAudio)) // 8 == heard_ms


async def test_the_caller_interrupts() -> None:
    story = "Once upon a time there was a telephone exchange on a hill " + "far away " * 20
    async with talking(Answer(story), Answer("Yes?", heard="Stop please."), speed=5.0) as talk:
        talk.say()
        await talk.until(AgentAudio)
        sound = SPEECH + SILENCE
        for at in range(0, len(sound), 160):  # as fast as the track
            talk.agent.hear(sound[at : at + 160])
            await asyncio.sleep(0.02 / 5)
        await talk.until(CallerText, 2)
        await talk.until(AgentAudioDone, 2)
        assert [text.text for text in talk.caller.of(CallerText)] == ["something", "Stop please."]
        assert len(talk.words(1)) < len(story)
        assert talk.words(2) == "Yes?"
        assert len(talk.caller.of(CallerStarted)) == len(talk.caller.of(CallerStopped)) == 2


async def test_a_task_that_fails_takes_back_its_calls() -> None:
    async with talking(SUN, faults=(Fault("ask", "error"),)) as talk:
        talk.say()
        await talk.until(ToolCancelled, 2)
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "That did not work."
        for ask in talk.caller.of(ToolAsked):
            talk.agent.answer_tool(ToolReply(ask.ask.ask_id, "weather", Status.OK, "Sun."))
        assert not talk.emulator.of_type("response.item.create")


@pytest.mark.parametrize("fault", [Fault("sound", "drop"), Fault("sound", "go_away")])
async def test_another_connection_knows_the_conversation(fault: Fault) -> None:
    answers = (Answer("It is nine o'clock now."), Answer("And now it is ten."))
    async with talking(*answers, faults=(fault,)) as talk:
        talk.say()
        await talk.until(AgentTrouble)
        await talk.until(AgentAudioDone)
        starts = talk.emulator.of_type("session.start")
        assert len(starts) == 2
        said = [item["content"][0]["text"] for item in starts[1]["session"]["input"]]
        assert "something" in said
        assert not talk.emulator.violations


async def test_a_result_of_a_lost_connection_is_told_in_words() -> None:
    async with talking(SUN, speed=20.0) as talk:
        talk.say()
        await talk.until(ToolAsked, 2)
        talk.emulator.sessions[0]._connection.transport.abort()
        await talk.until(AgentTrouble)
        await talk.answer_both()
        await talk.until(AgentAudioDone)
        told = [each["content"] for each in talk.emulator.of_type("session.commentary.append")]
        assert any("Sun." in text for text in told)
        assert not talk.emulator.violations


@pytest.mark.parametrize(
    ("values", "kind"),
    [({"model": "gpt-live-9"}, "refused"), ({"voice": "nobody"}, "refused")],
)
async def test_what_the_service_does_not_have_is_refused(values: dict[str, Any], kind: str) -> None:
    with pytest.raises(AgentError) as raised:
        async with talking(**values):
            pass
    assert raised.value.kind == kind


async def test_a_backend_that_cannot_be_used_ends_the_agent() -> None:
    async with talking(SUN, delegation={"model": "gpt-nonsense"}) as talk:
        talk.say()
        assert (await talk.until(AgentFailed)).kind == "refused"


async def test_a_wrong_key_is_refused_and_not_shown() -> None:
    async with OpenAILiveEmulator(key="sk-right") as emulator:
        emulator_key, emulator.key = emulator.key, "sk-other"
        talk = Conversation(emulator, "")
        talk.agent._protocol._key = emulator_key  # type: ignore[attr-defined]
        with pytest.raises(AgentError) as raised:
            await talk.agent.start(talk.caller.session)
        await talk.agent.close()
    assert raised.value.kind == "auth"
    assert emulator_key not in str(raised.value)
