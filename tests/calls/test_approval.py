"""Calls in which the caller is asked for a yes: the real pipeline, desk and call in virtual time.

The tool changes the world. What the caller says is what the recogniser is told to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.stt import NO_HINTS, SpeechHints, Transcript
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.calls.confirmation import AGAIN, PATIENCE
from cordboard.calls.failure_apology import STOPPING
from cordboard.config.conversation import BargeIn
from cordboard.errors import LineError, LineGone
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.call_line import KeysWanted
from cordboard.tools.tool import Effects
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.fake_pipeline import (
    MS_PER_WORD,
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    TalkingClock,
    silence,
    speech,
)

QUESTION = "Shall I book a table in {place}?"
ASKED = "Shall I book a table in Bergen?"
WORD = MS_PER_WORD / 1000
QUESTION_SECONDS = 7 * WORD
BOOKED = "It is sunny in Bergen."
"""What the stand-in for a booking answers."""
Scenario = Callable[["Talk"], Awaitable[None]]


class Ear:
    """A recogniser that writes what it is told to; remembers what it was shown."""

    def __init__(self) -> None:
        self.text = ""
        self.confidence = 0.9
        self.hints: list[tuple[str, ...]] = []

    async def transcribe(
        self, pcm_8k: bytes, hints: SpeechHints = NO_HINTS, *, speculative: bool = False
    ) -> Transcript:
        self.hints.append(hints.phrases)
        await asyncio.sleep(0.1)
        return Transcript(self.text, no_speech=0.0, confidence=self.confidence, took_ms=100)


async def book(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    if "table" not in text:
        yield f"You said {text}"
        return
    reply = await dialogue.session.ask_tool("book", {"place": "Bergen"})
    yield reply.message if reply.ok else "All right, never mind."


class Talk:
    """A call, its caller, and what they can do."""

    def __init__(self, stage: CallStage, ear: Ear) -> None:
        self.stage = stage
        self.ear = ear

    @property
    def media(self) -> FakeMedia:
        assert self.stage.line.media is not None
        return self.stage.line.media

    async def says(self, text: str, *, seconds: float = 0.7, then: float = 1.5) -> None:
        self.ear.text = text
        await self.media.say(speech(round(seconds * 1000)) + silence(round(then * 1000)))

    async def listens(self, seconds: float) -> None:
        await self.media.say(silence(round(seconds * 1000)))

    async def hears_out(self) -> None:
        """Until the agent has fallen silent."""
        while self.media.queued_ms == 0:
            await self.listens(0.1)
        while self.media.queued_ms > 0:
            await self.listens(0.1)

    def hang_up(self) -> None:
        self.media.break_off("caller_hangup")


def converse(
    tmp_path: Path,
    scenario: Scenario,
    tool: FakeTool,
    *others: FakeTool,
    barge_in: BargeIn = "on",
    context: Mapping[str, Any] | None = None,
    respond: Callable[[FunctionDialogue, str], AsyncGenerator[str, None]] = book,
) -> CallStage:
    ear = Ear()

    def agent() -> PipelineAgent:
        bank = VoiceActivityBank(LoudnessModel(), InlineExecutor())
        hearing = HearingParts(bank, ear, TurnProfile())
        return PipelineAgent(
            PipelineParts(hearing, FunctionBrain(respond), TalkingClock(), barge_in)
        )

    async def play(stage: CallStage) -> None:
        await asyncio.sleep(1.5)
        talk = Talk(stage, ear)
        await scenario(talk)
        talk.hang_up()

    names = [tool.spec.name, *(other.spec.name for other in others)]
    return play_call(
        tmp_path,
        agent,
        play,
        context={"greeting": "", "tools": names, "barge_in": barge_in, **(context or {})},
        tools=(tool, *others),
    )


def booking(seconds: float = 0.0) -> FakeTool:
    return FakeTool("book", seconds, Effects.DESTRUCTIVE, approval_question=QUESTION)


def said(stage: CallStage) -> list[str]:
    return [event.text for event in stage.of(events.Answering)]


def approvals(stage: CallStage) -> list[tuple[str, str, str]]:
    return [(a.question, a.answer, a.by) for a in stage.of(events.ToolApproval)]


def test_a_spoken_yes_has_it_done_and_the_outcome_is_spoken(tmp_path: Path) -> None:
    tool = booking()
    ears: list[Ear] = []

    async def scenario(talk: Talk) -> None:
        ears.append(talk.ear)
        await talk.says("A table please")
        await talk.hears_out()
        assert tool.began == 0, "not before the caller has said yes"
        await talk.says("Yes, please.")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert tool.finished == 1
    assert approvals(stage) == [(ASKED, "yes", "voice")]
    assert stage.history().transcript() == [
        ("caller", "A table please"),
        ("agent", ASKED),
        ("caller", "Yes, please."),
        ("agent", BOOKED),
    ]
    assert "Yes, please." in ears[0].hints[-1], "the recogniser expects a yes or a no"
    assert "Yes, please." not in ears[0].hints[0]
    first, second = stage.of(events.Latency)
    assert (first.turn, second.turn) == (1, 2)
    assert second.endpoint_ms <= 300, "a short answer is taken at once"
    assert second.total_ms <= 450
    assert stage.of(events.AudioEnded) == [events.AudioEnded(1), events.AudioEnded(2)]
    asked, answered = stage.history().caller_turns
    assert asked.answer_start_ms is not None
    assert asked.answer_end_ms is not None
    question_ms = asked.answer_end_ms - asked.answer_start_ms
    assert question_ms == pytest.approx(QUESTION_SECONDS * 1000, abs=30)
    assert answered.answer == [BOOKED]
    assert 'ai_agent_tool_approvals_total{answer="yes"} 1.0' in stage.metrics.render().decode()
    (approval,) = stage.history().approvals
    assert (approval.question, approval.answer, approval.by) == (ASKED, "yes", "voice")


@pytest.mark.parametrize("words", ["No.", "uh no, wait", "I'd rather not", "No, don't."])
def test_a_no_has_it_left_alone(tmp_path: Path, words: str) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.hears_out()
        await talk.says(words)
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert tool.began == 0
    assert approvals(stage) == [(ASKED, "no", "voice")]
    assert stage.of(events.Latency)[-1].endpoint_ms <= 300, "however long it is"
    assert stage.history().transcript()[-2:] == [
        ("caller", words),
        ("agent", "All right, never mind."),
    ]
    (answer,) = stage.of(events.ToolAnswered)
    assert (answer.status, answer.reason) == ("refused", "approval")
    assert 'ai_agent_tool_refused_total{reason="approval"} 1.0' in stage.metrics.render().decode()


def test_who_answers_over_the_question_is_heard_and_the_rest_of_it_is_not_said(
    tmp_path: Path,
) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        await talk.listens(4 * WORD)
        await talk.says("Yes.", seconds=0.5)
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert tool.finished == 1, "the ask was not given up"
    (cut,) = stage.of(events.BargedIn)
    assert ASKED.startswith(cut.heard)
    assert 0 < cut.heard_ms < QUESTION_SECONDS * 1000
    assert approvals(stage) == [(ASKED, "yes", "voice")]
    assert stage.history().transcript()[1:] == [
        ("agent", cut.heard),
        ("caller", "Yes."),
        ("agent", BOOKED),
    ]
    assert [answer.status for answer in stage.of(events.ToolAnswered)] == ["ok"]


def test_a_murmur_over_the_question_is_no_yes(tmp_path: Path) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        await talk.listens(2 * WORD)
        await talk.says("Mm-hmm.", seconds=0.3, then=0.5)
        await talk.hears_out()
        assert tool.began == 0
        await talk.says("Mm-hmm.", seconds=0.3)  # now it is one
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert [resumed.why for resumed in stage.of(events.Resumed)] == ["backchannel"]
    assert approvals(stage) == [(ASKED, "yes", "voice")]
    assert tool.finished == 1


def test_without_barge_in_an_answer_over_the_question_counts_when_it_was_heard_out(
    tmp_path: Path,
) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        await talk.listens(3 * WORD)
        await talk.says("No.", seconds=0.4, then=4)

    stage = converse(tmp_path, scenario, tool, barge_in="off")
    assert stage.of(events.BargedIn) == []
    assert approvals(stage) == [(ASKED, "no", "voice")]
    assert tool.began == 0


@pytest.mark.parametrize(("key", "answer", "runs"), [("1", "yes", 1), ("2", "no", 0)])
def test_a_key_answers_and_takes_the_question_back(
    tmp_path: Path, key: str, answer: str, runs: int
) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        await talk.listens(4 * WORD)
        talk.media.press(key)
        await talk.listens(4)

    stage = converse(tmp_path, scenario, tool)
    assert approvals(stage) == [(ASKED, answer, "key")]
    assert tool.finished == runs
    assert [(pressed.key, pressed.secret) for pressed in stage.of(events.Key)] == [(key, False)]
    assert len(stage.of(events.BargedIn)) == 1
    spoken = [text for who, text in stage.history().transcript() if who == "agent"]
    assert spoken[0].endswith(BOOKED if runs else "All right, never mind.")


def test_after_a_key_a_slow_tool_is_bridged_as_after_words(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.listens(4 * WORD)
        talk.media.press("1")
        await talk.listens(6)

    silence = {"filler_after_ms": 900, "fillers": ["Just a second."]}
    stage = converse(tmp_path, scenario, booking(4), context={"silence": silence})
    assert said(stage) == [ASKED, "Just a second.", BOOKED]


def test_a_key_before_the_question_is_heard_is_no_answer(tmp_path: Path) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.5)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        talk.media.press("1")
        await talk.hears_out()
        await talk.listens(1)
        assert tool.began == 0
        talk.media.press("2")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert approvals(stage) == [(ASKED, "no", "key")]


def test_what_is_unclear_is_asked_about_once(tmp_path: Path) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.hears_out()
        await talk.says("Yes, but at eight")
        await talk.hears_out()
        await talk.says("Go ahead.")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert tool.finished == 1
    assert [text for who, text in stage.history().transcript() if who == "agent"] == [
        ASKED,
        AGAIN,
        BOOKED,
    ]
    assert approvals(stage) == [(ASKED, "yes", "voice")]


def test_a_yes_of_which_the_recogniser_is_not_sure_is_none(tmp_path: Path) -> None:
    """As it is written of noise."""
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.hears_out()
        talk.ear.confidence = 0.2
        await talk.says("Yes.")
        await talk.hears_out()
        assert tool.began == 0
        talk.ear.confidence = 0.45
        await talk.says("Yes.")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert said(stage) == [ASKED, AGAIN, BOOKED]
    assert [heard.text for heard in stage.of(events.Heard)][1:] == ["Yes.", "Yes."]


def test_nothing_is_done_without_an_answer_and_nobody_else_speaks_meanwhile(
    tmp_path: Path,
) -> None:
    """Neither fillers nor re-prompts nor the watchdog come into the question's own patience."""
    tool = booking()
    impatient = {
        "filler_after_ms": 900,
        "caller_after_ms": 3_000,
        "agent_after_ms": 4_000,
        "reprompts": ["Are you there?"],
    }

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.listens(2 * PATIENCE + 9)

    stage = converse(tmp_path, scenario, tool, context={"silence": impatient})
    assert tool.began == 0
    (approval,) = stage.of(events.ToolApproval)
    assert (approval.answer, approval.by) == ("none", "")
    assert said(stage)[:3] == [ASKED, AGAIN, "All right, never mind."]
    again = next(line for line in stage.lines() if line.get("text") == AGAIN)
    ended = next(line for line in stage.lines() if line["type"] == "agent.audio_started")
    waited = again["at_ms"] / 1000 - ended["at_ms"] / 1000 - QUESTION_SECONDS
    assert waited == pytest.approx(PATIENCE, abs=0.4), "8 s from the end of the question"
    assert stage.ended.reason == "caller_hangup"


