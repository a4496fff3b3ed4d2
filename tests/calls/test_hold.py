"""Callers who put the agent on hold: whole calls in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import OverlapBegan
from cordboard.calls import events
from cordboard.calls.confirmation import LONGEST
from cordboard.errors import LineGone
from cordboard.tools.call_line import KeysCollected, KeysWanted
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_pipeline import MS_PER_WORD

IMPATIENT: dict[str, Any] = {
    "filler_after_ms": 900,
    "caller_after_ms": 3_000,
    "reprompts": ["Are you there?"],
    "goodbye": "Goodbye.",
    "agent_after_ms": 5_000,
}
ANSWER = "It is sunny in the whole country, and it will stay like that for days."
MUSIC = b"\x10\x20" * 160
HOUR = 3_600


def play(
    tmp_path: Path,
    scenario: Callable[[CallStage], Awaitable[None]],
    script: Script | None = None,
    *tools: FakeTool,
    **context: Any,
) -> CallStage:
    """A call whose scenario ends before the caller hangs up."""

    async def whole(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await scenario(stage)
        stage.line.caller_hangs_up()

    names = [tool.spec.name for tool in tools]
    context = {"silence": IMPATIENT, "tools": ["collect_digits", *names], **context}
    stage = play_call(tmp_path, lambda: FakeAgent(script), whole, context=context, tools=tools)
    assert stage.agent.problem is None, stage.agent.problem
    return stage


def holds(stage: CallStage, on: bool = True) -> None:
    assert stage.line.media is not None
    stage.line.media.caller_holds(on)


def played(stage: CallStage) -> int:
    assert stage.line.media is not None
    return len(stage.line.media.played)


def test_an_hour_on_hold_is_no_silent_caller(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        holds(stage)
        await asyncio.sleep(HOUR - 60)
        assert not stage.of(events.Silence)
        holds(stage, False)
        await asyncio.sleep(3.5)

    stage = play(tmp_path, scenario, max_duration_ms=2 * HOUR * 1_000)

    [ended] = stage.of(events.HoldEnded)
    assert ended.held_ms == (HOUR - 60) * 1_000
    assert [event.text for event in stage.of(events.Silence)] == ["Are you there?"]
    assert stage.ended.reason == "caller_hangup"


def test_the_callers_music_is_not_heard_and_silence_goes_on_without_frames(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        media, agent = stage.line.media, stage.agent
        assert media is not None
        assert isinstance(agent, FakeAgent)
        holds(stage)
        agent.heard.clear()
        await media.say(MUSIC * 50)
        await asyncio.sleep(1)
        assert not any(agent.heard), "the agent heard the music"
        assert len(agent.heard) == pytest.approx(2 * 16_000, rel=0.05), "its clock stood still"
        holds(stage, False)
        agent.heard.clear()
        await media.say(MUSIC)
        assert bytes(agent.heard) == MUSIC

    play(tmp_path, scenario)


def test_an_answer_waits_for_the_caller_to_the_sample(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await agent.caller_says(1, "How is the weather?")
        await agent.speak(1, ANSWER)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        holds(stage)
        before = played(stage)
        await asyncio.sleep(600)
        assert played(stage) == before
        holds(stage, False)
        await asyncio.sleep(10)
        words = len("Good morning.".split()) + len(ANSWER.split())
        assert played(stage) == 16 * MS_PER_WORD * words

    stage = play(tmp_path, scenario, script, silence={**IMPATIENT, "caller_after_ms": 60_000})

    assert not stage.of(events.BargedIn)
    assert [event.turn for event in stage.of(events.AudioEnded)] == [0, 1]
    kinds = [line["type"] for line in stage.lines()]
    assert kinds.index("line.hold_ended") < len(kinds) - kinds[::-1].index("agent.audio_ended")


def test_a_voice_that_was_noticed_too_late_does_not_play_the_answer(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(0, ANSWER)

    async def scenario(stage: CallStage) -> None:
        holds(stage)
        now = asyncio.get_running_loop().time()
        stage.agent.emit(OverlapBegan(now, now))
        before = played(stage)
        await asyncio.sleep(60)
        assert played(stage) == before
        stage.agent.interrupt()
        await stage.agent.speak(1, "What else?")
        await asyncio.sleep(60)
        assert played(stage) == before

    play(tmp_path, scenario, script)


def test_a_tool_goes_on_and_its_answer_waits(tmp_path: Path) -> None:
    tool = FakeTool("look", 5)

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(1)
        await agent.caller_says(1, "Please look.")
        reply = await agent.ask("look", {}, 1)
        await agent.speak(1, reply.message)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.7)
        holds(stage)
        before = played(stage)
        await asyncio.sleep(120)
        assert tool.finished == 1
        assert played(stage) == before
        holds(stage, False)
        await asyncio.sleep(2.9)

    stage = play(tmp_path, scenario, script, tool, silence={**IMPATIENT, "after_hold": "Hello."})

    assert "Hello." not in stage.agent.said, "the answer is there"
    assert [e.turn for e in stage.of(events.AudioEnded)][-1] == 1
    assert not [e for e in stage.of(events.Silence) if e.kind in ("stalled", "reprompt")]


def test_a_question_is_asked_again_after_the_hold(tmp_path: Path) -> None:
    answers: list[bool | None] = []

    async def scenario(stage: CallStage) -> None:
        async def ask() -> None:
            answers.append(await stage.call.line.confirm("Shall I order it?"))

        asking = asyncio.ensure_future(ask())
        await asyncio.sleep(4)
        holds(stage)
        await asyncio.sleep(3 * LONGEST)
        assert not asking.done()
        holds(stage, False)
        await asyncio.sleep(3)
        assert stage.line.media is not None
        stage.line.media.press("1")
        await asking

    stage = play(tmp_path, scenario)

    assert answers == [True]
    assert stage.agent.said == ["Shall I order it?"] * 2


def test_keys_are_waited_for_after_the_hold(tmp_path: Path) -> None:
    collected: list[KeysCollected] = []

    async def scenario(stage: CallStage) -> None:
        async def collect() -> None:
            collected.append(await stage.call.line.collect_keys(KeysWanted(count=1)))

        asking = asyncio.ensure_future(collect())
        await asyncio.sleep(0.1)
        holds(stage)
        await asyncio.sleep(600)
        holds(stage, False)
        await asyncio.sleep(2)
        assert stage.line.media is not None
        stage.line.media.press("7")
        await asking

    play(tmp_path, scenario)

    assert [each.keys for each in collected] == ["7"]


def test_a_transfer_waits_for_the_caller(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        holds(stage)
        going = asyncio.ensure_future(stage.call.line.transfer_after_speech("sales"))
        await asyncio.sleep(300)
        assert not stage.line.transfers
        holds(stage, False)
        await going
        assert len(stage.line.transfers) == 1

    stage = play(tmp_path, scenario)
    assert stage.ended.outcome == "transferred"


def test_a_caller_who_hangs_up_while_on_hold(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        confirming = asyncio.ensure_future(stage.call.line.confirm("Shall I order it?"))
        await asyncio.sleep(4)
        holds(stage)
        await asyncio.sleep(60)
        stage.line.caller_hangs_up()
        with pytest.raises(LineGone):
            await confirming

    assert play(tmp_path, scenario).ended.reason == "caller_hangup"


def test_the_longest_duration_ends_a_call_on_hold(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(0, ANSWER)

    async def scenario(stage: CallStage) -> None:
        holds(stage)
        await stage.over()

    stage = play(tmp_path, scenario, script, max_duration_ms=60_000)

    assert stage.ended.reason == "max_duration"
    assert stage.ended.duration_ms < 75_000, "the farewell waited for the caller"


def test_a_caller_who_returns_hears_the_contexts_sentence(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        for _ in range(2):
            holds(stage)
            holds(stage)
            await asyncio.sleep(30)
            holds(stage, False)
            await asyncio.sleep(2)

    silence = {**IMPATIENT, "after_hold": "I am still here."}
    stage = play(tmp_path, scenario, silence=silence)

    assert stage.agent.said == ["I am still here."] * 2
    assert len(stage.of(events.HoldBegan)) == len(stage.of(events.HoldEnded)) == 2
