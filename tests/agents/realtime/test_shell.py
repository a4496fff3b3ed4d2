"""The shell around the protocols, with a real websocket under it."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator

import pytest

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentFailed,
    AgentSession,
    AgentText,
    AgentTrouble,
    AgentWords,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
    Said,
    ToolAsked,
    ToolCancelled,
)
from cordboard.agent_api.service_protocol import ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agents.realtime.agent import RealtimeAgent
from cordboard.agents.realtime.greetings import Greeting, GreetingCache
from cordboard.agents.realtime.warm import WarmConnection
from cordboard.errors import AgentError, VoiceError
from cordboard.net.service_websocket import Address
from cordboard.tools.tool import Status, ToolReply
from cordboard_testkit.fake_pipeline import MS_PER_WORD, TalkingClock
from cordboard_testkit.virtual_time import in_virtual_time

from .plain_service import Caller, MemoryService, PlainProtocol, PlainService, agent_for, talking

FRAME = b"\x7f" * 160
SILENCE = b"\xff" * 160
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def reply(ask_id: str, message: str = "Done.") -> ToolReply:
    return ToolReply(ask_id, "book", Status.OK, message)


async def test_a_turn_and_its_answer_are_told_in_order() -> None:
    async with talking() as (service, caller, _, _):
        await service.say(do="caller_started")
        await service.say(do="caller_stopped")
        await service.say(do="caller_text", text="What is new?")
        await service.say(do="words", text="Nothing ")
        await service.say(do="sound", ms=40)
        await service.say(do="words", text="at all.")
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        kinds = [type(event) for event in caller.events]
        assert kinds == [
            CallerStarted, CallerStopped, CallerText, AgentText, AgentWords, AgentAudio,
            AgentWords, AgentAudioDone,
        ]  # fmt: skip
        assert caller.of(CallerText)[0].turn == 1
        assert {event.turn for event in caller.of(AgentAudio)} == {1}
        assert caller.of(AgentText)[0].text == ""


async def test_sound_goes_both_ways_untouched() -> None:
    async with talking() as (service, caller, agent, _):
        agent.hear(FRAME)
        await service.until(lambda: len(service.sound) == 160)
        assert bytes(service.sound) == FRAME
        await service.say(do="sound", ms=20)
        assert (await caller.until(AgentAudio)).pcm == b"\x01" * 160


async def test_a_caller_who_cuts_in_is_told_of_with_what_was_heard_of_each_piece() -> None:
    async with talking() as (service, caller, _, _):
        await service.say(do="caller_text", text="Go on.")
        await service.say(do="sound", ms=1000, item="a")
        await service.say(do="sound", ms=500, item="b")
        await service.say(do="sound", ms=500, item="b")
        await caller.until(AgentAudio, 3)
        caller.speaking, caller.heard = True, ("Half of it", 1250, 1)
        await service.say(do="caller_started")
        await service.until(lambda: bool(service.of("cut")))
        assert service.of("cut")[0]["items"] == [["b", 250]]
        assert len(caller.of(Interrupted)) == 1
        # The answer is over for the call: nothing waits for its end.
        assert caller.of(AgentAudioDone)[-1].turn == 1


async def test_what_was_heard_whole_is_not_cut_and_a_second_cut_begins_anew() -> None:
    async with talking() as (service, caller, _, _):
        for turn, heard in ((1, 1000), (2, 100)):
            await service.say(do="caller_text", text="Go on.")
            await service.say(do="sound", ms=1000, item=f"piece {turn}")
            await caller.until(AgentAudio, turn)
            caller.speaking, caller.heard = True, ("", heard, turn)
            await service.say(do="caller_started")
            await caller.until(Interrupted, turn)
        await service.until(lambda: len(service.of("cut")) == 2)
        assert [cut["items"] for cut in service.of("cut")] == [[], [["piece 2", 100]]]


async def test_the_answer_is_not_over_while_a_tool_is_at_work() -> None:
    async with talking() as (service, caller, agent, _):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={"seats": 2})
        await service.say(do="tool", id="t2", name="look", arguments={})
        await service.say(do="tool", id="t2", name="look", arguments={})
        await service.say(do="answer_done")
        await service.say(do="used", model="m", amounts={})
        await caller.until(ToolAsked, 2)
        agent.answer_tool(reply("t1", "Booked."))
        agent.answer_tool(reply("t2", "Seen."))
        await service.until(lambda: len(service.of("result")) == 2)
        assert [ask.ask.ask_id for ask in caller.of(ToolAsked)] == ["t1", "t2"]
        assert not caller.of(AgentAudioDone)
        await service.say(do="words", text="All booked.")
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)


async def test_a_tool_that_is_taken_back_is_cancelled_and_its_result_kept_away() -> None:
    async with talking() as (service, caller, agent, _):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={})
        await service.say(do="answer_done")
        await service.say(do="unask", id="t1")
        assert (await caller.until(ToolCancelled)).ask_id == "t1"
        await caller.until(AgentAudioDone)
        agent.answer_tool(reply("t1"))
        agent.answer_tool(reply("never asked"))
        await service.say(do="unask", id="t1")
        await caller.until(AgentTrouble)
        assert not service.of("result")


async def test_a_lost_connection_is_replaced_and_no_result_is_lost() -> None:
    async with talking() as (service, caller, agent, protocol):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={})
        await caller.until(ToolAsked)
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("begin")) == 2)
        agent.answer_tool(reply("t1", "Booked."))
        assert (await caller.until(AgentTrouble)).what == "reconnected"
        await service.until(lambda: bool(service.of("result")))
        assert service.of("result") == [{"do": "result", "id": "t1", "message": "Booked."}]
        assert service.of("begin")[1]["history"] == [["caller", "Book it."]]
        assert protocol.losses == [(None, 1011)]


async def test_a_caller_who_waits_for_an_answer_is_answered_after_the_loss() -> None:
    async with talking() as (service, caller, _, _):
        await service.say(do="caller_text", text="Are you there?")
        await caller.until(CallerText)
        service.connections[-1].transport.abort()
        await caller.until(AgentTrouble)
        assert service.of("begin")[1]["owes"] is True


async def test_a_service_that_stays_away_fails_with_its_reason() -> None:
    async with talking(reconnect_attempts=2) as (service, caller, _, _):
        service.refuse_with = [503, 503, 503]
        await service.connections[-1].close(1011)
        failed = await caller.until(AgentFailed)
        assert failed.kind == "dropped"
        assert len(service.connections) == 1


UTTERANCE = b"".join(bytes([number]) * 160 for number in range(10))
"""0.2 s, loud; each frame is another one."""


async def speak_up(service: PlainService, caller: Caller, agent: RealtimeAgent) -> None:
    """The caller begins, and is heard by the service."""
    for _ in range(20):
        agent.hear(SILENCE)
    await service.say(do="caller_started")
    await caller.until(CallerStarted)
    for at in range(0, len(UTTERANCE), 160):
        agent.hear(UTTERANCE[at : at + 160])
    await service.until(lambda: UTTERANCE in service.sound)
    service.sound.clear()


async def speak(agent: RealtimeAgent) -> None:
    """Say something of 1.2 s, at the pace of a call."""
    sound = SILENCE + UTTERANCE * 6
    for at in range(0, len(sound), 160):
        agent.hear(sound[at : at + 160])
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("stopped", [False, True])
async def test_what_is_not_written_down_when_the_connection_breaks_is_heard_again(
    stopped: bool,
) -> None:
    async with talking() as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        if stopped:
            await service.say(do="caller_stopped")
            await caller.until(CallerStopped)
        await service.connections[-1].close(1011)
        await caller.until(AgentTrouble)
        for _ in range(20):
            agent.hear(SILENCE)
        await service.until(lambda: UTTERANCE in service.sound)
        assert service.of("begin")[-1]["owes"] is False, "it has not heard the question yet"
        assert service.sound.endswith(SILENCE * 10), "and nothing is left out"


async def test_a_note_that_comes_while_the_service_accepts_another_connection_is_not_lost() -> None:
    async with talking() as (service, caller, agent, protocol):
        service.accepts = False
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("begin")) == 2)
        assert agent.take_note("Offer Thursday.")
        assert "Thursday" not in protocol.prompt
        assert not service.of("note")
        service.accepts = True
        await service.say(do="ready")
        await service.until(lambda: bool(service.of("note")))
        assert service.of("note") == [{"do": "note", "text": "Offer Thursday."}]
        await service.connections[-1].close(1011)
        await caller.until(AgentTrouble, 2)
        assert protocol.prompt == "Be kind.\n\nOffer Thursday."
        assert len(service.of("note")) == 1, "the prompt has it"


@pytest.mark.parametrize("known", ["words", "tool"])
async def test_what_the_service_has_understood_is_not_heard_again(known: str) -> None:
    async with talking() as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        await service.say(do="caller_stopped")
        if known == "words":
            await service.say(do="caller_text", text="Book it.")
            await caller.until(CallerText)
        else:
            await service.say(do="tool", id="t1", name="book", arguments={})
            await caller.until(ToolAsked)
            agent.answer_tool(reply("t1"))
        await service.connections[-1].close(1011)
        await caller.until(AgentTrouble)
        agent.hear(FRAME)
        await service.until(lambda: FRAME in service.sound)
        assert UTTERANCE not in service.sound
        assert service.of("begin")[-1]["owes"] is True


@in_virtual_time
async def test_a_service_that_says_nothing_to_what_the_caller_says_is_replaced() -> None:
    async with talking(in_memory=True) as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        await speak(agent)
        trouble = await caller.until(AgentTrouble)
        assert trouble.what == "reconnected"
        assert trouble.detail.startswith("stalled")
        service.sound.clear()
        for _ in range(80):
            agent.hear(SILENCE)
        await service.until(lambda: UTTERANCE in service.sound)
        # Nothing more comes of it: it was a noise.
        assert (await caller.until(CallerText)).text == ""
        assert len(service.connections) == 2


@in_virtual_time
async def test_what_was_said_long_ago_and_never_written_down_is_heard_again() -> None:
    async with talking(in_memory=True) as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        await service.say(do="caller_stopped")
        await caller.until(CallerStopped)
        agent._talk._trace.last_voice_at = 0.0  # a while ago
        for _ in range(1000):
            agent.hear(SILENCE)
        assert agent.recover("no answer")
        await caller.until(AgentTrouble)
        service.sound.clear()
        for _ in range(20):
            agent.hear(SILENCE)
        await service.until(lambda: UTTERANCE in service.sound)


@in_virtual_time
async def test_a_service_that_does_not_notice_the_caller_is_replaced_once() -> None:
    async with talking(in_memory=True) as (service, caller, agent, _):
        await speak(agent)
        await caller.until(AgentTrouble)
        service.sound.clear()
        for _ in range(60):
            agent.hear(SILENCE)
        await service.until(lambda: UTTERANCE * 6 in service.sound)
        await speak(agent)
        await asyncio.sleep(30)
        assert len(service.connections) == 2, "it may be a noise after all"


@in_virtual_time
async def test_a_tool_asked_before_the_turn_was_over_is_answered_by_another_connection() -> None:
    async with talking(in_memory=True) as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        await service.say(do="tool", id="t1", name="look", arguments={})
        await caller.until(ToolAsked)
        agent.answer_tool(reply("t1"))
        await caller.until(AgentTrouble)
        agent.hear(SILENCE)
        await service.until(lambda: SILENCE in service.sound)
        assert UTTERANCE not in service.sound, "it would ask for the tool again"
        assert [stopped.turn for stopped in caller.of(CallerStopped)] == [1]
        assert service.of("begin")[-1]["owes"] is True


async def test_a_turn_is_over_when_a_tool_was_asked_in_it_and_the_connection_breaks() -> None:
    async with talking() as (service, caller, agent, _):
        await speak_up(service, caller, agent)
        await service.say(do="tool", id="t1", name="look", arguments={})
        await caller.until(ToolAsked)
        await service.connections[-1].close(1011)
        assert (await caller.until(CallerStopped)).turn == 1
        await caller.until(AgentTrouble)
        agent.answer_tool(reply("t1"))
        await service.until(lambda: bool(service.of("result")))
        await service.say(do="words", text="It is open.")
        assert (await caller.until(AgentWords)).turn == 1


@in_virtual_time
async def test_a_greeting_that_does_not_come_is_not_waited_for_for_long() -> None:
    async with talking(in_memory=True, greeting="Hello.") as (service, caller, _, _):
        trouble = await caller.until(AgentTrouble)
        assert trouble.detail == "stalled: plain gave no greeting for 5 s"
        assert len(service.connections) == 2
        failed = await caller.until(AgentFailed)
        assert failed.kind == "stalled"


@in_virtual_time
async def test_a_service_that_wakes_up_after_it_was_left_is_not_heard() -> None:
    async with talking(in_memory=True, greeting="Hello.") as (service, caller, _, _):
        assert isinstance(service, MemoryService)
        service.opens_within = 1.0
        await asyncio.sleep(5.6)
        assert len(service.connections) == 1
        await service.say(do="words", text="Hello.")
        await service.say(do="sound", ms=100)
        await caller.until(AgentTrouble)
        assert len(service.connections) == 2
        assert not caller.of(AgentText)
        assert not caller.of(AgentFailed), "the new connection has its own time"
        await service.say(do="words", text="Hello.")
        assert (await caller.until(AgentWords)).text == "Hello."


async def test_a_greeting_of_the_engines_does_not_wait_for_the_service() -> None:
    async with PlainService().running() as service:
        service.accepts = False
        protocol = PlainProtocol(service.port)
        protocol.speaks_greeting = False
        caller = Caller("Good morning.")
        agent = caller.agent = agent_for(protocol, TalkingClock(), connect_timeout_ms=500)
        starting = asyncio.create_task(agent.start(caller.session))
        await caller.until(AgentAudioDone)
        assert not starting.done()
        assert [text.text for text in caller.of(AgentText)] == ["Good morning."]
        with pytest.raises(AgentError):
            await starting
        await agent.close()


async def test_a_connection_that_is_refused_ahead_is_tried_once_more() -> None:
    async with PlainService().running() as service:
        service.refuse_with = [503]
        agent = agent_for(PlainProtocol(service.port))
        await agent.prepare()
        await agent.start(Caller().session)
        assert len(service.connections) == 1
        await agent.close()


async def test_a_call_does_not_wait_for_a_third_attempt() -> None:
    async with PlainService().running() as service:
        service.refuse_with = [503, 503, 503]
        agent = agent_for(PlainProtocol(service.port))
        with pytest.raises(AgentError):
            await agent.prepare()
        with pytest.raises(AgentError):
            await agent.start(Caller().session)
        assert service.refuse_with == [503]
        await agent.close()


async def test_a_wrong_key_is_not_tried_twice() -> None:
    async with PlainService().running() as service:
        service.refuse_with = [401, 401]
        agent = agent_for(PlainProtocol(service.port))
        with pytest.raises(AgentError, match="wrong key") as raised:
            await agent.prepare()
        assert raised.value.kind == "auth"
        with pytest.raises(AgentError, match="wrong key"):
            await agent.start(Caller().session)
        assert service.refuse_with == [401]
        await agent.close()


async def test_what_is_prepared_is_used_by_the_start() -> None:
    async with PlainService().running() as service:
        agent = agent_for(PlainProtocol(service.port))
        await agent.prepare()
        await agent.start(Caller().session)
        assert len(service.connections) == 1
        await agent.close()


async def test_a_prepared_agent_that_is_never_started_leaves_nothing() -> None:
    async with PlainService().running() as service:
        agent = agent_for(PlainProtocol(service.port))
        await agent.prepare()
        await agent.close()
        async with asyncio.timeout(60):
            await service.connections[0].wait_closed()


async def test_a_service_that_does_not_accept_the_session_is_given_up() -> None:
    async with PlainService().running() as service:
        service.accepts = False
        agent = agent_for(PlainProtocol(service.port), connect_timeout_ms=100)
        with pytest.raises(AgentError, match="did not accept the session"):
            await agent.start(Caller().session)
        assert len(service.connections) == 2
        await agent.close()


async def test_a_filler_is_said_by_the_engine_and_the_answer_waits_for_its_end() -> None:
    async with talking(TalkingClock(0.1)) as (service, caller, agent, _):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={})
        await caller.until(ToolAsked)
        agent.say(Speech("One moment.", "filler"))
        await caller.until(AgentText)
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudio, 2)
        filler, answer = caller.of(AgentAudio)
        assert len(filler.pcm) == 2 * MS_PER_WORD * 8
        assert answer.pcm == b"\x01" * 160
        assert [text.text for text in caller.of(AgentText)] == ["One moment.", ""]


@in_virtual_time
async def test_a_filler_that_the_service_takes_and_does_not_say_is_said_by_the_engine() -> None:
    voice = TalkingClock()
    silent = talking(voice, in_memory=True, speaks_words=True, slow_response="provider")
    async with silent as (service, caller, agent, _):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={})
        await caller.until(ToolAsked)
        agent.say(Speech("One moment.", "filler"))
        await service.until(lambda: bool(service.of("speak")))
        await caller.until(AgentAudio)
        assert voice.spoken == ["One moment."]
        # Of the next one the service begins in time.
        agent.say(Speech("Still at it.", "filler"))
        await service.until(lambda: len(service.of("speak")) == 2)
        await service.say(do="words", text="Still at it.")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio, 2)
        await asyncio.sleep(0.15)
        assert voice.spoken == ["One moment."]


@in_virtual_time
async def test_nothing_bridges_the_time_after_the_last_words() -> None:
    voice = TalkingClock()
    async with talking(voice, in_memory=True, thinking_filler_ms=100, reconnect_attempts=0) as (
        service,
        caller,
        agent,
        _,
    ):
        await service.say(do="caller_text", text="What is new?")
        await caller.until(CallerText)
        agent.say(Speech("One moment.", "filler"))
        await service.say(do="failed", kind="quota", reason="no credit")
        await caller.until(AgentFailed)
        agent.say(Speech("I am sorry. Goodbye.", "farewell"))
        await caller.until(AgentAudioDone)
        await asyncio.sleep(0.2)
        assert voice.spoken == ["I am sorry. Goodbye."]


async def test_no_filler_while_the_service_speaks() -> None:
    voice = TalkingClock()
    async with talking(voice) as (service, caller, agent, _):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        agent.say(Speech("One moment.", "filler"))
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert voice.spoken == []


@in_virtual_time
async def test_a_filler_into_an_answer_that_has_stopped_is_said_and_the_answer_goes_on() -> None:
    async with talking(TalkingClock(), in_memory=True) as (service, caller, agent, _):
        await service.say(do="caller_text", text="What is new?")
        await service.say(do="words", text="There is")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        await asyncio.sleep(2.1)
        agent.say(Speech("One moment.", "filler"))
        await caller.until(AgentAudio, 2)
        await service.say(do="words", text="nothing.")
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        said = [event.text for event in caller.events if isinstance(event, AgentText | AgentWords)]
        assert said == ["", "There is", "One moment.", "", "nothing."]


async def test_a_farewell_waits_for_the_service_and_is_then_said() -> None:
    async with talking(TalkingClock()) as (service, caller, agent, _):
        await service.say(do="caller_text", text="Bye.")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        agent.say(Speech("Goodbye.", "farewell"))
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone, 2)
        assert [text.text for text in caller.of(AgentText)] == ["", "Goodbye."]


async def test_a_service_that_can_say_words_says_the_filler_if_it_is_to() -> None:
    voice = TalkingClock()
    async with talking(voice, speaks_words=True, slow_response="provider") as (
        service,
        caller,
        agent,
        _,
    ):
        await service.say(do="caller_text", text="Book it.")
        await service.say(do="tool", id="t1", name="book", arguments={})
        await caller.until(ToolAsked)
        agent.say(Speech("One moment, please.", "filler"))
        await service.until(lambda: bool(service.of("speak")))
        await service.say(do="words", text="One moment please")
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        agent.answer_tool(reply("t1"))
        await service.until(lambda: bool(service.of("result")))
        await service.say(do="words", text="Booked.")
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert [text.text for text in caller.of(AgentText)] == ["One moment, please.", ""]
        assert voice.spoken == []


async def test_fillers_can_be_switched_off_and_without_a_voice_the_call_learns_it() -> None:
    async with talking(TalkingClock(), slow_response="off") as (_, caller, agent, _):
        agent.say(Speech("One moment.", "filler"))
        await caller.until(AgentAudioDone)
        assert not caller.of(AgentText)
    async with talking() as (_, caller, agent, _):
        agent.say(Speech("Goodbye.", "farewell"))
        assert (await caller.until(AgentTrouble)).what == "unsaid"
        await caller.until(AgentAudioDone)


async def test_a_model_that_says_the_words_of_a_dropped_filler_has_said_them_itself() -> None:
    """The next connection learns them as part of the conversation."""
    async with talking(slow_response="off") as (service, caller, agent, _):
        await service.say(do="caller_text", text="Hello?")
        await caller.until(CallerText)
        filler = Speech("One moment.", "filler")
        agent.say(filler)
        await service.say(do="words", text="One moment.")
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert [text.speech for text in caller.of(AgentText)] == [None]
        assert filler.state is SpeechState.DROPPED
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("begin")) == 2)
        assert service.of("begin")[-1]["history"] == [
            ["caller", "Hello?"],
            ["agent", "One moment."],
        ]


async def test_a_greeting_that_the_service_cannot_say_is_said_by_the_engine() -> None:
    async with PlainService().running() as service:
        protocol = PlainProtocol(service.port)
        protocol.speaks_greeting = False
        caller = Caller("Hello there.")
        agent = agent_for(protocol, TalkingClock())
        await agent.start(caller.session)
        await caller.until(AgentAudioDone)
        assert caller.of(AgentText)[0].text == "Hello there."
        await agent.close()


async def test_who_must_not_cut_in_is_not_heard_while_the_agent_speaks() -> None:
    async with talking(barge_in="off") as (service, caller, agent, _):
        caller.speaking = True
        agent.hear(FRAME)
        caller.speaking = False
        agent.hear(FRAME)
        await service.until(lambda: len(service.sound) == 320)
        assert bytes(service.sound) == SILENCE + FRAME


async def test_a_greeting_can_be_protected() -> None:
    async with talking(greeting="Hello.", barge_in="greeting_protected") as (
        service,
        caller,
        agent,
        _,
    ):
        caller.speaking = True
        agent.hear(FRAME)
        await service.say(do="caller_text", text="Hi.")
        await caller.until(CallerText)
        agent.hear(FRAME)
        await service.until(lambda: len(service.sound) == 320)
        assert bytes(service.sound) == SILENCE + FRAME


async def test_without_ears_of_its_own_the_engine_asks_the_service_to_listen_aside() -> None:
    async with talking() as (service, caller, agent, _):
        answers: list[str] = []
        agent.listen_aside(answers.append)
        await service.say(do="caller_text", text="Yes, please.")
        await caller.until(CallerText)
        agent.listen_aside(None)
        await service.until(lambda: len(service.of("aside")) == 2)
        assert answers == ["Yes, please."]
        assert [message["on"] for message in service.of("aside")] == [True, False]


async def test_a_late_answer_is_told_by_the_service() -> None:
    async with talking() as (service, caller, agent, _):
        late = Speech("About your earlier request: The table is booked.", "late answer")
        agent.say(late)
        await service.until(lambda: bool(service.of("inform")))
        assert "The table is booked." in service.of("inform")[0]["text"]
        assert not caller.of(AgentText)
        await service.say(do="words", text="By the way, it is booked.")
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert [(text.text, text.speech) for text in caller.of(AgentText)] == [("", late)]
        await service.say(do="words", text="Anything else?")
        await caller.until(AgentText, 2)
        assert caller.of(AgentText)[-1].speech is None, "it was told once"


async def test_a_stalled_service_is_connected_again_once_a_turn() -> None:
    async with talking() as (service, caller, agent, _):
        await service.say(do="caller_text", text="Hello?")
        await caller.until(CallerText)
        assert agent.recover("no answer") is True
        await caller.until(AgentTrouble)
        assert service.of("begin")[1]["owes"] is True
        assert agent.recover("no answer") is False


async def test_who_takes_over_from_another_agent_knows_what_was_said() -> None:
    async with PlainService().running() as service:
        caller = Caller("Hello.")
        history = (Said("agent", "Hello."), Said("caller", "Book a table."))
        session = dataclasses.replace(caller.session, history=history)
        agent = agent_for(PlainProtocol(service.port))
        await agent.start(session)
        await service.until(lambda: bool(service.of("begin")))
        assert service.of("begin")[0] == {
            "do": "begin",
            "history": [["agent", "Hello."], ["caller", "Book a table."]],
            "owes": True,
        }
        await agent.close()


async def test_what_the_call_has_cut_is_not_heard_though_the_service_goes_on() -> None:
    async with talking() as (service, caller, agent, _):
        await service.say(do="caller_text", text="Go on.")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        agent.interrupted("", 20, 1)  # a key was pressed
        await service.say(do="sound", ms=20)
        await service.say(do="words", text="and so on")
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert len(caller.of(AgentAudio)) == 1
        await service.say(do="caller_text", text="And now?")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio, 2)


async def test_nothing_is_told_after_the_close() -> None:
    async with talking() as (service, caller, agent, _):
        await agent.close()
        count = len(caller.events)
        agent.hear(FRAME)
        agent.answer_tool(reply("t1"))
        async with asyncio.timeout(60):
            await service.connections[-1].wait_closed()
        assert len(caller.events) == count
        assert service.told[-1]["do"] == "goodbye"


async def greeted(service: PlainService, cache: GreetingCache, cut: bool = False) -> Caller:
    """One call, to the end of its greeting or to the caller's first words."""
    caller = Caller("Hello there.")
    agent = caller.agent = agent_for(PlainProtocol(service.port), greetings=cache)
    begun = len(service.of("begin"))
    await agent.start(caller.session)
    if not service.of("begin")[begun]["history"]:
        await service.say(do="words", text="Hello there.")
        await service.say(do="sound", ms=300)
        await caller.until(AgentAudio)
        if cut:
            caller.speaking = True
            await service.say(do="caller_started")
            await caller.until(Interrupted)
        else:
            await service.say(do="answer_done")
    await caller.until(AgentAudioDone)
    await agent.close()
    return caller