def test_what_the_caller_went_on_to_say_before_the_question_is_no_answer(tmp_path: Path) -> None:
    """`A table please. [...] Yes, for two.`: said before the question can be heard."""
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.55)
        await talk.says("Yes.", seconds=1.0, then=0.9)
        await talk.hears_out()
        assert tool.began == 0
        await talk.says("No.")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool)
    assert tool.began == 0
    assert approvals(stage) == [(ASKED, "no", "voice")]
    assert [heard.text for heard in stage.of(events.Heard)] == ["A table please", "Yes.", "No."]


def test_a_question_that_was_cut_before_it_was_heard_is_put_again(tmp_path: Path) -> None:
    tool = booking()

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        yield "Just a moment while I am looking at the book"
        async for sentence in book(dialogue, text):
            yield sentence

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        while talk.media.queued_ms == 0:
            await talk.listens(0.02)
        await talk.listens(0.6)
        await talk.says("Yes.", seconds=0.5, then=0.6)
        assert tool.began == 0
        await talk.hears_out()
        await talk.says("Yes.")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, tool, respond=respond)
    assert tool.finished == 1
    assert said(stage).count(ASKED) == 2
    assert approvals(stage) == [(ASKED, "yes", "voice")]


def test_an_ask_that_the_brain_has_had_confirmed_is_not_asked_about(tmp_path: Path) -> None:
    tool = booking()

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        reply = await dialogue.session.ask_tool("book", {"place": "Bergen"}, confirmed=True)
        yield reply.message

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.listens(3)

    stage = converse(tmp_path, scenario, tool, respond=respond)
    assert tool.finished == 1
    assert approvals(stage) == []


