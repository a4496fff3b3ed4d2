"""A pipeline takes over a call from another agent: what it knows, answers and hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from cordboard.agent_api.agent import Agent, AgentFailed, CallerStarted, CallerStopped, Said
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_pipeline import (
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    ScriptedRecogniser,
    TalkingClock,
    silence,
    speech,
)


async def echo(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield f"You said {text}"


class TakingOver:
    """A scripted agent, and a pipeline behind it."""

    def __init__(self, script: Script, *texts: str | Exception) -> None:
        self._script = script
        self._texts = texts
        self.brain = FunctionBrain(echo)

    def __call__(self) -> FallbackAgent:
        return FallbackAgent(self._open, ("first", "pipeline"), "One moment.", TalkingClock())

    def _open(self, provider: str) -> Agent:
        if provider == "first":
            return FakeAgent(self._script)
        self.recogniser = ScriptedRecogniser(self._texts)
        hearing = HearingParts(
            VoiceActivityBank(LoudnessModel(), InlineExecutor()),
            self.recogniser,
            TurnProfile(),
        )
        return PipelineAgent(PipelineParts(hearing, self.brain, TalkingClock()))


def said(stage: CallStage) -> list[tuple[int, str]]:
    return [(event.turn, event.text) for event in stage.of(events.Answering)]


async def says(stage: CallStage, *sounds: bytes) -> None:
    await asyncio.sleep(0.02)
    assert stage.line.media is not None
    for sound in sounds:
        await stage.line.media.say(sound)


def test_it_knows_the_conversation_and_answers_the_caller(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await agent.caller_says(1, "I am Kari.")
        await agent.speak(1, "Hello Kari.")
        await asyncio.sleep(1)
        await agent.caller_says(2, "who am I")
        agent.emit(AgentFailed("gone", "dropped"))

    async def scenario(stage: CallStage) -> None:
        await says(stage, silence(10_000), speech(800), silence(6_000))
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    taking = TakingOver(first, "goodbye")
    stage = play_call(tmp_path, taking, scenario)
    assert taking.brain.dialogue is not None
    assert taking.brain.dialogue.session.history == (
        Said("agent", "Good morning."),
        Said("caller", "I am Kari."),
        Said("agent", "Hello Kari."),
    )
    assert said(stage)[2:] == [
        (2, "One moment."),
        (2, "You said who am I"),
        (3, "You said goodbye"),
    ]


def test_it_hears_a_sentence_that_had_begun_before(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        await asyncio.sleep(2.3)
        agent.emit(CallerStarted(asyncio.get_running_loop().time() - 0.3))
        await asyncio.sleep(0.5)
        agent.emit(AgentFailed("gone", "dropped"))

    async def scenario(stage: CallStage) -> None:
        await says(stage, silence(2_000), speech(1_600), silence(6_000))
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(tmp_path, TakingOver(first, "the whole sentence"), scenario)
    assert [(heard.turn, heard.text) for heard in stage.of(events.Heard)] == [
        (1, "the whole sentence")
    ]
    assert (1, "You said the whole sentence") in said(stage)


def test_it_hears_again_what_was_not_written_down(tmp_path: Path) -> None:
    async def first(agent: FakeAgent) -> None:
        time = asyncio.get_running_loop().time
        await asyncio.sleep(2.3)
        agent.emit(CallerStarted(time() - 0.3))
        await asyncio.sleep(1.5)
        agent.emit(CallerStopped(1, time() - 0.5, time()))
        agent.emit(AgentFailed("gone", "dropped"))

    async def scenario(stage: CallStage) -> None:
        await says(stage, silence(2_000), speech(1_200), silence(6_000))
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    taking = TakingOver(first, "what was lost")
    stage = play_call(tmp_path, taking, scenario)
    assert [(heard.turn, heard.text) for heard in stage.of(events.Heard)] == [(2, "what was lost")]
    assert said(stage)[1:] == [(1, "One moment."), (2, "You said what was lost")]
    assert stage.of(events.BargedIn) == [], "what was said before has cut what was said since"