async def test_a_greeting_is_said_at_once_when_the_service_has_said_it_before() -> None:
    cache = GreetingCache()
    async with PlainService().running() as service:
        await greeted(service, cache)
        caller = await greeted(service, cache)
        assert [type(event) for event in caller.events] == [AgentText, AgentAudio, AgentAudioDone]
        assert caller.of(AgentText)[0].text == "Hello there."
        assert caller.of(AgentAudio)[0].pcm == b"\x01" * 2400
        assert service.of("begin")[1]["history"] == [["agent", "Hello there."]]
        assert service.of("begin")[1]["owes"] is False


async def test_a_greeting_that_was_cut_is_not_kept() -> None:
    cache = GreetingCache()
    async with PlainService().running() as service:
        await greeted(service, cache, cut=True)
        await greeted(service, cache)
        assert [begin["history"] for begin in service.of("begin")] == [[], []]


def test_the_oldest_greetings_make_room() -> None:
    cache = GreetingCache(max_bytes=100)
    for name in "abc":
        cache.keep(name, Greeting("", bytes(40)))
    assert [name for name in "abc" if cache.find(name)] == ["b", "c"]
    cache.keep("d", Greeting("", b""))
    assert cache.find("d") is None


async def test_a_connection_that_was_opened_ahead_is_used_and_replaced() -> None:
    async with PlainService().running() as service:
        warm = WarmConnection(lambda: PlainProtocol(service.port), TLS, "plain", seconds=1)
        warm.begin()
        await service.until_connected(1)
        caller = Caller()
        agent = agent_for(PlainProtocol(service.port), warm=warm.take)
        await agent.start(caller.session)
        await service.until_connected(2)
        assert service.of("begin")
        await agent.close()
        await warm.close()
        async with asyncio.timeout(60):
            for connection in service.connections:
                await connection.wait_closed()
        assert len(service.connections) == 2