def test_a_farewell_ends_the_question_and_is_heard(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("A table please", then=0.9)
        await talk.hears_out()
        talk.stage.call.close_down()
        await talk.listens(8)

    stage = converse(tmp_path, scenario, booking())
    assert stage.ended.outcome == "shutdown"
    assert approvals(stage) == [(ASKED, "none", "")]
    assert said(stage) == [ASKED, STOPPING]
    assert stage.line.media is not None
    heard = len(stage.line.media.played) / 16_000
    assert heard == pytest.approx((7 + len(STOPPING.split())) * WORD, abs=0.05), "to its end"


def test_the_call_ends_while_the_caller_is_asked(tmp_path: Path) -> None:
    tool = booking()

    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.hears_out()

    stage = converse(tmp_path, scenario, tool)
    assert tool.began == 0
    assert approvals(stage) == [(ASKED, "none", "")]
    assert stage.of(events.ToolAnswered)[0].status == "cancelled"


def test_one_thing_is_asked_at_a_time(tmp_path: Path) -> None:
    outcomes: list[str] = []

    async def refused(work: Awaitable[Any]) -> None:
        try:
            await work
        except LineError as error:
            outcomes.append(str(error))

    async def scenario(talk: Talk) -> None:
        line = talk.stage.call.line
        first = asyncio.create_task(line.confirm("Is it so?"))
        await asyncio.sleep(0.1)
        await refused(line.confirm("Or so?"))
        await refused(line.collect_keys(KeysWanted()))
        await talk.hears_out()
        await talk.says("Yes.")
        assert await first is True
        keys = asyncio.create_task(line.collect_keys(KeysWanted(count=1)))
        await asyncio.sleep(0.1)
        await refused(line.confirm("Is it so?"))
        talk.media.press("1")
        assert (await keys).keys == "1"
        talk.hang_up()
        await asyncio.sleep(0)
        with pytest.raises(LineGone):
            await line.confirm("Are you there?")

    stage = converse(tmp_path, scenario, booking())
    assert outcomes == [
        "the caller is being asked something else",
        "the caller is being asked something else",
        "the caller is being asked for keys",
    ]
    assert [answer for _, answer, _ in approvals(stage)] == ["yes"]


def test_a_surplus_key_of_a_secret_is_no_yes(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        line = talk.stage.call.line
        collecting = asyncio.create_task(line.collect_keys(KeysWanted(count=2, secret=True)))
        await asyncio.sleep(0.1)
        for key in "47":
            talk.media.press(key)
        await collecting
        asking = asyncio.create_task(line.confirm("Is it so?"))
        await asyncio.sleep(0.6)
        talk.media.press("1")
        await asyncio.sleep(3)
        assert not asking.done()
        talk.media.press("2")
        assert await asking is False

    collector = FakeTool("collect")
    stage = converse(tmp_path, scenario, collector)
    pressed = [(key.key, key.secret) for key in stage.of(events.Key)]
    assert pressed == [("*", True), ("*", True), ("*", True), ("2", False)]


def test_the_caller_talks_to_the_agent_again_afterwards(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("A table please")
        await talk.hears_out()
        await talk.says("Yes.")
        await talk.hears_out()
        await talk.says("Hello again")
        await talk.listens(2)

    stage = converse(tmp_path, scenario, booking())
    assert stage.history().transcript()[-1] == ("agent", "You said Hello again")
