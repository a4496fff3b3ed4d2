"""Nobody is left in silence: fillers, re-prompts, a goodbye, and agents that have stalled.

In virtual time, to the millisecond. What is looked at is when the caller hears something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import (
    AgentAudio,
    AgentAudioDone,
    AgentEnded,
    AgentText,
    CallerPauses,
    CallerStarted,
    CallerStopped,
    CallerText,
    CallerWaits,
    OverlapBegan,
    OverlapDismissed,
)
from cordboard.agent_api.speech import Speech
from cordboard.calls import events
from cordboard.calls.failure_apology import STALLED_LIMIT, TROUBLE
from cordboard.calls.silence import LEFT_ALONE, MOST_AFTER_A_BREAK, SECOND_FILLER
from cordboard.tools.tool import Filler, Limits
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import ENDPOINT, RECOGNISER, VOICE, FakeAgent, Script
from cordboard_testkit.fake_pipeline import MS_PER_WORD

WORD = MS_PER_WORD / 1000
FILLERS = ("One moment.", "Let me see.", "Just a second.")
GOODBYE = "I hang up now."
USUAL: Mapping[str, Any] = {
    "filler_after_ms": 900,
    "fillers": FILLERS,
    "caller_after_ms": 10_000,
    "reprompts": ("Are you there?", "Hello?"),
    "goodbye": GOODBYE,
    "agent_after_ms": 15_000,
}
GREETED = VOICE + 2 * WORD
"""When `Good morning.` has been heard."""


def talk(
    tmp_path: Path,
    script: Script,
    *tools: FakeTool,
    seconds: float = 60,
    silence: Mapping[str, Any] | None = None,
    make_agent: Callable[[Script], FakeAgent] = FakeAgent,
    greeting: str = "",
) -> CallStage:
    """A call in which the script runs and the caller hangs up after `seconds`, unless we do."""

    async def scenario(stage: CallStage) -> None:
        over = asyncio.ensure_future(stage.over())
        await asyncio.wait((over,), timeout=seconds)
        over.cancel()
        if stage.line.media is not None:
            stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path,
        lambda: make_agent(script),
        scenario,
        context={
            "greeting": greeting,
            "tools": [tool.spec.name for tool in tools],
            "silence": {**USUAL, **(silence or {})},
        },
        tools=tools,
    )
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.problem is None, f"the script failed: {stage.agent.problem!r}"
    return stage


def told(stage: CallStage, kind: str) -> list[tuple[float, str]]:
    """When silences of a kind were ended, and by what words."""
    return [
        (line["at_ms"] / 1000, line["text"])
        for line in stage.lines()
        if line["type"] == "call.silence" and line["kind"] == kind
    ]


def at(stage: CallStage, kind: str) -> list[float]:
    return [line["at_ms"] / 1000 for line in stage.lines() if line["type"] == kind]


def slow(seconds: float) -> FakeTool:
    return FakeTool("slow", seconds, limits=Limits(timeout_ms=600_000))


async def nothing(agent: FakeAgent) -> None:
    """Neither side says anything."""


# The caller pauses, and keeps the floor


def test_a_caller_who_pauses_for_long_is_encouraged_and_keeps_the_floor(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        agent.emit(CallerStarted(began))
        await asyncio.sleep(1.96)
        agent.emit(CallerPauses(time(), began + 1))
        await asyncio.sleep(2)
        agent.emit(CallerStopped(1, began + 3.5, time()))
        agent.emit(CallerText(1, "The weather in Oslo.", time()))
        await agent.speak(1, "It is sunny.")

    stage = talk(tmp_path, script, seconds=12)
    [(at, text)] = told(stage, "continuer")
    assert text == "Yes?"
    assert at < 2.1, "within 1.2 s of the last word"
    assert "Yes?" in stage.agent.said
    (latency,) = stage.of(events.Latency)
    assert latency.turn == 1
    assert not latency.filler
    assert told(stage, "reprompt") == []


# The agent lets the caller wait


@pytest.mark.parametrize(
    ("thinks", "endpoint"),
    [(0.0, 0.5), (0.25, 0.5), (2.0, 0.5), (14.0, 0.5), (3.0, 0.25), (3.0, 0.9), (3.0, 1.05)],
)
def test_the_caller_never_waits_longer_than_1200_ms_for_a_sound(
    tmp_path: Path, thinks: float, endpoint: float
) -> None:
    async def script(agent: FakeAgent) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        agent.emit(CallerStarted(began))
        await asyncio.sleep(1 + endpoint)
        agent.emit(CallerStopped(1, began + 1, time()))
        await asyncio.sleep(0.05)
        agent.emit(CallerText(1, "Weather?", time()))
        await asyncio.sleep(thinks)
        await agent.speak(1, "It is sunny.")

    stage = talk(tmp_path, script, seconds=20)
    (latency,) = stage.of(events.Latency)
    assert latency.total_ms <= 1200
    in_time = endpoint + thinks + 0.15 < 1.0
    assert latency.filler is not in_time
    assert "It is sunny." in stage.history().turns[1].answer
    answered = stage.of(events.Answered)
    if in_time:
        assert answered == []
        assert told(stage, "filler") == []
    else:
        waited = endpoint + 0.05 + thinks + VOICE
        assert answered[0].answer_ms == pytest.approx(waited * 1000, abs=700)
        shown = stage.metrics.render().decode()
        assert 'silences_total{kind="filler"}' in shown
        assert 'silence_seconds_bucket{kind="filler",le="0.8"} 0.0' in shown
        assert 'silence_seconds_bucket{kind="filler",le="1.2"} 1.0' in shown


def test_fillers_take_turns_and_become_rarer(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        for turn in (1, 2):
            await agent.caller_says(turn, "Weather?")
            await agent.ask("slow", {}, turn)
            await agent.speak(turn, "Sunny.")
            await asyncio.sleep(2)

    stage = talk(tmp_path, script, slow(25), seconds=65)
    fillers = told(stage, "filler")
    times = [when for when, _ in fillers]
    sound = VOICE + 2 * WORD
    assert times[0] == pytest.approx(1.9, abs=0.01)
    assert times[1] == pytest.approx(times[0] + sound + 5, abs=0.05)
    assert times[2] == pytest.approx(times[1] + VOICE + 3 * WORD + 8, abs=0.05)
    texts = [text for _, text in fillers]
    assert len(texts) >= 6
    assert set(texts) == set(FILLERS)
    assert all(text != before for text, before in zip(texts[1:], texts, strict=False))


def test_a_single_filler_is_said_once_a_turn(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        for turn in (1, 2):
            await agent.caller_says(turn, "Weather?")
            await agent.ask("slow", {}, turn)
            await agent.speak(turn, "Sunny.")
            await asyncio.sleep(2)

    silence = {"fillers": ("Wait.",)}
    stage = talk(tmp_path, script, slow(20), seconds=55, silence=silence)
    assert [text for _, text in told(stage, "filler")] == ["Wait.", "Wait."]


def test_a_tools_own_filler_is_enough(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 4, filler=Filler(200, ("I look it up.",)))

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        reply = await agent.ask("get_weather", {}, 1)
        await agent.speak(1, reply.message)

    stage = talk(tmp_path, script, tool, seconds=15)
    assert told(stage, "filler") == []
    assert [filler.text for filler in stage.of(events.ToolFiller)] == ["I look it up."]
    (latency,) = stage.of(events.Latency)
    assert latency.filler
    assert latency.total_ms < 1200


@pytest.mark.parametrize(
    ("threshold", "seconds", "ours", "own", "after"),
    [
        (350, 5, [], ["I look it up."], 0.35),
        (2000, 5, [], ["I look it up."], 0.9),
        (2000, 0.7, [], [], 0.0),
        (3500, 8, ["One moment."], ["I look it up."], 3.5),
    ],
)
def test_one_wait_has_one_filler(
    tmp_path: Path, threshold: int, seconds: float, ours: list[str], own: list[str], after: float
) -> None:
    """The tool is asked 0.6 s after the caller's last sound; ours would come at 0.9 s. A tool's own
    filler comes at its threshold, but at 1.5 s at the latest, and ours only where it is to come
    more than 3 s after the caller's last sound."""
    tool = FakeTool("get_weather", seconds, filler=Filler(threshold, ("I look it up.",)))

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        reply = await agent.ask("get_weather", {}, 1)
        await agent.speak(1, reply.message)

    stage = talk(tmp_path, script, tool, seconds=15)
    assert [text for _, text in told(stage, "filler")] == ours
    assert [filler.text for filler in stage.of(events.ToolFiller)] == own
    (asked,) = at(stage, "tool.asked")
    for spoken in at(stage, "tool.filler"):
        assert spoken - asked == pytest.approx(after, abs=0.1)


