"""Callers who hang up at the worst moment: while it rings, mid-answer, while a tool is at work."""

from __future__ import annotations

import asyncio

import pytest

from cordboard.calls.events import AudioStarted, ToolAnswered, ToolCalled, ToolFiller
from cordboard_testkit.patience import until

from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
together = SideBySide()


@together
async def test_mid_answer(hotline):
    caller = await hotline.dial("ctx-weather")
    await caller.greeted_to_the_end()
    asked_at = await caller.say("What is the weather in Bergen?")
    await caller.line.hear_speech(after=asked_at)
    await asyncio.sleep(1)
    caller.line.hangup()
    history = await caller.history()

    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    answer = history.caller_turns[-1]
    assert answer.answer_start_ms is not None
    assert answer.cut, "nobody heard the end of it"
    assert answer.interrupted is None
    assert len(" ".join(answer.said)) < len(" ".join(answer.answer))


@together
async def test_while_a_tool_looks_something_up(hotline):
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    asked_at = await caller.say("Please check my order.")
    await caller.event(ToolFiller)
    await caller.line.hear_speech(after=asked_at)
    caller.line.hangup()
    history = await caller.history()

    [use] = history.tools
    assert use.status == "cancelled"
    assert use.filler == "One moment please."
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    await until(lambda: any(w.startswith("cancelled ") for w in hotline.server_words("orders")))

    # The server serves the next caller.
    other = await hotline.dial("ctx-orders")
    await other.greeted()
    await other.say("What are the opening times?")
    assert (await other.event(ToolAnswered)).status == "ok"


@together
async def test_while_a_tool_changes_the_world_it_still_does(hotline):
    caller = await hotline.dial("ctx-orders")
    await caller.greeted_to_the_end()
    await caller.say("Please place my order.")
    await caller.event(ToolCalled)
    caller.line.hangup()
    history = await caller.history()

    [use] = history.tools
    assert (use.name, use.status, use.message) == ("place_order", "ok", "At last.")
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")


async def test_before_and_just_after_the_answer(hotline):
    """Given up after 0, 5, 10, ... ms: before, during and after the connection of the media."""
    callers = []
    for step in range(16):
        caller = await hotline.dial("ctx-orders")
        await asyncio.sleep(step * 0.005)
        caller.line.hangup()  # CANCEL before the answer, BYE after it
        callers.append(caller)
    ends = await asyncio.gather(*(caller.line.ended() for caller in callers))
    await hotline.idle()
    assert {end.by for end in ends} == {"us"}
    for call_id in hotline.call_ids({caller.number for caller in callers}):
        history = await hotline.history(call_id)
        assert (history.outcome, history.reason) == ("completed", "caller_hangup"), history
    assert (await hotline.get("/health"))[1]["audio"]["connections"] == 0

    # And the line is as good as before.
    caller = await hotline.dial("ctx-orders")
    await caller.greeted()
    caller.line.hangup()


@together
async def test_while_the_greeting_is_spoken(hotline):
    caller = await hotline.dial("ctx-demo")
    await caller.event(AudioStarted)
    caller.line.hangup()
    history = await caller.history()

    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    assert history.caller_turns == []


@together
async def test_right_after_the_question(hotline):
    """The turn is still being judged, or recognised, or the tool is being asked."""

    async def hung_up_after(pause):
        caller = await hotline.dial("ctx-weather")
        await caller.greeted()
        await caller.say("What is the weather in Bergen?")
        await asyncio.sleep(pause)
        caller.line.hangup()
        history = await caller.history()
        assert (history.outcome, history.reason) == ("completed", "caller_hangup"), history
        assert [use.status for use in history.tools] in ([], ["ok"], ["cancelled"])

    await asyncio.gather(*map(hung_up_after, (0.0, 0.3, 0.6)))
