"""Fallback between real realtime agents, each at an emulated service on a real websocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from tests.agents.realtime.plain_service import Caller

from cordboard.agent_api.agent import (
    Agent,
    AgentAudioDone,
    AgentFailed,
    AgentTrouble,
    AgentWords,
    CallerStopped,
    CallerText,
    ToolAsked,
)
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.providers import Providers
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.config.schema import Config
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

BOOK = ToolSpec(
    "book", "mcp", "Books.", {"type": "object", "properties": {}}, effects=Effects.DESTRUCTIVE
)
SPEECH = linear_to_ulaw((8000 * np.sin(np.arange(8000 // 2) * 0.3)).astype("<i2").tobytes())
SILENCE = ULAW_8K.silence(700)


class Talk:
    """A caller, an agent with another behind it, and the services of the two."""

    def __init__(self, first: OpenAIRealtimeEmulator, second: OpenAIRealtimeEmulator) -> None:
        self.first, self.second = first, second
        providers = {
            name: {
                "type": "openai_realtime",
                "base_url": emulator.url,
                "api_key": emulator.key,
                "reconnect_attempts": 0,
            }
            for name, emulator in (("one", first), ("two", second))
        }
        context = {"provider": "one", "fallback": ["two"]}
        config = Config.model_validate({"providers": providers, "contexts": {"a": context}})
        self.health = ProviderHealth()
        self.caller = Caller("Hello, this is Ada.", (BOOK,))
        self.agent: Agent = Providers(config, None, environ={}, health=self.health).open("a", "one")
        self.caller.agent = self.agent  # type: ignore[assignment]

    def say(self) -> None:
        sound = SPEECH + SILENCE
        for at in range(0, len(sound), 160):
            self.agent.hear(sound[at : at + 160])

    async def be_silent(self) -> None:
        """Let time pass on the line, faster than it does."""
        while True:
            self.agent.hear(ULAW_8K.silence())
            await asyncio.sleep(0.005)

    async def until(self, kind: type, count: int = 1) -> Any:
        async with asyncio.timeout(60):
            return await self.caller.until(kind, count)

    def words(self, turn: int) -> str:
        events = self.caller.of(AgentWords)
        return "".join(event.text for event in events if event.turn == turn)

    def check(self) -> None:
        assert [each for each in self.first.violations if "401" not in each] == []
        assert not self.second.violations
        assert not self.caller.of(AgentFailed)
        turns = [event.turn for event in self.caller.of(CallerStopped)]
        assert turns == sorted(set(turns)), "turns were counted twice or backwards"


@contextlib.asynccontextmanager
async def talking(first: Script, second: Script, **slow: float) -> AsyncIterator[Talk]:
    """`slow`: of the first service."""
    async with (
        OpenAIRealtimeEmulator(first, speed=20.0, **slow) as one,
        OpenAIRealtimeEmulator(second, speed=20.0) as two,
    ):
        talk = Talk(one, two)
        try:
            await talk.agent.start(talk.caller.session)
            silence = asyncio.create_task(talk.be_silent())
            yield talk
            silence.cancel()
        finally:
            await talk.agent.close()


def script(*answers: Answer, faults: tuple[Fault, ...] = ()) -> Script:
    return Script(answers, faults=faults, thinking_ms=5)


async def test_the_next_service_answers_what_the_first_was_lost_over() -> None:
    """It was lost before it had written down what the caller said: that is heard again."""
    first = script(
        Answer("It is rather sunny today in Bergen."),
        faults=(Fault("sound", "close", code=1011),),
    )
    second = script(Answer("It is.", heard="Is it sunny?"), Answer("Bye."))
    async with talking(first, second, transcription_seconds=60.0) as talk:
        await talk.until(AgentAudioDone)
        assert talk.words(0) == "Hello, this is Ada."
        talk.say()
        await talk.until(AgentAudioDone, 2)
        assert (await talk.until(CallerText)).text == "Is it sunny?"
        assert talk.words(2) == "It is."
        told = str([item.message for item in talk.second.received])
        assert "Hello, this is Ada." in told
        assert talk.health.failures["one"].kind == "dropped"
        assert "two" not in talk.health.failures
        talk.say()
        await talk.until(AgentAudioDone, 3)
        assert talk.words(3) == "Bye."
        talk.check()


async def test_a_service_that_is_lost_between_two_turns() -> None:
    first = script(
        Answer("It is.", heard="Is it sunny?"), faults=(Fault("turn", "close", code=1011, after=1),)
    )
    async with talking(first, script(Answer("Warm.", heard="And warm?"))) as talk:
        await talk.until(AgentAudioDone)
        talk.say()
        await talk.until(AgentAudioDone, 2)
        assert talk.words(1) == "It is."
        await talk.until(CallerText)
        talk.say()
        await talk.until(AgentAudioDone, 3)
        assert talk.words(3) == "Warm."
        told = [
            (item["role"], item["content"][0]["text"])
            for item in (m["item"] for m in talk.second.of_type("conversation.item.create"))
            if item["type"] == "message"
        ]
        assert told == [
            ("assistant", "Hello, this is Ada."),
            ("user", "Is it sunny?"),
            ("assistant", "It is."),
        ]
        talk.check()


async def test_a_first_service_that_refuses_the_key_is_passed_over() -> None:
    refused = script(faults=(Fault("connect", "refuse", code=401),))
    async with talking(refused, script()) as talk:
        await talk.until(AgentAudioDone)
        assert talk.words(0) == "Hello, this is Ada."
        (trouble,) = talk.caller.of(AgentTrouble)
        assert trouble.detail.startswith("one -> two: auth: ")
        assert talk.health.failures["one"].kind == "auth"
        talk.check()


async def test_what_was_booked_before_the_loss_is_told_and_not_booked_again() -> None:
    first = script(
        Answer(asks=(Use("book", {"seats": 2}),), heard="Book it."),
        faults=(Fault("result", "drop"),),
    )
    second = script(Answer(asks=(Use("book", {"seats": 2}),)))
    async with talking(first, second, transcription_seconds=60.0) as talk:
        await talk.until(AgentAudioDone)
        talk.say()
        ask = (await talk.until(ToolAsked)).ask
        talk.agent.answer_tool(ToolReply(ask.ask_id, "book", Status.OK, "It is booked."))
        await talk.until(AgentAudioDone, 2)
        assert talk.words(talk.caller.of(CallerStopped)[-1].turn) == "It is booked."
        assert len(talk.caller.of(ToolAsked)) == 1, "it was booked twice"
        (instructions,) = {
            message["session"]["instructions"]
            for message in talk.second.of_type("session.update")
            if "instructions" in message["session"]
        }
        assert "It is booked." in instructions
        talk.check()
