"""Whole conversations: the shell, ElevenLabs' protocol and the emulated service."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.agents.realtime.plain_service import Caller

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentFailed,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerStarted,
    CallerText,
    Interrupted,
    ToolAsked,
)
from cordboard.agents.realtime.agent import RealtimeAgent, RealtimeParts
from cordboard.errors import AgentError
from cordboard.tools.tool import Status, ToolReply
from cordboard.vendors.elevenlabs.agent.protocol import ElevenLabsProtocol
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard_testkit.emulators.elevenlabs.agent import KEY, ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import (
    DEFAULT_EVENTS,
    PERMITS_NOTHING,
    new_agent,
)
from cordboard_testkit.emulators.script import Answer, Fault, Script, Use

LOUD = b"\x00\x80" * 80
QUIET = b"\xff" * 160
EVENTS = (*DEFAULT_EVENTS, "agent_response_complete")
ASKS = Answer(asks=(Use("get_atis", {"icao": "ENGM"}),), then="So: {results}")


def agent_for(service: ElevenLabsEmulator, key: str = KEY, **more: Any) -> RealtimeAgent:
    settings = ElevenLabsAgentProvider.model_validate(
        {"type": "elevenlabs_agent", "agent_id": service.agent_id, "base_url": service.url} | more
    )
    parts = RealtimeParts(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return RealtimeAgent(ElevenLabsProtocol(settings, key), settings, "elevenlabs_agent", parts)


@contextlib.asynccontextmanager
async def talking(
    *answers: Answer,
    faults: tuple[Fault, ...] = (),
    greeting: str = "Hi.",
    habits: Mapping[str, Any] = {},
    **more: Any,
) -> AsyncIterator[tuple[ElevenLabsEmulator, Caller, RealtimeAgent]]:
    script = Script(answers, faults=faults, thinking_ms=10)
    async with ElevenLabsEmulator(
        script, agent=new_agent("a", events=EVENTS), faster=20, **habits
    ) as service:
        caller = Caller(greeting)
        agent = caller.agent = agent_for(service, **more)
        await agent.start(caller.session)
        try:
            yield service, caller, agent
        finally:
            await agent.close()


def speak(agent: RealtimeAgent, ms: int = 200) -> None:
    """A caller's turn: some sound and the silence after it, all at once."""
    for _ in range(ms // 20):
        agent.hear(LOUD)
    for _ in range(25):
        agent.hear(QUIET)


async def listen(agent: RealtimeAgent, caller: Caller, kind: type, count: int = 1) -> Any:
    """Wait for an event, the line silent."""

    async def line() -> None:
        while True:
            agent.hear(QUIET)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(line())
    try:
        return await caller.until(kind, count)
    finally:
        task.cancel()


async def test_a_greeting_a_turn_and_a_tool() -> None:
    async with talking(Answer("It is sunny.", heard="The weather?"), ASKS) as (
        service,
        caller,
        agent,
    ):
        done = await listen(agent, caller, AgentAudioDone)
        assert done.turn == 0
        assert caller.of(AgentWords)[0].text.strip() == "Hi."
        speak(agent)
        await listen(agent, caller, AgentAudioDone, 2)
        assert [text.text for text in caller.of(CallerText)] == ["The weather?"]
        assert caller.of(CallerStarted)
        speak(agent)
        ask = (await caller.until(ToolAsked)).ask
        assert (ask.name, ask.arguments) == ("get_atis", {"icao": "ENGM"})
        agent.answer_tool(ToolReply(ask.ask_id, ask.name, Status.OK, "It rains."))
        await listen(agent, caller, AgentAudioDone, 3)
        assert "So: It rains." in [words.text.strip() for words in caller.of(AgentWords)]
        assert sum(len(event.pcm) for event in caller.of(AgentAudio)) > 8000
    assert service.violations == []
    assert service.book.received[0].headers["xi-api-key"] == KEY


async def test_the_caller_interrupts() -> None:
    long = Answer("This is a story of many words that nobody wants to hear to its end.")
    async with talking(long, Answer("Sorry."), greeting="") as (service, caller, agent):
        speak(agent)
        await caller.until(AgentAudio)
        caller.speaking = True
        for _ in range(5):
            agent.hear(LOUD)
        await caller.until(Interrupted)
        speak(agent)
        await listen(agent, caller, AgentAudioDone, 2)
        assert [words.text.strip() for words in caller.of(AgentWords)][-1] == "Sorry."
    assert service.violations == []


async def test_an_answer_that_is_cut_before_it_is_written_leaves_no_turn_behind() -> None:
    long = Answer("This is a story of many words that nobody wants to hear to its end.")
    async with talking(
        long, Answer("Sorry.", heard="Stop."), greeting="", habits={"writes": 1.0}
    ) as (service, caller, agent):
        speak(agent)
        await caller.until(AgentAudio)
        caller.speaking = True
        for _ in range(5):
            agent.hear(LOUD)
        await caller.until(Interrupted)
        speak(agent)
        await listen(agent, caller, AgentAudioDone, 2)
        assert [text.text for text in caller.of(CallerText)] == ["something", "Stop."]
        assert [words.text.strip() for words in caller.of(AgentWords)] == ["Sorry."]
        assert [done.turn for done in caller.of(AgentAudioDone)] == [1, 2]
    assert service.violations == []


async def test_the_caller_waits_in_the_queue_of_a_busy_agent_and_then_is_greeted() -> None:
    async with talking(habits={"queue_s": 1.0}) as (service, caller, agent):
        caller.speaking = True
        await caller.until(Interrupted)
        music = len(caller.of(AgentAudio))
        caller.speaking = False
        assert music
        await caller.until(AgentWords)
        await listen(agent, caller, AgentAudioDone)
        assert [words.text.strip() for words in caller.of(AgentWords)] == ["Hi."]
        assert len(caller.of(AgentAudio)) > music
        assert not caller.of(AgentFailed)
    assert service.violations == []


async def test_a_greeting_that_is_lost_behind_the_music_is_still_owed() -> None:
    lost = Fault("greeting", "close", code=1011, connection=1)
    async with talking(habits={"queue_s": 1.0}, faults=(lost,)) as (service, caller, agent):
        await caller.until(AgentTrouble)
        music = caller.of(AgentText)
        assert all(text.speech is not None and text.speech.bridges for text in music)
        assert not caller.of(AgentAudioDone)
        await caller.until(AgentWords)
        await listen(agent, caller, AgentAudioDone)
        assert [words.text.strip() for words in caller.of(AgentWords)] == ["Hi."]
    assert service.violations == []


@pytest.mark.parametrize("queue", ["wait", "leave"])
async def test_a_queue_that_ends_in_vain_gives_the_call_away_and_is_not_tried_again(
    queue: str,
) -> None:
    habits = {"queue_s": 1.0, "admits": False}
    async with talking(queue=queue, habits=habits) as (service, caller, _):
        failed = await caller.until(AgentFailed)
        assert failed.kind == "quota"
        assert service.connections == 1


async def test_a_drop_in_the_middle_of_a_tool_loses_no_result() -> None:
    drop = Fault("ask", "close", code=1011)
    async with talking(ASKS, Answer("It rains in Oslo."), faults=(drop,)) as (
        service,
        caller,
        agent,
    ):
        await listen(agent, caller, AgentAudioDone)
        speak(agent)
        ask = (await caller.until(ToolAsked)).ask
        await service.until(lambda: service.connections == 2)
        agent.answer_tool(ToolReply(ask.ask_id, ask.name, Status.OK, "It rains."))
        await listen(agent, caller, AgentAudioDone, 2)
        assert caller.of(AgentTrouble)[-1].what == "reconnected"
        told = [message["text"] for message in service.of("contextual_update")]
        assert any("It rains." in text for text in told)
        assert service.of("user_message") == [{"type": "user_message", "text": "something"}]
        assert len(caller.of(ToolAsked)) == 1
    assert service.violations == []
    assert [code for code, _ in service.closes] == [1011]


async def test_a_greeting_that_was_lost_is_said_word_for_word() -> None:
    lost = Fault("greeting", "drop")
    async with talking(faults=(lost,), greeting="Good day.") as (service, caller, agent):
        await listen(agent, caller, AgentAudioDone)
        assert [words.text.strip() for words in caller.of(AgentWords)] == ["Good day."]
        assert service.connections == 2
    assert service.violations == []


async def test_words_that_a_lost_service_never_reported_are_announced_to_the_next_agent() -> None:
    gone = (Fault("turn", "close", 1011), Fault("connect", "refuse", 503, connection=2))
    async with talking(faults=gone, greeting="", reconnect_attempts=1) as (_, caller, agent):
        for _ in range(160):
            agent.hear(QUIET)  # so that the engine knows the noise of the line
        speak(agent)
        await caller.until(AgentFailed)
        told = [event for event in caller.events if isinstance(event, CallerStarted | AgentFailed)]
        assert [type(event) for event in told] == [CallerStarted, AgentFailed]


async def test_a_service_that_fell_silent_is_asked_again_by_another_connection() -> None:
    silent = Fault("answer", "stall", connection=1)
    async with talking(
        Answer("Never.", heard="Are you there?"), Answer("Yes."), faults=(silent,), greeting=""
    ) as (service, caller, agent):
        speak(agent)
        await caller.until(CallerText)
        assert agent.recover("nothing came")
        await listen(agent, caller, AgentAudioDone)
        assert caller.of(AgentWords)[-1].text.strip() == "Yes."
        assert service.of("user_message") == [{"type": "user_message", "text": "Are you there?"}]
    assert service.violations == []


@pytest.mark.parametrize("do", ["garbage", "duplicate"])
async def test_nonsense_and_repetition_change_nothing(do: Any) -> None:
    faults = (Fault("message", do, after=4), Fault("sound", do), Fault("answer", do))
    async with talking(ASKS, faults=faults) as (service, caller, agent):
        await listen(agent, caller, AgentAudioDone)
        speak(agent)
        ask = (await caller.until(ToolAsked)).ask
        agent.answer_tool(ToolReply(ask.ask_id, ask.name, Status.OK, "It rains."))
        await listen(agent, caller, AgentAudioDone, 2)
        troubles = {trouble.what for trouble in caller.of(AgentTrouble)}
        assert troubles & {"malformed", "duplicate"}
        assert not caller.of(AgentFailed)
    assert service.violations == []


async def test_the_agent_ends_the_conversation() -> None:
    over = Fault("turn", "close", code=1000)
    async with talking(faults=(over,)) as (_, caller, agent):
        await listen(agent, caller, AgentAudioDone)
        speak(agent)
        await listen(agent, caller, AgentEnded)


async def test_an_error_of_its_model_is_helped_by_another_conversation() -> None:
    async with talking(
        Answer("Never."), Answer("Here I am."), faults=(Fault("answer", "error", "llm_error"),)
    ) as (service, caller, agent):
        await listen(agent, caller, AgentAudioDone)
        speak(agent)
        await listen(agent, caller, AgentAudioDone, 2)
        assert caller.of(AgentWords)[-1].text.strip() == "Here I am."
        assert service.connections == 2


async def failure(service: ElevenLabsEmulator, key: str = KEY, **more: Any) -> AgentError:
    agent = agent_for(service, key, **more)
    with pytest.raises(AgentError) as caught:
        await agent.start(Caller("Hi.").session)
    await agent.close()
    return caught.value


async def test_a_wrong_key_is_said_to_be_wrong() -> None:
    async with ElevenLabsEmulator() as service:
        error = await failure(service, "xi-wrong-key")
        assert error.kind == "auth"
        assert "xi-wrong-key" not in str(error)
        assert (await failure(service, "")).kind == "auth"


async def test_an_unknown_agent_is_refused() -> None:
    async with ElevenLabsEmulator() as service:
        error = await failure(service, agent_id="agent_other")
        assert error.kind == "refused"
        assert "agent_other" in str(error)


async def test_a_service_that_is_not_there_cannot_be_reached() -> None:
    async with ElevenLabsEmulator() as service:
        port = service.url
    stopped = dataclasses.make_dataclass("Stopped", ["url", "agent_id"])(port, "agent_1")
    assert (await failure(stopped)).kind == "connect"


async def test_what_the_agent_does_not_permit_is_named() -> None:
    async with ElevenLabsEmulator(agent=new_agent("a", permits=PERMITS_NOTHING)) as service:
        agent, caller = agent_for(service), Caller("Hi.")
        await agent.start(caller.session)
        failed = await caller.until(AgentFailed)
        await agent.close()
        assert failed.kind == "refused"
        assert "'prompt'" in failed.reason
        assert "cordboard elevenlabs sync" in failed.reason
        assert service.connections == 1


async def test_a_public_agent_needs_no_key() -> None:
    async with ElevenLabsEmulator(
        agent=new_agent("a", auth=False, events=EVENTS), faster=20
    ) as service:
        agent = agent_for(service, "", requires_auth=False)
        caller = Caller("Hi.")
        await agent.start(caller.session)
        await listen(agent, caller, AgentAudioDone)
        await agent.close()
        assert not service.book.received
        assert service.violations == []


async def test_an_agent_that_speaks_another_format_and_tells_the_end() -> None:
    plain = new_agent("a", sound="pcm_16000", events=EVENTS)
    async with ElevenLabsEmulator(agent=plain, faster=20) as service:
        agent, caller = agent_for(service), Caller("Hello there.")
        await agent.start(caller.session)
        await caller.until(AgentAudioDone)
        heard = sum(len(event.pcm) for event in caller.of(AgentAudio)) / 8
        assert abs(heard - (5 + 6) * 60 - 80) < 30
        speak(agent)
        await caller.until(AgentAudioDone, 2)
        await agent.close()
        assert service.violations == []
