"""Whole calls in virtual time: every way to end, and that nothing is left behind by any of them.

`play_call` checks after each call that line, media, agent, generation and tasks are given back and
that the ledger is whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from cordboard.agent_api.agent import AgentAudioDone, AgentEnded, AgentFailed
from cordboard.agent_api.speech import Speech
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.calls.agent_start import AGENT_START_LIMIT
from cordboard.calls.binding import APOLOGY
from cordboard.calls.ending import FAREWELL_LIMIT, STEP_LIMIT, TOO_LONG
from cordboard.calls.failure_apology import TROUBLE
from cordboard.calls.offer import Media, TransferTarget
from cordboard.errors import AgentError, LineGone, MediaError, TransferFailed
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.desk.desk import TOOL_GRACE
from cordboard.tools.tool import Effects, Limits
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine, FakeMedia
from cordboard_testkit.fake_pipeline import (
    MS_PER_WORD,
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    Respond,
    ScriptedRecogniser,
    TalkingClock,
    silence,
    speech,
)

Scenario = Callable[[CallStage], Awaitable[None]]
WORD = MS_PER_WORD / 1000
GREETING_ENDS = 0.05 + 2 * WORD
"""`Good morning.`: the voice begins after 50 ms."""


def ending(stage: CallStage) -> tuple[str, str]:
    return stage.ended.outcome, stage.ended.reason


def after(seconds: float, reason: str = "caller_hangup") -> Scenario:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(seconds)
        media_of(stage).break_off(reason)

    return scenario


def media_of(stage: CallStage) -> FakeMedia:
    assert stage.line.media is not None
    return stage.line.media


def heard_seconds(stage: CallStage) -> float:
    return len(media_of(stage).played) / 16000


def agent_of(stage: CallStage) -> FakeAgent:
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.problem is None, f"the script failed: {stage.agent.problem!r}"
    return stage.agent


# The whole life


def test_a_call_from_the_greeting_to_goodbye(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 0.4)

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather in Bergen?")
        reply = await agent.ask("get_weather", {"place": "Bergen"}, 1)
        await agent.speak(1, reply.message)
        await agent.caller_says(2, "Thanks, goodbye.")
        await agent.speak(2, "Goodbye.", done=False)
        await agent.ask("hangup_call", {"reason": "the caller said goodbye"}, 2)
        await agent.speak(2)

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        context={"tools": ["get_weather", "hangup_call"]},
        tools=[tool],
    )
    assert ending(stage) == ("completed", "agent_hangup")
    assert stage.line.hangups == ["normal"]
    assert agent_of(stage).closed
    assert stage.history().transcript() == [
        ("agent", "Good morning."),
        ("caller", "Weather in Bergen?"),
        ("agent", "It is sunny in Bergen."),
        ("caller", "Thanks, goodbye."),
        ("agent", "Goodbye."),
    ]
    assert [line["type"] for line in stage.lines()][:4] == [
        "call.offered",
        "call.bound",
        "call.connected",
        "agent.text",
    ]
    assert stage.of(events.AudioEnded) == [events.AudioEnded(turn) for turn in (0, 1, 2)]
    assert 'outcome="completed"' in stage.metrics.render().decode()


def test_the_agent_gets_what_the_context_says_and_only_its_tools(tmp_path: Path) -> None:
    stage = play_call(
        tmp_path,
        FakeAgent,
        after(1),
        context={
            "prompt": "You talk to {caller_name} of {branch}.",
            "greeting": "Hello {caller_name}.",
            "variables": ["branch"],
            "tools": ["hangup_call", "get_weather"],
        },
        variables={"branch": "Oslo", "AI_CONTEXT": "demo"},
    )
    session = agent_of(stage).session
    assert session is not None
    assert session.prompt == "You talk to Kari Nordmann of Oslo."
    assert session.greeting == "Hello Kari Nordmann."
    assert [spec.name for spec in session.toolbox] == ["hangup_call"]
    (bound,) = stage.of(events.Bound)
    assert (bound.tools, bound.missing_tools) == (["hangup_call"], ["get_weather"])


def test_an_unknown_context_is_excused_counted_and_written_down(tmp_path: Path) -> None:
    stage = play_call(tmp_path, FakeAgent, after(5), variables={"AI_CONTEXT": "slaes"})
    assert stage.history().turns[0].answer == [APOLOGY + "Good morning."]
    (bound,) = stage.of(events.Bound)
    assert bound.context == "demo"
    assert "slaes" in bound.problems[0]
    assert "ai_agent_binding_problems_total 1.0" in stage.metrics.render().decode()


def test_keys_are_recorded_and_heard(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.5)
        for key in "1#":
            media_of(stage).press(key)
        media_of(stage).break_off("caller_hangup")

    stage = play_call(tmp_path, FakeAgent, scenario)
    assert stage.of(events.Key) == [events.Key("1"), events.Key("#")]
    assert agent_of(stage).keys == ["1", "#"]


# The caller hangs up, or the line breaks


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("caller_hangup", "completed"),
        ("media_lost", "failed"),
        ("asterisk_lost", "failed"),
        ("transferred", "transferred"),
    ],
)
def test_the_line_ends_in_mid_answer(tmp_path: Path, reason: str, outcome: str) -> None:
    stage = play_call(
        tmp_path, FakeAgent, after(0.3, reason), context={"greeting": "one two three four five"}
    )
    assert ending(stage) == (outcome, reason)
    assert stage.of(events.AudioEnded) == [], "nobody heard the answer to its end"
    assert stage.line.hangups == ([] if outcome == "transferred" else ["normal"])


def test_the_caller_hangs_up_before_there_is_sound(tmp_path: Path) -> None:
    def line() -> FakeLine:
        line = FakeLine()
        line.media_delay, line.refuse_media = 0.5, LineGone("the caller is gone")
        return line

    stage = play_call(tmp_path, FakeAgent, make_line=line)
    assert ending(stage) == ("completed", "caller_hangup")
    assert stage.of(events.Connected) == []


def test_the_caller_hangs_up_while_the_agent_starts(tmp_path: Path) -> None:
    def agent() -> FakeAgent:
        agent = FakeAgent()
        agent.start_seconds = 10
        return agent

    stage = play_call(tmp_path, agent, after(1))
    assert ending(stage) == ("completed", "caller_hangup")
    assert stage.ended.duration_ms == 1000, "the end did not wait for the agent"


def test_the_caller_is_gone_the_moment_the_sound_comes(tmp_path: Path) -> None:
    class Gone(FakeLine):
        async def _open(self, formats: object = ()) -> Media:
            media = await super()._open()
            assert self.media is not None
            self.media.break_off("caller_hangup")
            return media

    stage = play_call(tmp_path, FakeAgent, make_line=Gone)
    assert ending(stage) == ("completed", "caller_hangup")
    assert agent_of(stage).session is None, "no agent is started for nobody"


def test_the_caller_hangs_up_during_a_tool(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 5)

    async def script(agent: FakeAgent) -> None:
        await agent.ask("get_weather", {}, 1)

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        after(2),
        context={"tools": ["get_weather"]},
        tools=[tool],
    )
    assert ending(stage) == ("completed", "caller_hangup")
    assert (tool.began, tool.finished) == (1, 0)
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "cancelled"
    assert stage.ended.duration_ms == 2000


def test_a_tool_that_changes_the_world_finishes_its_work(tmp_path: Path) -> None:
    tool = FakeTool("book", 5, Effects.DESTRUCTIVE)

    async def script(agent: FakeAgent) -> None:
        await agent.ask("book", {}, 1)

    async def scenario(stage: CallStage) -> None:
        await after(2)(stage)
        await asyncio.sleep(0.1)
        assert stage.line.released == 1, "the line does not wait for the tool"
        assert agent_of(stage).closed

    stage = play_call(
        tmp_path, lambda: FakeAgent(script), scenario, context={"tools": ["book"]}, tools=[tool]
    )
    assert (tool.began, tool.finished) == (1, 1)
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "ok"
    assert agent_of(stage).replies == [], "a closed agent is not told"


def test_but_not_for_ever(tmp_path: Path) -> None:
    tool = FakeTool("book", 500, Effects.DESTRUCTIVE, limits=Limits(timeout_ms=600_000))

    async def script(agent: FakeAgent) -> None:
        await agent.ask("book", {}, 1)

    stage = play_call(
        tmp_path, lambda: FakeAgent(script), after(2), context={"tools": ["book"]}, tools=[tool]
    )
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "cancelled"
    assert stage.ended.duration_ms == 2000 + TOOL_GRACE * 1000


# The engine ends it


def test_the_engine_stops_while_the_sound_is_being_connected(tmp_path: Path) -> None:
    def line() -> FakeLine:
        line = FakeLine()
        line.media_delay = 5
        return line

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        stage.call.end("shutdown", "engine_stopped")

    stage = play_call(tmp_path, FakeAgent, scenario, make_line=line)
    assert ending(stage) == ("shutdown", "engine_stopped")
    assert stage.ended.duration_ms == 1000
    assert stage.line.media is None


def test_sound_that_comes_in_spite_of_being_given_up_is_closed(tmp_path: Path) -> None:
    class Stubborn(FakeLine):
        async def _open(self, formats: object = ()) -> Media:
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                await asyncio.sleep(0.1)
            return await super()._open()

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        stage.call.end("shutdown", "engine_stopped")

    stage = play_call(tmp_path, FakeAgent, scenario, make_line=Stubborn)
    assert ending(stage) == ("shutdown", "engine_stopped")
    assert media_of(stage).closed


def test_the_first_reason_to_end_counts(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        media_of(stage).break_off("caller_hangup")
        stage.call.end("shutdown", "engine_stopped")

    assert ending(play_call(tmp_path, FakeAgent, scenario)) == ("completed", "caller_hangup")


def test_a_call_that_lasts_too_long_is_ended_politely(tmp_path: Path) -> None:
    stage = play_call(tmp_path, FakeAgent, context={"max_duration_ms": 60_000})
    assert ending(stage) == ("completed", "max_duration")
    assert agent_of(stage).said == [TOO_LONG]
    spoken = 0.05 + len(TOO_LONG.split()) * WORD
    assert stage.ended.duration_ms == pytest.approx((60 + spoken) * 1000, abs=50)


# The agent hangs up


async def goodbye(agent: FakeAgent) -> None:
    await agent.speak(1, "Goodbye and thank you.", done=False)
    await agent.ask("hangup_call", {}, 1)
    await agent.speak(1, "See you.")


@pytest.mark.parametrize("barge_in", [False, True])
def test_a_farewell_is_heard_to_its_end(tmp_path: Path, barge_in: bool) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(GREETING_ENDS)
        if barge_in:
            await media_of(stage).say(speech(100))
            agent_of(stage).interrupt()

    stage = play_call(tmp_path, lambda: FakeAgent(goodbye), scenario)
    assert ending(stage) == ("completed", "agent_hangup")
    assert heard_seconds(stage) == pytest.approx(8 * WORD)
    assert stage.of(events.BargedIn) == []
    assert stage.ended.duration_ms == pytest.approx(50 + 8 * WORD * 1000, abs=30)
    assert set(agent_of(stage).heard) <= {0}, "the caller's voice no longer reaches the agent"


def test_the_agent_considers_the_call_over(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        agent.emit(AgentEnded("nothing more to say"))

    stage = play_call(tmp_path, lambda: FakeAgent(script))
    assert ending(stage) == ("completed", "agent_hangup")
    assert heard_seconds(stage) == pytest.approx(2 * WORD)


def test_a_farewell_that_never_ends_is_cut(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.ask("hangup_call", {}, 1)  # and never says that it is done

    stage = play_call(tmp_path, lambda: FakeAgent(script))
    assert ending(stage) == ("completed", "agent_hangup")
    assert stage.ended.duration_ms == pytest.approx(50 + FAREWELL_LIMIT * 1000, abs=50)


# Transfers


async def put_through(agent: FakeAgent) -> None:
    await agent.speak(1, "I am putting you through.", done=False)
    reply = await agent.ask("transfer", {"destination": "sales"}, 1)
    await agent.speak(1, reply.message)


class Pbx(FakeLine):
    """Tells the end of the media before the transfer returns, as a real Asterisk's line does."""

    transferred_at = 0.0

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> str | None:
        self.transferred_at = asyncio.get_running_loop().time() - 1000
        await asyncio.sleep(0.1)
        await super().transfer(target, left)
        assert self.media is not None
        self.media.break_off("transferred")
        await asyncio.sleep(0)
        return None