async def test_a_connection_that_was_opened_ahead_and_lost_is_not_used() -> None:
    async with PlainService().running() as service:
        warm = WarmConnection(lambda: PlainProtocol(service.port), TLS, "plain", seconds=1)
        warm.begin()
        await service.until_connected(1)
        await service.connections[0].close()
        agent = agent_for(PlainProtocol(service.port), warm=warm.take)
        await agent.start(Caller().session)
        await agent.close()
        await warm.close()


@in_virtual_time
async def test_a_service_that_only_thinks_is_given_its_time() -> None:
    voice = TalkingClock()
    async with talking(voice, in_memory=True, thinking_filler_ms=300) as (
        service,
        caller,
        agent,
        _,
    ):
        await service.say(do="caller_text", text="Hello?")
        await caller.until(CallerText)
        agent.say(Speech("One moment.", "filler"))
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert voice.spoken == []
        await service.say(do="caller_text", text="Hello again?")
        await caller.until(CallerText, 2)
        agent.say(Speech("Hold on.", "filler"))
        await caller.until(AgentText, 2)
        assert voice.spoken == ["Hold on."]


async def test_what_the_service_refuses_to_say_is_said_by_the_engine() -> None:
    voice = TalkingClock()
    async with talking(voice, speaks_words=True, slow_response="provider") as (
        service,
        caller,
        agent,
        _,
    ):
        agent.say(Speech("Goodbye.", "farewell"))
        await service.until(lambda: bool(service.of("speak")))
        await service.say(do="unsaid")
        await caller.until(AgentAudioDone)
        assert [text.text for text in caller.of(AgentText)] == ["Goodbye."]
        assert voice.spoken == ["Goodbye."]


