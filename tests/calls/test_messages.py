"""Calls in which a caller leaves a message: the real pipeline, desk and call in virtual time.

What the caller says is what the recogniser is told to write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.calls.messages import SAY_AGAIN
from cordboard.calls.post_call.job import PostCallJob
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard.tools.builtin import MESSAGE_UNKEPT
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_pipeline import (
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    TalkingClock,
)

from .test_approval import Ear, Talk

PROMPT = "Please say your message now."
DELIVER = {
    "tool": "post",
    "arguments": {
        "text": "{message.text}",
        "about": "{message.about}",
        "sure": "{message.confirmed}",
        "from": "{call.caller_number}",
    },
}
POST = {"kind": "http", "url": "https://desk.example/messages", "method": "POST"}


class Queue:
    """Keeps what is handed over, as a queue whose disk works, or does not."""

    def __init__(self, *, disk_works: bool = True) -> None:
        self._disk_works = disk_works
        self.jobs: list[PostCallJob] = []

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        self.jobs += jobs
        return self._disk_works


async def take(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    if "message" not in text:
        yield f"You said {text}"
        return
    reply = await dialogue.session.ask_tool("take_message", {"about": "For Ola."})
    yield reply.message


def leave(
    tmp_path: Path,
    scenario: Callable[[Talk], Awaitable[None]],
    *,
    message: Mapping[str, Any] | None = None,
    hang_up: bool = True,
    disk_works: bool = True,
    **stage_parts: Any,
) -> tuple[CallStage, Queue]:
    ear, queue = Ear(), Queue(disk_works=disk_works)
    context = stage_parts.pop("context", {})

    def agent() -> PipelineAgent:
        bank = VoiceActivityBank(LoudnessModel(), InlineExecutor())
        hearing = HearingParts(bank, ear, TurnProfile())
        return PipelineAgent(PipelineParts(hearing, FunctionBrain(take), TalkingClock(), "on"))

    async def play(stage: CallStage) -> None:
        await asyncio.sleep(1.5)
        talk = Talk(stage, ear)
        await talk.says("A message please")
        await talk.hears_out()
        await scenario(talk)
        talk.hang_up()

    settings = {"deliver": [DELIVER], "prompt": PROMPT, **(message or {})}
    stage = play_call(
        tmp_path,
        agent,
        play,
        context={"greeting": "", "tools": ["take_message"], **context},
        configured={"take_message": {"message": settings}, "post": POST},
        post_call=queue,
        **stage_parts,
    )
    return stage, queue


def taken(stage: CallStage) -> events.MessageTaken:
    (event,) = stage.of(events.MessageTaken)
    return event


def test_a_message_is_read_back_confirmed_and_handed_over(tmp_path: Path) -> None:
    ears: list[Ear] = []

    async def scenario(talk: Talk) -> None:
        ears.append(talk.ear)
        await talk.says("Kari here.", then=2.0)
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario)
    text = "Kari here. The bicycle is ready."
    (job,) = queue.jobs
    assert (job.tool, job.call_id) == ("post", stage.call.call_id)
    assert job.arguments == {
        "text": text,
        "about": "For Ola.",
        "sure": True,
        "from": stage.call.offer.caller_number,
    }
    event = taken(stage)
    assert (event.outcome, event.text, event.tries) == ("confirmed", text, 1)
    assert event.written
    assert stage.history().transcript()[1:] == [
        ("agent", PROMPT),
        ("caller", "Kari here."),
        ("caller", "The bicycle is ready."),
        ("agent", "Your message is: Kari here. The bicycle is ready. Shall I send it?"),
        ("caller", "Yes, please."),
        ("agent", "Thank you, I have passed your message on."),
    ]
    assert not any("Yes, please." in hints for hints in ears[0].hints[:3]), "no yes or no is due"


def test_a_message_that_only_memory_keeps_is_not_promised(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario, disk_works=False)
    assert len(queue.jobs) == 1
    assert (taken(stage).outcome, taken(stage).written) == ("confirmed", False)
    assert MESSAGE_UNKEPT in " ".join(event.text for event in stage.of(events.Answering))


def test_a_message_is_recorded_in_a_call_that_is_not(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, _ = leave(tmp_path, scenario)
    event = taken(stage)
    (began,), (ended,) = stage.of(events.RecordingStarted), stage.of(events.RecordingStopped)
    assert event.path == began.path
    stage.lines()
    assert (tmp_path / event.path).is_file()
    assert ended.duration_ms == pytest.approx(event.to_ms, abs=20)
    assert stage.history().ended_ms > event.to_ms + 4000, "only the message is recorded"


def test_without_record_only_words_are_kept(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario, message={"record": False})
    assert taken(stage).path == ""
    assert not stage.of(events.RecordingStarted)
    assert len(queue.jobs) == 1


def test_a_caller_who_has_not_consented_is_not_recorded(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    recording = {"enabled": True, "consent": "Press 5 to be recorded.", "consent_key": "5"}
    stage, queue = leave(tmp_path, scenario, context={"recording": recording})
    assert not stage.of(events.RecordingStarted)
    assert len(queue.jobs) == 1


def test_after_a_no_it_is_said_again(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bison is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("No.", then=0.5)
        await talk.hears_out()
        await talk.says("The bicycle is ready.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario)
    (job,) = queue.jobs
    assert job.arguments["text"] == "The bicycle is ready."
    assert taken(stage).tries == 2
    assert ("agent", SAY_AGAIN) in stage.history().transcript()


def test_three_times_no_sends_nothing(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        for _ in range(3):
            await talk.says("The bison is ready.", then=6.0)
            await talk.hears_out()
            await talk.says("No.", then=0.5)
            await talk.hears_out()

    stage, queue = leave(tmp_path, scenario)
    assert queue.jobs == []
    assert (taken(stage).outcome, taken(stage).tries) == ("rejected", 3)


def test_a_key_ends_it_after_the_words_have_come(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=0.1)
        talk.media.press("#")
        await talk.listens(1.5)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario)
    (job,) = queue.jobs
    assert job.arguments["text"] == "The bicycle is ready."
    assert taken(stage).outcome == "confirmed"


@pytest.mark.parametrize("when", ["dictating", "reading back"])
def test_who_hangs_up_has_left_the_message(tmp_path: Path, when: str) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("The bicycle is ready.", then=2.0 if when == "dictating" else 6.0)

    stage, queue = leave(tmp_path, scenario)
    (job,) = queue.jobs
    assert (job.arguments["text"], job.arguments["sure"]) == ("The bicycle is ready.", False)
    assert taken(stage).outcome == "unconfirmed"
    assert stage.ended.reason == "caller_hangup"


def test_who_says_nothing_has_left_none(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.listens(14)

    stage, queue = leave(tmp_path, scenario)
    assert queue.jobs == []
    assert taken(stage).outcome == "empty"
    assert stage.history().transcript()[-1][1].endswith("I did not hear a message.")


@pytest.mark.parametrize("words", ["The bicycle is ready.", "and so on and"])
def test_a_long_message_ends_with_the_turn_in_which_the_time_is_over(
    tmp_path: Path, words: str
) -> None:
    async def scenario(talk: Talk) -> None:
        for _ in range(8):
            await talk.says(words, seconds=1.0, then=1.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario, message={"longest_ms": 10_000})
    (job,) = queue.jobs
    assert job.arguments["text"].startswith(words)
    assert 10_000 <= taken(stage).to_ms <= 20_000
    assert taken(stage).outcome == "confirmed"


def test_what_is_redacted_is_neither_sent_nor_read_out(tmp_path: Path) -> None:
    async def scenario(talk: Talk) -> None:
        await talk.says("My card is 4111 1111 1111 1111.", then=6.0)
        await talk.hears_out()
        await talk.says("Yes, please.", then=4.0)

    stage, queue = leave(tmp_path, scenario, privacy={"redact": {"kinds": ["card"]}})
    (job,) = queue.jobs
    assert "4111" not in str(job.arguments)
    assert job.arguments["text"].startswith("My card is")
    assert "4111" not in str(stage.lines())


def test_words_of_an_earlier_turn_that_come_late_do_not_belong_to_it(tmp_path: Path) -> None:
    """A realtime service writes down the caller's request after it has asked for the tool."""
    queue = Queue()

    async def script(agent: FakeAgent) -> None:
        asked = asyncio.ensure_future(agent.ask("take_message", {}))
        await asyncio.sleep(0.2)
        assert agent.aside is not None
        agent.aside("I want to leave a message.")
        await asyncio.sleep(4)
        await agent.caller_says(2, "The bicycle is ready.")
        await asyncio.sleep(12)
        await agent.caller_says(3, "Yes.")
        await asked

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(40)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"greeting": "", "tools": ["take_message"]},
        configured={"take_message": {"message": {"deliver": [DELIVER]}}, "post": POST},
        post_call=queue,
    )
    (job,) = queue.jobs
    assert (job.arguments["text"], job.arguments["sure"]) == ("The bicycle is ready.", True)
