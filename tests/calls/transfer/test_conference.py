"""Operators who join a call, and words for one party alone: whole calls in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import AgentEnded, AgentFailed
from cordboard.calls import events
from cordboard.calls.operator import JOINED_NOTE, LEFT_NOTE, QUIET_NOTE
from cordboard.config.tools.entry import BRIEFING_AGAIN
from cordboard.errors import LineError, PartyUnreachable
from cordboard.tools.call_line import KeysWanted
from cordboard.tools.tool import Status
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeGuest, FakeLine
from cordboard_testkit.fake_pipeline import TalkingClock

PHONE = {
    "endpoint": "PJSIP/6001",
    "takeover": True,
    "ring_ms": 5_000,
    "briefing": "For you. {reason} Press 1 or 2.",
}
OTTO = {"otto": {"target": "6009", "context": "internal", **PHONE, "endpoint": "PJSIP/6009"}}
Part = Callable[[CallStage], Awaitable[None]]


class Talker(FakeAgent):
    """An agent with a voice that answers a turn."""

    def __init__(self) -> None:
        super().__init__(None)
        self.voice = TalkingClock()


def play(folder: Path, part: Part, **keys: Any) -> CallStage:
    """A call in which `part` acts after the greeting; the caller hangs up 10 s later."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await part(stage)
        await asyncio.sleep(10)
        stage.line.caller_hangs_up()

    stage = play_call(folder, Talker, scenario, **{"sales": PHONE, **keys})
    assert all(each.closed and not each.live for each in (*stage.line.guests, *stage.line.legs))
    assert all(media.closed for each in stage.line.guests for media in each.asides)
    return stage


def steps(stage: CallStage) -> list[str]:
    return [event.step for event in stage.of(events.ConferenceStep)]


def agent_of(stage: CallStage) -> Talker:
    assert isinstance(stage.agent, Talker)
    return stage.agent


def spoken_aside(stage: CallStage) -> list[str]:
    voice = agent_of(stage).voice
    assert isinstance(voice, TalkingClock)
    return voice.spoken


async def rings(stage: CallStage, *, quiet: bool = False) -> tuple[asyncio.Task[None], FakeGuest]:
    confers = stage.call.operator.confer("sales", "otto", quiet=quiet)
    joining = asyncio.create_task(confers)
    await stage.line.dialled.wait()
    guest = stage.line.guests[-1]
    guest.ring()
    return joining, guest


async def joins(stage: CallStage, *, quiet: bool = False) -> FakeGuest:
    joining, guest = await rings(stage, quiet=quiet)
    guest.answer()
    await asyncio.sleep(6)
    assert not guest.joined, "who answers is asked first"
    guest.press("1")
    await joining
    assert guest.joined
    return guest


def test_an_operator_joins_by_the_key_and_the_call_goes_on_without_them(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage)
        assert (stage.call.state, stage.line.place) == ("talking", "agent")
        await asyncio.sleep(5)
        await agent_of(stage).caller_says(1, "Hello to both.")
        guest.leave()
        await asyncio.sleep(5)
        await agent_of(stage).caller_says(2, "Are you there?")

    notice = {"conference": {"notice": "{name} has joined us."}}
    stage = play(tmp_path, part, context=notice)
    assert steps(stage) == ["ringing", "asked", "joined", "over"]
    assert spoken_aside(stage) == ["For you. Press 1 or 2."]
    assert stage.of(events.OperatorConference) == [
        events.OperatorConference("otto", "sales", "talks")
    ]
    assert agent_of(stage).said == ["sales has joined us."]
    assert agent_of(stage).notes == [JOINED_NOTE, LEFT_NOTE]
    assert [each.said_by for each in stage.of(events.Heard)] == ["conference", ""]
    assert stage.ended.reason == "caller_hangup"