@in_virtual_time
async def test_a_noise_that_the_service_took_for_a_voice_is_no_turn_for_ever() -> None:
    async with talking(in_memory=True) as (service, caller, _, _):
        await service.say(do="caller_started")
        stopped = await caller.until(CallerStopped)
        assert (await caller.until(CallerText)).text == ""
        assert (await caller.until(AgentAudioDone)).turn == stopped.turn == 1
        await service.say(do="caller_text", text="Hello?")
        assert (await caller.until(CallerText, 2)).turn == 2


@in_virtual_time
async def test_a_service_that_has_ended_the_conversation_has_not_failed() -> None:
    async with talking(in_memory=True, reconnect_attempts=0) as (service, caller, _, _):
        await service.say(do="ended", reason="the agent hung up")
        assert (await caller.until(AgentEnded)).reason == "the agent hung up"
        await service.connections[-1].close(1000)
        await asyncio.sleep(0.05)
        assert not caller.of(AgentFailed)


@in_virtual_time
async def test_a_session_that_has_just_begun_need_not_be_kept_awake(monkeypatch) -> None:
    monkeypatch.setattr(PlainProtocol, "keep_alive_s", 5.0)
    async with talking(in_memory=True) as (service, _, _, _):
        await service.say(do="used", model="m", amounts={})
        await service.until(lambda: bool(service.of("begin")))
        await asyncio.sleep(0.02)
        assert not service.of("keep_alive")


