"""Deepgram Voice Agent: whole conversations with the strict emulator, without telephony."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    ToolAsked,
    ToolCancelled,
    Used,
)
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.errors import AgentError
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard.vendors.deepgram.agent.protocol import DeepgramProtocol
from cordboard.vendors.deepgram.config import DeepgramAgentProvider
from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

TONE = linear_to_ulaw((8000 * np.sin(np.arange(4000) * 0.3)).astype("<i2").tobytes())
SILENCE = ULAW_8K.silence(500)
WEATHER = ToolSpec("weather", "mcp", "Tells the weather.", {"type": "object"})
BOOK = ToolSpec("book", "http", "Books.", {"type": "object"}, effects=Effects.DESTRUCTIVE)


class Conversation:
    """One call with the emulator."""

    def __init__(self, emulator: DeepgramAgentEmulator, **values: Any) -> None:
        self.emulator = emulator
        self.caller = Caller(values.pop("greeting", ""), (WEATHER, BOOK))
        key = values.pop("key", emulator.key)
        settings = DeepgramAgentProvider.model_validate(
            {"type": "deepgram_agent", "base_url": emulator.url, **values}
        )
        self.agent = RealtimeAgent(
            DeepgramProtocol(settings, key),
            settings,
            "deepgram_agent",
            RealtimeParts(ssl.create_default_context()),
        )
        self.caller.agent = self.agent

    async def start(self) -> None:
        await self.agent.prepare()
        await self.agent.start(self.caller.session)

    def speak(self) -> None:
        """The caller says something."""
        self._hear(TONE)
        self._hear(SILENCE)

    def begin_to_speak(self) -> None:
        self._hear(TONE)

    def _hear(self, sound: bytes) -> None:
        for start in range(0, len(sound), 160):
            self.agent.hear(sound[start : start + 160])

    def answer(self, asked: ToolAsked, message: str) -> None:
        ask = asked.ask
        self.agent.answer_tool(ToolReply(ask.ask_id, ask.name, Status.OK, message))

    @property
    def words(self) -> str:
        """All that the agent has said."""
        said = [event for event in self.caller.events if isinstance(event, AgentText | AgentWords)]
        return "".join(event.text for event in said)

    def order(self) -> list[str]:
        """The kinds of events as they came, runs of a kind once; without the uninteresting."""
        names = [type(event).__name__ for event in self.caller.events]
        names = [name for name in names if name != "Used"]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


@asynccontextmanager
async def conversation(
    script: Script, injections: Any = "refused", **values: Any
) -> AsyncIterator[Conversation]:
    emulated = DeepgramAgentEmulator(script, injections=injections)
    async with asyncio.timeout(60), emulated as emulator:
        talk = Conversation(emulator, **values)
        try:
            await talk.start()
            yield talk
        finally:
            await talk.agent.close()


async def test_a_greeting_and_a_turn() -> None:
    async with conversation(Script((Answer("Sunny.", heard="Hi?"),)), greeting="Hello.") as talk:
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Hello."
        talk.speak()
        await talk.caller.until(AgentAudioDone, 2)
        assert talk.order() == [
            *("AgentText", "AgentWords", "AgentAudio", "AgentAudioDone"),
            *("CallerStarted", "CallerStopped", "CallerText"),
            *("AgentText", "AgentWords", "AgentAudio", "AgentAudioDone"),
        ]
        assert talk.caller.of(CallerText)[0].text == "Hi?"
        sound = b"".join(event.pcm for event in talk.caller.of(AgentAudio) if event.turn == 1)
        assert ULAW_8K.duration_ms(len(sound)) == 6 * 60 + 40  # as long as the emulator's word
        assert not talk.emulator.violations
        assert not talk.caller.of(AgentTrouble)
    assert sum(event.usage.amounts["seconds"] for event in talk.caller.of(Used)) > 0


async def test_two_tools_at_once_of_which_one_waits_until_the_turn_is_sure() -> None:
    script = Script((Answer(asks=(Use("weather", {"city": "Oslo"}), Use("book"))),))
    async with conversation(script) as talk:
        talk.speak()
        book = await talk.caller.until(ToolAsked, 2)
        weather = talk.caller.of(ToolAsked)[0]
        assert (weather.ask.name, weather.ask.arguments) == ("weather", {"city": "Oslo"})
        assert talk.order() == [
            *("CallerStarted", "ToolAsked", "CallerStopped", "CallerText", "ToolAsked"),
        ]
        talk.answer(book, "Booked.")
        assert not talk.caller.of(AgentAudio)
        talk.answer(weather, "Sunny.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Sunny. Booked."
        assert not talk.emulator.violations


async def test_a_caller_who_goes_on_takes_the_tool_back() -> None:
    script = Script((Answer(asks=(Use("weather"),)),))
    async with conversation(script) as talk:
        talk.speak()
        first = await talk.caller.until(ToolAsked)
        talk.begin_to_speak()
        cancelled = await talk.caller.until(ToolCancelled)
        assert cancelled.ask_id == first.ask.ask_id
        talk.answer(first, "Sunny.")
        talk.speak()
        second = await talk.caller.until(ToolAsked, 2)
        talk.answer(second, "Rainy.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Rainy."
        assert len(talk.caller.of(CallerStopped)) == 1
        assert not talk.emulator.violations


async def test_speaking_over_the_agent_cuts_it_and_the_next_answer_is_heard_whole() -> None:
    script = Script((Answer("Once upon a time there was a king."), Answer("Yes.")))
    async with conversation(script) as talk:
        talk.speak()
        await talk.caller.until(AgentAudio)
        talk.caller.speaking = True
        talk.speak()
        await talk.caller.until(Interrupted)
        await talk.caller.until(CallerText, 2)
        await talk.caller.until(AgentAudioDone, 2)
        last = b"".join(event.pcm for event in talk.caller.of(AgentAudio) if event.turn == 2)
        assert ULAW_8K.duration_ms(len(last)) == 4 * 60 + 40
        assert talk.words.endswith("Yes.")
        assert len(talk.caller.of(CallerStarted)) == 2


async def test_a_filler_is_said_by_the_service_while_the_tool_is_slow() -> None:
    async with conversation(Script((Answer(asks=(Use("weather"),)),))) as talk:
        talk.speak()
        asked = await talk.caller.until(ToolAsked)
        await talk.caller.until(CallerText)
        talk.agent.say(Speech("One moment.", "filler"))
        await talk.caller.until(AgentAudio)
        assert talk.caller.of(AgentText)[0].text == "One moment."
        talk.answer(asked, "Sunny.")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "One moment.Sunny."
        assert not talk.emulator.violations


@pytest.mark.parametrize("injections", ["ignored", "warned"])
async def test_a_sentence_that_the_service_will_not_say_is_reported_and_not_lost(
    injections: str,
) -> None:
    async with conversation(Script(), injections, greeting="Hello.") as talk:
        await talk.caller.until(AgentAudioDone)
        goodbye = Speech("Goodbye.", "farewell")
        if injections == "warned":
            talk.begin_to_speak()
        talk.agent.say(goodbye)
        while not [event for event in talk.caller.of(AgentTrouble) if event.what == "unsaid"]:
            talk._hear(SILENCE[:160])
            await asyncio.sleep(0.02)
        assert goodbye.over


@pytest.mark.parametrize(
    "fault",
    [
        Fault("ask", "drop"),
        Fault("ask", "close", code=1011),
        Fault("ask", "go_away"),
        Fault("ask", "error", code="INTERNAL_SERVER_ERROR"),
    ],
)
async def test_a_connection_lost_while_a_tool_works_is_replaced_and_the_result_is_told(
    fault: Fault,
) -> None:
    script = Script(
        (Answer(asks=(Use("book"),), heard="A table."), Answer("It is booked.")), faults=(fault,)
    )
    async with conversation(script, greeting="Hello.") as talk:
        await talk.caller.until(AgentAudioDone)
        talk.speak()
        asked = await talk.caller.until(ToolAsked)
        await talk.emulator.until_received("Settings", 2)
        talk.answer(asked, "Booked.")
        await talk.caller.until(AgentAudioDone, 2)
        again = talk.emulator.received_of("Settings")[1]["agent"]
        assert [said["content"] for said in again["context"]["messages"]] == ["Hello.", "A table."]
        assert "greeting" not in again
        (told,) = talk.emulator.received_of("InjectUserMessage")
        assert "Booked." in told["content"]
        assert talk.words.endswith("It is booked.")
        assert len(talk.caller.of(ToolAsked)) == 1
        assert len(talk.caller.of(CallerText)) == 1
        assert [event.what for event in talk.caller.of(AgentTrouble)] == ["reconnected"]
        assert not talk.emulator.violations


async def test_a_result_that_went_down_with_its_connection_is_part_of_the_next_one() -> None:
    script = Script(
        (Answer(asks=(Use("book"),), heard="A table."), Answer("It is booked.")),
        faults=(Fault("result", "close", code=1011),),
    )
    async with conversation(script) as talk:
        talk.speak()
        talk.answer(await talk.caller.until(ToolAsked), "Booked.")
        await talk.caller.until(AgentAudioDone)
        again = talk.emulator.received_of("Settings")[1]["agent"]
        (entry,) = again["context"]["messages"]
        assert "Booked." in entry["function_calls"][0]["response"]
        (told,) = talk.emulator.received_of("InjectUserMessage")
        assert told["content"] == "A table."
        assert talk.words == "It is booked."
        assert not talk.emulator.violations


async def test_a_connection_lost_in_the_middle_of_an_answer_is_replaced_and_answers_anew() -> None:
    script = Script(
        (Answer("It is going to rain.", heard="Is it sunny?"), Answer("No, rainy.")),
        faults=(Fault("sound", "drop"),),
    )
    async with conversation(script) as talk:
        talk.speak()
        await talk.caller.until(AgentAudioDone)
        assert talk.emulator.received_of("InjectUserMessage") == [
            {"type": "InjectUserMessage", "content": "Is it sunny?"}
        ]
        assert talk.words.endswith("No, rainy.")
        assert len(talk.caller.of(CallerText)) == 1


@pytest.mark.parametrize("code", ["FAILED_TO_SPEAK", "INTERNAL_SERVER_ERROR"])
async def test_an_answer_in_which_the_service_fails_is_broken_off(code: str) -> None:
    script = Script(
        (Answer("It is going to rain."), Answer("Rain.")), faults=(Fault("sound", "error", code),)
    )
    async with conversation(script) as talk:
        talk.speak()
        await talk.caller.until(AgentBroke)
        assert not talk.caller.of(AgentAudioDone), "it is not over as if it had been whole"


async def test_nonsense_is_counted_and_does_no_harm() -> None:
    script = Script((Answer("Sunny."),), faults=(Fault("answer", "garbage"),))
    async with conversation(script) as talk:
        talk.speak()
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Sunny."
        assert [event.what for event in talk.caller.of(AgentTrouble)] == ["malformed"] * 5


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"key": "another"}, "auth", "HTTP 401"),
        (
            {"listen": {"provider": {"model": "flux-general-xx"}}},
            "refused",
            "INVALID_SETTINGS: agent.listen.provider.model 'flux-general-xx' does not exist",
        ),
        ({"extra": {"agent": {"colour": "red"}}}, "refused", "UNPARSABLE_CLIENT_MESSAGE"),
        (
            {"speak": {"provider": {"type": "deepgram", "model": "aura-2"}}},
            "refused",
            "does not exist",
        ),
    ],
)
async def test_what_the_service_does_not_accept_is_told_in_its_words(
    values: dict[str, Any], kind: str, words: str
) -> None:
    with pytest.raises(AgentError) as refused:
        async with conversation(Script(), **values):
            pass
    assert refused.value.kind == kind
    assert words in str(refused.value)
    assert "another" not in str(refused.value)


async def test_what_comes_twice_counts_once() -> None:
    script = Script((Answer(asks=(Use("book"),)),), faults=(Fault("ask", "duplicate"),))
    async with conversation(script) as talk:
        talk.speak()
        talk.answer(await talk.caller.until(ToolAsked), "Booked.")
        await talk.caller.until(AgentAudioDone)
        assert len(talk.caller.of(ToolAsked)) == 1
        assert len(talk.emulator.received_of("FunctionCallResponse")) == 1
        assert [event.what for event in talk.caller.of(AgentTrouble)] == ["duplicate"]


async def test_a_service_that_falls_silent_is_asked_again_on_another_connection() -> None:
    script = Script(
        (Answer("Lost.", heard="Is it sunny?"), Answer("Sunny.")),
        faults=(Fault("turn", "stall", connection=1),),
    )
    async with conversation(script) as talk:
        talk.speak()
        await talk.caller.until(CallerText)
        assert talk.agent.recover("nothing comes")
        await talk.caller.until(AgentAudioDone)
        assert talk.words == "Sunny."
        assert talk.emulator.connections == 2


async def test_a_caller_who_hangs_up_while_a_tool_works_leaves_nothing_behind() -> None:
    async with conversation(Script((Answer(asks=(Use("weather"),)),))) as talk:
        talk.speak()
        asked = await talk.caller.until(ToolAsked)
        await talk.agent.close()
        told = len(talk.caller.events)
        talk.answer(asked, "Sunny.")
        talk.begin_to_speak()
        await asyncio.sleep(0)
        assert len(talk.caller.events) == told
    assert not talk.emulator.received_of("FunctionCallResponse")


async def test_a_model_that_fails_for_good_ends_it() -> None:
    script = Script((Answer("Sunny."),), faults=(Fault("turn", "error", code="FAILED_TO_THINK"),))
    async with conversation(script) as talk:
        talk.speak()
        failed = await talk.caller.until(AgentFailed)
        assert failed.kind == "refused"
        assert "FAILED_TO_THINK" in failed.reason


async def test_a_silent_client_is_closed_by_the_service_but_ours_keeps_awake() -> None:
    async with asyncio.timeout(60), DeepgramAgentEmulator(Script(), idle_s=2.5) as emulator:
        talk = Conversation(emulator, reconnect_attempts=0)
        protocol: Any = talk.agent._protocol
        await talk.start()
        for _ in range(10):  # for longer than the service would wait
            protocol.keep_alive()
            await asyncio.sleep(0.3)
        assert not emulator.violations
        await talk.caller.until(AgentFailed)
        assert emulator.violations == [
            "CLIENT_MESSAGE_TIMEOUT: We waited too long for a message from the client."
        ]
        await talk.agent.close()
