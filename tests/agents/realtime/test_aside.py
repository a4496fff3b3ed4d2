"""The engine's own ears beside a service: a yes or a no, in the call's own turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cordboard.agent_api.agent import (
    AgentEvent,
    AgentSession,
    AgentTrouble,
    CallerStarted,
    CallerStopped,
    CallerText,
    Interrupted,
)
from cordboard.agents.realtime.aside import BackgroundListening
from cordboard.audio.format import ULAW_8K
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.audio.vad import VoiceActivityBank
from cordboard.speech.turns.events import AgentVoice
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard_testkit.fake_pipeline import (
    InlineExecutor,
    LoudnessModel,
    ScriptedRecogniser,
    silence,
    speech,
)
from cordboard_testkit.virtual_time import virtual_time


class Room:
    """A caller on a u-law line who is being asked something."""

    def __init__(self, *texts: str, voice: AgentVoice = AgentVoice.SILENT) -> None:
        self.events: list[AgentEvent] = []
        self.answers: list[str] = []
        self.failures: list[str] = []
        self.turn = 4
        self.take: Callable[[str], None] = self.answers.append
        parts = HearingParts(
            VoiceActivityBank(LoudnessModel(), InlineExecutor()),
            ScriptedRecogniser(texts),
            TurnProfile(),
        )
        session = AgentSession(
            "call", "demo", "", "", (), ULAW_8K, self.events.append, lambda: False
        )
        self.ears = BackgroundListening(
            parts,
            session,
            self._next_turn,
            lambda: voice,
            lambda text: self.take(text),
            self.failures.append,
        )

    def _next_turn(self) -> int:
        self.turn += 1
        return self.turn

    async def say(self, ms: int) -> None:
        sound = linear_to_ulaw(speech(ms) + silence(1500))
        for start in range(0, len(sound), 160):
            self.ears.hear(sound[start : start + 160])
            await asyncio.sleep(0.02)

    def of(self, kind: type) -> list[AgentEvent]:
        return [event for event in self.events if isinstance(event, kind)]


def test_an_answer_is_heard_and_stands_in_the_turns_of_the_call() -> None:
    async def scenario() -> Room:
        room = Room("Yes, please.", "No.")
        await room.say(500)
        await room.say(500)
        await room.ears.close()
        return room

    with virtual_time() as loop:
        room = loop.run_until_complete(scenario())
    assert room.answers == ["Yes, please.", "No."]
    assert [event.turn for event in room.of(CallerStopped)] == [5, 6]
    texts = room.of(CallerText)
    assert [(event.turn, event.text) for event in texts] == [(5, "Yes, please."), (6, "No.")]
    assert len(room.of(CallerStarted)) == 2
    assert room.failures == []


def test_who_answers_before_the_question_is_over_cuts_it() -> None:
    async def scenario() -> Room:
        room = Room(*["Yes."] * 9, voice=AgentVoice.OPEN)
        await room.say(900)
        await room.ears.close()
        return room

    with virtual_time() as loop:
        room = loop.run_until_complete(scenario())
    assert room.of(Interrupted)
    assert room.answers == ["Yes."]


def test_a_mistake_of_ours_is_told_and_counted() -> None:
    """Its own events go to the call, which counts them."""

    async def scenario() -> Room:
        room = Room("Yes.")
        room.take = broken
        await room.say(500)
        await room.ears.close()
        return room

    def broken(text: str) -> None:
        raise ZeroDivisionError("a bug")

    with virtual_time() as loop:
        room = loop.run_until_complete(scenario())
    assert room.failures == ["internal error: ZeroDivisionError"]
    assert AgentTrouble("internal", "ears: ZeroDivisionError('a bug')") in room.events
