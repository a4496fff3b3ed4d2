"""Outbound calls in virtual time: who answers decides what is said, and how the call ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cordboard.calls import events
from cordboard.calls.outbound_order import Dialling, DialOutcome, OutboundOrder
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine

RATE = 8000
ID = "11111111-2222-4333-8444-555555555555"
Scenario = Callable[[CallStage], Awaitable[None]]


def noise(seconds: float) -> bytes:
    """Speech, as far as its loudness goes."""
    count = int(seconds * RATE)
    envelope = 0.6 + 0.4 * np.sin(2 * np.pi * 5 * np.arange(count) / RATE)
    return (np.random.default_rng(1).normal(0, 2500, count) * envelope).astype("<i2").tobytes()


def tone(hz: float, seconds: float) -> bytes:
    time = np.arange(int(seconds * RATE)) / RATE
    return (6000 * np.sin(2 * np.pi * hz * time)).astype("<i2").tobytes()


def quiet(seconds: float) -> bytes:
    return bytes(2 * int(seconds * RATE))


def line(**order: Any) -> Callable[[], FakeLine]:
    def make() -> FakeLine:
        made = FakeLine()
        given = {"introduction": "Good morning Ltd., about your {called_number}.", **order}
        made.order = OutboundOrder(ID, "+4791234567", "test", "PJSIP/x", **given)
        return made

    return make


def answered(*sound: bytes, then: float = 3.0) -> Scenario:
    """The other side answers after 1 s, is heard, and hangs up at the end."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.0)
        assert stage.line.media is not None
        for part in sound:
            await stage.line.media.say(part)
        await stage.line.media.say(quiet(then))
        stage.line.media.break_off("caller_hangup")

    return scenario


def play(tmp_path: Path, scenario: Scenario | None, make_line: Callable[[], FakeLine], **more: Any):
    return play_call(tmp_path, FakeAgent, scenario, make_line=make_line, **more)


def ending(stage: CallStage) -> tuple[str, str]:
    return stage.ended.outcome, stage.ended.reason


def judged(stage: CallStage) -> list[str]:
    return [event.answer for event in stage.of(events.AnswerJudged)]


def test_a_human_is_greeted_within_half_a_second_of_hello(tmp_path: Path) -> None:
    stage = play(tmp_path, answered(quiet(0.4), noise(0.5)), line(consent="I am a machine."))
    assert judged(stage) == ["human"]
    assert ending(stage) == ("completed", "caller_hangup")
    [said] = [event.text for event in stage.of(events.Answering)]
    assert said == "I am a machine. Good morning."
    kinds = [entry["type"] for entry in stage.lines()]
    assert kinds.index("line.dialled") < kinds.index("call.answer") < kinds.index("agent.text")
    [started] = [entry for entry in stage.lines() if entry["type"] == "agent.audio_started"]
    assert started["at_ms"] <= 1000 + 900 + 500
    [result] = stage.line.results
    assert (result.outcome, result.answer, result.reason) == ("answered", "human", "caller_hangup")
    assert stage.lines()[0]["direction"] == "out"


@pytest.mark.parametrize(
    "outcome", ["busy", "no_answer", "declined", "unavailable", "unknown_number", "redirected"]
)
def test_nobody_answers(tmp_path: Path, outcome: DialOutcome) -> None:
    def make() -> FakeLine:
        made = line()()
        made.dialling = Dialling(outcome, 17, 486, rang=True)
        return made

    stage = play(tmp_path, None, make)
    assert ending(stage) == ("not_reached", outcome)
    [dialled] = stage.of(events.Dialled)
    assert (dialled.outcome, dialled.cause, dialled.sip, dialled.took_ms) == (
        outcome, 17, 486, 1000,
    )  # fmt: skip
    assert stage.line.results[0].outcome == outcome
    assert not stage.of(events.Answering), "something was said"
    assert not stage.line.media.played