@pytest.mark.parametrize("line", [FakeLine, Pbx])
def test_the_caller_is_passed_on_when_all_is_said(tmp_path: Path, line: type[FakeLine]) -> None:
    stage = play_call(tmp_path, lambda: FakeAgent(put_through), make_line=line)
    assert ending(stage) == ("transferred", "transfer:sales")
    assert stage.line.transfers == [TransferTarget("sales", "extension", "6001", "internal", 1)]
    assert heard_seconds(stage) == pytest.approx(7 * WORD), "speech is finished first"
    if isinstance(stage.line, Pbx):
        assert stage.line.transferred_at == pytest.approx(0.05 + 7 * WORD, abs=0.05)
    assert stage.line.hangups == []
    assert stage.of(events.Transferred) == [
        events.Transferred("sales", ok=True, outcome="accepted")
    ]
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "ok"


def test_a_failed_transfer_is_told_and_the_call_goes_on(tmp_path: Path) -> None:
    def line() -> FakeLine:
        line = FakeLine()
        line.refuse_transfer = TransferFailed("no such extension")
        return line

    stage = play_call(tmp_path, lambda: FakeAgent(put_through), after(30), make_line=line)
    assert ending(stage) == ("completed", "caller_hangup")
    (tried,) = stage.of(events.Transferred)
    assert (tried.ok, tried.error) == (False, "no such extension")
    assert stage.history().turns[1].answer[-1] == "Sorry, I could not transfer you to sales."
    assert len(stage.of(events.AudioEnded)) == 2