async def test_a_late_answer_that_was_lost_with_the_connection_is_told_by_the_next() -> None:
    async with talking() as (service, caller, agent, _):
        late = Speech("About your earlier request: The table is booked.", "late answer")
        agent.say(late)
        await service.until(lambda: len(service.of("inform")) == 1)
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("inform")) == 2)
        assert not caller.of(AgentText)
        await service.say(do="words", text="By the way, the table is booked.")
        await service.say(do="answer_done")
        assert (await caller.until(AgentText)).speech is late


@in_virtual_time
async def test_a_farewell_that_was_lost_with_the_connection_is_said_by_the_next() -> None:
    async with talking(in_memory=True, speaks_words=True) as (service, caller, agent, _):
        farewell = Speech("Goodbye.", "farewell")
        agent.say(farewell)
        await service.until(lambda: len(service.of("speak")) == 1)
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("speak")) == 2)
        await service.say(do="words", text="Goodbye.")
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert [text.speech for text in caller.of(AgentText)] == [farewell]


@in_virtual_time
@pytest.mark.parametrize(("voice", "wait"), [(None, 7.0), (TalkingClock(), 2.0)])
async def test_a_sentence_that_is_given_again_is_waited_for_as_long_again(voice, wait) -> None:
    """The wait for the lost connection must not take it from the next one."""
    given = talking(voice, in_memory=True, speaks_words=True, slow_response="provider")
    async with given as (service, caller, agent, _):
        farewell = Speech("Goodbye.", "farewell")
        agent.say(farewell)
        await service.until(lambda: len(service.of("speak")) == 1)
        await asyncio.sleep(2.0)
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("speak")) == 2)
        await asyncio.sleep(wait)
        assert not caller.of(AgentText)
        assert farewell.state is SpeechState.QUEUED
        await service.say(do="words", text="Goodbye.")
        await service.say(do="sound", ms=20)
        await service.say(do="answer_done")
        await caller.until(AgentAudioDone)
        assert [text.speech for text in caller.of(AgentText)] == [farewell]