def test_without_fillers_of_ours_a_tools_own_keeps_its_threshold(tmp_path: Path) -> None:
    tool = FakeTool("get_weather", 8, filler=Filler(2000, ("I look it up.",)))

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        reply = await agent.ask("get_weather", {}, 1)
        await agent.speak(1, reply.message)

    stage = talk(tmp_path, script, tool, seconds=15, silence={"filler_after_ms": 0})
    (asked,), (spoken,) = at(stage, "tool.asked"), at(stage, "tool.filler")
    assert spoken - asked == pytest.approx(2.0, abs=0.1)


def test_an_answer_whose_text_is_there_is_not_delayed_by_a_filler(tmp_path: Path) -> None:
    class SlowVoice(FakeAgent):
        async def speak(self, turn: int, *sentences: str, done: bool = True) -> None:
            for text in sentences:
                self.emit(AgentText(turn, text, asyncio.get_running_loop().time()))
                await asyncio.sleep(2)
                self.emit(AgentAudio(turn, b"\x01\x01" * 8000))
            self.emit(AgentAudioDone(turn))

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.speak(1, "Sunny.")

    stage = talk(tmp_path, script, make_agent=SlowVoice, seconds=8)
    assert told(stage, "filler") == []


@pytest.mark.parametrize("text", ["", "Hello."])
def test_what_was_no_turn_is_not_filled(tmp_path: Path, text: str) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, text)
        if text:
            agent.emit(AgentAudioDone(1))  # the agent has nothing to say to it

    stage = talk(tmp_path, script, seconds=9)
    assert told(stage, "filler") == []