def test_an_unknown_destination_is_refused(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.ask("transfer", {"destination": "+47 12345678"}, 1)

    stage = play_call(tmp_path, lambda: FakeAgent(script), after(5))
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "refused"
    assert stage.line.transfers == []
    assert ending(stage) == ("completed", "caller_hangup")


def test_the_caller_hangs_up_before_the_transfer(tmp_path: Path) -> None:
    stage = play_call(tmp_path, lambda: FakeAgent(put_through), after(1))
    assert ending(stage) == ("completed", "caller_hangup")
    assert stage.line.transfers == []
    assert stage.ended.duration_ms == 1000
    (answered,) = stage.of(events.ToolAnswered)
    assert answered.status == "error"


def test_the_line_goes_during_the_transfer(tmp_path: Path) -> None:
    def line() -> FakeLine:
        line = FakeLine()
        line.refuse_transfer = LineGone("the channel is gone")
        return line

    stage = play_call(tmp_path, lambda: FakeAgent(put_through), make_line=line)
    assert ending(stage) == ("completed", "caller_hangup")


# Things that fail


def test_the_sound_never_comes(tmp_path: Path) -> None:
    def line() -> FakeLine:
        line = FakeLine()
        line.media_delay, line.refuse_media = 5, MediaError("Asterisk has not connected")
        return line

    stage = play_call(tmp_path, FakeAgent, make_line=line)
    assert ending(stage) == ("failed", "media_failed")
    (trouble,) = stage.of(events.Trouble)
    assert trouble.message == "Asterisk has not connected"
    assert (stage.line.declined, stage.line.hangups) == (["unavailable"], [])
    assert agent_of(stage).closed


@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        (AgentError("no seat left"), "agent_failed", "no seat left"),
        (ZeroDivisionError("a bug"), "internal_error", "a bug"),
    ],
)
def test_an_agent_that_cannot_start(
    tmp_path: Path, error: Exception, reason: str, told: str
) -> None:
    def agent() -> FakeAgent:
        agent = FakeAgent()
        agent.start_error = error
        return agent

    stage = play_call(tmp_path, agent)
    assert ending(stage) == ("failed", reason)
    assert told in stage.of(events.Trouble)[0].message


