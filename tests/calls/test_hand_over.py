"""Calls that a living engine hands over: the pause in which they leave, and how they go on. In
virtual time."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls import events
from cordboard.calls.media.waiting import WaitingMedia
from cordboard.calls.offer import HandOver, Media
from cordboard.calls.resumption import CallSoFar
from cordboard.calls.speech_pause import (
    ANYHOW_SECONDS,
    BETWEEN_SECONDS,
    LOOK_SECONDS,
    QUIET_SECONDS,
    Patience,
    Rest,
    pause_of_speech,
)
from cordboard.errors import AgentError, CallerStays, MediaError
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call, stage_config
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine, FakeMedia
from cordboard_testkit.virtual_time import START, in_virtual_time, virtual_time

from .test_resumption import RECORDED, agent_of, go_on, resumed, session_of, until, whole_call

MARGIN = 3 * LOOK_SECONDS


def left_after(*phases: tuple[float, Rest], deadline: float | None = None) -> tuple[float, Rest]:
    """When a call leaves that is so for so many seconds, each, and then stays as it was last; and
    what it has to be until it has left."""

    def rest() -> Rest:
        since = asyncio.get_running_loop().time() - START
        for seconds, found in phases:
            if since < seconds - 1e-9:
                return found
            since -= seconds
        return phases[-1][1]

    async def wait() -> tuple[float, Rest]:
        loop = asyncio.get_running_loop()
        end = None if deadline is None else START + deadline
        least = await pause_of_speech(rest, Patience.of(loop.time(), end).least)
        return loop.time() - START, least

    with virtual_time() as loop:
        return loop.run_until_complete(asyncio.wait_for(wait(), 1_000))


def test_a_call_leaves_once_both_have_been_quiet_for_a_moment() -> None:
    at, least = left_after((2, Rest.SPEECH), (9, Rest.QUIET))
    assert 2 + QUIET_SECONDS <= at < 2 + QUIET_SECONDS + MARGIN
    assert least is Rest.QUIET


def test_a_breath_within_a_sentence_is_no_pause() -> None:
    breaths = [(1.0, Rest.SPEECH), (QUIET_SECONDS - LOOK_SECONDS, Rest.QUIET)] * 5
    at, _ = left_after(*breaths, (1, Rest.SPEECH), (9, Rest.QUIET))
    assert at > sum(seconds for seconds, _ in breaths) + 1


def test_an_owed_answer_is_awaited_but_not_for_ever() -> None:
    at, least = left_after((900, Rest.BETWEEN))
    assert 0 <= at - BETWEEN_SECONDS < QUIET_SECONDS + MARGIN
    assert least is Rest.BETWEEN


def test_speech_is_cut_only_if_nothing_else_ever_comes() -> None:
    at, least = left_after((900, Rest.SPEECH))
    assert at == pytest.approx(ANYHOW_SECONDS, abs=MARGIN)
    assert least is Rest.SPEECH


def test_a_caller_who_is_asked_or_transferred_stays_however_long_it_takes() -> None:
    at, _ = left_after((800, Rest.BUSY), (9, Rest.QUIET))
    assert at > 799.9


def test_an_engine_that_is_told_to_stop_waits_for_less() -> None:
    assert left_after((900, Rest.BETWEEN), deadline=20)[0] == pytest.approx(10.3, abs=MARGIN)
    assert left_after((900, Rest.SPEECH), deadline=20)[0] == pytest.approx(15, abs=MARGIN)
    assert left_after((900, Rest.QUIET), deadline=20)[0] == pytest.approx(0.3, abs=MARGIN)


# What a call is at each moment.


def test_the_rest_of_a_call(tmp_path: Path) -> None:
    seen: dict[str, Rest] = {}

    async def script(agent: FakeAgent) -> None:
        await agent.speak(0, "Good morning.")
        await asyncio.sleep(5)
        await agent.caller_says(1, "What is the weather?")
        await asyncio.sleep(2)
        reply = await agent.ask("get_weather", {"place": "Bergen"}, 1)
        await agent.speak(1, reply.message)

    async def scenario(stage: CallStage) -> None:
        last: Rest | None = None
        for _ in range(1_000):
            await asyncio.sleep(0.02)
            found = stage.call.rest
            if found is not last:
                seen[f"{len(seen)} {found.name}"] = last = found
        stage.line.caller_hangs_up()
        await asyncio.sleep(0)
        seen["gone"] = stage.call.rest

    tool = FakeTool("get_weather", seconds=2)
    play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"tools": ["get_weather"]},
        tools=[tool],
    )
    names = [name.partition(" ")[2] for name in seen]
    assert seen.pop("gone") is Rest.BUSY
    shown = [name for name in names if name]
    # Greeting, silence, the caller, the agent thinks, its tool, its answer, silence.
    speech = shown.index("SPEECH")
    assert shown[speech:][:2] == ["SPEECH", "QUIET"]
    tail = shown[speech + 2 :]
    assert tail.index("SPEECH") < tail.index("BETWEEN") < tail.index("BUSY")
    assert tail[-1] == "QUIET"


# The call in the next engine.


class HandedLine(FakeLine):
    """The line of a caller who is still with another engine."""

    def __init__(self, hand_over: HandOver, fails: Exception | None, came: bool) -> None:
        super().__init__()
        self.hand_over = hand_over
        self.fails = fails
        self.came = came
        self.asked_at: list[float] = []

    async def _open(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        self.asked_at.append(asyncio.get_running_loop().time() - START)
        self.hand_over.came = self.came
        if self.fails is not None:
            raise self.fails
        self.hand_over.epoch = 9
        return await super()._open(formats)


def handed(
    folder: Path,
    lines: Sequence[bytes],
    script: Callable[[FakeAgent], object],
    fails: Exception | None = None,
    *,
    came: bool = True,
    **parts: object,
) -> CallStage:
    hand_over = HandOver()
    line: list[HandedLine] = []

    def make_line() -> HandedLine:
        line.append(HandedLine(hand_over, fails, came))
        return line[0]

    more = {"hand_over": hand_over, "silence_ms": 0}
    return go_on(folder, lines, script, make_line=make_line, more=more, **parts)  # type: ignore[arg-type]


def after_an_answer() -> tuple[bytes, ...]:
    return until(whole_call("talk"), "agent.audio_ended", 3)


def test_the_caller_hears_no_word_of_it_and_the_agent_knows_all(tmp_path: Path) -> None:
    lines = after_an_answer()

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(5)
        await agent.caller_says(1, "What did I ask first?")
        await agent.speak(1, "The weather in Bergen.")

    stage = handed(tmp_path, lines, script, context=RECORDED)
    assert agent_of(stage).said == []
    session = session_of(stage)
    assert session.greeting == ""
    assert "dropped" not in session.prompt
    said = [f"{each.who}: {each.text}" for each in session.history]
    assert said[-1] == "agent: It is booked."
    assert "caller: What is the weather in Bergen?" in said
    whole = [line.rstrip() for line in stage.call.ledger_path.read_bytes().splitlines()]
    assert whole[: len(lines)] == [line.rstrip() for line in lines]
    (adopted,) = stage.of(events.Adopted)
    assert (adopted.handed_over, adopted.epoch) == (True, 9)
    assert stage.ended.reason == "caller_hangup"
    files = [event.path for event in stage.of(events.RecordingStarted)]
    assert files[-1].endswith("-2.wav")


def test_the_caller_comes_only_when_the_agent_is_ready(tmp_path: Path) -> None:
    made: list[FakeAgent] = []

    async def silent(agent: FakeAgent) -> None:
        made.append(agent)

    seen: list[float] = []

    async def scenario(stage: CallStage) -> None:
        agent = stage.agent
        assert isinstance(agent, FakeAgent)
        agent.start_seconds = 3
        await asyncio.sleep(20)
        line = stage.line
        assert isinstance(line, HandedLine)
        seen.extend(line.asked_at)
        line.caller_hangs_up()

    handed(tmp_path, after_an_answer(), silent, context=RECORDED, scenario=scenario)
    assert len(seen) == 1
    assert seen[0] >= 3


@pytest.mark.parametrize("fails", ["stays", "agent"])
def test_nothing_is_left_of_a_call_whose_caller_does_not_come(tmp_path: Path, fails: str) -> None:
    told: list[str] = []
    lines = after_an_answer()  # played in a loop of its own

    @in_virtual_time
    async def attempt() -> None:
        hand_over = HandOver(failed=told.append)
        line = HandedLine(hand_over, CallerStays("they speak"), came=False)

        async def silent(agent: FakeAgent) -> None:
            """Say nothing."""

        agent = FakeAgent(silent)
        if fails == "agent":
            agent.start_error = AgentError("no connection", "connect")
        given = resumed(lines, hand_over=hand_over, silence_ms=0)
        config = stage_config(RECORDED)
        stage = CallStage(tmp_path, agent, config, line=line, resumed=given)
        await stage.over()
        assert (stage.ended.outcome, stage.ended.reason) == ("moved", "caller_stayed")
        assert stage.events == []
        assert len(line.asked_at) == (fails == "stays")
        assert line.hangups == []
        assert line.released >= 1
        assert agent.closed
        stage.writer.close()
        stage.recordings.close()

    attempt()
    assert len(told) == 1
    assert list(tmp_path.rglob("*.jsonl")) == []
    assert list(tmp_path.rglob("*.wav")) == []
    assert list(tmp_path.rglob("*.json")) == []


def test_a_caller_who_has_come_without_sound_is_given_back_to_the_dialplan(tmp_path: Path) -> None:
    async def silent(agent: FakeAgent) -> None:
        """Say nothing."""

    async def nothing(stage: CallStage) -> None:
        """It ends by itself."""

    stage = handed(
        tmp_path,
        after_an_answer(),
        silent,
        MediaError("no sound"),
        context=RECORDED,
        scenario=nothing,
    )
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "media_failed")
    assert stage.line.declined == ["unavailable"]


def test_what_was_done_before_may_be_done_again_as_within_one_engine() -> None:
    given = resumed(after_an_answer(), hand_over=HandOver(), silence_ms=0)
    so_far = CallSoFar.of(given, datetime.datetime.now().astimezone())
    assert so_far.is_unnoticed
    assert [use.name for use in so_far.uses if not use.done] == []


@in_virtual_time
async def test_media_that_wait_pass_everything_once_they_are_connected() -> None:
    waiting, heard, keys, sent = WaitingMedia(FakeMedia().format), bytearray(), [], []
    waiting.on_audio(heard.extend)
    waiting.on_dtmf(keys.append)
    waiting.on_sent(sent.append)
    waiting.write(b"\0" * 320)
    waiting.mark(lambda: None)
    assert (waiting.queued_ms, waiting.heard_ms, waiting.flush()) == (0, 0, 0)
    media = FakeMedia()
    waiting.connect(media)
    await media.say(b"\1" * 640)
    media.press("5")
    waiting.write(b"\2" * 640)
    await asyncio.sleep(0.2)
    assert (bytes(heard), keys) == (b"\1" * 640, ["5"])
    assert media.played[-640:] == b"\2" * 640
    assert waiting.heard_ms == 40
    assert sent
    await waiting.close()
    assert media.closed