def test_a_murmur_under_the_agents_voice_is_not_filled(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        time = asyncio.get_running_loop().time
        await agent.speak(0, "one two three four five six seven eight nine ten")
        await asyncio.sleep(9 * WORD)
        agent.emit(CallerStarted(time()))
        agent.emit(OverlapBegan(time(), time() - 0.1))
        await asyncio.sleep(0.2)
        agent.emit(OverlapDismissed(time(), "backchannel"))
        await asyncio.sleep(0.6)
        agent.emit(CallerStopped(1, time() - 0.5, time()))
        agent.emit(CallerText(1, "Mhm.", time()))

    stage = talk(tmp_path, script, seconds=30)
    assert told(stage, "filler") == []
    assert told(stage, "stalled") == []
    assert told(stage, "reprompt"), "the caller is asked instead"


class Interjecting(FakeAgent):
    """Says a filler into an answer that is not over, and is not over by that."""

    def say(self, speech: Speech) -> None:
        self.said.append(speech.text)
        self.spawn(self.speak(self._turn, speech, done=not speech.bridges))


def test_an_answer_that_breaks_off_is_filled_and_then_the_caller_is_asked(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.speak(1, "It is", done=False)

    stage = talk(tmp_path, script, make_agent=Interjecting, seconds=35)
    fillers = [at for at, _ in told(stage, "filler")]
    ended = 1 + ENDPOINT + RECOGNISER + VOICE + 2 * WORD
    assert len(fillers) == MOST_AFTER_A_BREAK
    assert fillers[0] == pytest.approx(ended + LEFT_ALONE, abs=0.1)
    sound = VOICE + 3 * WORD
    assert fillers[1] - fillers[0] == pytest.approx(SECOND_FILLER + sound, abs=WORD + 0.1)
    assert [text for _, text in told(stage, "reprompt")] == ["Are you there?"]
    assert told(stage, "stalled") == []


def test_what_goes_on_after_a_filler_may_break_off_again(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        for _ in range(4):
            await agent.speak(1, "It is", done=False)
            await asyncio.sleep(LEFT_ALONE + 2)
        await agent.speak(1, "sunny.")

    stage = talk(tmp_path, script, make_agent=Interjecting, seconds=30)
    assert len(told(stage, "filler")) == 4
    assert told(stage, "reprompt") == []


def test_the_rest_of_an_answer_has_its_time_after_a_tool(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.speak(1, "Let me look.", done=False)
        await agent.ask("slow", {}, 1)
        await asyncio.sleep(LEFT_ALONE - 0.5)
        await agent.speak(1, "Sunny.")

    stage = talk(tmp_path, script, slow(4.5), seconds=20)
    assert told(stage, "filler") == []


def test_a_caller_whose_turn_nobody_ends_hears_something(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        time = asyncio.get_running_loop().time
        began = time()
        agent.emit(CallerStarted(began))
        await asyncio.sleep(5)
        agent.emit(CallerWaits(began + 1))
        await asyncio.sleep(2)
        agent.emit(CallerStopped(1, began + 1, time()))
        agent.emit(CallerText(1, "Weather?", time()))
        await asyncio.sleep(2)
        await agent.speak(1, "It is sunny.")

    stage = talk(tmp_path, script, seconds=12)
    [(at, text)] = told(stage, "filler")
    assert (at, text) == (pytest.approx(5, abs=0.05), "One moment.")
    assert stage.of(events.Silence)[0].silent_ms == pytest.approx(4000, abs=50)
    assert "It is sunny." in stage.history().turns[1].answer


class Taciturn(FakeAgent):
    """Drops every filler."""

    def say(self, speech: Speech) -> None:
        if speech.purpose == "filler":
            speech.drop()
        else:
            super().say(speech)


def test_the_end_of_a_call_does_not_wait_for_a_filler_that_was_dropped(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Goodbye.")
        await asyncio.sleep(2)
        agent.emit(AgentEnded("nothing more to say"))

    stage = talk(tmp_path, script, make_agent=Taciturn)
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "agent_hangup")
    assert stage.ended.duration_ms < 4_000


def test_a_filler_that_the_agent_does_not_say_has_ended_no_silence(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await asyncio.sleep(8)
        await agent.speak(1, "Sunny.")

    stage = talk(tmp_path, script, make_agent=Taciturn, seconds=12)
    assert stage.of(events.Silence) == []
    assert 'silences_total{kind="filler"}' not in stage.metrics.render().decode()


def test_fillers_can_be_turned_off(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await asyncio.sleep(5)
        await agent.speak(1, "Sunny.")

    stage = talk(tmp_path, script, seconds=10, silence={"filler_after_ms": 0})
    assert stage.of(events.Silence) == []


# The caller is silent


def test_a_silent_caller_is_asked_twice_and_let_go(tmp_path: Path) -> None:
    stage = talk(tmp_path, nothing, seconds=3600, greeting="Good morning.")
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "caller_silent")
    first, second, third = 10, 10 + VOICE + 3 * WORD, VOICE + 1 * WORD + 10
    begins = [GREETED + first, GREETED + first + second, GREETED + first + second + third]
    silences = stage.of(events.Silence)
    assert [s.kind for s in silences] == ["reprompt", "reprompt", "goodbye"]
    assert [s.text for s in silences] == ["Are you there?", "Hello?", GOODBYE]
    assert at(stage, "call.silence") == pytest.approx(begins, abs=0.06)
    assert all(s.silent_ms == pytest.approx(10_000, abs=60) for s in silences)
    assert stage.history().transcript()[-1][1].endswith(GOODBYE)
    goodbye = VOICE + 4 * WORD
    assert stage.ended.duration_ms == pytest.approx((begins[-1] + goodbye) * 1000, abs=100)
    assert stage.of(events.Trouble) == []


def test_without_a_goodbye_nobody_is_sent_away(tmp_path: Path) -> None:
    stage = talk(tmp_path, nothing, seconds=300, silence={"goodbye": ""})
    assert (stage.ended.reason, stage.ended.duration_ms) == ("caller_hangup", 300_000)
    assert len(stage.of(events.Silence)) == 2


@pytest.mark.parametrize("sign", ["words", "key", "noise"])
def test_who_is_there_is_asked_from_the_beginning(tmp_path: Path, sign: str) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(15)
        if sign == "noise":
            await agent.caller_says(1, "")
        elif sign == "words":
            await agent.caller_says(1, "Yes.")
            await agent.speak(1, "Good.")
        else:
            assert stage_of[0].line.media is not None
            stage_of[0].line.media.press("1")

    stage_of: list[CallStage] = []

    async def scenario(stage: CallStage) -> None:
        stage_of.append(stage)
        await asyncio.sleep(37)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"greeting": "", "silence": USUAL},
    )
    words = [silence.text for silence in stage.of(events.Silence)]
    again = "Hello?" if sign == "noise" else "Are you there?"
    assert words[:2] == ["Are you there?", again]


def test_nobody_is_asked_while_a_tool_runs_or_somebody_speaks(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "A very long story.", ms=20_000)
        reply = await agent.ask("slow", {}, 1)
        await agent.speak(1, reply.message, " ".join(["word"] * 60))

    stage = talk(tmp_path, script, slow(30), seconds=75)
    assert told(stage, "reprompt") == []
    assert told(stage, "stalled") == []


def test_an_agent_whose_speech_never_ends_does_not_keep_the_caller_unasked(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.speak(1, "It is sunny.", done=False)

    stage = talk(tmp_path, script, seconds=3600)
    assert stage.ended.reason == "caller_silent"


def test_a_caller_who_is_never_said_to_have_stopped_is_asked_in_the_end(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        agent.emit(CallerStarted(asyncio.get_running_loop().time()))

    stage = talk(tmp_path, script, seconds=3600)
    assert stage.ended.reason == "caller_silent"


# The agent has stalled


def test_an_agent_that_never_answers_is_excused(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")

    stage = talk(tmp_path, script, seconds=3600)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
    (trouble,) = stage.of(events.Trouble)
    assert trouble.where == "agent_stalled"
    assert stage.of(events.Silence)[-1].kind == "stalled"
    assert at(stage, "call.trouble") == [pytest.approx(1 + ENDPOINT + 15, abs=0.8)]
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said[-1] == TROUBLE
    assert stage.history().transcript()[-1][1].endswith(TROUBLE)


def test_an_agent_that_cannot_even_apologise_is_not_waited_for(tmp_path: Path) -> None:
    class Dead(FakeAgent):
        def say(self, speech: Speech) -> None:
            self.said.append(speech.text)

    stage = talk(tmp_path, nothing, make_agent=lambda _: Dead(asks), seconds=3600)
    assert stage.ended.reason == "agent_failed"
    assert stage.ended.duration_ms == pytest.approx(
        (1 + ENDPOINT + 15 + STALLED_LIMIT) * 1000, abs=800
    )


async def asks(agent: FakeAgent) -> None:
    await agent.caller_says(1, "Weather?")


def test_an_agent_that_does_not_greet_has_stalled_too(tmp_path: Path) -> None:
    class Shy(FakeAgent):
        async def _follow(self) -> None:
            """Says nothing."""

    stage = talk(tmp_path, nothing, make_agent=Shy, seconds=3600, greeting="Hello.")
    assert stage.of(events.Trouble)[0].where == "agent_stalled"
    assert told(stage, "filler")[0] == (LEFT_ALONE, "One moment.")


def test_running_tools_are_no_stall(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.ask("slow", {}, 1)
        await asyncio.sleep(10)
        await agent.speak(1, "It is sunny.")

    stage = talk(tmp_path, script, slow(28), seconds=45)
    assert stage.of(events.Trouble) == []
    assert stage.ended.reason == "caller_hangup"


def test_a_tool_that_is_done_brings_the_watch_back(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await agent.ask("slow", {}, 1)

    stage = talk(tmp_path, script, slow(20), seconds=3600)
    expected = 1 + ENDPOINT + RECOGNISER + 20 + 15
    assert at(stage, "call.trouble") == [pytest.approx(expected, abs=1)]


class Filled(FakeAgent):
    """Is asked for a filler and has none said: its answer is there."""

    def say(self, speech: Speech) -> None:
        if speech.purpose != "filler":
            super().say(speech)
            return
        self.said.append(speech.text)
        speech.drop()
        self.spawn(self.speak(self._turn, speech.text, "It is sunny."))


def test_a_model_that_says_the_very_words_of_a_filler_has_said_them_itself(tmp_path: Path) -> None:
    """The filler was dropped; the model begins its answer with the same words."""

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")

    stage = talk(tmp_path, script, make_agent=Filled, seconds=8)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said == ["One moment."]
    assert stage.of(events.Silence) == []
    (latency,) = stage.of(events.Latency)
    assert not latency.filler, "the caller heard the answer"
    assert stage.of(events.Answered) == []
    assert stage.history().turns[1].answer == ["One moment.", "It is sunny."]


def test_a_dropped_filler_is_the_next_one_to_be_said(tmp_path: Path) -> None:
    """Nobody has heard it, so it is not said twice running."""

    class DropsTheFirst(FakeAgent):
        def say(self, speech: Speech) -> None:
            if not self.said:
                self.said.append(speech.text)
                speech.drop()
            else:
                super().say(speech)

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Weather?")
        await asyncio.sleep(12)
        await agent.speak(1, "Sunny.")

    stage = talk(tmp_path, script, make_agent=DropsTheFirst, seconds=16)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said[:2] == ["One moment.", "One moment."]
    assert told(stage, "filler")[0][1] == "One moment."