def test_a_voicemail_gets_the_message_after_its_beep_and_nothing_before(tmp_path: Path) -> None:
    sound = (quiet(0.3), noise(6), quiet(0.5), tone(1000, 0.4))
    stage = play(tmp_path, answered(*sound, then=8), line(message="Please call us back."))
    assert judged(stage) == ["machine", "voicemail"]
    assert ending(stage) == ("completed", "voicemail_message")
    [said] = stage.of(events.Answering)
    assert said.text == "Please call us back."
    [started] = [entry for entry in stage.lines() if entry["type"] == "agent.audio_started"]
    assert 8200 < started["at_ms"] < 8600, "the beep ends 8.2 s after the offer"
    assert stage.line.hangups == ["normal"]


def test_a_voicemail_without_a_message_is_hung_up_on(tmp_path: Path) -> None:
    sound = (quiet(0.3), noise(6), quiet(0.5), tone(1000, 0.4))
    stage = play(tmp_path, answered(*sound, then=8), line())
    assert ending(stage) == ("completed", "voicemail")
    assert not stage.of(events.Answering)


def test_a_human_who_turns_out_to_be_a_voicemail_hears_the_agent_no_more(tmp_path: Path) -> None:
    sound = (quiet(0.3), noise(0.5), quiet(1), noise(4), quiet(0.4), tone(1400, 0.3))
    stage = play(tmp_path, answered(*sound, then=8), line(message="Please call us back."))
    assert judged(stage) == ["human", "voicemail"]
    assert [event.revised for event in stage.of(events.AnswerJudged)] == [False, True]
    assert ending(stage) == ("completed", "voicemail_message")
    assert [event.text for event in stage.of(events.Answering)] == [
        "Good morning.",
        "Please call us back.",
    ]


def test_words_of_the_recogniser_find_a_screening_service(tmp_path: Path) -> None:
    async def transcribe(pcm: bytes) -> str:
        return "Please say your name and why you are calling."

    stage = play(
        tmp_path,
        answered(quiet(0.3), noise(3), then=6),
        line(),
        transcribe=transcribe,
    )
    assert judged(stage) == ["screening"]
    [said] = stage.of(events.Answering)
    assert said.text == "Good morning Ltd., about your 100."


ANNOUNCES = {
    "disclosure": "I am a machine.",
    "recording": {"enabled": True, "consent": "This call is recorded."},
}


def words_in_order(*texts: str) -> Callable[[bytes], Awaitable[str]]:
    """A recogniser that hears these, one after the other, and then nothing."""
    left = list(texts)

    async def transcribe(pcm: bytes) -> str:
        await asyncio.sleep(0.3)
        return left.pop(0) if left else ""

    return transcribe


@pytest.mark.parametrize("holds", ["Thank you, please hold.", "Thanks. One moment."])
def test_the_human_behind_a_screening_service_hears_the_announcements(
    tmp_path: Path, holds: str
) -> None:
    recording: list[str] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.0)
        media = stage.line.media
        assert media is not None
        asks = noise(3) + quiet(4)
        waits = noise(1.2) + quiet(2) + (tone(425, 1) + quiet(4)) * 3
        for sound in (asks, waits, noise(0.5)):
            await media.say(sound)
            recording.append(stage.call.recording)
        await media.say(quiet(10))
        recording.append(stage.call.recording)
        media.break_off("caller_hangup")

    transcribe = words_in_order("Please say your name and why you are calling.", holds, "Hello?")
    stage = play(
        tmp_path, scenario, line(consent="You asked for it."), transcribe=transcribe,
        context={**ANNOUNCES, "greeting": "Good morning."},
    )  # fmt: skip
    assert [event.text for event in stage.of(events.Answering)] == [
        "Good morning Ltd., about your 100.",
        "I am a machine.",
        "This call is recorded.",
        "You asked for it.",
    ]
    heard = [event.kind for event in stage.of(events.AnnouncementHeard)]
    assert heard == ["disclosure", "consent"]
    assert not stage.of(events.AnnouncementUnheard)
    assert recording == ["asking", "asking", "asking", "on"]
    kinds = [entry["type"] for entry in stage.lines()]
    started = kinds.index("recording.started")
    assert kinds[:started].count("announcement.heard") == 2
    assert stage.line.results[0].answer == "human"


