"""A language model in a pipeline: an agent between stand-ins, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from tests.agents.llm.scripted_model import (
    WEATHER,
    ScriptedModel,
    Step,
    told,
    wishes,
    words,
)
from tests.agents.pipeline.test_agent import Stage

from cordboard.agent_api.agent import (
    AgentFailed,
    AgentSession,
    AgentText,
    CallerStopped,
    Interrupted,
    ToolAsked,
    ToolCancelled,
    Used,
)
from cordboard.agent_api.language_model import Finished, ModelRequest, TextPiece
from cordboard.agents.llm.brain import LlmBrain
from cordboard.agents.llm.messages import CUT_NOTE
from cordboard.audio.format import SLIN_8K
from cordboard.errors import BrainError
from cordboard.tools.tool import Status, ToolReply
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard_testkit.fake_pipeline import silence, speech
from cordboard_testkit.virtual_time import virtual_time


class ModelStage(Stage):
    """The stage, with a model for a brain."""

    def __init__(self, model: ScriptedModel, *texts: str) -> None:
        self.model = model
        super().__init__(list(texts))

    def with_recogniser(self, recogniser):  # type: ignore[no-untyped-def]
        self.brain = LlmBrain(self.model, OpenAIChatBrain(type="openai_chat"))  # type: ignore[assignment]
        return super().with_recogniser(recogniser)

    async def start(self, greeting: str = "") -> None:
        session = AgentSession(
            "call", "demo", "", greeting, (WEATHER,), SLIN_8K, self.emit,
            lambda: self.media.queued_ms > 0,
        )  # fmt: skip
        await self.agent.start(session)
        self.media.on_audio(self.agent.hear)


def play(scenario: Callable[[ModelStage], Awaitable[None]], stage_of: Callable[[], ModelStage]):  # type: ignore[no-untyped-def]
    async def run() -> ModelStage:
        stage = stage_of()
        await scenario(stage)
        await stage.agent.close()
        for _ in range(3):
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return stage

    with virtual_time() as loop:
        return loop.run_until_complete(run())


def test_the_model_thinks_in_the_pause_that_ends_the_turn() -> None:
    """Its 0.4 s to the first words are over when the turn is."""

    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.say(then=2000)

    slow = [0.4, TextPiece("Good morning. "), TextPiece("Yes."), Finished("stop", {"x": 1.0})]
    stage = play(scenario, lambda: ModelStage(ScriptedModel(slow), "Good morning to you"))
    assert stage.sentences() == ["Good morning.", "Yes."]
    waited = stage.time_of(AgentText) - stage.time_of(CallerStopped)
    assert waited < 0.2
    assert len(stage.model.requests) == 1
    (used,) = stage.of(Used)
    assert isinstance(used, Used)
    assert used.usage.amounts == {"x": 1.0}


class ReadingModel(ScriptedModel):
    """Implements `ReadsAhead`: it reads for ever."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        super().__init__(*scripts)
        self.readings: list[Future[None]] = []

    def read_ahead(self, beginning: ModelRequest) -> Future[None]:
        self.readings.append(Future())
        return self.readings[-1]


def test_nothing_is_read_ahead_for_a_call_that_has_ended() -> None:
    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.say(then=2000)

    model = ReadingModel(words("Good morning."))
    stage = play(scenario, lambda: ModelStage(model, "Good morning to you"))
    assert stage.sentences() == ["Good morning."]
    assert [reading.cancelled() for reading in model.readings] == [True, True]


def test_who_goes_on_has_not_been_answered() -> None:
    """At the first pause a tool is wished for; it is never asked for."""

    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.media.say(speech(600) + silence(400) + speech(600) + silence(2000))

    stage = play(
        scenario,
        lambda: ModelStage(
            ScriptedModel(wishes(('{"place":"Oslo"}', "a")), words("Rome is sunny.")),
            "the weather in Oslo",
            "the weather in Oslo no in Rome please",
        ),
    )
    assert stage.of(ToolAsked) == []
    assert stage.sentences() == ["Rome is sunny."]
    assert told(stage.model.requests[-1].messages) == [
        "caller: the weather in Oslo no in Rome please"
    ]


def test_a_caller_who_cuts_in_stops_model_and_tool() -> None:
    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.say(then=1500)
        assert len(stage.of(ToolAsked)) == 1
        await stage.say(1200, 300)
        stage.agent.interrupted("Let me", 500, 1)
        await stage.media.say(silence(2500))

    stage = play(
        scenario,
        lambda: ModelStage(
            ScriptedModel(
                wishes(
                    ('{"place":"Oslo"}', "a"),
                    text="Let me look that up in the big book of the weather for you.",
                ),
                words("Fine."),
            ),
            "weather in Oslo please",
            "stop it now please",
            "stop it now please",
            "stop it now please",
        ),
    )
    assert len(stage.of(Interrupted)) == 1
    assert len(stage.of(ToolCancelled)) == 1
    assert stage.sentences()[-1] == "Fine."
    lines = told(stage.model.requests[-1].messages)
    assert lines[1] == "agent: Let me [a]"
    assert lines[2].startswith("tool a: cancelled")
    assert lines[3] == f"caller: {CUT_NOTE}\nstop it now please"


def test_tools_are_asked_of_the_call_and_answered_by_it() -> None:
    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.say(then=1500)
        (asked,) = stage.of(ToolAsked)
        assert isinstance(asked, ToolAsked)
        reply = ToolReply(asked.ask.ask_id, asked.ask.name, Status.OK, "Sunny in Oslo.")
        stage.agent.answer_tool(reply)
        await stage.media.say(silence(1000))

    stage = play(
        scenario,
        lambda: ModelStage(
            ScriptedModel(wishes(('{"place":"Oslo"}', "a")), words("It is sunny.")),
            "weather in Oslo please",
        ),
    )
    assert stage.sentences() == ["It is sunny."]
    assert told(stage.model.requests[1].messages)[2] == "tool a: ok Sunny in Oslo."


def test_a_model_that_fails_is_told_with_its_kind() -> None:
    async def scenario(stage: ModelStage) -> None:
        await stage.start()
        await stage.say(then=1500)

    stage = play(
        scenario,
        lambda: ModelStage(ScriptedModel([BrainError("used up", "quota")]), "Good morning"),
    )
    assert stage.of(AgentFailed) == [AgentFailed("used up", "quota")]
