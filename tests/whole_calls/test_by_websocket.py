"""Whole calls whose sound comes by Asterisk's websocket channel (`asterisk.media: websocket`)."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from cordboard.calls.events import AudioStarted, Key, ToolCalled

from .bank import bank, keys_once_and_a_recording
from .side_by_side import SideBySide

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
together = SideBySide()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline):
    async with open_hotline(bank("websocket")) as hotline:
        yield hotline


@together
async def test_greeting_question_interruption_key_and_hang_up(hotline):
    before = (await hotline.get("/health"))[1]["audio"]["websocket_events"]
    await hotline.speech.say("What is the weather in Trondheim?")  # rendered before the answer
    caller = await hotline.dial("ctx-weather")
    await caller.greeted_to_the_end()
    assert [name for name in await hotline.asterisk.channels() if name.startswith("WebSocket/")]
    asked_at = await caller.say("What is the weather in Bergen?")
    await caller.line.hear_speech(after=asked_at)
    await caller.event(AudioStarted, count=2)
    interrupted_at = await caller.say("What is the weather in Trondheim?")
    await caller.event(ToolCalled, count=2)
    await caller.line.hear_speech(after=interrupted_at)
    caller.line.press("4#")
    assert [(await caller.event(Key, count)).key for count in (1, 2)] == ["4", "#"]
    caller.line.hangup()
    history = await caller.history()

    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    assert history.troubles == []
    bergen, trondheim = history.caller_turns
    assert bergen.tools[0].arguments == {"icao": "ENBR"}
    assert trondheim.tools[0].arguments == {"icao": "ENVA"}
    assert bergen.interrupted is not None
    assert len(bergen.interrupted) < len(" ".join(bergen.answer)), "only what was heard of it"
    await hotline.idle()
    assert await hotline.metric("ai_agent_active_calls") == 0
    assert (await hotline.get("/health"))[1]["audio"]["websocket_events"] == before


@together
async def test_the_agent_hangs_up_when_its_goodbye_has_been_heard(hotline):
    caller = await hotline.dial("ctx-weather")
    await caller.greeted_to_the_end()
    said_at = await caller.say("No, thank you. Goodbye.")
    assert (await caller.line.ended()).by == "them"
    history = await caller.history()
    assert history.outcome == "completed"
    assert [tool.name for tool in history.tools] == ["hangup_call"]
    assert "goodbye" in await caller.heard(since=said_at), "to its last word"
    await hotline.idle()


@together
async def test_each_key_comes_once_and_the_call_is_recorded(hotline):
    await keys_once_and_a_recording(hotline)


@together
async def test_a_caller_who_hangs_up_in_the_middle_of_the_answer(hotline):
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
    await hotline.idle()


async def test_asterisk_is_killed_under_a_live_call_and_comes_back(hotline):
    caller = await hotline.dial("ctx-orders")
    await caller.greeted()
    await hotline.asterisk.kill()
    history = await caller.history()
    assert (history.outcome, history.reason) == ("failed", "asterisk_lost")
    caller.line.hangup()
    await hotline.asterisk.start()
    await hotline.ready()
    again = await hotline.dial("ctx-orders")
    await again.greeted_to_the_end()
    again.line.hangup()
    assert (await again.history()).outcome == "completed"
    await hotline.idle()