def test_an_agent_that_hangs_while_it_starts(tmp_path: Path) -> None:
    def agent() -> FakeAgent:
        agent = FakeAgent()
        agent.start_seconds = 1000
        return agent

    stage = play_call(tmp_path, agent)
    assert ending(stage) == ("failed", "agent_failed")
    assert stage.ended.duration_ms == AGENT_START_LIMIT * 1000
    assert "15 s" in stage.of(events.Trouble)[0].message


async def fail_in_mid_answer(agent: FakeAgent) -> None:
    await agent.speak(1, "One moment please", done=False)
    agent.emit(AgentFailed("the provider is gone"))


def test_an_agent_that_fails_apologises_first(tmp_path: Path) -> None:
    stage = play_call(tmp_path, lambda: FakeAgent(fail_in_mid_answer))
    assert ending(stage) == ("failed", "agent_failed")
    assert agent_of(stage).said == [TROUBLE]
    words = len(TROUBLE.split()) + 3 + 2
    assert heard_seconds(stage) == pytest.approx(words * WORD), "every word of it is heard"
    assert stage.ended.duration_ms == pytest.approx(50 + words * WORD * 1000, abs=100)


def test_an_apology_that_waits_for_an_answers_end_is_heard_too(tmp_path: Path) -> None:
    class OneAtATime(FakeAgent):
        def say(self, speech: Speech) -> None:
            self.spawn(self._later(speech))

        async def _later(self, speech: Speech) -> None:
            await asyncio.sleep(0.5)
            await self.speak(0, speech)

    async def script(agent: FakeAgent) -> None:
        await fail_in_mid_answer(agent)
        agent.emit(AgentAudioDone(1))

    stage = play_call(tmp_path, lambda: OneAtATime(script))
    assert heard_seconds(stage) == pytest.approx((2 + 3 + len(TROUBLE.split())) * WORD)