def test_a_screening_service_that_seemed_human_proves_nothing_for_the_human_behind_it(
    tmp_path: Path,
) -> None:
    says = "Hello.", "Please say your name and why you are calling.", "Thanks, hold on.", "Yes?"
    sound = (
        quiet(0.3), noise(0.5), quiet(0.8), noise(2.5), quiet(5),
        noise(1), quiet(2), noise(0.4),
    )  # fmt: skip
    stage = play(
        tmp_path, answered(*sound, then=10), line(), transcribe=words_in_order(*says),
        context={**ANNOUNCES, "greeting": "Good morning."},
    )  # fmt: skip
    assert judged(stage) == ["human", "screening", "human"]
    said = [event.text for event in stage.of(events.Answering)]
    assert said[-3:] == [
        "Good morning Ltd., about your 100.",
        "I am a machine.",
        "This call is recorded.",
    ]
    heard = [event.kind for event in stage.of(events.AnnouncementHeard)]
    assert heard[-2:] == ["disclosure", "consent"]


def test_a_busy_recogniser_whose_words_come_late_still_shows_a_menu(tmp_path: Path) -> None:
    texts = ["Hello.", "For sales press one, for support press two."]

    async def transcribe(pcm: bytes) -> str:
        await asyncio.sleep(4)
        return texts.pop(0) if texts else ""

    stage = play(
        tmp_path, answered(quiet(0.3), noise(0.5), quiet(11), noise(2.5), then=8), line(),
        transcribe=transcribe,
    )  # fmt: skip
    assert judged(stage) == ["human", "ivr"]
    assert ending(stage) == ("completed", "ivr")


def test_the_agent_does_not_answer_a_screening_service_that_seemed_human(tmp_path: Path) -> None:
    aside: list[bool] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.0)
        media = stage.line.media
        assert media is not None
        for sound in (quiet(0.3) + noise(0.5) + quiet(0.8), noise(7), noise(2) + quiet(3)):
            await media.say(sound)
            aside.append(stage.agent.aside is not None)
        media.break_off("caller_hangup")

    says = "Hello.", "Please say your name and why you are calling."
    greeting = "Good morning, " + "this is a greeting that takes a long time, and then " * 5
    stage = play(
        tmp_path, scenario, line(), transcribe=words_in_order(*says), context={"greeting": greeting}
    )  # fmt: skip
    assert judged(stage) == ["human", "screening"]
    assert aside == [False, True, False], "its words are not for the agent"
    [cut] = stage.of(events.BargedIn)
    assert len(cut.heard) < len(greeting)
    said = [event.text for event in stage.of(events.Answering)]
    assert said[1:] == ["Good morning Ltd., about your 100."]


def test_a_transfer_while_a_screening_service_speaks_leaves_an_agent_that_answers(
    tmp_path: Path,
) -> None:
    aside: list[bool] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.0)
        media = stage.line.media
        assert media is not None
        await media.say(quiet(0.3) + noise(0.5) + quiet(0.8) + noise(7))
        aside.append(stage.agent.aside is not None)
        stage.call._transferring(True)
        aside.append(stage.agent.aside is not None)
        await media.say(quiet(1))
        media.break_off("caller_hangup")

    says = "Hello.", "Please say your name and why you are calling."
    stage = play(tmp_path, scenario, line(), transcribe=words_in_order(*says))
    assert judged(stage) == ["human", "screening"]
    assert aside == [True, False]


