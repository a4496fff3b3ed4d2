"""Calls that go on in another engine after theirs was lost: in virtual time, cut at every line.

The first call is played to its end and recorded; its ledger up to some line is what a second
engine gets.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.agent_api.agent import AgentFailed, AgentSession, Said
from cordboard.agents.fallback.agent import FallbackAgent
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.calls.events import LedgerEvent
from cordboard.calls.failure_apology import TROUBLE
from cordboard.calls.history import CallHistory, LedgerLine, parse_lines
from cordboard.calls.offer import ResumedCall
from cordboard.calls.resumption import (
    MS_PER_CHARACTER,
    OUTCOME_UNKNOWN,
    CallSoFar,
    whole_lines,
)
from cordboard.config.conversation import Resume
from cordboard.errors import AgentError
from cordboard.history.call_record import read_call
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.tool import Effects, Limits
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_line import FakeLine
from cordboard_testkit.fake_pipeline import (
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    TalkingClock,
)

from .exchange import Hall
from .exchange import play as exchange
from .test_approval import Ear, Talk
from .test_call_firewall import PIN
from .test_messages import DELIVER, POST, Queue

Scenario = Callable[[CallStage], Awaitable[None]]
DEFAULT = Resume()
DISCLOSURE = "I am an automated assistant."
CONSENT = "This call is recorded."
RECORDED = {
    "disclosure": DISCLOSURE,
    "recording": {"enabled": True, "consent": CONSENT, "begin": "consent_heard"},
}
TOOLS = ["get_weather", "book", "cancel", "transfer", "take_message", "hangup_call"]
SALES = {"mode": "attended", "endpoint": "PJSIP/6001", "briefing": "A caller. Press 1 or 2."}


def tools() -> list[FakeTool]:
    return [
        FakeTool("get_weather", 0.3),
        FakeTool("book", 0.5, Effects.DESTRUCTIVE, limits=Limits(per_call=2)),
        FakeTool("cancel", 2, Effects.DESTRUCTIVE, approval_question="Shall I cancel it?"),
    ]


def play(folder: Path, script: Script, scenario: Scenario, **parts: Any) -> CallStage:
    context = {"tools": TOOLS, **parts.pop("context", {})}
    start = {name: parts.pop(name) for name in ("start_seconds", "start_error") if name in parts}

    def make_agent() -> FakeAgent:
        agent = FakeAgent(script)
        for name, value in start.items():
            setattr(agent, name, value)
        return agent

    return play_call(
        folder,
        make_agent,
        scenario,
        context=context,
        tools=parts.pop("offered", None) or tools(),
        sales=SALES,
        configured={
            "take_message": {"message": {"prompt": "Please say it.", "deliver": [DELIVER]}},
            "post": POST,
        },
        post_call=Queue(),
        **parts,
    )


def raw_lines(stage: CallStage) -> tuple[bytes, ...]:
    stage.lines()  # all of them are on the disk
    return tuple(stage.call.ledger_path.read_bytes().splitlines(keepends=True))


def resumed(lines: Sequence[bytes], **more: Any) -> ResumedCall:
    return replace(ResumedCall(tuple(lines), "a-123abc", 7, "demo", "local"), **more)


def event_line(at_ms: int, event: LedgerEvent) -> bytes:
    return orjson.dumps({"at_ms": at_ms, "type": event.type, **event.fields()}) + b"\n"


def until(lines: Sequence[bytes], kind: str, count: int = 1) -> tuple[bytes, ...]:
    """The lines up to one of this type, which is the last."""
    found = [n for n, line in enumerate(lines, 1) if orjson.loads(line)["type"] == kind]
    return tuple(lines[: found[count - 1]])


def hang_up(stage: CallStage) -> None:
    stage.line.caller_hangs_up()


def after(seconds: float) -> Scenario:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(seconds)
        hang_up(stage)

    return scenario


def agent_of(stage: CallStage) -> FakeAgent:
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.problem is None, f"the script failed: {stage.agent.problem!r}"
    return stage.agent


def session_of(stage: CallStage) -> AgentSession:
    session = agent_of(stage).session
    assert session is not None
    return session


def go_on(
    folder: Path, lines: Sequence[bytes], script: Script | None = None, **parts: Any
) -> CallStage:
    """The call in the second engine; the caller hangs up after 20 s."""
    more = parts.pop("more", {})

    async def nothing(agent: FakeAgent) -> None:
        """Say nothing."""

    scenario = parts.pop("scenario", after(20))
    folder.mkdir(exist_ok=True)
    return play(folder, script or nothing, scenario, resumed=resumed(lines, **more), **parts)


def spoken(stage: CallStage) -> list[str]:
    """All that this engine had its agent say to the caller, the greeting included."""
    session = agent_of(stage).session
    greeting = [session.greeting] if session is not None and session.greeting else []
    return [*greeting, *agent_of(stage).said]


# Calls that are lost


async def talks(agent: FakeAgent) -> None:
    await asyncio.sleep(6)  # the greeting is heard
    await agent.caller_says(1, "What is the weather in Bergen?")
    reply = await agent.ask("get_weather", {"place": "Bergen"}, 1)
    await agent.speak(1, reply.message, "Is there anything else that you want to know?")
    await agent.caller_says(2, "Book a table there, please.")
    reply = await agent.ask("book", {"place": "Bergen"}, 2)
    await agent.speak(2, "It is booked.")
    await asyncio.sleep(2)
    await agent.caller_says(3, "Thank you.")
    await agent.speak(3, "one two three four five six seven eight nine ten")


async def transfers(agent: FakeAgent) -> None:
    await agent.caller_says(1, "I want to talk to sales.")
    await agent.speak(1, "I will ask them.")
    reply = await agent.ask("transfer", {"destination": "sales", "reason": "a bicycle"}, 1)
    await agent.speak(1, reply.message)


async def dictates(agent: FakeAgent) -> None:
    await agent.caller_says(1, "I want to leave a message.")
    asked = asyncio.ensure_future(agent.ask("take_message", {"about": "for Ola"}, 1))
    await asyncio.sleep(3)
    await agent.caller_says(2, "Please call me back about the bicycle.")
    await asyncio.sleep(8)
    await agent.caller_says(3, "Yes.")
    await asked


async def asks_for_a_yes(agent: FakeAgent) -> None:
    await asyncio.sleep(3)
    await agent.caller_says(1, "Cancel my table.")
    _, reply = agent.begin_ask("cancel", {"place": "Bergen"}, 1)
    await asyncio.sleep(3)
    await agent.caller_says(2, "Yes.")
    await reply
    await agent.speak(2, "It is cancelled.")
    agent.interrupt()


async def rings(stage: CallStage) -> None:
    await stage.line.dialled.wait()
    leg = stage.line.legs[-1]
    leg.ring()
    await asyncio.sleep(3)
    leg.answer()
    await asyncio.sleep(5)
    leg.leave()
    await asyncio.sleep(10)
    hang_up(stage)


CALLS: dict[str, tuple[Script, Scenario, dict[str, Any]]] = {
    "talk": (talks, after(30), RECORDED),
    "transfer": (transfers, rings, {}),
    "approval": (asks_for_a_yes, after(20), {}),
    "message": (dictates, after(30), {}),
}


@cache
def whole_call(name: str) -> tuple[bytes, ...]:
    """The ledger of one of the calls, to its end."""
    script, scenario, context = CALLS[name]
    with TemporaryDirectory() as folder:
        return raw_lines(play(Path(folder), script, scenario, context=context))


def check(stage: CallStage, lines: Sequence[bytes]) -> list[LedgerLine]:
    """The ledger of the second engine, with what holds for each."""
    whole = stage.lines()
    kinds = [line["type"] for line in whole]
    assert kinds.count("call.adopted") == 1
    adopted = kinds.index("call.adopted")
    copied = [line for line in map(orjson.loads, lines) if line["type"] != "call.ended"]
    if copied:
        assert whole[:adopted] == copied, "the lines so far come first, as they were"
        assert whole[adopted]["at_ms"] >= max(line["at_ms"] for line in copied)
    times = [line["at_ms"] for line in whole[adopted:]]
    assert min(times) >= whole[adopted]["at_ms"] - 1, "the time does not go back"
    history = CallHistory.from_lines(whole)
    open_tools = [use.name for use in history.tools if use.status == "unanswered"]
    assert not open_tools
    assert history.transfers == [] or history.transfers[-1]["outcome"]
    ids = [line["ask_id"] for line in whole if line["type"] == "tool.asked"]
    assert len(ids) == len(set(ids)), "an id is of one tool call"
    return whole


@pytest.mark.parametrize("name", CALLS)
def test_a_call_goes_on_from_any_line(tmp_path: Path, name: str) -> None:
    whole = whole_call(name)
    for count in range(len(whole)):
        lost = f"lost after line {count} of {len(whole)}"
        lines = whole[:count]
        stage = go_on(tmp_path / str(count), lines, stays, context=CALLS[name][2])
        written = check(stage, lines)
        assert stage.ended.reason == "caller_hangup", lost
        assert spoken(stage), f"{lost}: the caller hears a sentence"
        turns = [line["turn"] for line in written if line["type"] == "caller.stopped"]
        assert turns == sorted(set(turns)), f"{lost}: each turn has a number of its own"
        assert ("caller", "I am still here.") in stage.history().transcript(), lost
        assert stage.history().transcript()[-1] == ("agent", "So am I."), lost


async def stays(agent: FakeAgent) -> None:
    await asyncio.sleep(8)
    await agent.caller_says(1, "I am still here.")
    await agent.ask("get_weather", {"place": "Oslo"}, 1)
    await agent.speak(1, "So am I.")


# What the caller hears


def test_a_caller_who_has_heard_nothing_is_greeted(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "call.connected")
    stage = go_on(tmp_path, lines, context=RECORDED)
    session = session_of(stage)
    assert session.greeting == f"{DISCLOSURE} {CONSENT} Good morning."
    assert session.history == ()
    assert agent_of(stage).said == []


def test_a_call_that_is_lost_in_its_greeting_begins_it_again(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "agent.audio_started")
    stage = go_on(tmp_path, lines, context=RECORDED)
    assert session_of(stage).greeting == ""
    assert agent_of(stage).said == [DEFAULT.phrase, DISCLOSURE, CONSENT, "Good morning."]


def test_what_was_proven_is_not_said_again_and_the_rest_is(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "announcement.heard")
    stage = go_on(tmp_path, lines, context=RECORDED)
    assert agent_of(stage).said == [DEFAULT.phrase, CONSENT, "Good morning."]
    heard = [event.kind for event in stage.of(events.AnnouncementHeard)]
    assert heard == ["disclosure", "consent"]
    kinds = [line["type"] for line in stage.lines()]
    assert kinds.index("recording.started") > kinds.index("announcement.heard", len(lines)), (
        "nothing is recorded before the consent was heard"
    )


def test_words_without_an_answer_are_repeated_to_the_caller(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "caller.text")
    stage = go_on(tmp_path, lines, context=RECORDED)
    said = DEFAULT.recall.replace("{request}", "What is the weather in Bergen")
    assert agent_of(stage).said == [said]
    assert session_of(stage).history == (
        Said("agent", f"{DISCLOSURE} {CONSENT} Good morning."),
        Said("caller", "What is the weather in Bergen?"),
        Said("agent", said),
    )


def test_the_sentences_are_the_contexts_own(tmp_path: Path) -> None:
    resume = {"phrase": "Da bin ich wieder.", "recall": "Sie sagten: {request}."}
    for count, said in ((1, "Sie sagten: What is the weather in Bergen."), (3, "Sie sagten: Th")):
        lines = until(whole_call("talk"), "caller.text", count)
        stage = go_on(tmp_path / str(count), lines, context={**RECORDED, "resume": resume})
        assert agent_of(stage).said[0].startswith(said)
    lines = until(whole_call("talk"), "agent.audio_ended", 3)
    stage = go_on(tmp_path / "heard", lines, context={**RECORDED, "resume": resume})
    assert agent_of(stage).said == ["Da bin ich wieder."]


def test_redacted_words_are_not_repeated(tmp_path: Path) -> None:
    lines = [
        line.replace(b"in Bergen?", b"at [phone]?")
        for line in until(whole_call("talk"), "caller.text")
    ]
    stage = go_on(tmp_path, lines, context=RECORDED)
    assert agent_of(stage).said == [DEFAULT.phrase]


def test_of_a_cut_sentence_only_what_was_heard_is_known() -> None:
    lines = until(whole_call("talk"), "agent.audio_started", 4)
    last = orjson.loads(lines[-1])["at_ms"]
    for sounded, heard in ((0, ""), (16 * MS_PER_CHARACTER, "one two three"), (60_000, "")):
        now = started(lines) + ms(last + sounded + 2000)
        so_far = CallSoFar.of(resumed(lines, silence_ms=2000), now)
        (cut,) = (event for event in so_far.closing if isinstance(event, events.CutOff))
        assert cut.heard == heard or sounded == 60_000
        said = [said.text for said in so_far.said if said.who == "agent"]
        assert said[-1] == (cut.heard or "It is booked.")
    assert cut.heard == "one two three four five six seven eight nine ten"


def started(lines: Sequence[bytes]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(orjson.loads(lines[0])["started_at"])


def ms(count: float) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=count)


# Tools


def tool_asks(*names: tuple[str, int]) -> tuple[Script, list[Any]]:
    """A script in which the agent asks for a tool in turns of the caller, and the replies."""
    replies: list[Any] = []

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(6)
        for number, (name, turn) in enumerate(names):
            if number == 0 or turn != names[number - 1][1]:
                await agent.caller_says(turn, "Do it.")
            replies.append(await agent.ask(name, {"place": "Bergen"}, turn))
            await agent.speak(turn, "Well.")

    return script, replies


def test_a_read_only_tool_that_was_open_may_be_asked_again(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "tool.asked")
    script, replies = tool_asks(("get_weather", 1))
    offered = tools()
    stage = go_on(tmp_path, lines, script, context=RECORDED, offered=offered)
    assert (replies[0].status, offered[0].began) == ("ok", 1)
    assert "not known" not in session_of(stage).prompt
    first, second = stage.of(events.ToolAnswered)
    assert (first.status, first.message, second.status) == ("cancelled", OUTCOME_UNKNOWN, "ok")


def test_a_tool_with_effects_is_not_done_twice(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "tool.asked", 2)
    script, replies = tool_asks(("book", 1), ("book", 1))
    offered = tools()
    stage = go_on(tmp_path, lines, script, context=RECORDED, offered=offered)
    assert [reply.status for reply in replies] == ["refused", "refused"]
    assert "not known whether it was done" in replies[0].message
    assert offered[1].began == 0
    assert "known whether they were done" in session_of(stage).prompt
    assert '- book {"place": "Bergen"}' in session_of(stage).prompt
    refused = stage.of(events.FirewallRefused)
    assert {(event.act, event.name, event.rule) for event in refused} == {
        ("tool", "book", "repeated")
    }


@pytest.mark.parametrize(("answer", "done"), [("Yes.", 1), ("No.", 0)])
def test_the_caller_may_want_it_again(tmp_path: Path, answer: str, done: int) -> None:
    """After a refusal and a turn of the caller, the desk has them confirm it."""
    lines = until(whole_call("talk"), "tool.asked", 2)
    offered = tools()
    replies = []

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(6)
        await agent.caller_says(1, "Please book it.")
        replies.append(await agent.ask("book", {"place": "Bergen"}, 1))
        await agent.caller_says(2, "Then do it once more.")
        _, reply = agent.begin_ask("book", {"place": "Bergen"}, 2)
        await asyncio.sleep(4)
        await agent.caller_says(3, answer)
        replies.append(await reply)

    go_on(tmp_path, lines, script, context=RECORDED, offered=offered)
    assert replies[0].status == "refused"
    assert offered[1].began == done


def test_a_tool_that_was_done_is_known_to_be_done(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "tool.answered", 2)
    script, replies = tool_asks(("book", 1))
    offered = tools()
    stage = go_on(tmp_path, lines, script, context=RECORDED, offered=offered)
    assert "was done before" in replies[0].message
    assert "It is sunny in Bergen." in replies[0].message
    assert offered[1].began == 0
    assert "were done before that" in session_of(stage).prompt


def test_other_arguments_are_another_request(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "tool.asked", 2)
    replies = []

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Rather in Oslo, twice.")
        ask = partial(agent.ask, "book", {"place": "Oslo"}, 1)
        replies.extend((await ask(), await ask()))

    offered = tools()
    go_on(tmp_path, lines, script, context=RECORDED, offered=offered)
    assert [reply.status for reply in replies] == ["ok", "refused"], "2 a call, one was before"
    assert offered[1].began == 1


# The rest of the call


def test_a_transfer_that_rang_has_failed_and_the_caller_is_with_the_agent(tmp_path: Path) -> None:
    lines = until(whole_call("transfer"), "transfer.step", 2)
    stage = go_on(tmp_path, lines)
    assert agent_of(stage).said == [DEFAULT.transfer]
    (transfer,) = stage.history().transfers
    assert (transfer["ok"], transfer["outcome"], transfer["error"]) == (
        False, "failed", "the engine was lost",
    )  # fmt: skip
    assert stage.of(events.TransferStep)[-1].step == "over"


def test_a_caller_who_comes_back_from_a_colleague_was_put_through(tmp_path: Path) -> None:
    """Who talks with a person is left alone, and taken over when they have parted."""
    joined = events.TransferStep("sales", "joined")
    line = orjson.dumps({"at_ms": 9000, "type": joined.type, **joined.fields()}) + b"\n"
    lines = (*until(whole_call("transfer"), "transfer.step", 2), line)
    stage = go_on(tmp_path, lines)
    assert agent_of(stage).said == [DEFAULT.phrase]
    (transfer,) = stage.history().transfers
    assert (transfer["ok"], transfer["outcome"]) == (True, "accepted")


def test_the_recording_goes_on_in_a_file_of_its_own(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "caller.stopped")
    stage = go_on(tmp_path, lines, context=RECORDED)
    stage.lines()
    paths = [event.path for event in stage.of(events.RecordingStarted)]
    first = paths[0].removesuffix(".wav")
    assert paths == [f"{first}.wav", f"{first}-2.wav"]
    assert (tmp_path / paths[1]).stat().st_size > 16_000 * 2
    assert [each.path for each in stage.history().recordings] == paths
    stopped, _ = stage.of(events.RecordingStopped)
    assert stopped.duration_ms > 0


def test_a_paused_recording_stays_paused(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(2)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(4)
        stage.call.line.pause_recording()
        await asyncio.sleep(1)
        hang_up(stage)

    context = {"recording": {"enabled": True}}
    lines = until(
        raw_lines(play(tmp_path / "a", script, scenario, context=context)), "recording.paused"
    )
    stage = go_on(tmp_path / "b", lines, context=context)
    assert len(stage.of(events.RecordingPaused)) == 2
    assert not stage.of(events.RecordingResumed)


@pytest.mark.parametrize("key", ["", "1"])
def test_a_paused_recording_stays_paused_if_the_next_engine_is_lost_before_it_records(
    tmp_path: Path, key: str
) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(4)
        assert stage.line.media is not None
        stage.line.media.press("1")
        stage.call.line.pause_recording()
        await asyncio.sleep(1)
        hang_up(stage)

    context = {"recording": {"enabled": True, "consent_key": key}}
    first = raw_lines(play(tmp_path / "a", talks, scenario, context=context))
    second = raw_lines(go_on(tmp_path / "b", until(first, "recording.paused"), context=context))
    lost = until(second, "recording.stopped")  # the second engine has recorded nothing yet
    stage = go_on(tmp_path / "c", lost, context=context)
    assert len(stage.of(events.RecordingStarted)) == 2
    assert len(stage.of(events.RecordingPaused)) == 2
    assert not stage.of(events.RecordingResumed)


def test_a_consent_that_only_a_machine_has_heard_is_asked_for_before_sound_is_recorded(
    tmp_path: Path,
) -> None:
    lines = [
        *until(whole_call("talk"), "recording.started"),
        event_line(6000, events.AnnouncementUnheard("consent", "machine")),
        event_line(6000, events.RecordingPaused()),
    ]
    stage = go_on(tmp_path, lines, context=RECORDED)
    kinds = [line["type"] for line in stage.lines()][len(lines) :]
    assert CONSENT in spoken(stage)
    assert kinds.index("announcement.heard") < kinds.index("recording.started")
    assert not stage.of(events.RecordingPaused)[1:], "the sound after it is recorded"


def test_a_conference_is_over_with_its_engine(tmp_path: Path) -> None:
    joined = event_line(9000, events.ConferenceStep("boss", "joined"))
    stage = go_on(tmp_path, (*until(whole_call("talk"), "agent.audio_ended"), joined))
    assert stage.of(events.ConferenceStep)[-1] == events.ConferenceStep(
        "boss", "over", "the engine was lost"
    )


def test_cost_and_time_go_on(tmp_path: Path) -> None:
    used = events.AgentUsed("local", "m", {"seconds": 1.0}, 0.25, "EUR")
    line = orjson.dumps({"at_ms": 3000, "type": used.type, **used.fields()}) + b"\n"
    first, *others = until(whole_call("talk"), "agent.audio_ended")
    # The call of all tests may have been played long ago, and time goes on by the clock.
    now = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
    first = orjson.dumps({**orjson.loads(first), "started_at": now}) + b"\n"
    lines = (first, *others, line)
    context = {**RECORDED, "max_duration_ms": 60_000}
    stage = go_on(tmp_path, lines, context=context, scenario=after(70), more={"silence_ms": 50_000})
    assert stage.ended.cost == 0.25
    assert stage.ended.reason == "max_duration"
    last = max(orjson.loads(each)["at_ms"] for each in lines)
    assert 60_000 < stage.ended.duration_ms < 75_000
    assert stage.of(events.Adopted) == [events.Adopted("a-123abc", 7, 50_000)]
    (adopted,) = (line for line in stage.lines() if line["type"] == "call.adopted")
    assert adopted["at_ms"] == last + 50_000


@pytest.mark.parametrize("skew", [-10_000, 10_000])
def test_a_clock_that_is_wrong_does_not_turn_time_back(skew: int) -> None:
    lines = until(whole_call("talk"), "caller.text")
    last = max(orjson.loads(line)["at_ms"] for line in lines)
    so_far = CallSoFar.of(resumed(lines), started(lines) + ms(last + 2000 + skew))
    assert so_far.seen_ms >= last
    assert last <= so_far.lost_ms <= so_far.seen_ms


@pytest.mark.parametrize("slow", [True, False])
def test_music_bridges_the_silence_until_a_slow_agent_is_ready(tmp_path: Path, slow: bool) -> None:
    lines = until(whole_call("talk"), "caller.text")
    stage = go_on(tmp_path, lines, start_seconds=3.0 if slow else 0.1)
    assert [music for music, _ in stage.line.music_heard] == (["default", ""] if slow else [])
    assert any("the line dropped" in text for text in spoken(stage))


def test_the_music_ends_with_a_caller_who_hangs_up_meanwhile(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "caller.text")
    stage = go_on(tmp_path, lines, start_seconds=9.0, scenario=after(2))
    assert [music for music, _ in stage.line.music_heard] == ["default", ""]
    assert not stage.of(events.Trouble)


def test_where_the_agent_fails_the_apology_is_heard_without_music(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "caller.text")
    problem = AgentError("no such model", "connect")
    stage = go_on(tmp_path, lines, start_seconds=2.0, start_error=problem)
    assert [music for music, _ in stage.line.music_heard] == ["default", ""]


def test_a_call_keeps_its_context_or_gets_another(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "caller.text")
    stage = go_on(tmp_path, lines, context=RECORDED, more={"context": "gone"})
    bound = stage.of(events.Bound)[-1]
    assert bound.context == "demo"
    assert "'gone'" in bound.problems[0]


def test_a_call_that_others_have_taken_ends_without_a_hang_up(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        stage.call.end("moved", "adopted")

    stage = play(tmp_path, talks, scenario)
    assert (stage.ended.outcome, stage.ended.reason) == ("moved", "adopted")
    assert stage.line.hangups == []


@pytest.mark.parametrize("reason", ["fenced", "handed_over"])
def test_a_stopped_engine_that_wakes_lets_go_of_its_calls(tmp_path: Path, reason: Any) -> None:
    """Another engine has the caller: the line ends for that reason, and nobody is hung up on."""
    steps = Queue()

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        assert stage.line.media is not None
        stage.line.media.break_off(reason)

    post = {"tool": "post", "arguments": {}}
    stage = play_call(
        tmp_path,
        lambda: FakeAgent(talks),
        scenario,
        context={"post_call": [post]},
        configured={"post": POST},
        post_call=steps,
    )
    assert (stage.ended.outcome, stage.ended.reason) == ("moved", reason)
    assert stage.line.hangups == []
    assert steps.jobs == []


def test_where_no_engine_has_room_the_call_ends_decently(tmp_path: Path) -> None:
    async def voice(_: object) -> bytes:
        return bytes(16_000)

    lines = until(whole_call("talk"), "caller.text")
    more = {"has_room": False}
    stage = go_on(tmp_path / "a", lines, context=RECORDED, more=more, apology=voice)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "no_room")
    assert [event.text for event in stage.of(events.Answering)][-1] == TROUBLE
    assert agent_of(stage).session is None
    context = {**RECORDED, "on_failure": "sales"}
    stage = go_on(tmp_path / "b", lines, context=context, more=more, apology=voice)
    assert stage.ended.outcome == "transferred"
    assert [target.name for target in stage.line.transfers] == ["sales"]
    stage = go_on(tmp_path / "c", lines, context=RECORDED, more=more)
    assert stage.line.declined == ["unavailable"]


def test_a_call_is_adopted_twice(tmp_path: Path) -> None:
    first = until(whole_call("talk"), "tool.asked")
    script, _ = tool_asks(("get_weather", 1), ("get_weather", 2))
    second = go_on(tmp_path / "b", first, script, context=RECORDED)
    lines = until(raw_lines(second), "tool.answered", 3)
    stage = go_on(tmp_path / "c", lines, tool_asks(("get_weather", 1))[0], context=RECORDED)
    whole = stage.lines()
    assert [line["type"] for line in whole].count("call.adopted") == 2
    ids = [line["ask_id"] for line in whole if line["type"] == "tool.asked"]
    assert len(set(ids)) == len(ids) == 4
    assert len(stage.history().adopted) == 2


# Lines that cannot be used


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_poisoned_lines_are_left_out(data: st.DataObject) -> None:
    original = whole_call("talk")
    lines = list(original)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        line = orjson.loads(original[place])
        junk = st.one_of(
            st.none(),
            st.text(),
            st.integers(-(2**63), 2**63),
            st.lists(st.text()),
            st.booleans(),
        )
        name = data.draw(st.sampled_from(sorted(line)))
        whole = data.draw(st.booleans())
        poison = data.draw(st.binary()) if whole else orjson.dumps({**line, name: data.draw(junk)})
        lines[place] = poison.replace(b"\n", b"") + b"\n"
    count = data.draw(st.integers(0, len(lines)))
    kept = whole_lines(lines[:count])
    assert kept == whole_lines(kept), "what is kept is whole"
    parse_lines(b"".join(kept))
    so_far = CallSoFar.of(resumed(lines[:count]), datetime.datetime.now().astimezone())
    assert isinstance(so_far.said, tuple)
    so_far.words(DEFAULT)


def test_a_line_of_a_newer_version_is_kept(tmp_path: Path) -> None:
    new = b'{"at_ms":2500,"type":"tool.weighed","kilos":3}\n'
    lines = (*until(whole_call("talk"), "caller.text"), new)
    stage = go_on(tmp_path, lines, context=RECORDED)
    assert new in raw_lines(stage)


def test_without_any_line_the_call_is_like_a_new_one(tmp_path: Path) -> None:
    stage = go_on(tmp_path, ())
    kinds = [line["type"] for line in stage.lines()]
    assert kinds[:3] == ["call.offered", "call.adopted", "call.bound"]
    assert session_of(stage).greeting == "Good morning."


def test_the_line_is_hung_up_where_the_first_engine_died_in_doing_so(tmp_path: Path) -> None:
    line = FakeLine()
    stage = go_on(tmp_path, whole_call("talk"), context=RECORDED, make_line=lambda: line)
    assert line.hangups == ["normal"]
    assert agent_of(stage).session is None


# With other parts of a call


def test_a_pipeline_goes_on(tmp_path: Path) -> None:
    """The real pipeline: it says the sentence, and its brain knows the conversation."""
    ear, opened = Ear(), []

    async def respond(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
        opened.append(dialogue.session.history)
        yield f"You said {text}"

    def agent() -> PipelineAgent:
        bank = VoiceActivityBank(LoudnessModel(), InlineExecutor())
        hearing = HearingParts(bank, ear, TurnProfile())
        return PipelineAgent(PipelineParts(hearing, FunctionBrain(respond), TalkingClock(), "on"))

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        talk = Talk(stage, ear)
        await talk.hears_out()
        await talk.says("Yes, go on.")
        await talk.listens(3)
        talk.hang_up()

    lines = until(whole_call("talk"), "caller.text")
    stage = play_call(
        tmp_path,
        agent,
        scenario,
        context={**RECORDED, "tools": [], "silence": {"filler_after_ms": 0, "continuers": []}},
        resumed=resumed(lines),
    )
    words = DEFAULT.recall.replace("{request}", "What is the weather in Bergen")
    assert stage.history().transcript()[-3:] == [
        ("agent", words),
        ("caller", "Yes, go on."),
        ("agent", "You said Yes, go on."),
    ]
    turns = [event.turn for event in stage.of(events.TurnEnded)]
    assert turns == [1, 2]
    (history,) = opened
    assert [said.who for said in history] == ["agent", "caller", "agent"]


def test_a_fallback_takes_the_conversation_over_once_more(tmp_path: Path) -> None:
    agents: list[FakeAgent] = []

    async def fails(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Yes, please.")
        agent.emit(AgentFailed("the service is gone"))

    def open_agent(provider: str) -> FakeAgent:
        agents.append(FakeAgent(fails if provider == "first" else None))
        return agents[-1]

    lines = until(whole_call("talk"), "caller.text")
    stage = play_call(
        tmp_path,
        lambda: FallbackAgent(open_agent, ("first", "second"), ""),
        after(20),
        context={**RECORDED, "tools": []},
        resumed=resumed(lines),
    )
    session = agents[1].session
    assert session is not None
    said = [each.text for each in session.history if each.who == "caller"]
    assert said == ["What is the weather in Bergen?", "Yes, please."]
    assert [event.turn for event in stage.of(events.TurnEnded)] == [1, 2]


STEP = {"tool": "look_up", "arguments": {}, "save_as": "customer"}


@pytest.mark.parametrize(
    ("effects", "results", "runs", "prompt"),
    [
        (Effects.READ_ONLY, {}, 1, "It is sunny in town."),
        (Effects.DESTRUCTIVE, {}, 0, "It is sunny in town."),
        (Effects.READ_ONLY, {"customer": {"name": "Ann"}}, 0, "It is sunny in town."),
    ],
)
def test_look_ups_are_restored(
    tmp_path: Path, effects: Effects, results: dict[str, Any], runs: int, prompt: str
) -> None:
    context = {"prompt": "{customer}|{customer.name|nobody}", "pre_call": [STEP]}
    first = play(tmp_path / "a", talks, after(8), context=context, offered=[FakeTool("look_up")])
    lines = until(raw_lines(first), "agent.audio_ended")
    tool = FakeTool("look_up", effects=effects)
    more = {"results": results}
    stage = go_on(tmp_path / "b", lines, context=context, offered=[tool], more=more)
    assert tool.began == runs
    found = "Ann" if results else "nobody"
    assert session_of(stage).prompt.startswith(f"{prompt}|{found}")
    ids = [event.ask_id for event in stage.of(events.ToolCalled)]
    assert ids == ["pre.1", *["1:pre.1"] * runs]


def test_proofs_and_taint_go_on(tmp_path: Path) -> None:
    rules = {"tools": {"book": {"step_up": "pin", "tainted": "refuse"}}, "pin": PIN}
    lines = list(until(whole_call("talk"), "caller.text"))
    verified = events.CallerVerified("pin", True)
    lines.append(orjson.dumps({"at_ms": 9000, "type": verified.type, **verified.fields()}) + b"\n")
    statuses = []

    async def script(agent: FakeAgent) -> None:
        await agent.caller_says(1, "Book it.")
        statuses.append((await agent.ask("book", {"place": "Oslo"}, 1)).status)

    go_on(tmp_path / "proven", lines, script, context=RECORDED, firewall=rules)
    tainted = [*until(whole_call("talk"), "tool.answered"), lines[-1]]
    stage = go_on(tmp_path / "tainted", tainted, script, context=RECORDED, firewall=rules)
    assert statuses == ["ok", "refused"]
    (refused,) = stage.of(events.FirewallRefused)
    assert refused.name == "book"


def test_a_call_that_goes_on_is_never_refused(tmp_path: Path) -> None:
    """It was admitted by the engine that was lost: no cap and no drain keeps it out."""
    lines = until(whole_call("talk"), "caller.text")  # played in a loop of its own

    async def scenario(hall: Hall) -> None:
        hall.registry.begin_drain()
        line = FakeLine()
        hall.lines.append(line)
        hall.registry.offer(replace(line.offer(), resumed=resumed(lines)))
        await asyncio.sleep(10)
        counts = hall.registry._services.counts
        used = counts.used("in", "total", "", datetime.datetime.now().astimezone())
        assert (used.live, used.calls) == (1, 0), "the engine that was lost has counted it"
        line.caller_hangs_up()
        await hall.registry.idle()

    hall = exchange(tmp_path, scenario, max_calls=1)
    (history,) = hall.histories()
    assert (history.outcome, len(history.adopted)) == ("completed", 1)
    assert hall.refused() == []


def test_an_encrypted_call_goes_on_encrypted(tmp_path: Path) -> None:
    privacy = {
        "encryption": {
            "enabled": True,
            "master_key": bytes(range(32)).hex(),
            "keys_directory": str(tmp_path / "keys"),
        }
    }
    lines = until(whole_call("talk"), "caller.text")
    stage = go_on(tmp_path / "b", lines, context=RECORDED, privacy=privacy)
    check(stage, lines)
    content = stage.call.ledger_path.read_bytes()
    assert b"Bergen" not in content
    assert stage.history().transcript()[1] == ("caller", "What is the weather in Bergen?")


def test_the_listener_hears_of_the_whole_call_in_order(tmp_path: Path) -> None:
    """So a live view of this engine shows the call from its beginning."""
    lines = until(whole_call("talk"), "tool.asked", 2)
    stage = go_on(tmp_path, lines, context=RECORDED)
    told = [event.type for event in stage.events]
    assert told == [line["type"] for line in stage.lines()]


def test_the_history_shows_the_loss_once(tmp_path: Path) -> None:
    lines = until(whole_call("talk"), "tool.asked", 2)
    stage = go_on(tmp_path, lines, context=RECORDED, more={"silence_ms": 2_000})
    stage.lines()
    file = str(stage.call.ledger_path.relative_to(tmp_path))
    record = read_call(tmp_path, file)
    (lost,) = (mark for mark in record.marks if mark.kind == "adopted")
    assert lost.until_ms is not None
    assert (lost.until_ms - lost.at_ms, lost.text) == (2_000, "the engine a-123abc was lost")
    assert record.row.outcome == "completed"
    assert [tool.status for tool in record.tools] == ["ok", "cancelled"]
