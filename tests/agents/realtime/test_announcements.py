"""What a service said only in part proves nothing and was not heard whole; in whole calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cordboard.agent_api.speech import Speech, SpeechState
from cordboard.agents.realtime.agent import RealtimeAgent
from cordboard.calls import events
from cordboard.errors import VoiceError
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_pipeline import TalkingClock

from .plain_service import MemoryService, PlainProtocol, agent_for

CONSENT = "This call is recorded."
ASKS = {"recording": {"enabled": True, "consent": CONSENT}}


class Service(MemoryService):
    """Says and does what the test wants, in virtual time."""

    def __init__(self, *, greets: bool = True) -> None:
        super().__init__()
        self.greets = greets

    def agent(self, voice: object = None, **settings: object) -> RealtimeAgent:
        protocol = PlainProtocol(0)
        protocol.speaks_greeting = self.greets
        protocol.speaks_words = True
        return agent_for(protocol, voice, connection=self.connect, **settings)

    async def speaks(self, words: str, ms: int = 1000) -> None:
        await self.say(do="words", text=words)
        await self.say(do="sound", ms=ms)


def proven(stage: CallStage) -> bool:
    """True if the consent was proven heard, and the recording has begun."""
    heard = bool(stage.of(events.AnnouncementHeard))
    assert heard is bool(stage.of(events.RecordingStarted))
    assert heard is not bool(stage.of(events.AnnouncementUnheard))
    return heard


@pytest.mark.parametrize("again", ["the same words", "other words", "nothing"])
def test_a_consent_in_a_response_that_failed_counts_only_if_it_is_said_again(
    tmp_path: Path, again: str
) -> None:
    service = Service()

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        await service.speaks(f"{CONSENT} Good morning.", ms=500)
        await service.say(do="answer_broke")
        if again != "nothing":
            words = f"{CONSENT} Good morning." if again == "the same words" else "Good morning."
            await service.speaks(words, ms=2000)
        await service.say(do="answer_done")
        await asyncio.sleep(5)
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, service.agent, scenario, context=ASKS)
    assert proven(stage) is (again == "the same words")


def test_a_filler_amid_the_announcement_ends_no_proof(tmp_path: Path) -> None:
    service = Service()

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        await service.speaks(f"{CONSENT} Good morning.", ms=500)
        await asyncio.sleep(12)
        stage.line.caller_hangs_up()

    silence = {"filler_after_ms": 900, "fillers": ["One moment."]}
    stage = play_call(
        tmp_path,
        lambda: service.agent(TalkingClock()),
        scenario,
        context={**ASKS, "silence": silence},
    )
    assert [e.text for e in stage.of(events.Answering)][1:2] == ["One moment."]
    assert not proven(stage)


def test_a_consent_of_the_engine_s_voice_that_breaks_counts_for_nothing(tmp_path: Path) -> None:
    class Breaking(TalkingClock):
        async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
            yield bytes(3200)
            raise VoiceError("the voice broke")

    service = Service(greets=False)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(8)
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, lambda: service.agent(Breaking()), scenario, context=ASKS)
    assert not proven(stage)


def test_an_engine_s_sentence_that_the_service_breaks_off_was_cut(tmp_path: Path) -> None:
    service = Service()
    states: list[SpeechState] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        await service.speaks("Good morning.")
        await service.say(do="answer_done")
        await asyncio.sleep(2)
        assert stage.call.conversation is not None
        speech = Speech("Are you there?", "reprompt", lambda each: states.append(each.state))
        stage.call.conversation.speech.say(speech)
        await asyncio.sleep(0.5)
        await service.speaks("Are you there?", ms=300)
        await service.say(do="answer_broke")
        await service.say(do="answer_done")
        await asyncio.sleep(2)
        stage.line.caller_hangs_up()

    play_call(tmp_path, lambda: service.agent(slow_response="provider"), scenario)
    assert states == [SpeechState.BEGUN, SpeechState.CUT]
