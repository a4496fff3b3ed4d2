"""Whole conversations with the emulated OpenAI Realtime: the real shell, a real websocket."""

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
    AgentBroke,
    AgentFailed,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerPartial,
    CallerText,
    ToolAsked,
    Used,
)
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.errors import AgentError
from cordboard.tools.tool import Status, ToolReply, ToolSpec
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Answer, Do, Fault, Script, Use, When

WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object", "properties": {}})
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SPEECH = linear_to_ulaw((8000 * np.sin(np.arange(8000 // 2) * 0.3)).astype("<i2").tobytes())
"""0.5 s of a tone."""
SILENCE = ULAW_8K.silence(700)
MIDDLE: tuple[When, ...] = ("sound", "answer", "turn")
SUN = Answer(
    asks=(Use("weather", {"day": 1}), Use("weather", {"day": 2})), heard="And the weather?"
)


class Conversation:
    """A caller on a line with the emulator."""

    def __init__(self, emulator: OpenAIRealtimeEmulator, greeting: str, **values: Any) -> None:
        values = {"type": "openai_realtime", "base_url": emulator.url, **values}
        settings = OpenAIRealtimeProvider.model_validate(values)
        self.emulator = emulator
        self.caller = Caller(greeting, (WEATHER,))
        protocol = OpenAIProtocol(settings, emulator.key)
        self.agent = RealtimeAgent(protocol, settings, "openai_realtime", RealtimeParts(TLS))
        self.caller.agent = self.agent

    def say(self, sound: bytes = SPEECH + SILENCE) -> None:
        for at in range(0, len(sound), 160):
            self.agent.hear(sound[at : at + 160])

    async def until(self, kind: type, count: int = 1) -> Any:
        async with asyncio.timeout(60):
            return await self.caller.until(kind, count)

    async def until_said(self, turn: int, ending: str) -> None:
        """Wait for these words at the end of that turn's."""
        async with asyncio.timeout(60):
            while not self.words(turn).endswith(ending):
                count = len(self.caller.of(AgentWords)) + 1
                await self.caller.until(AgentWords, count)

    def words(self, turn: int) -> str:
        events = self.caller.of(AgentWords)
        return "".join(event.text for event in events if event.turn == turn)

    def sound_ms(self, turn: int) -> int:
        pieces = [event.pcm for event in self.caller.of(AgentAudio) if event.turn == turn]
        return sum(map(len, pieces)) // 8

    async def answer_both(self) -> None:
        await self.until(ToolAsked, 2)
        for ask, message in zip(self.caller.of(ToolAsked), ("Sun.", "Rain."), strict=False):
            self.agent.answer_tool(ToolReply(ask.ask.ask_id, "weather", Status.OK, message))


@contextlib.asynccontextmanager
async def talking(
    *answers: Answer, faults: tuple[Fault, ...] = (), greeting: str = "", **values: Any
) -> AsyncIterator[Conversation]:
    script = Script(answers, faults=faults, thinking_ms=5)
    async with OpenAIRealtimeEmulator(script, speed=20.0) as emulator:
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
        assert talk.sound_ms(0) == 16 * 60 + 4 * 40
        talk.say()
        assert (await talk.until(CallerText)).text == "And the weather?"
        so_far = [event.text for event in talk.caller.of(CallerPartial)]
        assert so_far == ["And", "And the", "And the weather?"]
        await talk.answer_both()
        await talk.until(AgentAudioDone, 2)
        assert talk.words(1) == "Sun. Rain."
        asked = [ask.ask.arguments for ask in talk.caller.of(ToolAsked)]
        assert asked == [{"day": 1}, {"day": 2}]
        assert len(talk.emulator.of_type("response.create")) == 2  # the greeting, the results
        used = [event.usage.amounts for event in talk.caller.of(Used)]
        assert len(used) == 4  # three responses, one transcription
        assert not talk.emulator.violations


async def test_what_was_heard_of_an_answer_that_was_cut_is_truncated_there() -> None:
    long = Answer("This is a rather long answer that nobody is going to hear to its end. " * 10)
    async with talking(long, Answer("Yes.")) as talk:
        talk.say()
        await talk.until(AgentAudio, 4)
        talk.caller.speaking, talk.caller.heard = True, ("This is", 250, 1)
        talk.say(SPEECH)
        talk.say(SILENCE)
        await talk.until_said(2, "Yes.")
        (truncated,) = talk.emulator.of_type("conversation.item.truncate")
        assert truncated["audio_end_ms"] == 250
        (session,) = talk.emulator.sessions
        assert session.conversation.truncated == {truncated["item_id"]: 250}
        assert not talk.emulator.violations


async def test_an_answer_that_the_call_has_cut_without_a_voice_is_stopped_at_the_service() -> None:
    long = Answer("This is a rather long answer that nobody is going to hear to its end. " * 10)
    async with talking(long, Answer("Yes.")) as talk:
        talk.say()
        await talk.until(AgentAudio, 3)
        talk.agent.interrupted("This is", 250, 1)
        await talk.until(AgentAudioDone)
        assert len(talk.emulator.of_type("response.cancel")) == 1
        heard = len(talk.caller.of(AgentAudio))
        talk.say()
        await talk.until_said(2, "Yes.")
        assert {event.turn for event in talk.caller.of(AgentAudio)[heard:]} == {2}
        assert not talk.emulator.violations


async def test_results_that_come_after_the_caller_has_gone_on_are_told_all_the_same() -> None:
    async with talking(SUN, Answer("Of course.")) as talk:
        talk.say()
        await talk.until(ToolAsked, 2)
        talk.say()
        await talk.until_said(2, "Of course.")
        await talk.answer_both()
        await talk.until(AgentAudioDone)
        assert talk.words(2) == "Of course.Sun. Rain."
        assert not talk.emulator.violations


@pytest.mark.parametrize("when", ["ask", "result", "answer", "sound"])
@pytest.mark.parametrize("do", ["close", "drop", "go_away"])
async def test_a_connection_that_breaks_in_the_middle_loses_no_result(when: When, do: Do) -> None:
    fault = Fault(when, do, code=1011, after=1 if when == "answer" else 0)
    script = Answer(asks=SUN.asks, then="The weather is as follows: {results}")
    async with talking(script, faults=(fault,)) as talk:
        talk.say()
        await talk.answer_both()
        await talk.until_said(1, "The weather is as follows: Sun. Rain.")
        assert talk.emulator.connections == 2
        assert [event.what for event in talk.caller.of(AgentTrouble)].count("reconnected") == 1
        assert not talk.caller.of(AgentFailed)
        await talk.until(AgentAudioDone)


@pytest.mark.parametrize("do", ["garbage", "duplicate"])
async def test_what_makes_no_sense_disturbs_nothing(do: Do) -> None:
    faults = tuple(Fault(when, do) for when in MIDDLE)
    async with talking(Answer("It is as sunny as can be."), faults=faults) as talk:
        talk.say()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "It is as sunny as can be."
        assert not talk.caller.of(AgentFailed)
        assert talk.emulator.connections == 1


async def test_an_error_of_the_server_in_place_of_an_answer_is_tried_again() -> None:
    fault = Fault("answer", "error", code="server_error")
    async with talking(Answer("At last."), faults=(fault,)) as talk:
        talk.say()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "At last."
        assert not talk.emulator.violations


@pytest.mark.parametrize(("when", "turn"), [("greeting", 0), ("sound", 1)])
async def test_an_answer_that_fails_in_its_middle_is_broken_off_and_said_again(
    when: When, turn: int
) -> None:
    words = "This call is recorded, and a machine talks with you."
    greeting = words if turn == 0 else ""
    faults = (Fault(when, "error", code="server_error"),)
    async with talking(Answer(words), greeting=greeting, faults=faults) as talk:
        if turn:
            talk.say()
        await talk.until(AgentAudioDone)
        events = talk.caller.events
        broke = events.index(AgentBroke())
        half = [event.text for event in events[:broke] if isinstance(event, AgentWords)]
        assert 0 < len("".join(half)) < len(words)
        begins = [type(event) for event in events[broke + 1 :]].index(AgentText)
        whole = [event.text for event in events[broke + begins :] if isinstance(event, AgentWords)]
        assert "".join(whole) == words
        assert len(talk.caller.of(AgentAudioDone)) == 1
        assert not talk.emulator.violations


async def test_a_written_answer_is_spoken() -> None:
    async with talking(Answer("It is nine."), faults=(Fault("answer", "write"),)) as talk:
        talk.say()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "It is nine."
        assert talk.sound_ms(1) > 0
        assert not talk.emulator.violations


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "inference_rate_limit_exceeded"])
async def test_a_rate_limit_of_a_moment_is_only_a_pause(code: str) -> None:
    faults = tuple(Fault("answer", "error", code=code) for _ in range(2))
    async with talking(Answer("At last."), faults=faults) as talk:
        talk.say()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "At last."
        assert not talk.caller.of(AgentFailed)


async def test_a_tools_result_is_spoken_though_the_service_was_busy_when_asked() -> None:
    busy = Fault("request", "error", code="conversation_already_has_active_response")
    async with talking(SUN, faults=(busy,)) as talk:
        talk.say()
        await talk.answer_both()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "Sun. Rain."
        assert not talk.emulator.violations


async def test_a_demanded_tool_is_called_once_for_each_turn() -> None:
    async with talking(SUN, tool_choice="required") as talk:
        talk.say()
        await talk.answer_both()
        await talk.until(AgentAudioDone)
        assert talk.words(1) == "Sun. Rain."
        assert len(talk.caller.of(ToolAsked)) == 2


async def test_no_credit_is_a_failure_of_that_kind() -> None:
    fault = Fault("answer", "error", code="insufficient_quota")
    async with talking(Answer("No."), faults=(fault,)) as talk:
        talk.say()
        assert (await talk.until(AgentFailed)).kind == "quota"


async def test_an_unknown_model_is_a_failure_that_says_so() -> None:
    async with talking(Answer("No."), model="gpt-unreal") as talk:
        talk.say()
        failed = await talk.until(AgentFailed)
        assert failed.kind == "refused"
        assert "does not exist" in failed.reason


@pytest.mark.parametrize(
    ("values", "faults", "kind"),
    [
        ({"voice": "nobody"}, (), "refused"),
        ({"model": "gpt-realtime-1.5", "reasoning": {"effort": "low"}}, (), "refused"),
        ({"extra": {"colour": "red"}}, (), "refused"),
        ({}, (Fault("setup", "error", code="invalid_api_key"),), "auth"),
        (
            {},
            (Fault("connect", "refuse", code=503), Fault("connect", "refuse", code=503)),
            "connect",
        ),
        ({}, (Fault("connect", "refuse", code=429), Fault("connect", "refuse", code=429)), "quota"),
    ],
)
async def test_a_session_that_is_not_accepted_says_why(
    values: dict[str, Any], faults: tuple[Fault, ...], kind: str
) -> None:
    with pytest.raises(AgentError) as refused:
        async with talking(faults=faults, **values):
            pass
    assert refused.value.kind == kind


async def test_a_wrong_key_is_refused_and_not_shown() -> None:
    async with OpenAIRealtimeEmulator(Script()) as emulator:
        conversation = Conversation(emulator, "")
        emulator.key = "another"
        with pytest.raises(AgentError) as refused:
            await conversation.agent.start(conversation.caller.session)
        await conversation.agent.close()
    assert refused.value.kind == "auth"
    assert "sk-" not in str(refused.value)


async def test_a_refused_connection_is_tried_again() -> None:
    async with talking(faults=(Fault("connect", "refuse", code=503),), greeting="Hello.") as talk:
        await talk.until(AgentAudioDone)
        assert talk.emulator.connections == 2


async def test_a_service_that_falls_silent_is_left_for_another_connection() -> None:
    fault = Fault("sound", "stall", connection=1)
    answer = Answer("It takes me some time to say all of this.")
    async with talking(answer, faults=(fault,)) as talk:
        talk.say()
        await talk.until(AgentAudio, 3)
        assert talk.agent.recover("nothing comes")
        await talk.until(AgentAudioDone)
        assert talk.words(1).endswith("It takes me some time to say all of this.")


async def test_given_words_are_said_by_the_model_where_that_is_wanted() -> None:
    async with talking(SUN, slow_response="provider") as talk:
        talk.say()
        await talk.until(ToolAsked, 2)
        async with asyncio.timeout(60):
            while not talk.sound_ms(1):
                talk.agent.say(Speech("One moment.", "filler"))
                await asyncio.sleep(0.02)
        await talk.answer_both()
        await talk.until_said(1, "Sun. Rain.")
        assert not talk.emulator.violations
