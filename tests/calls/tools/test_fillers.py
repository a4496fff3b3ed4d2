"""Fillers of slow tools: said once, into silence, and never over or into anybody's voice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.calls.test_approval import Talk, converse

from cordboard.calls import events
from cordboard.calls.speech_queue import APART
from cordboard.tools.call_line import KeysWanted
from cordboard.tools.tool import Effects, Filler
from cordboard_testkit.call_stage import CallStage, FakeTool
from cordboard_testkit.fake_pipeline import MS_PER_WORD, FunctionDialogue

WORD = MS_PER_WORD / 1000
WAIT = "One moment please"
WAIT_SECONDS = 3 * WORD


def slow(seconds: float, threshold_ms: int = 1000, **more: object) -> FakeTool:
    filler = Filler(threshold_ms, (WAIT,), **more)  # type: ignore[arg-type]
    return FakeTool("look_up", seconds, filler=filler)


async def look_up(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield (await dialogue.session.ask_tool("look_up", {"place": "Bergen"})).message


def starts(stage: CallStage) -> list[tuple[str, float]]:
    """What was said, and after how many seconds of the last end of the caller's turn."""
    turn_end = 0.0
    found = []
    for line in stage.lines():
        if line["type"] == "caller.stopped":
            turn_end = line["last_speech_ms"]
        elif line["type"] == "agent.text":
            found.append((line["text"], (line["at_ms"] - turn_end) / 1000))
    return found


def test_a_filler_comes_at_its_threshold(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=4)

    stage = converse(tmp_path, scenario, slow(3), respond=look_up)
    asked = next(line["at_ms"] for line in stage.lines() if line["type"] == "tool.asked")
    filler = next(line["at_ms"] for line in stage.lines() if line["type"] == "tool.filler")
    assert 0 <= filler - asked - 1000 <= 50
    first, answered = stage.of(events.Latency), stage.of(events.Answered)
    assert first[0].filler
    assert len(answered) == 1


def test_an_answer_that_is_ready_waits_for_the_end_of_the_filler(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=5)

    stage = converse(tmp_path, scenario, slow(1.1), respond=look_up)
    assert [text for text, _ in starts(stage)] == [WAIT, "It is sunny in Bergen."]
    heard = [line for line in stage.lines() if line["type"] == "agent.audio_started"]
    answer = next(line for line in stage.lines() if line["type"] == "turn.answered")
    assert answer["at_ms"] - heard[0]["at_ms"] >= WAIT_SECONDS * 1000
    assert stage.of(events.BargedIn) == []


def test_a_filler_that_has_not_begun_when_the_answer_is_ready_is_dropped(tmp_path: Path) -> None:
    """It falls due while the agent is heard, and has been answered when that is over."""

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        yield "I will look that up in the big book for you"
        yield (await dialogue.session.ask_tool("look_up", {"place": "Bergen"})).message

    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=8)

    stage = converse(tmp_path, scenario, slow(4), respond=respond)
    assert stage.of(events.ToolFiller) == []
    assert [text for text, _ in starts(stage)][1:] == ["It is sunny in Bergen."]


def test_after_what_the_agent_has_said_a_filler_waits_for_silence(tmp_path: Path) -> None:
    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        yield "I will look that up"  # 1.5 s
        yield (await dialogue.session.ask_tool("look_up", {"place": "Bergen"})).message

    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=9)

    stage = converse(tmp_path, scenario, slow(7), respond=respond)
    (said, began), (filler, at), _ = starts(stage)
    assert (said, filler) == ("I will look that up", WAIT)
    assert APART <= at - began - 5 * WORD <= APART + 0.15


def test_repeats_are_said_one_after_another(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=11)

    stage = converse(tmp_path, scenario, slow(9, repeat_ms=3000), respond=look_up)
    assert len(stage.of(events.ToolFiller)) == 3
    assert [text for text, _ in starts(stage)] == [WAIT, WAIT, WAIT, "It is sunny in Bergen."]


def test_of_several_slow_tools_one_is_enough(tmp_path: Path) -> None:
    filler = Filler(1000, (WAIT,))
    first = FakeTool("look_up", 3, filler=filler)
    second = FakeTool("search", 3, filler=Filler(1200, ("Still searching.",)))

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        ask = dialogue.session.ask_tool
        replies = await asyncio.gather(ask("look_up", {}), ask("search", {}))
        for reply in replies:
            yield reply.message

    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=6)

    stage = converse(tmp_path, scenario, first, second, respond=respond)
    assert [event.text for event in stage.of(events.ToolFiller)] == [WAIT]


def test_no_filler_is_spoken_into_the_callers_voice(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=0.9)
        await caller.says("in Bergen I mean", seconds=2, then=4)

    stage = converse(tmp_path, scenario, slow(3), respond=look_up)
    speaking = [
        (begin.speech_ms, end.last_speech_ms)
        for begin, end in zip(stage.of(events.SpeechBegan), stage.of(events.TurnEnded), strict=True)
    ]
    for line in stage.lines():
        if line["type"] == "tool.filler":
            assert not any(begin < line["at_ms"] < end for begin, end in speaking)
    assert stage.of(events.Held) == []


def test_no_filler_talks_into_a_question_to_the_caller(tmp_path: Path) -> None:
    """One tool waits for a yes while another is slow."""
    searching = FakeTool("search", 6, filler=Filler(1000, (WAIT,)))
    booking = FakeTool("book", 0, Effects.DESTRUCTIVE, approval_question="Shall I book it?")

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        ask = dialogue.session.ask_tool
        for reply in await asyncio.gather(ask("book", {}), ask("search", {})):
            yield reply.message

    async def scenario(caller: Talk) -> None:
        await caller.says("A table please")
        await caller.hears_out()
        await caller.listens(2)
        await caller.says("Yes.", then=8)

    stage = converse(tmp_path, scenario, booking, searching, respond=respond)
    kinds = [line["type"] for line in stage.lines()]
    (approved,) = stage.of(events.ToolApproval)
    assert approved.answer == "yes"
    assert "tool.filler" not in kinds[: kinds.index("tool.approval")]
    assert "tool.filler" in kinds[kinds.index("tool.approval") :], "but afterwards it is said"


def test_no_filler_talks_into_the_keys_of_the_caller(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=0.8)
        line = caller.stage.call.line
        collecting = asyncio.create_task(line.collect_keys(KeysWanted(count=2)))
        await caller.listens(3)
        assert caller.stage.of(events.ToolFiller) == []
        for key in "47":
            caller.media.press(key)
        assert (await collecting).keys == "47"
        await caller.listens(6)

    stage = converse(tmp_path, scenario, slow(6), respond=look_up)
    assert len(stage.of(events.ToolFiller)) == 1


def test_no_filler_after_the_farewell_has_begun(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("The weather", then=0.7)
        caller.stage.call.line.end_after_speech("enough")
        await caller.listens(5)

    stage = converse(tmp_path, scenario, slow(30), respond=look_up)
    assert stage.of(events.ToolFiller) == []
