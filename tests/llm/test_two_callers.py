"""Two callers at once, and one local model: both are answered, by it or by the rules.

Calls, desk, ledger and agents are real, and so is the model; the line, the recogniser and the voice
are stand-ins, in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.dialogue import Brain, DialogueSession
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.making import model_brain
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.agents.rules.brain import RulesBrain
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls.events import Answering, AudioStarted
from cordboard.calls.history import CallHistory
from cordboard.config.rules import Rules
from cordboard.errors import BrainError
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.tool import ToolSpec
from cordboard.vendors.local.config import GgufBrain
from cordboard_testkit.call_stage import CallStage, FakeTool, stage_config
from cordboard_testkit.fake_line import FakeLine, FakeMedia
from cordboard_testkit.fake_pipeline import (
    InlineExecutor,
    LoudnessModel,
    ScriptedRecogniser,
    TalkingClock,
    silence,
    speech,
)

PATIENCE = dict.fromkeys(("first_token_ms", "stall_ms"), 120_000)
RULES: dict[str, Any] = {
    "lists": {"place": {"values": {"Oslo": ["Oslo"], "Bergen": ["Bergen"]}}},
    "intents": {
        "weather": {
            "title": "the weather",
            "example": "How is the weather in Oslo?",
            "sentences": ["[and] how is [the] weather in {place}"],
            "harmless": True,
            "slots": {"place": {"ask": ["Where?"], "unknown": "I do not know it.", "retries": 1}},
            "tool": "get_weather",
            "arguments": {"place": "{place}"},
        }
    },
}
CONTEXT = {
    "prompt": "You are the weather desk.",
    "greeting": "Weather desk, good day.",
    "tools": ["get_weather", "hangup_call"],
    "rules": RULES,
}


def brain_of(model_file: Path, **settings: Any) -> LlmBrain:
    told = {"model": str(model_file), "n_threads": 1, **PATIENCE, **settings}
    return model_brain(GgufBrain(type="gguf", **told), {})


class Weather(FakeTool):
    """A tool that wants a place, and nothing else."""

    @property
    def spec(self) -> ToolSpec:
        place = {"type": "object", "properties": {"place": {"type": "string"}},
                 "required": ["place"], "additionalProperties": False}  # fmt: skip
        return replace(super().spec, description="Gets the weather.", parameters=place)


class Desk:
    """Takes calls for one model, with the rules behind it."""

    def __init__(self, folder: Path, model: Brain) -> None:
        self._folder = folder
        self._config = stage_config(CONTEXT)
        rules = Rules.model_validate(RULES)
        self._brains = {"model": model, "rules": RulesBrain(rules, today=date.today)}
        self._calls = 0

    def take(self, said: str) -> CallStage:
        """Begin a call whose caller says this."""
        self._calls += 1
        recogniser = ScriptedRecogniser([said] * 3)

        def opened(provider: str) -> Agent:
            bank = VoiceActivityBank(LoudnessModel(), InlineExecutor())
            hearing = HearingParts(bank, recogniser, TurnProfile())
            return PipelineAgent(PipelineParts(hearing, self._brains[provider], TalkingClock()))

        agent = FallbackAgent(opened, ("model", "rules"), "One moment please.", TalkingClock())
        line = FakeLine(f"11111111-2222-4333-8444-{self._calls:012}")
        return CallStage(self._folder, agent, self._config, [Weather("get_weather")], line)


async def greeted(stage: CallStage) -> FakeMedia:
    """Listen to the greeting."""
    async with asyncio.timeout(60):
        while stage.line.media is None or not stage.of(AudioStarted):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await stage.line.media.say(silence(2_000))
    return stage.line.media


async def answered(stage: CallStage, media: FakeMedia, place: str) -> CallHistory:
    """Speak, listen until the weather comes, and hang up."""
    await media.say(speech(900))
    async with asyncio.timeout(240):
        while not any(place in spoken.text for spoken in stage.of(Answering)):
            await media.say(silence(200))
    media.break_off("caller_hangup")
    await stage.over()
    stage.recordings.close()
    return CallHistory.from_lines(stage.lines())


def told(history: CallHistory) -> str:
    return " ".join(text for who, text in history.transcript() if who == "agent")


async def test_the_second_caller_waits_for_the_model(model_file: Path, tmp_path: Path) -> None:
    brain = brain_of(model_file, wait_ms=120_000)
    await asyncio.to_thread(brain.warm, ())
    desk = Desk(tmp_path, brain)
    with capture_logs() as logged:
        asked = {town: desk.take(f"How is the weather in {town}?") for town in ("Oslo", "Bergen")}
        media = await asyncio.gather(*map(greeted, asked.values()))
        histories = await asyncio.gather(
            *(answered(*call) for call in zip(asked.values(), media, asked, strict=True))
        )
        await brain.close()
    assert [entry for entry in logged if entry["log_level"] == "error"] == []
    for place, other, history in zip(asked, reversed(asked), histories, strict=True):
        assert history.troubles == []
        tools = [(tool.name, tool.arguments, tool.status) for tool in history.tools]
        assert tools == [("get_weather", {"place": place}, "ok")]
        assert f"It is sunny in {place}." in told(history)
        assert other not in told(history)
    assert "gguf_waited" in [entry["event"] for entry in logged]


async def test_the_rules_serve_a_caller_for_whom_the_model_has_no_time(
    model_file: Path, tmp_path: Path
) -> None:
    brain = brain_of(model_file, wait_ms=200, max_tokens=1_000, spoken_style="")
    await asyncio.to_thread(brain.warm, ())
    stage = Desk(tmp_path, brain).take("How is the weather in Bergen?")
    media = await greeted(stage)
    async with aclosing(story(brain)) as sentences:
        assert await anext(sentences)
        history = await answered(stage, media, "Bergen")
        assert await anext(sentences), "the other caller's answer goes on"
    await brain.close()
    busy = "model -> rules: quota: the model is busy with other answers"
    assert history.troubles == [f"agent_fallback: {busy}"]
    assert [(tool.arguments, tool.status) for tool in history.tools] == [
        ({"place": "Bergen"}, "ok")
    ]
    assert "It is sunny in Bergen." in told(history)


async def story(brain: LlmBrain) -> AsyncGenerator[str, None]:
    """Yield the sentences of a long answer, once the model has time for it."""

    async def nothing(*_: Any, **__: Any) -> Any:
        raise AssertionError

    dialogue = brain.open(DialogueSession("You tell very long stories.", (), nothing))
    while True:
        try:
            async with aclosing(dialogue.respond("Tell me a story of a lighthouse.")) as sentences:
                async for sentence in sentences:
                    yield sentence
                return
        except BrainError as error:
            if error.kind != "quota":
                raise