def test_an_agent_without_a_voice_does_not_leave_the_caller_in_silence(tmp_path: Path) -> None:
    def agent() -> FakeAgent:
        agent = FakeAgent(fail_in_mid_answer)
        agent.mute = True
        return agent

    stage = play_call(tmp_path, agent)
    assert ending(stage) == ("failed", "agent_failed")
    assert stage.ended.duration_ms == pytest.approx(50 + 5 * WORD * 1000, abs=100)


def test_an_agent_that_dies_in_its_farewell_is_heard_out(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "Goodbye and thank you.", done=False)
        await agent.ask("hangup_call", {}, 1)
        agent.emit(AgentFailed("connection lost"))

    stage = play_call(tmp_path, lambda: FakeAgent(script))
    assert ending(stage) == ("completed", "agent_hangup")
    assert heard_seconds(stage) == pytest.approx(6 * WORD)


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), asyncio.CancelledError("swallowed nobody's cancel")]
)
def test_a_clean_up_step_that_fails_stops_no_other(tmp_path: Path, error: BaseException) -> None:
    class Broken(FakeLine):
        async def hangup(self, cause: str = "normal") -> None:
            raise error

    def agent() -> FakeAgent:
        agent = FakeAgent()
        agent.close_error = error
        return agent

    stage = play_call(tmp_path, agent, after(1), make_line=Broken)
    assert ending(stage) == ("completed", "caller_hangup")
    assert [trouble.where for trouble in stage.of(events.Trouble)] == ["agent", "hangup"]


def test_a_clean_up_step_that_hangs_stops_no_other(tmp_path: Path) -> None:
    class Deaf(FakeLine):
        async def hangup(self, cause: str = "normal") -> None:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(0.5)  # and takes its time to be cancelled, too

    def agent() -> FakeAgent:
        agent = FakeAgent()
        agent.close_seconds = 1000
        return agent

    stage = play_call(tmp_path, agent, after(1), make_line=Deaf)
    assert ending(stage) == ("completed", "caller_hangup")
    assert stage.ended.duration_ms == 1000 + (2 * STEP_LIMIT + 0.5) * 1000