@in_virtual_time
async def test_a_settled_question_is_not_asked_again_by_the_next_connection() -> None:
    async with talking(in_memory=True, speaks_words=True) as (service, _, agent, _):
        agent.listen_aside(lambda words: None)
        question = Speech("Shall I book the table?", "approval")
        agent.say(question)
        await service.until(lambda: len(service.of("speak")) == 1)
        agent.listen_aside(None)  # answered with a key
        assert question.state is SpeechState.DROPPED
        await service.connections[-1].close(1011)
        await service.until(lambda: len(service.of("begin")) == 2)
        agent.say(Speech("Goodbye.", "farewell"))
        await service.until(lambda: len(service.of("speak")) == 2)
        assert service.of("speak")[-1]["text"] == "Goodbye."


@in_virtual_time
@pytest.mark.parametrize("purpose", ["farewell", "late answer"])
async def test_a_sentence_that_the_service_takes_and_never_says_is_dropped(purpose) -> None:
    """Later ones do not wait for it, nor does the end of the call."""
    async with talking(in_memory=True, speaks_words=True) as (service, caller, agent, protocol):
        protocol.inform = lambda text: False  # type: ignore[method-assign]
        speech = Speech("The table is booked.", purpose)
        agent.say(speech)
        await service.until(lambda: bool(service.of("speak")))
        await asyncio.wait_for(caller.until(AgentAudioDone), 10)
        assert speech.state is SpeechState.DROPPED
        assert len(service.of("speak")) == 1