def test_a_consent_that_a_screening_service_has_heard_is_taken_back(tmp_path: Path) -> None:
    """It seems human for so long that it hears the consent to its end, and recording begins."""
    states: list[str] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(1.0)
        media = stage.line.media
        assert media is not None
        for sound in (
            quiet(0.3) + noise(0.5) + quiet(6),
            noise(2.5) + quiet(5),
            noise(0.4) + quiet(10),
        ):
            await media.say(sound)
            states.append(stage.call.recording)
        media.break_off("caller_hangup")

    says = "Hello.", "Please say your name and why you are calling.", "Yes?"
    stage = play(
        tmp_path, scenario, line(), transcribe=words_in_order(*says),
        context={**ANNOUNCES, "greeting": "Good morning."},
    )  # fmt: skip
    assert judged(stage) == ["human", "screening", "human"]
    assert states == ["on", "paused", "on"]
    story = [
        (entry["type"], entry.get("kind"), entry.get("reason"))
        for entry in stage.lines()
        if entry["type"].startswith(("announcement.", "recording."))
    ]
    consent = [each for each in story if each[1] != "disclosure"]
    assert consent[:5] == [
        ("announcement.heard", "consent", None),
        ("recording.started", None, None),
        ("announcement.unheard", "consent", "machine"),
        ("recording.paused", None, None),
        ("announcement.heard", "consent", None),
    ]
    assert consent[5][0] == "recording.resumed"
    assert ("announcement.unheard", "disclosure", "machine") in story


def test_no_human_behind_a_screening_service_and_nothing_is_announced(tmp_path: Path) -> None:
    said = "Please say your name and why you are calling."
    stage = play(
        tmp_path, answered(quiet(0.3), noise(3), then=40), line(),
        transcribe=words_in_order(said), context=ANNOUNCES,
    )  # fmt: skip
    assert len(stage.of(events.Answering)) == 1
    assert not stage.of(events.AnnouncementHeard)
    assert [event.reason for event in stage.of(events.RecordingDeclined)] == ["consent_not_heard"]


def test_the_words_of_an_order_follow_the_announcements_which_stay_proven(tmp_path: Path) -> None:
    stage = play(
        tmp_path, answered(quiet(0.4), noise(0.5), then=10), line(consent="You asked for it."),
        context=ANNOUNCES,
    )  # fmt: skip
    said = " ".join(event.text for event in stage.of(events.Answering))
    assert said == "I am a machine. This call is recorded. You asked for it. Good morning."
    heard = [event.kind for event in stage.of(events.AnnouncementHeard)]
    assert heard == ["disclosure", "consent"]
    assert stage.of(events.RecordingStarted)


def test_the_called_person_is_handed_to_a_human(tmp_path: Path) -> None:
    async def asks(agent: FakeAgent) -> None:
        await asyncio.sleep(3)
        await agent.ask("transfer", {"destination": "sales", "reason": "A blue bicycle"}, 1)

    async def scenario(stage: CallStage) -> None:
        theirs = quiet(0.4), noise(0.5), quiet(4), noise(3)  # the last is of the human's phone
        hello = asyncio.ensure_future(answered(*theirs, then=60)(stage))
        await stage.line.dialled.wait()
        [leg] = stage.line.legs
        leg.answer()
        await asyncio.sleep(6)
        assert stage.line.media is not None
        stage.line.media.press("1")
        await asyncio.sleep(30)
        assert (stage.line.place, leg.party_hears) == ("party", "caller")
        leg.leave()
        await hello

    sales = {"mode": "attended", "endpoint": "PJSIP/6001", "briefing": "{reason} Press 1 or 2."}
    stage = play_call(
        tmp_path, lambda: FakeAgent(asks), scenario, make_line=line(message="No."), sales=sales,
        transcribe=words_in_order("Hello?", "Please leave a message after the tone."),
    )  # fmt: skip
    assert judged(stage) == ["human"], "nobody else is judged"
    assert [event.outcome for event in stage.of(events.Transferred)] == ["accepted"]
    assert ending(stage) == ("transferred", "transfer:sales")
    [result] = stage.line.results
    assert (result.outcome, result.answer, result.reason) == ("answered", "human", "transfer:sales")