def test_an_agent_that_is_asked_to_be_quiet_answers_nobody_until_they_have_left(
    tmp_path: Path,
) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage, quiet=True)
        agent = agent_of(stage)
        assert agent.aside is not None, "the agent hears, and does not answer"
        await asyncio.sleep(600)
        guest.leave()
        await asyncio.sleep(1)
        assert agent.aside is None

    silence = {"silence": {"caller_after_ms": 700_000}, "conference": {"notice": "Now three."}}
    stage = play(tmp_path, part, context=silence)
    assert agent_of(stage).said == ["Now three."]
    (conference,) = stage.of(events.OperatorConference)
    assert conference.agent == "quiet"


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("busy", "busy"),
        ("silent", "no_answer"),
        ("mailbox", "machine"),
        ("declines", "declined"),
        ("hangs up", "declined"),
        ("offline", "has no phone"),
        ("closed", "busy"),
    ],
)
def test_an_operator_who_does_not_join_changes_nothing(tmp_path: Path, end: str, why: str) -> None:
    def make_line() -> FakeLine:
        line = FakeLine()
        line.devices["PJSIP/6001"] = "INUSE" if end == "closed" else "NOT_INUSE"
        if end == "offline":
            line.refuse_leg["dial"] = PartyUnreachable("PJSIP/6001 has no phone")
        return line

    async def part(stage: CallStage) -> None:
        joining = asyncio.create_task(stage.call.operator.confer("sales", "otto", quiet=True))
        await asyncio.sleep(0.5)
        for guest in stage.line.guests:
            guest.ring()
            if end == "busy":
                guest.leave(17, 486)
            elif end != "silent":
                guest.answer()
            await asyncio.sleep(4)
            if end == "declines":
                guest.press("2")
            elif end == "hangs up":
                guest.leave()
        with pytest.raises(LineError, match=why):
            await joining
        assert stage.call.state == "talking"

    stage = play(
        tmp_path,
        part,
        make_line=make_line,
        sales={**PHONE, "devices": ["PJSIP/6001"]},
    )
    assert agent_of(stage).said == []
    assert agent_of(stage).notes == []
    if end == "mailbox":
        assert spoken_aside(stage) == ["For you. Press 1 or 2.", BRIEFING_AGAIN]


@pytest.mark.parametrize("when", ["rings", "asked", "joined"])
def test_a_call_that_ends_ends_its_conference(tmp_path: Path, when: str) -> None:
    async def part(stage: CallStage) -> None:
        if when == "joined":
            await joins(stage)
        else:
            joining, guest = await rings(stage)
            if when == "asked":
                guest.answer()
            await asyncio.sleep(1)
            stage.line.caller_hangs_up()
            with pytest.raises(LineError):
                await joining

    stage = play(tmp_path, part)
    assert stage.ended.reason == "caller_hangup"
    assert steps(stage)[-1] == "over"


def test_a_transfer_ends_the_conference_and_no_secret_is_entered_before(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage)
        with pytest.raises(LineError, match="no secret can be entered"):
            await stage.call.line.collect_keys(KeysWanted(4, "#", secret=True))
        with pytest.raises(LineError, match="somebody else"):
            await stage.call.operator.confer("sales", "vera", quiet=False)
        stage.line.dialled.clear()
        taking = asyncio.create_task(stage.call.operator.take_over("otto", "otto"))
        await stage.line.dialled.wait()
        assert guest.closed
        stage.line.legs[0].answer()
        await asyncio.sleep(6)
        assert stage.line.media is not None
        stage.line.media.press("1")
        await taking

    stage = play(tmp_path, part, destinations=OTTO)
    assert stage.ended.reason == "transfer:otto"


