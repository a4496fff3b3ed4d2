"""Attended transfers of a whole call in virtual time: only telephone and agent are stand-ins."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cordboard.agent_api.agent import AgentEnded, AgentFailed
from cordboard.calls import events
from cordboard.calls.transfer.transfers import CALLER_GONE
from cordboard.config.tools.entry import BRIEFING_AGAIN
from cordboard.errors import LineError, PartyUnreachable
from cordboard.tools.tool import Status
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLeg, FakeLine

ATTENDED = {
    "mode": "attended",
    "endpoint": "PJSIP/6001",
    "briefing": "A caller for you. {reason} Press 1 or 2.",
}
WANTS = {"destination": "sales", "reason": "Kari wants a blue bicycle"}
Part = Callable[[CallStage, FakeLeg], Awaitable[None]]


async def asks(agent: FakeAgent) -> None:
    """Ask for the transfer, say its result, and stay."""
    await agent.speak(1, "I will ask sales.")
    reply = await agent.ask("transfer", WANTS, 1)
    await agent.speak(1, reply.message)


async def sends(agent: FakeAgent) -> None:
    """The same, where no human is asked: there is no concern to give."""
    reply = await agent.ask("transfer", {"destination": "sales"}, 1)
    await agent.speak(1, reply.message)


def play(
    folder: Path,
    part: Part,
    *,
    script: Callable[[FakeAgent], Awaitable[None]] = asks,
    make_line: Callable[[], FakeLine] = FakeLine,
    context: dict[str, Any] | None = None,
    firewall: dict[str, Any] | None = None,
    **destination: Any,
) -> CallStage:
    """A call whose agent transfers; `part` acts for the others once the human is called. The
    caller hangs up 60 s later."""

    async def scenario(stage: CallStage) -> None:
        dialled = asyncio.create_task(stage.line.dialled.wait())
        over = asyncio.create_task(stage.over())
        await asyncio.wait((dialled, over), timeout=120, return_when=asyncio.FIRST_COMPLETED)
        dialled.cancel()
        over.cancel()
        await asyncio.gather(dialled, over, return_exceptions=True)
        if stage.line.dialled.is_set():
            await part(stage, stage.line.legs[-1])
        await asyncio.sleep(60)
        stage.line.caller_hangs_up()

    stage = play_call(
        folder,
        lambda: FakeAgent(script),
        scenario,
        make_line=make_line,
        context=context,
        firewall=firewall,
        sales={**ATTENDED, **destination},
    )
    assert all(leg.closed and not leg.live for leg in stage.line.legs)
    return stage


def steps(stage: CallStage) -> list[str]:
    return [event.step for event in stage.of(events.TransferStep)]


def result(stage: CallStage) -> Any:
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    (reply,) = agent.replies
    return reply


def media(stage: CallStage) -> Any:
    return stage.line.media


async def rings_and_answers(stage: CallStage, leg: FakeLeg) -> None:
    leg.ring()
    await asyncio.sleep(2)
    leg.answer()
    await asyncio.sleep(6)  # the briefing takes about 4 s


def said(stage: CallStage) -> list[str]:
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    return agent.said


def ending(stage: CallStage) -> tuple[str, str]:
    return stage.ended.outcome, stage.ended.reason


def test_the_human_hears_the_concern_and_takes_the_call_by_key(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        assert leg.party_hears == "agent"
        assert stage.line.place == "hold"
        media(stage).press("1")
        await asyncio.sleep(0.1)
        assert (stage.line.place, leg.party_hears) == ("party", "caller")
        await asyncio.sleep(600)  # nobody speaks into the talk, and nothing times out

    stage = play(tmp_path, part)
    assert said(stage) == ["A caller for you. Kari wants a blue bicycle. Press 1 or 2."]
    assert steps(stage) == ["holding", "ringing", "briefing", "joined", "over"]
    (transfer,) = stage.of(events.Transferred)
    assert (transfer.ok, transfer.outcome) == (True, "accepted")
    assert ending(stage) == ("transferred", "transfer:sales")


@pytest.mark.parametrize(
    ("cause", "status", "outcome", "words"),
    [
        (17, 486, "busy", "sales is busy"),
        (21, 603, "declined", "cannot take the call"),
        (1, 404, "failed", "could not transfer"),
    ],
)
def test_a_refused_call_brings_the_caller_back_with_the_reason(
    tmp_path, cause, status, outcome, words
):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        await asyncio.sleep(1)
        leg.leave(cause, status)
        await asyncio.sleep(0.1)
        assert stage.line.place == "agent"
        assert stage.call.state == "talking"

    stage = play(tmp_path, part)
    reply = result(stage)
    assert (reply.status, reply.data["outcome"]) == (Status.ERROR, outcome)
    assert words in reply.message
    assert stage.history().turns[1].answer[-1] == reply.message
    assert ending(stage) == ("completed", "caller_hangup")


def test_a_phone_nobody_answers_stops_ringing(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        await asyncio.sleep(9.9)
        assert leg.live
        await asyncio.sleep(0.2)
        assert not leg.live
        assert stage.line.place == "agent"

    stage = play(tmp_path, part, ring_ms=10_000)
    assert result(stage).data["outcome"] == "no_answer"


def test_the_human_declines_by_key_and_by_word(tmp_path):
    async def by_key(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("2")

    async def by_word(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        await stage.agent.caller_says(2, "No, not now.")  # type: ignore[attr-defined]

    for part in (by_key, by_word):
        stage = play(tmp_path / part.__name__, part)
        assert result(stage).data["outcome"] == "declined"
        assert stage.line.place != "party"


def test_words_take_the_call_only_where_the_destination_says_so(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        await stage.agent.caller_says(2, "Yes, please.")  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)
        places.append(stage.line.place)

    places: list[str] = []
    stage = play(tmp_path / "key", part)
    assert BRIEFING_AGAIN in said(stage)
    assert result(stage).data["outcome"] == "machine"
    stage = play(tmp_path / "words", part, accept="key_or_words")
    assert stage.of(events.Transferred)[0].ok
    assert places == ["hold", "party"]


def test_a_voicemail_is_not_a_human(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.answer()
        voicemail = "You have reached Ola. Yes, leave a message after the tone."
        await stage.agent.caller_says(2, voicemail, ms=5_000)  # type: ignore[attr-defined]
        await asyncio.sleep(60)

    stage = play(tmp_path, part)
    assert result(stage).data["outcome"] == "machine"
    assert "nobody at sales has taken the call" in result(stage).message


def test_the_caller_hangs_up_while_it_rings(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        await asyncio.sleep(1)
        stage.line.caller_hangs_up()
        await asyncio.sleep(0.05)
        assert not leg.live

    stage = play(tmp_path, part)
    assert ending(stage) == ("completed", "caller_hangup")
    assert stage.of(events.Transferred)[0].outcome == "cancelled"


def test_the_caller_hangs_up_in_the_briefing_and_the_human_hears_so(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.answer()
        await asyncio.sleep(1)
        stage.line.caller_hangs_up()
        await asyncio.sleep(1)
        assert leg.live
        await asyncio.sleep(6)
        assert not leg.live

    stage = play(tmp_path, part)
    assert said(stage)[-1] == CALLER_GONE
    assert ending(stage) == ("completed", "caller_hangup")


def test_the_caller_comes_back_by_a_key(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        leg.caller_presses("5")
        await asyncio.sleep(1)
        assert leg.live
        leg.caller_presses("*")
        await asyncio.sleep(0.1)
        assert not leg.live
        assert stage.line.place == "agent"

    stage = play(tmp_path, part)
    assert result(stage).data["outcome"] == "cancelled"


def test_the_human_hangs_up_and_the_call_ends(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(30)
        leg.leave()
        await asyncio.sleep(0.1)
        assert stage.line.hangups == ["normal"]

    stage = play(tmp_path, part)
    assert ending(stage) == ("transferred", "transfer:sales")


def test_the_human_hangs_up_and_the_caller_is_back_in_the_same_conversation(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(900)
        leg.leave()
        await asyncio.sleep(0.1)
        assert stage.line.place == "agent"

    stage = play(tmp_path, part, return_on_hangup=True)
    assert steps(stage)[-3:] == ["joined", "returning", "over"]
    reply = result(stage)
    assert reply.status is Status.OK
    assert reply.data["caller_is_back"]
    assert stage.history().turns[1].answer[-1] == "You are back with me after sales."
    assert ending(stage) == ("completed", "caller_hangup")


def test_the_human_s_keys_are_not_the_caller_s(tmp_path):
    recording = {"enabled": True, "consent": "Press 7 to be recorded.", "consent_key": "7"}
    menu = {"prompt": "Press 7 for nothing.", "options": {"7": {"say": "Nothing."}}}

    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.answer()
        await asyncio.sleep(0.02)
        media(stage).press("7")  # before they are asked
        await asyncio.sleep(6)
        media(stage).press("1")
        await asyncio.sleep(5)

    context = {"recording": recording, "keys": menu}
    stage = play(tmp_path, part, context=context, record=True)
    assert stage.of(events.Transferred)[0].ok
    assert not stage.of(events.Key)
    assert not stage.of(events.RecordingStarted)
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    assert agent.keys == []


def test_a_caller_who_talks_with_a_human_is_not_hung_up_on_as_wordless(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        await stage.agent.caller_says(2, "Who is it?")  # type: ignore[attr-defined]
        media(stage).press("1")
        await asyncio.sleep(300)
        assert (stage.line.place, leg.live) == ("party", True)
        leg.leave()
        await asyncio.sleep(15)
        assert stage.call.state == "talking", "who is back has all the time again"

    firewall = {"incoming": {"wordless_after_ms": 20_000}}
    stage = play(tmp_path, part, firewall=firewall, return_on_hangup=True)
    assert ending(stage) == ("completed", "caller_silent")


async def gives_up(agent: FakeAgent) -> None:
    """Ask for the transfer, and give it up: the caller speaks into the sentence before it."""
    await agent.speak(1, "I will ask sales.")
    ask_id, _ = agent.begin_ask("transfer", WANTS, 1)
    await asyncio.sleep(0.5)
    agent.cancel_ask(ask_id)


def test_a_caller_who_interrupts_the_announcement_is_not_cut_off_the_human(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        await asyncio.sleep(20)
        leg.answer()
        await asyncio.sleep(10)
        media(stage).press("1")
        await asyncio.sleep(900)
        assert (stage.line.place, leg.live) == ("party", True)
        leg.leave()
        await asyncio.sleep(0.1)
        assert stage.line.place == "agent"

    stage = play(tmp_path, part, script=gives_up, return_on_hangup=True)
    assert steps(stage)[-3:] == ["joined", "returning", "over"]
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    (late,) = agent.late
    assert "You are back with me after sales." in late.text


@pytest.mark.parametrize("talks", [False, True])
def test_a_transfer_that_takes_too_long_brings_the_caller_back(tmp_path, monkeypatch, talks):
    monkeypatch.setattr("cordboard.tools.builtin.LONGEST_TALK_MS", 120_000)

    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        if talks:
            leg.answer()
            await asyncio.sleep(10)
            media(stage).press("1")
        await asyncio.sleep(130)
        assert (stage.line.place, leg.live) == ("agent", False)
        assert stage.call.state == "talking"

    stage = play(tmp_path, part, script=gives_up, ring_ms=120_000)
    assert ending(stage) == ("completed", "caller_hangup")
    assert steps(stage)[-1] == "over"
    (transfer,) = stage.of(events.Transferred)
    assert (transfer.ok, transfer.outcome) == (talks, "accepted" if talks else "cancelled")


def test_a_warm_transfer_introduces_all_three(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(0.5)
        assert (stage.line.place, leg.party_hears) == ("agent", "agent")
        await asyncio.sleep(5)
        assert (stage.line.place, leg.party_hears) == ("party", "caller")

    stage = play(tmp_path, part, mode="warm", introduction="Here is sales.")
    assert said(stage)[-1] == "Here is sales."
    assert "introducing" in steps(stage)


@pytest.mark.parametrize(
    ("devices", "outcome"),
    [
        ({"PJSIP/1": "INUSE", "Custom:DND1": "NOT_INUSE"}, "busy"),
        ({"PJSIP/1": "UNAVAILABLE", "Custom:DND1": "NOT_INUSE"}, "unavailable"),
        ({"PJSIP/1": "NOT_INUSE", "Custom:DND1": "BUSY"}, "busy"),
        ({"PJSIP/1": "UNKNOWN", "Custom:DND1": "UNKNOWN"}, "unavailable"),
        ({"Custom:DND1": "NOT_INUSE"}, "failed"),
    ],
)
def test_a_device_that_is_not_seen_to_be_free_is_not_called(tmp_path, devices, outcome):
    def line() -> FakeLine:
        line = FakeLine()
        line.devices = devices
        return line

    async def part(stage: CallStage, leg: FakeLeg) -> None:
        raise AssertionError("nobody is called")

    stage = play(tmp_path, part, make_line=line, devices=["PJSIP/1", "Custom:DND1"])
    assert not stage.line.legs
    assert result(stage).data["outcome"] == outcome
    assert stage.of(events.Transferred)[0].error


def test_free_devices_are_called(tmp_path):
    def line() -> FakeLine:
        line = FakeLine()
        line.devices = {"PJSIP/1": "NOT_INUSE", "Custom:DND1": "UNKNOWN"}
        return line

    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.leave(17)

    stage = play(tmp_path, part, make_line=line, devices=["PJSIP/1", "Custom:DND1"])
    assert stage.line.legs


def test_a_destination_that_is_closed_is_not_called(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        raise AssertionError("nobody is called")

    never = {"days": ["mon"], "from": "00:00", "to": "00:01"}
    stage = play(tmp_path, part, script=sends, hours=never, mode="blind")
    assert not stage.line.transfers
    assert result(stage).data["outcome"] == "unavailable"
    assert "sales is closed" in result(stage).message


@pytest.mark.parametrize(
    ("operation", "error", "outcome"),
    [
        ("hold", LineError("500"), "failed"),
        ("dial", PartyUnreachable("no phone"), "unavailable"),
        ("brief", LineError("422"), "failed"),
        ("join", LineError("422"), "failed"),
    ],
)
def test_a_refusal_of_the_telephone_system_brings_the_caller_back(
    tmp_path, operation, error, outcome
):
    def line() -> FakeLine:
        line = FakeLine()
        line.refuse_leg = {operation: error}
        return line

    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(1)

    stage = play(tmp_path, part, make_line=line)
    assert result(stage).data["outcome"] == outcome
    assert stage.line.place == "gone"  # they hung up at the end, and not before
    assert ending(stage) == ("completed", "caller_hangup")


def test_the_recording_pauses_with_the_human_or_follows(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(1)
        states.append((stage.call.recording, leg.follows))
        leg.leave()
        await asyncio.sleep(1)
        states.append((stage.call.recording, leg.follows))

    states: list[tuple[str, bool]] = []
    context = {"recording": {"enabled": True, "consent": "This call is recorded."}}
    play(tmp_path / "pauses", part, context=context, return_on_hangup=True)
    stage = play(tmp_path / "follows", part, context=context, return_on_hangup=True, record=True)
    assert states == [("paused", False), ("on", False), ("on", True), ("on", False)]
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    details = [event.detail for event in stage.of(events.TransferStep) if event.step == "joined"]
    assert details == ["the recording goes on"]


@pytest.mark.parametrize(
    "event", [AgentFailed("the service is gone", "dropped"), AgentEnded("it heard silence")]
)
def test_an_agent_that_fails_ends_no_talk(tmp_path, event):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        await rings_and_answers(stage, leg)
        media(stage).press("1")
        await asyncio.sleep(5)
        stage.agent.emit(event)  # type: ignore[attr-defined]
        await asyncio.sleep(60)
        assert stage.line.place == "party"
        assert leg.live

    stage = play(tmp_path, part)
    assert ending(stage) == ("transferred", "transfer:sales")


def test_an_agent_that_fails_while_it_rings_brings_the_caller_back_to_the_apology(tmp_path):
    async def part(stage: CallStage, leg: FakeLeg) -> None:
        leg.ring()
        await asyncio.sleep(1)
        stage.agent.emit(AgentFailed("the service is gone", "dropped"))  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        assert not leg.live
        assert stage.line.place == "agent"

    stage = play(tmp_path, part)
    assert ending(stage) == ("failed", "agent_failed")


@pytest.mark.parametrize(
    ("status", "outcome", "words"),
    [("TIMEOUT", "no_answer", "nobody answers"), ("CONTINUE", "accepted", "back with me")],
)
def test_a_queue_hands_the_caller_back_to_the_same_conversation(tmp_path, status, outcome, words):
    async def scenario(stage: CallStage) -> None:
        stage.line.away = asyncio.get_running_loop().create_future()
        await asyncio.sleep(600)
        assert stage.call.state == "transferring"
        stage.line.away.set_result(status)
        await asyncio.sleep(20)
        assert stage.call.state == "talking"
        stage.line.caller_hangs_up()

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(sends),
        scenario,
        sales={"type": "queue", "returns": True},
        context={"silence": {"filler_after_ms": 500, "caller_after_ms": 5_000}},
    )
    agent = stage.agent
    assert isinstance(agent, FakeAgent)
    assert agent.replies[0].data["outcome"] == outcome
    assert words in agent.replies[0].message
    assert steps(stage) == ["away", "back"]
    waiting = [event for event in stage.of(events.Silence) if event.silent_ms > 60_000]
    assert not waiting, "nothing is said while the caller is away"


@pytest.mark.parametrize("status", [None, "FAILURE"])
def test_a_caller_whom_their_own_telephone_system_connects_is_gone(tmp_path, status):
    async def scenario(stage: CallStage) -> None:
        stage.line.away = asyncio.get_running_loop().create_future()
        await asyncio.sleep(5)
        stage.line.away.set_result(status)
        await asyncio.sleep(60)
        stage.line.caller_hangs_up()

    sales = {"type": "refer", "returns": True}
    stage = play_call(tmp_path, lambda: FakeAgent(sends), scenario, sales=sales)
    (transfer,) = stage.of(events.Transferred)
    if status is None:
        assert (transfer.ok, transfer.outcome) == (True, "accepted")
        assert ending(stage) == ("transferred", "transfer:sales")
    else:
        assert (transfer.outcome, transfer.error) == ("failed", "FAILURE")
        assert ending(stage) == ("completed", "caller_hangup"), "the conversation went on"


def test_a_caller_who_stays_in_the_queue_is_transferred(tmp_path):
    async def scenario(stage: CallStage) -> None:
        stage.line.away = asyncio.get_running_loop().create_future()
        await asyncio.sleep(30)
        stage.line.away.set_result(None)

    stage = play_call(
        tmp_path, lambda: FakeAgent(sends), scenario, sales={"type": "queue", "returns": True}
    )
    assert ending(stage) == ("transferred", "transfer:sales")
    assert stage.line.hangups == []


def test_a_hundred_random_hang_ups_of_whole_calls_leave_nothing(tmp_path):
    """`play_call` asserts that no task, media, line or generation is left. Caller, human, agent and
    operator may go at any moment. More calls: `CORDBOARD_HANG_UPS=1000`."""
    ends: set[tuple[str, str]] = set()
    for seed in range(int(os.environ.get("CORDBOARD_HANG_UPS", "100"))):
        chance = random.Random(seed)

        async def part(stage: CallStage, leg: FakeLeg, chance: random.Random = chance) -> None:
            acts: list[Callable[[], None]] = [
                leg.ring,
                leg.answer,
                lambda: media(stage).press(chance.choice("12")),
                leg.leave,
                stage.line.caller_hangs_up,
                lambda: leg.caller_presses("*"),
            ]
            if chance.random() < 0.3:
                gone = AgentFailed("the service is gone", "dropped")
                acts.insert(chance.randint(0, 6), lambda: stage.agent.emit(gone))  # type: ignore[attr-defined]
            if chance.random() < 0.3:
                end = partial(stage.call.operator.hang_up, "enough", "vera")
                acts.insert(chance.randint(0, 6), end)
            until = chance.randint(2, len(acts))
            for act in acts[:until] if chance.random() < 0.7 else chance.sample(acts, until):
                await asyncio.sleep(chance.choice([0.0, 0.005, chance.uniform(0, 8)]))
                if stage.line.media is not None:
                    act()

        stage = play(
            tmp_path / str(seed),
            part,
            return_on_hangup=chance.random() < 0.5,
            mode=chance.choice(["attended", "warm"]),
        )
        ends.add(ending(stage))
    assert len(ends) >= 2, ends


@pytest.mark.parametrize("when", ["rings", "briefing", "talks", "away"])
def test_an_operator_who_ends_the_call_has_cancelled_its_transfer(tmp_path, when):
    async def scenario(stage: CallStage) -> None:
        if when == "away":
            stage.line.away = asyncio.get_running_loop().create_future()
            await asyncio.sleep(10)
        else:
            await stage.line.dialled.wait()
            leg = stage.line.legs[0]
            leg.ring()
            if when != "rings":
                leg.answer()
                await asyncio.sleep(6)
            if when == "talks":
                media(stage).press("1")
                await asyncio.sleep(5)
                assert stage.line.place == "party"
        stage.call.operator.hang_up("enough", "vera")

    sales = {"type": "queue", "returns": True} if when == "away" else ATTENDED
    script = sends if when == "away" else asks
    stage = play_call(tmp_path, lambda: FakeAgent(script), scenario, sales=sales)
    (transfer,) = stage.of(events.Transferred)
    assert (transfer.ok, transfer.outcome) == (False, "cancelled")
    assert "operator_hangup" in transfer.error
    assert ending(stage) == ("completed", "operator_hangup")
    assert all(not leg.live for leg in stage.line.legs)