def test_a_menu_gets_its_keys_and_then_the_human_behind_it(tmp_path: Path) -> None:
    texts = ["For sales press one, for support press two.", "Hello?"]

    async def transcribe(pcm: bytes) -> str:
        return texts[0] if len(pcm) > 2 * 16000 else texts[1]

    stage = play(
        tmp_path,
        answered(quiet(0.3), noise(3), quiet(2), noise(0.5)),
        line(keys=("2",)),
        transcribe=transcribe,
    )
    assert stage.line.sent_keys == "2"
    assert judged(stage) == ["ivr", "human"]
    assert [event.text for event in stage.of(events.Answering)] == ["Good morning."]


@pytest.mark.parametrize(
    ("sound", "reason"),
    [
        (tone(1100, 0.5), "fax"),
        (b"".join((tone(950, 0.33), tone(1400, 0.33), tone(1800, 0.33))), "intercept"),
        ((tone(425, 0.5) + quiet(0.5)) * 4, "busy_tone"),
    ],
)
def test_tones_end_the_call(tmp_path: Path, sound: bytes, reason: str) -> None:
    stage = play(tmp_path, answered(sound), line(message="Please call us back."))
    assert ending(stage) == ("completed", reason)
    assert stage.line.results[0].answer == reason
    assert not stage.of(events.Answering)


def test_who_says_nothing_is_greeted_too(tmp_path: Path) -> None:
    stage = play(tmp_path, answered(quiet(6)), line())
    assert judged(stage) == ["silence"]
    assert [event.text for event in stage.of(events.Answering)] == ["Good morning."]


def test_a_line_without_any_sound_is_greeted_too(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(12)
        stage.line.media.break_off("caller_hangup")

    stage = play(tmp_path, scenario, line())
    assert [event.text for event in stage.of(events.Answering)] == ["Good morning."]


@pytest.mark.parametrize(
    ("sound", "reason"),
    [(tone(440, 2) + quiet(4), "ringback"), (tone(620, 6), "undecided")],
    ids=["ringing", "an unknown tone"],
)
def test_what_never_becomes_an_answer_is_hung_up_on(
    tmp_path: Path, sound: bytes, reason: str
) -> None:
    stage = play(tmp_path, answered(sound * 40), line())
    assert ending(stage) == ("completed", reason)
    assert not stage.of(events.Answering)
    assert stage.line.hangups == ["normal"]
    [result] = stage.line.results
    assert (result.outcome, result.reason) == ("answered", reason)
    assert result.duration_ms < 200_000


@pytest.mark.parametrize("seconds", [0.0, 0.5, 0.99, 1.01, 1.2, 1.9, 2.3, 4.0])
def test_an_end_at_any_moment_leaves_nothing_behind(tmp_path: Path, seconds: float) -> None:
    """`play_call` checks what is left."""

    async def scenario(stage: CallStage) -> None:
        playing = asyncio.ensure_future(answered(quiet(0.3), noise(0.5), then=60)(stage))
        await asyncio.sleep(seconds)
        stage.call.end("completed", "operator_hangup")
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)

    stage = play(tmp_path, scenario, line())
    assert ending(stage) == ("completed", "operator_hangup")
    assert len(stage.line.results) == 1


def test_a_person_whose_words_a_machine_might_say_keeps_the_agent(tmp_path: Path) -> None:
    async def transcribe(pcm: bytes) -> str:
        await asyncio.sleep(1)
        return "I am on the phone right now."

    stage = play(
        tmp_path,
        answered(quiet(0.4), noise(0.5), quiet(1), noise(1)),
        line(message="Please call us back."),
        transcribe=transcribe,
    )
    assert judged(stage) == ["human"]
    assert ending(stage) == ("completed", "caller_hangup")


def test_a_recording_without_end_gets_no_message(tmp_path: Path) -> None:
    stage = play(tmp_path, answered(noise(40)), line(message="Please call us back."))
    assert ending(stage) == ("completed", "machine")
    assert not stage.of(events.Answering)


def test_an_engine_that_stops_ends_a_ringing_call_at_once(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.5)
        stage.call.close_down()

    stage = play(tmp_path, scenario, line())
    assert ending(stage) == ("shutdown", "engine_stopped")
    assert stage.ended.duration_ms == 500
