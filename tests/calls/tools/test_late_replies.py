"""Answers that come too late for their turn: kept, told when it fits, and never lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.calls.test_approval import Talk, converse

from cordboard.agent_api.speech import ABOUT_EARLIER
from cordboard.calls import events
from cordboard.calls.silence import LATE_AFTER
from cordboard.calls.tools.executor import MOST_OFFERS, LateReplies
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import Effects, Filler, Limits, Status, ToolReply
from cordboard_testkit.call_stage import CallStage, FakeTool
from cordboard_testkit.fake_pipeline import FunctionDialogue
from cordboard_testkit.virtual_time import virtual_time

TOLD = f"{ABOUT_EARLIER} It is sunny in Bergen."


def booking(seconds: float, timeout_ms: int = 10_000) -> FakeTool:
    """It has a filler, which nobody wants to hear who does not wait for it."""
    filler = Filler(2500, ("Still booking.",))
    return FakeTool("book", seconds, Effects.DESTRUCTIVE, filler, Limits(timeout_ms))


async def book(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    if text != "Book":
        yield f"You said {text}"
        return
    yield "I am going to book that for you right now in the big book"  # 4.2 s
    yield (await dialogue.session.ask_tool("book", {"place": "Bergen"})).message


def late(stage: CallStage) -> list[tuple[str, bool]]:
    return [(event.status, event.told) for event in stage.of(events.ToolLate)]


def said(stage: CallStage) -> list[str]:
    return [event.text for event in stage.of(events.Answering)]


async def interrupts(caller: Talk, text: str, then: float) -> None:
    """The ask is given up, while its tool is changing the world."""
    await caller.says("Book", then=1.2)
    await caller.listens(0.5)
    await caller.says(text, then=then)


def test_it_is_told_at_once_to_who_waits_in_silence(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=12)

    tool = booking(8)
    stage = converse(tmp_path, scenario, tool, respond=book)
    assert tool.finished == 1
    assert said(stage)[1:] == ["You said Stop", TOLD]
    assert late(stage) == [("ok", True)]
    (use,) = stage.history().tools
    assert (use.status, use.late, use.late_told) == ("cancelled", "It is sunny in Bergen.", True)
    lines = stage.lines()
    asked = next(line["at_ms"] for line in lines if line["type"] == "tool.asked")
    told = next(line["at_ms"] for line in lines if line.get("text") == TOLD)
    assert told - asked - 8000 <= 100
    assert 'ai_agent_tool_late_total{told="yes"} 1.0' in stage.metrics.render().decode()


def test_it_waits_until_nobody_speaks_and_nothing_is_owed(tmp_path: Path) -> None:
    """It comes while the caller asks something else, and follows the answer to that."""

    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=3)
        await caller.says("What about the weather tomorrow", seconds=3, then=8)

    stage = converse(tmp_path, scenario, booking(7), respond=book)
    assert said(stage)[1:] == ["You said Stop", "You said What about the weather tomorrow", TOLD]
    assert late(stage) == [("ok", True)]
    lines = stage.lines()
    answered = [line["at_ms"] for line in lines if line["type"] == "agent.audio_ended"]
    told = next(line["at_ms"] for line in lines if line.get("text") == TOLD)
    assert told >= answered[1] + LATE_AFTER * 1000 - 50
    (event,) = stage.of(events.ToolLate)
    assert event.waited_ms > 2000


def test_it_waits_for_other_tools(tmp_path: Path) -> None:
    other = FakeTool("look_up", 6)

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        if text == "Stop":
            yield (await dialogue.session.ask_tool("look_up", {"place": "Oslo"})).message
            return
        async for sentence in book(dialogue, text):
            yield sentence

    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=14)

    stage = converse(tmp_path, scenario, booking(4), other, respond=respond)
    assert said(stage)[1:] == ["It is sunny in Oslo.", TOLD]


def test_a_telling_that_is_cut_off_is_tried_once_more(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=2)
        for _ in range(2):
            while caller.media.queued_ms == 0:
                await caller.listens(0.02)
            await caller.listens(0.3)
            await caller.says("Wait a moment", then=1)
            await caller.hears_out()
        await caller.listens(5)

    stage = converse(tmp_path, scenario, booking(5), respond=book)
    assert said(stage).count(TOLD) == 2
    assert late(stage) == [("ok", True)]


def test_what_comes_after_a_timeout_is_told_too(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await caller.says("Book", then=14)

    stage = converse(tmp_path, scenario, booking(9, timeout_ms=6000), respond=book)
    assert said(stage)[-1] == TOLD
    assert [answer.status for answer in stage.of(events.ToolAnswered)] == ["timeout"]
    assert late(stage) == [("ok", True)]


@pytest.mark.parametrize("seconds", [2.5, 8])
def test_what_can_no_longer_be_told_is_written_down(tmp_path: Path, seconds: float) -> None:
    """It comes in the caller's last words, or after they have hung up."""

    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=0.9)
        caller.ear.text = "Never mind"
        await caller.says("Never mind", seconds=1.5, then=0)

    tool = booking(seconds)
    stage = converse(tmp_path, scenario, tool, respond=book)
    assert tool.finished == 1
    assert TOLD not in said(stage)
    assert late(stage) == [("ok", False)]
    assert stage.lines()[-1]["type"] == "call.ended"
    assert 'ai_agent_tool_late_total{told="no"} 1.0' in stage.metrics.render().decode()


def test_who_is_being_asked_something_is_told_afterwards(tmp_path: Path) -> None:
    async def scenario(caller: Talk) -> None:
        await interrupts(caller, "Stop", then=2.5)
        asking = asyncio.create_task(caller.stage.call.line.confirm("Are you the owner?"))
        await caller.listens(6)
        await caller.says("Yes.", then=5)
        assert await asking is True

    stage = converse(tmp_path, scenario, booking(6), respond=book)
    assert said(stage)[2:] == ["Are you the owner?", TOLD]
    assert late(stage) == [("ok", True)]


class Kept:
    """A ledger that is a list."""

    def __init__(self) -> None:
        self.lines: list[events.ToolLate] = []

    def record(self, event: events.ToolLate) -> None:
        self.lines.append(event)


@pytest.mark.parametrize("drops", [1, MOST_OFFERS - 1, MOST_OFFERS])
def test_a_telling_that_the_agent_drops_is_offered_again_but_not_for_ever(drops: int) -> None:
    """The caller speaks, for example, before the agent has begun."""

    async def scenario() -> list[events.ToolLate]:
        ledger, offered = Kept(), []
        replies = LateReplies(ledger, Metrics(), offered.append, lambda: again.append(1))
        again: list[int] = []
        replies.keep(ToolReply("t1", "book", Status.OK, "Booked."))
        for count in range(1, MOST_OFFERS + 1):
            assert replies.waiting
            replies.tell()
            assert not replies.waiting, "the agent has it"
            if count > drops:
                offered[-1].begin()
                offered[-1].finish()
                break
            offered[-1].drop()
            assert len(again) == min(count, MOST_OFFERS - 1)
        assert not replies.waiting
        assert {speech.text for speech in offered} == {f"{ABOUT_EARLIER} Booked."}
        return ledger.lines

    with virtual_time() as loop:
        (line,) = loop.run_until_complete(scenario())
    assert line.told is (drops < MOST_OFFERS)
