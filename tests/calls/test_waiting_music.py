"""Hold music while a tool takes long: whole calls in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls import events
from cordboard.errors import LineError
from cordboard.tools.tool import Limits
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.fake_pipeline import MS_PER_WORD

WAITS: dict[str, Any] = {
    "filler_after_ms": 900,
    "fillers": ["One moment."],
    "music_after_ms": 4_000,
    "music": "piano",
    "agent_after_ms": 60_000,
    "caller_after_ms": 60_000,
}


def play(
    tmp_path: Path,
    script: Script,
    *tools: FakeTool,
    seconds: float = 40,
    make_line: Callable[[], FakeLine] = FakeLine,
    scenario: Callable[[CallStage], Awaitable[None]] | None = None,
    **silence: Any,
) -> CallStage:
    """A call of some seconds."""

    async def whole(stage: CallStage) -> None:
        if scenario is not None:
            await scenario(stage)
        await asyncio.sleep(seconds)
        stage.line.caller_hangs_up()

    context = {"silence": {**WAITS, **silence}, "tools": [tool.spec.name for tool in tools]}
    stage = play_call(
        tmp_path, lambda: FakeAgent(script), whole, context=context, tools=tools,
        make_line=make_line,
    )  # fmt: skip
    assert stage.agent.problem is None, stage.agent.problem
    return stage


async def asks(agent: FakeAgent) -> None:
    await asyncio.sleep(2)
    await agent.caller_says(1, "Please look.")
    reply = await agent.ask("look", {}, 1)
    await agent.speak(1, f"It is done, {reply.status}.")


def slow(seconds: float) -> FakeTool:
    return FakeTool("look", seconds, limits=Limits(timeout_ms=120_000))


def story(stage: CallStage) -> list[str]:
    kinds = ("line.music_began", "line.music_ended", "tool.asked", "tool.answered",
             "agent.audio_started", "turn.answered")  # fmt: skip
    return [line["type"] for line in stage.lines() if line["type"] in kinds]


def spoken(stage: CallStage) -> int:
    """Words that the agent has spoken."""
    return sum(len(event.text.split()) for event in stage.of(events.Answering))


def test_music_comes_when_a_tool_takes_long_and_is_gone_before_the_answer(tmp_path: Path) -> None:
    stage = play(tmp_path, asks, slow(20))
    assert story(stage) == [
        "agent.audio_started",  # the greeting
        "tool.asked",
        "agent.audio_started",  # one filler, and no further one
        "line.music_began",
        "tool.answered",
        "line.music_ended",
        "turn.answered",
    ]
    assert [event.music for event in stage.of(events.MusicBegan)] == ["piano"]
    [ended] = stage.of(events.MusicEnded)
    assert 14_000 < ended.played_ms < 18_000
    assert [music for music, _ in stage.line.music_heard] == ["piano", ""]
    assert len(stage.line.media.played) == 16 * MS_PER_WORD * spoken(stage), "words were lost"


def test_the_first_word_waits_until_the_music_is_gone(tmp_path: Path) -> None:
    """The agent speaks while the tool still runs, and the line is slow."""

    def make() -> FakeLine:
        line = FakeLine()
        line.leg_delay = 1.0
        return line

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        await agent.caller_says(1, "Please look.")
        _, answer = agent.begin_ask("look", {}, 1)
        await asyncio.sleep(10)
        await agent.speak(1, "I am still looking for it.")
        await answer
        await agent.speak(1, "Here it is.")

    stage = play(tmp_path, script, slow(25), make_line=make)
    heard = [ms for _, ms in stage.line.music_heard]
    assert [music for music, _ in stage.line.music_heard] == ["piano", "", "piano", ""]
    assert heard[0] == heard[1], "sound was sent under the music"
    assert heard[2] == heard[3]
    assert len(stage.line.media.played) == 16 * MS_PER_WORD * spoken(stage)


@pytest.mark.parametrize("seconds", [0.5, 3])
def test_a_quick_tool_has_no_music(tmp_path: Path, seconds: float) -> None:
    stage = play(tmp_path, asks, slow(seconds))
    assert not stage.of(events.MusicBegan)
    assert not stage.line.music_heard


def test_without_the_setting_there_are_fillers_as_before(tmp_path: Path) -> None:
    stage = play(tmp_path, asks, slow(20), music_after_ms=0)
    assert not stage.line.music_heard
    assert len([each for each in stage.of(events.Silence) if each.kind == "filler"]) >= 1


@pytest.mark.parametrize("why", ["unsupported", "refused"])
def test_a_line_that_has_no_music_goes_on_with_words(tmp_path: Path, why: str) -> None:
    class Refusing(FakeLine):
        async def music(self, music: str) -> None:
            raise LineError("500 Internal Server Error")

    def make() -> FakeLine:
        return FakeLine(source="audiosocket") if why == "unsupported" else Refusing()

    stage = play(tmp_path, asks, slow(20), make_line=make, fillers=["One.", "Two."])
    assert not stage.of(events.MusicBegan)
    assert len([each for each in stage.of(events.Silence) if each.kind == "filler"]) > 1
    assert stage.of(events.Answering)[-1].text.startswith("It is done")


def test_a_caller_who_hangs_up_in_the_music(tmp_path: Path) -> None:
    stage = play(tmp_path, asks, slow(60), seconds=12)
    assert stage.ended.reason == "caller_hangup"
    assert stage.line.music_heard[-1][0] == ""
    assert stage.of(events.MusicEnded)


def test_a_question_to_the_caller_takes_the_music_away(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(14)
        assert [music for music, _ in stage.line.music_heard] == ["piano"]
        asked = asyncio.ensure_future(stage.call.conversation.confirm("Shall I go on?"))
        await asyncio.sleep(3)
        assert [music for music, _ in stage.line.music_heard] == ["piano", ""]
        stage.line.media.press("1")
        await asked
        await asyncio.sleep(6)
        assert [music for music, _ in stage.line.music_heard] == ["piano", "", "piano"]

    stage = play(tmp_path, asks, slow(40), seconds=30, scenario=scenario)
    assert stage.line.music_heard[-1][0] == ""


def test_lookups_before_the_greeting_have_music_too(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(25)
        stage.line.caller_hangs_up()

    context = {
        "silence": {**WAITS, "music_after_ms": 2_000},
        "pre_call": [{"tool": "look", "arguments": {}, "save_as": "found"}],
        "pre_call_timeout_ms": 10_000,
        "greeting": "Good morning. {found}",
    }
    stage = play_call(tmp_path, FakeAgent, scenario, context=context, tools=[slow(8)])
    assert [music for music, _ in stage.line.music_heard] == ["piano", ""]
    assert story(stage)[-2:] == ["line.music_ended", "agent.audio_started"]
    assert len(stage.line.media.played) == 16 * MS_PER_WORD * spoken(stage)