@in_virtual_time
async def test_a_farewell_that_breaks_off_with_the_connection_is_over() -> None:
    """The call waits for its end before it hangs up."""
    async with talking(in_memory=True, speaks_words=True) as (service, caller, agent, _):
        farewell = Speech("Goodbye, and thank you.", "farewell")
        agent.say(farewell)
        await service.until(lambda: bool(service.of("speak")))
        await service.say(do="words", text="Goodbye, and thank you.")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        farewell.begin()
        await service.connections[-1].close(1011)
        await asyncio.wait_for(caller.until(AgentAudioDone), 1)
        assert farewell.state is SpeechState.CUT


async def test_a_message_that_we_make_a_mistake_with_does_not_cost_the_connection() -> None:
    async with talking() as (service, caller, _, protocol):
        await service.say(do="tool", id="t1", name="book")  # a KeyError in the plain protocol
        trouble = await caller.until(AgentTrouble)
        assert trouble == AgentTrouble("internal", "plain: KeyError('arguments')")
        await service.say(do="sound", ms=20)
        await caller.until(AgentAudio)
        assert len(service.connections) == 1
        assert protocol.losses == []


async def test_a_mistake_of_ours_on_the_way_back_is_a_failure_and_no_silence() -> None:
    class Broken(PlainProtocol):
        def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
            if resumed is not None:
                raise ZeroDivisionError("a bug")
            super().begin(session, host, resumed)

    async with PlainService().running() as service:
        caller = Caller()
        agent = caller.agent = agent_for(Broken(service.port))
        await agent.start(caller.session)
        await service.connections[-1].close(1011)
        failed = await caller.until(AgentFailed)
        assert failed == AgentFailed("plain: internal error: ZeroDivisionError", "internal")
        await agent.close()