def test_an_operator_joins_caller_and_human_and_whispers_to_each(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        operator = stage.call.operator
        with pytest.raises(LineError, match="there is no human on the line"):
            await operator.whisper("Hello.", "vera", "human")
        transfer = asyncio.create_task(stage.call.line.transfer_after_speech("otto", "A bicycle"))
        await stage.line.dialled.wait()
        leg = stage.line.legs[0]
        leg.answer()
        await asyncio.sleep(1)
        assert await operator.whisper("Be kind to her.", "vera", "human")
        await asyncio.sleep(6)
        assert stage.line.media is not None
        stage.line.media.press("1")
        await asyncio.sleep(1)
        assert stage.line.place == "party"
        stage.line.dialled.clear()
        guest = await joins(stage)
        assert await operator.whisper("She is right.", "vera", "operator")
        assert await operator.whisper("Offer ten percent.", "vera", "human")
        assert (len(leg.asides), len(guest.asides)) == (2, 3), "for the key, and for all of them"
        leg.leave()
        await transfer
        await asyncio.sleep(1)
        assert guest.closed, "those who talked have gone apart"

    attended = {"mode": "attended", "return_on_hangup": True}
    stage = play(tmp_path, part, destinations={"otto": {**OTTO["otto"], **attended}})
    assert stage.of(events.OperatorWhisper) == [
        events.OperatorWhisper("vera", "human", "Be kind to her."),
        events.OperatorWhisper("vera", "operator", "She is right."),
        events.OperatorWhisper("vera", "human", "Offer ten percent."),
    ]
    agent = agent_of(stage)
    assert "Be kind to her." not in agent.said, "the caller's sound has nothing of it"
    assert agent.notes == [], "the agent hears nothing of the talk"


def test_a_whisper_waits_for_the_one_before_and_ends_with_its_hearer(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage)
        operator = stage.call.operator
        long = asyncio.create_task(operator.whisper("word " * 80, "vera", "operator"))
        await asyncio.sleep(1)
        assert await long
        guest.leave()
        with pytest.raises(LineError):
            await operator.whisper("Too late.", "vera", "operator")

    play(tmp_path, part)


def test_without_a_voice_the_key_counts_and_no_word_is_whispered(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        agent_of(stage).voice = None
        await joins(stage)
        with pytest.raises(LineError, match="no voice"):
            await stage.call.operator.whisper("Hello.", "vera", "operator")

    stage = play(tmp_path, part)
    assert stage.line.guests[0].asides == []


def test_a_context_or_the_firewall_forbids_conferences(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        with pytest.raises(LineError, match=r"conference\.enabled|firewall"):
            await stage.call.operator.confer("sales", "otto", quiet=False)

    shut = {"conference": {"enabled": False}}
    assert play(tmp_path / "a", part, context=shut).line.guests == []
    assert play(tmp_path / "b", part, firewall={"deny": ["6001"]}).line.guests == []


ATTENDED = {"mode": "attended", "return_on_hangup": True}


async def talks_with_the_human(stage: CallStage) -> asyncio.Task[Any]:
    """The caller is handed to a human, and both talk."""
    transfer = asyncio.create_task(stage.call.line.transfer_after_speech("otto", "A bicycle"))
    await stage.line.dialled.wait()
    leg = stage.line.legs[0]
    leg.answer()
    await asyncio.sleep(6)
    assert stage.line.media is not None
    stage.line.media.press("1")
    await asyncio.sleep(1)
    assert stage.line.place == "party"
    stage.line.dialled.clear()
    return transfer


@pytest.mark.parametrize("notice", ["A colleague has joined the call.", "{name} listens.", ""])
def test_caller_and_human_are_told_before_an_operator_joins_them(
    tmp_path: Path, notice: str
) -> None:
    words = notice.replace("{name}", "sales")

    async def part(stage: CallStage) -> None:
        transfer = await talks_with_the_human(stage)
        joining, guest = await rings(stage)
        guest.answer()
        await asyncio.sleep(6)
        guest.press("1")
        await asyncio.sleep(0.5)
        assert guest.joined is (not notice), "not before it was heard"
        await joining
        assert [len(media.played) > 0 for media in guest.louds] == ([True] if notice else [])
        stage.line.legs[0].leave()
        await transfer

    own = {} if notice.startswith("A colleague") else {"conference": {"notice": notice}}
    stage = play(tmp_path, part, destinations={"otto": OTTO["otto"] | ATTENDED}, context=own)
    assert steps(stage) == ["ringing", "asked", *(["told"] if notice else []), "joined", "over"]
    assert spoken_aside(stage)[1:] == ([words] if notice else [])
    assert words not in agent_of(stage).said, "the agent is not with them"


@pytest.mark.parametrize("why", ["no voice", "hangs up", "call ends"])
def test_nobody_joins_caller_and_human_untold(tmp_path: Path, why: str) -> None:
    async def part(stage: CallStage) -> None:
        transfer = await talks_with_the_human(stage)
        if why == "no voice":
            agent_of(stage).voice = None
            with pytest.raises(LineError, match=r"conference\.notice"):
                await stage.call.operator.confer("sales", "otto", quiet=False)
            assert stage.line.guests == []
        else:
            joining, guest = await rings(stage)
            guest.answer()
            await asyncio.sleep(6)
            guest.press("1")
            await asyncio.sleep(0.5)
            if why == "hangs up":
                guest.leave()
            else:
                stage.call.operator.hang_up("enough", "vera")
            with pytest.raises(LineError):
                await joining
            assert not guest.joined
        if why == "call ends":
            transfer.cancel()
            return
        stage.line.legs[0].leave()
        await transfer

    stage = play(tmp_path, part, destinations={"otto": OTTO["otto"] | ATTENDED})
    assert "joined" not in steps(stage)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_notice_that_the_caller_cuts_off_is_said_again(tmp_path: Path, quiet: bool) -> None:
    async def part(stage: CallStage) -> None:
        await joins(stage, quiet=quiet)
        for _ in range(5):
            await asyncio.sleep(1)
            agent_of(stage).interrupt()
        await asyncio.sleep(10)

    stage = play(tmp_path, part)
    assert agent_of(stage).said == ["A colleague has joined the call."] * 3, "and not for ever"


# A quiet agent.


async def hears_nothing(stage: CallStage, seconds: float) -> None:
    """Nothing of us is played for that long."""
    assert stage.line.media is not None
    before = bytes(stage.line.media.played)
    await asyncio.sleep(seconds)
    assert bytes(stage.line.media.played) == before


MESSAGE = {"take_message": {"message": {"deliver": [{"tool": "note"}]}}}


@pytest.mark.parametrize("tool", ["pay", "take_message", "collect_digits"])
def test_a_quiet_agent_asks_nothing_and_says_why(tmp_path: Path, tool: str) -> None:
    async def part(stage: CallStage) -> None:
        agent = agent_of(stage)
        guest = await joins(stage, quiet=True)
        await asyncio.sleep(3)  # the notice
        silent = asyncio.create_task(hears_nothing(stage, 60))
        reply = await agent.ask(tool, {"prompt": "Your number?"} if "digits" in tool else {}, 1)
        assert reply.status in (Status.REFUSED, Status.ERROR)
        told = f"{reply.message} {reply.data}"
        assert "quiet" in told, told
        await agent.speak(1, "I could not do that.")
        await silent
        assert agent.aside is not None, "it still answers nobody"
        guest.leave()
        await asyncio.sleep(1)
        assert agent.aside is None
        before = len(stage.line.media.played)  # type: ignore[union-attr]
        await agent.speak(2, "I am here again.")
        await asyncio.sleep(3)
        assert len(stage.line.media.played) > before  # type: ignore[union-attr]

    pay = FakeTool("pay", approval_question="Shall I pay?")
    stage = play(
        tmp_path,
        part,
        tools=[pay, FakeTool("note")],
        configured=MESSAGE,
        context={"tools": ["pay", "take_message", "collect_digits"]},
    )
    assert pay.began == 0
    assert agent_of(stage).notes == [QUIET_NOTE, LEFT_NOTE]
    assert agent_of(stage).said == ["A colleague has joined the call."]


@pytest.mark.parametrize("tool", ["pay", "take_message", "collect_digits"])
def test_what_is_being_asked_when_the_agent_must_be_quiet_is_given_up(
    tmp_path: Path, tool: str
) -> None:
    async def part(stage: CallStage) -> None:
        agent = agent_of(stage)
        joining, guest = await rings(stage, quiet=True)
        guest.answer()
        await asyncio.sleep(6)
        asking = asyncio.create_task(agent.ask(tool, {}, 1))
        await asyncio.sleep(4)
        if tool == "take_message":
            await agent.caller_says(1, "Please call Kari back.")
            await asyncio.sleep(1)
        guest.press("1")
        await joining
        await asyncio.sleep(3)  # the notice
        await hears_nothing(stage, 60)
        reply = await asking
        assert reply.status is not Status.OK or tool == "take_message"
        assert agent.aside is not None
        guest.leave()

    pay = FakeTool("pay", approval_question="Shall I pay?")
    stage = play(
        tmp_path,
        part,
        tools=[pay, FakeTool("note")],
        configured=MESSAGE,
        context={"tools": ["pay", "take_message", "collect_digits"]},
    )
    assert pay.began == 0
    taken = [(event.outcome, event.text) for event in stage.of(events.MessageTaken)]
    expected = [("unconfirmed", "Please call Kari back.")] if tool == "take_message" else []
    assert taken == expected, "what they had said is not lost"


def test_words_to_the_operator_are_not_owed_an_answer_afterwards(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage, quiet=True)
        await asyncio.sleep(3)
        await agent_of(stage).caller_says(1, "So you are the manager?")
        await asyncio.sleep(5)
        guest.leave()
        await asyncio.sleep(20)

    silence = {"filler_after_ms": 900, "agent_after_ms": 5_000, "caller_after_ms": 3_600_000}
    stage = play(tmp_path, part, context={"silence": silence})
    assert stage.ended.reason == "caller_hangup", "the agent has not stalled"
    assert agent_of(stage).said == ["A colleague has joined the call."]


def test_a_transfer_by_the_caller_s_key_ends_a_quiet_conference_and_lasts(tmp_path: Path) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage, quiet=True)
        await asyncio.sleep(3)
        stage.line.dialled.clear()
        transfer = asyncio.create_task(stage.call.line.transfer_after_speech("otto", "A bicycle"))
        await stage.line.dialled.wait()
        leg = stage.line.legs[0]
        assert guest.closed
        leg.answer()
        await asyncio.sleep(8)
        agent = agent_of(stage)
        assert agent.said[-1].startswith("For you."), "the human is asked aloud"
        assert agent.aside is not None, "the agent answers no turn yet"
        leg.leave()
        assert (await transfer).outcome == "declined"
        await asyncio.sleep(1)
        assert agent.aside is None

    stage = play(tmp_path, part, destinations={"otto": OTTO["otto"] | ATTENDED})
    assert stage.ended.reason == "caller_hangup"


@pytest.mark.parametrize("event", [AgentFailed("the service is gone"), AgentEnded("silence")])
def test_an_agent_that_fails_while_it_is_quiet_ends_no_talk(
    tmp_path: Path, event: AgentFailed | AgentEnded
) -> None:
    async def part(stage: CallStage) -> None:
        guest = await joins(stage, quiet=True)
        await asyncio.sleep(3)
        agent_of(stage).emit(event)
        await asyncio.sleep(60)
        assert stage.call.state == "talking"
        assert guest.live
        guest.leave()
        await asyncio.sleep(5)

    stage = play(tmp_path, part)
    assert (stage.ended.outcome, stage.ended.reason) == ("failed", "agent_failed")