# With the real pipeline between stand-in models


async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    if text == "Crash.":
        raise ZeroDivisionError
    yield f"You said {text}"
    if text == "Goodbye.":
        await dialogue.session.ask_tool("hangup_call", {})
        yield "It was a pleasure to talk to you."


def pipeline(*texts: str, answer: Respond = respond) -> Callable[[], PipelineAgent]:
    return lambda: PipelineAgent(
        PipelineParts(
            HearingParts(
                VoiceActivityBank(LoudnessModel(), InlineExecutor()),
                ScriptedRecogniser(texts),
                TurnProfile(),
            ),
            FunctionBrain(answer),
            TalkingClock(),
        )
    )


def saying(*texts: str, then: float = 0.0) -> Scenario:
    """The caller speaks so many times, and waits for the answer each time."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        for _ in texts:
            await media_of(stage).say(speech(800) + silence(2500))
        if then:
            await media_of(stage).say(speech(round(then * 1000)))

    return scenario


def test_the_pipeline_says_goodbye_whatever_the_caller_says_then(tmp_path: Path) -> None:
    stage = play_call(
        tmp_path, pipeline("Hello.", "Goodbye.", "Wait!"), saying("Hello.", "Goodbye.", then=2)
    )
    assert ending(stage) == ("completed", "agent_hangup")
    assert stage.history().transcript() == [
        ("agent", "Good morning."),
        ("caller", "Hello."),
        ("agent", "You said Hello."),
        ("caller", "Goodbye."),
        ("agent", "You said Goodbye. It was a pleasure to talk to you."),
    ]
    assert stage.of(events.BargedIn) == []


def test_the_pipelines_time_limit_ends_with_its_last_word(tmp_path: Path) -> None:
    stage = play_call(tmp_path, pipeline(), context={"max_duration_ms": 60_000})
    assert ending(stage) == ("completed", "max_duration")
    assert stage.ended.duration_ms < 61_000 + len(TOO_LONG.split()) * MS_PER_WORD


def test_a_pipeline_that_fails_apologises_and_hangs_up(tmp_path: Path) -> None:
    stage = play_call(tmp_path, pipeline("Crash."), saying("Crash."))
    assert ending(stage) == ("failed", "agent_failed")
    assert stage.history().turns[1].answer == [TROUBLE]
    assert stage.ended.duration_ms < 4000 + len(TROUBLE.split()) * MS_PER_WORD


def test_an_interrupted_answer_is_written_down_as_it_was_heard(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        await media_of(stage).say(speech(800) + silence(1600))
        await media_of(stage).say(speech(800) + silence(3000))
        media_of(stage).break_off("caller_hangup")

    long = "Read me the whole of this very long sentence please."
    stage = play_call(tmp_path, pipeline(long, "Stop.", "Stop."), scenario)
    (cut,) = stage.of(events.BargedIn)
    turn = stage.history().turns[1]
    assert turn.interrupted == cut.heard
    assert f"You said {long}".startswith(cut.heard)
    assert 1 < len(cut.heard.split()) < 8
    assert events.AudioEnded(1) not in stage.events, "it was not heard to its end"
    assert stage.history().transcript()[-1] == ("agent", "You said Stop.")


def test_the_pipeline_answers_what_it_did_not_understand_before_the_keys_are_told(
    tmp_path: Path,
) -> None:
    async def answer(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        await asyncio.sleep(0.2)
        yield "I did not get that."
        yield "Please say it again."

    keys = {
        "prompt": "Press 1 for help.",
        "options": {"1": {"say": "Help."}},
        "offer_after": 1,
    }
    agent = pipeline("", "", answer=answer)
    stage = play_call(tmp_path, agent, saying(""), context={"keys": keys})
    assert [event.text for event in stage.of(events.Answering)][1:4] == [
        "I did not get that.",
        "Please say it again.",
        "Press 1 for help.",
    ]
