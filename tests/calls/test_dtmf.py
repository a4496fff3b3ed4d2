"""Keys of callers: whole calls in virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls import events
from cordboard.calls.dtmf import EARLY, MASK, TAIL
from cordboard.errors import LineError, LineGone
from cordboard.tools.call_line import KeysCollected, KeysWanted
from cordboard.tools.tool import ToolReply
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent

PIN = "4711"


def make_agent() -> FakeAgent:
    return FakeAgent()


class Desk:
    """Plays a call in which a tool collects keys."""

    def __init__(self, tmp_path: Path, *, context: dict[str, Any] | None = None) -> None:
        self._tmp_path = tmp_path
        self._context = {"tools": ["hangup_call", "collect_digits"], **(context or {})}
        self.collected: list[KeysCollected | Exception] = []
        self.times: list[float] = []

    def play(self, scenario: Any) -> CallStage:
        return play_call(self._tmp_path, make_agent, scenario, context=self._context)

    async def collect(self, stage: CallStage, wanted: KeysWanted) -> None:
        began = stage.now
        try:
            self.collected.append(await stage.call.line.collect_keys(wanted))
        except LineError as error:
            self.collected.append(error)
        self.times.append(round(stage.now - began, 2))


async def press(stage: CallStage, keys: str, pause: float = 0.3) -> None:
    for key in keys:
        await asyncio.sleep(pause)
        assert stage.line.media is not None
        stage.line.media.press(key)


async def hang_up(stage: CallStage) -> None:
    assert stage.line.media is not None
    stage.line.media.break_off("caller_hangup")


def keys_of(stage: CallStage) -> list[tuple[str, bool]]:
    return [(event.key, event.secret) for event in stage.of(events.Key)]


@pytest.mark.parametrize(
    ("wanted", "pressed", "keys", "ended_by"),
    [
        (KeysWanted(count=4), "4711", "4711", "count"),
        (KeysWanted(), "47#", "47", "terminator"),
        (KeysWanted(terminator="*"), "4#7*", "4#7", "terminator"),
        (KeysWanted(count=4, terminator="", next_timeout=1), "4#7", "4#7", "timeout"),
        (KeysWanted(), "#", "", "terminator"),
        (KeysWanted(count=1, first_timeout=2), "", "", "timeout"),
    ],
)
def test_what_ends_a_collection(
    tmp_path: Path, wanted: KeysWanted, pressed: str, keys: str, ended_by: str
) -> None:
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        collecting = asyncio.create_task(desk.collect(stage, wanted))
        await press(stage, pressed)
        await collecting
        await hang_up(stage)

    stage = desk.play(scenario)
    assert desk.collected == [KeysCollected(keys, ended_by)]
    assert keys_of(stage) == [(key, False) for key in pressed]
    assert stage.agent.keys == [], "what is collected is not given to the agent"


def test_keys_typed_ahead_count_and_older_ones_do_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "9")
        await asyncio.sleep(EARLY + 0.1)
        await press(stage, "47")
        collecting = asyncio.create_task(desk.collect(stage, KeysWanted(count=4)))
        await press(stage, "11")
        await collecting
        await hang_up(stage)

    stage = desk.play(scenario)
    assert desk.collected == [KeysCollected("4711", "count")]
    assert stage.agent.keys == ["9"]
    assert [key for key, _ in keys_of(stage)] == ["9", "4", "7", "1", "1"]


def test_without_tools_that_collect_keys_go_to_the_agent_at_once(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "5")
        assert stage.agent.keys == ["5"]
        await hang_up(stage)

    assert keys_of(play_call(tmp_path, make_agent, scenario)) == [("5", False)]


def test_a_secret_is_nowhere(tmp_path: Path) -> None:
    """Typed ahead, typed in time and the surplus typed after it."""
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, PIN[:2])
        collecting = asyncio.create_task(desk.collect(stage, KeysWanted(count=4, secret=True)))
        await press(stage, PIN[2:])
        await press(stage, "9#")
        await collecting
        assert stage.call.line.reveal("keys-1") == PIN
        await asyncio.sleep(TAIL)
        await press(stage, "5")
        await asyncio.sleep(EARLY)
        assert stage.call.line.reveal("keys-2") is None
        await hang_up(stage)

    stage = desk.play(scenario)
    (collected,) = desk.collected
    assert isinstance(collected, KeysCollected)
    assert collected.reference == "keys-1"
    assert keys_of(stage) == [(MASK, True)] * 6 + [("5", False)]
    assert stage.agent.keys == ["5"]
    assert stage.call.line.reveal("keys-1") is None, "forgotten with the call"
    lines = [line for line in stage.lines() if line["type"] == "caller.key"]
    assert all("4" not in line["key"] for line in lines)


def test_the_agent_hears_silence_while_a_secret_is_entered(tmp_path: Path) -> None:
    desk = Desk(tmp_path, context={"recording": {"enabled": True}})
    recorded: list[str] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        media = stage.line.media
        assert media is not None
        await media.say(b"\x01\x01" * 160)
        collecting = asyncio.create_task(desk.collect(stage, KeysWanted(count=1, secret=True)))
        recorded.append(stage.call.recording)
        await media.say(b"\x02\x02" * 160 * 10)
        recorded.append(stage.call.recording)
        media.press("1")
        await collecting
        await media.say(b"\x03\x03" * 160 * 10)
        await asyncio.sleep(0.3)
        await media.say(b"\x04\x04" * 160)
        recorded.append(stage.call.recording)
        await hang_up(stage)

    heard = bytes(desk.play(scenario).agent.heard)
    assert recorded == ["on", "muted", "on"]
    assert b"\x01\x01" in heard
    assert b"\x04\x04" in heard
    assert b"\x02" not in heard
    assert b"\x03" not in heard
    assert len(heard) == 320 * 22, "no frame is missing"


def test_one_collection_at_a_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        first = asyncio.create_task(desk.collect(stage, KeysWanted(count=1)))
        await asyncio.sleep(0.1)
        await desk.collect(stage, KeysWanted(count=1))
        await press(stage, "1")
        await first
        await hang_up(stage)

    desk.play(scenario)
    refused, collected = desk.collected
    assert isinstance(refused, LineError)
    assert collected == KeysCollected("1", "count")


def test_a_caller_who_hangs_up_ends_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        collecting = asyncio.create_task(desk.collect(stage, KeysWanted(count=4, secret=True)))
        await press(stage, "47")
        await hang_up(stage)
        await collecting

    stage = desk.play(scenario)
    assert isinstance(desk.collected[0], LineGone)
    assert keys_of(stage) == [(MASK, True)] * 2


def test_keys_that_nobody_has_asked_for_yet_when_the_caller_hangs_up_stay_unsaid(
    tmp_path: Path,
) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "47")
        await hang_up(stage)

    assert keys_of(Desk(tmp_path).play(scenario)) == [(MASK, True)] * 2


@pytest.mark.parametrize(("barge_in", "stopped"), [("on", True), ("off", False)])
def test_the_first_key_stops_the_prompt(tmp_path: Path, barge_in: str, stopped: bool) -> None:
    desk = Desk(tmp_path, context={"barge_in": barge_in})

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        stage.call.line.say("Please enter the four digits of your secret number now.")
        collecting = asyncio.create_task(desk.collect(stage, KeysWanted(count=2)))
        await asyncio.sleep(1)
        await press(stage, "4")
        assert stage.line.media is not None
        assert (stage.line.media.queued_ms == 0) is stopped
        await press(stage, "7")
        await collecting
        await asyncio.sleep(5)
        await hang_up(stage)

    stage = desk.play(scenario)
    assert len(stage.of(events.BargedIn)) == int(stopped)


def test_the_time_for_the_first_key_runs_from_the_end_of_the_prompt(tmp_path: Path) -> None:
    desk = Desk(tmp_path)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        stage.call.line.say("This is a prompt of ten words, which takes time.")
        await desk.collect(stage, KeysWanted(count=1, first_timeout=1.0))
        await hang_up(stage)

    stage = desk.play(scenario)
    spoken = stage.of(events.AudioEnded)
    assert len(spoken) == 2, "the greeting and the whole prompt"
    ended = [line["at_ms"] for line in stage.lines() if line["type"] == "agent.audio_ended"][-1]
    assert ended / 1000 - 2 + 0.7 <= desk.times[0] <= ended / 1000 - 2 + 1.3


def test_an_agent_uses_the_tool(tmp_path: Path) -> None:
    replies: list[ToolReply] = []

    async def script(agent: FakeAgent) -> None:
        arguments = {"prompt": "Your PIN?", "count": 4, "secret": True}
        replies.append(await agent.ask("collect_digits", arguments))
        await agent.speak(1, replies[0].message)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        await press(stage, PIN)
        await asyncio.sleep(3)
        await hang_up(stage)

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"tools": ["collect_digits"]},
        tools=[FakeTool("other")],
    )
    assert replies[0].data["reference"] == "keys-1"
    assert PIN not in repr(replies)
    assert PIN not in repr(stage.lines())
    assert "Your PIN?" in stage.agent.said
    assert stage.agent.problem is None


def test_the_question_of_a_tool_is_what_the_caller_has_waited_for(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "What is my balance?")
        reply = await agent.ask("collect_digits", {"prompt": "Your number?", "count": 2})
        await agent.speak(1, reply.message)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(5)
        await press(stage, "47")
        await asyncio.sleep(3)
        await hang_up(stage)

    context = {"tools": ["collect_digits"]}
    stage = play_call(tmp_path, lambda: FakeAgent(script), scenario, context=context)
    [latency] = stage.of(events.Latency)
    assert (latency.turn, latency.filler) == (1, False)
    [turn] = stage.history().caller_turns
    assert turn.answer[0] == "Your number?"
    assert turn.answer_start_ms == turn.last_speech_ms + latency.total_ms
    assert not turn.filled


def test_nobody_is_hurried_while_keys_are_waited_for(tmp_path: Path) -> None:
    """The tool has its own patience: no filler, no `are you still there?`, no stalled agent."""
    silence = {"filler_after_ms": 900, "caller_after_ms": 3000, "agent_after_ms": 3000}
    context = {"silence": silence, "tools": ["collect_digits"]}

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "What is my balance?")
        arguments = {"prompt": "Your number?", "count": 2, "timeout_seconds": 30}
        reply = await agent.ask("collect_digits", arguments)
        await agent.speak(1, reply.message)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(20)
        await press(stage, "4")
        await asyncio.sleep(3.5)
        await press(stage, "7")
        await asyncio.sleep(1)
        await hang_up(stage)

    stage = play_call(tmp_path, lambda: FakeAgent(script), scenario, context=context)
    assert stage.of(events.Silence) == []
    assert [reply.data["digits"] for reply in stage.agent.replies] == ["47"]
    assert stage.ended.reason == "caller_hangup"


def test_keys_are_sent_down_the_line(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1)
        await stage.call.line.send_keys("12#")
        await hang_up(stage)

    assert play_call(tmp_path, make_agent, scenario).line.sent_keys == "12#"