@pytest.mark.parametrize(
    "url", ["wss://?token=secret", "wss://host:port/?token=secret", "wss://[::/?token=secret"]
)
async def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    class Misled(PlainProtocol):
        async def address(self) -> Address:
            return Address(url)

    agent = agent_for(Misled(1))
    with pytest.raises(AgentError) as refused:
        await agent.start(Caller().session)
    assert (str(refused.value), refused.value.kind) == (
        "the address of plain is not valid",
        "garbage",
    )
    await agent.close()


async def test_a_mistake_in_the_engines_speech_is_told_and_counted() -> None:
    class Broken(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
            raise ZeroDivisionError("a bug")
            yield b""

    async with talking(Broken()) as (_, caller, agent, _):
        agent.say(Speech("Are you still there?", "reprompt"))
        trouble = await caller.until(AgentTrouble)
        assert trouble == AgentTrouble("internal", "own speech: ZeroDivisionError('a bug')")
        await caller.until(AgentAudioDone)


@in_virtual_time
async def test_a_late_answer_without_voice_and_connection_waits_for_the_next_one() -> None:
    async with talking(in_memory=True) as (service, caller, agent, _):
        late = Speech("About your earlier request: The table is booked.", "late answer")
        await service.connections[-1].close(1011)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        agent.say(late)
        await service.until(lambda: bool(service.of("inform")))
        await service.say(do="words", text="By the way, the table is booked.")
        assert (await caller.until(AgentText)).speech is late


@in_virtual_time
async def test_a_sentence_whose_voice_breaks_in_the_middle_was_not_heard_whole() -> None:
    class Breaking(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
            yield bytes(320)
            await asyncio.sleep(0.1)
            raise VoiceError("the voice broke")

    async with talking(Breaking(), in_memory=True) as (_, caller, agent, _):
        question = Speech("Are you there?", "reprompt")
        agent.say(question)
        text = await caller.until(AgentText)
        text.speech.begin()  # by the call
        assert (await caller.until(AgentTrouble)).what == "unsaid"
        assert question.state is SpeechState.CUT
