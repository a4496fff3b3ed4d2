"""People who watch a call: what they say, hint, flag and hear, in whole calls in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.agent_api.agent import AgentFailed
from cordboard.agent_api.speech import Speech
from cordboard.agents.pipeline.agent import PipelineAgent, PipelineParts
from cordboard.audio.vad import VoiceActivityBank
from cordboard.calls import events
from cordboard.calls.dtmf import EARLY, TONE_AFTER, TONE_BEFORE
from cordboard.calls.media.sound import CallSound
from cordboard.calls.operator import BACK
from cordboard.calls.recording.listening import DELAY, HEADER, SECRET_DELAY, Listener
from cordboard.errors import LineError, LineGone, TransferFailed
from cordboard.speech.turns.profiles import TurnProfile
from cordboard.speech.user_turns import HearingParts
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeMedia
from cordboard_testkit.fake_pipeline import (
    FunctionBrain,
    FunctionDialogue,
    InlineExecutor,
    LoudnessModel,
    ScriptedRecogniser,
    TalkingClock,
    silence,
    speech,
)
from cordboard_testkit.virtual_time import virtual_time

SIX = "one two three four five six"


async def answer_in_two(dialogue: FunctionDialogue, text: str) -> AsyncGenerator[str, None]:
    yield SIX
    yield "seven eight nine"


def pipeline(texts: list[str]) -> PipelineAgent:
    hearing = HearingParts(
        VoiceActivityBank(LoudnessModel(), InlineExecutor()),
        ScriptedRecogniser(texts),
        TurnProfile(),
    )
    return PipelineAgent(PipelineParts(hearing, FunctionBrain(answer_in_two), TalkingClock()))


def media_of(stage: CallStage) -> FakeMedia:
    assert stage.line.media is not None
    return stage.line.media


def said(stage: CallStage) -> list[tuple[str, str]]:
    return [(event.text, event.said_by) for event in stage.of(events.Answering)]


def test_an_operators_sentence_is_spoken_after_the_greeting_and_names_its_speaker(
    tmp_path: Path,
) -> None:
    begun: list[bool] = []

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.1)
        begun.append(await stage.call.operator.say("Please hold the line.", "otto"))
        await asyncio.sleep(5)
        media_of(stage).break_off("caller_hangup")

    stage = play_call(tmp_path, lambda: pipeline([]), scenario)
    assert begun == [True]
    assert said(stage) == [("Good morning.", ""), ("Please hold the line.", "operator")]
    assert stage.of(events.OperatorSaid) == [
        events.OperatorSaid("otto", "Please hold the line.", False)
    ]


def test_with_interrupt_the_rest_of_the_answer_is_given_up(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await media_of(stage).say(speech(800) + silence(2000))
        assert said(stage)[-1][0] in (SIX, "seven eight nine"), "the answer is being heard"
        await stage.call.operator.say("Stop.", "otto", interrupt=True)
        await asyncio.sleep(10)
        media_of(stage).break_off("caller_hangup")

    stage = play_call(tmp_path, lambda: pipeline(["hello"]), scenario)
    (cut,) = stage.of(events.BargedIn)
    assert cut.heard
    assert cut.heard != f"{SIX} seven eight nine"
    assert said(stage)[-1] == ("Stop.", "operator")


def test_an_operators_sentence_is_refused_before_the_agent_talks_and_when_the_call_ends(
    tmp_path: Path,
) -> None:
    async def scenario(stage: CallStage) -> None:
        with pytest.raises(LineError, match="does not talk"):
            await stage.call.operator.say("Hello.", "otto")
        await asyncio.sleep(3)
        stage.call.line.end_after_speech("enough")
        with pytest.raises(LineGone):
            await stage.call.operator.say("Hello.", "otto")

    stage = play_call(tmp_path, lambda: pipeline([]), scenario)
    assert stage.of(events.OperatorSaid) == []


def test_an_agent_that_drops_the_sentence_is_an_error_and_not_a_silence(tmp_path: Path) -> None:
    class Dropping(FakeAgent):
        def say(self, speech: Speech) -> None:
            speech.drop()

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        with pytest.raises(LineError, match="did not take"):
            await stage.call.operator.say("Hello.", "otto")
        media_of(stage).break_off("caller_hangup")

    play_call(tmp_path, Dropping, scenario)


def test_a_hint_reaches_the_model_alone_and_an_agent_without_one_refuses(tmp_path: Path) -> None:
    async def hinting(stage: CallStage) -> None:
        await asyncio.sleep(3)
        stage.call.operator.hint("offer Thursday", "otto")
        stage.call.operator.flag("nice", "vera")
        stage.call.operator.hang_up("enough", "otto")

    stage = play_call(tmp_path / "a", FakeAgent, hinting)
    assert isinstance(stage.agent, FakeAgent)
    assert ["offer Thursday" in note for note in stage.agent.notes] == [True]
    assert said(stage) == [("Good morning.", "")], "it was not spoken"
    assert stage.of(events.OperatorHint) == [events.OperatorHint("otto", "offer Thursday")]
    assert (stage.ended.outcome, stage.ended.reason) == ("completed", "operator_hangup")
    history = stage.history()
    assert [line["type"] for line in history.watched] == [
        "operator.hint",
        "call.flagged",
        "operator.hangup",
    ]

    async def refused(stage: CallStage) -> None:
        await asyncio.sleep(3)
        with pytest.raises(LineError, match="cannot take notes"):
            stage.call.operator.hint("offer Thursday", "otto")
        media_of(stage).break_off("caller_hangup")

    stage = play_call(tmp_path / "b", lambda: pipeline([]), refused)
    assert stage.of(events.OperatorHint) == []


# Listening.


def parts(frame: bytes) -> tuple[int, bytes, bytes]:
    """Time, caller and agent of a frame."""
    sound = frame[HEADER.size :]
    middle = len(sound) // 2
    return int(HEADER.unpack_from(frame)[0]), sound[:middle], sound[middle:]


def test_a_listener_hears_both_sides_late_and_the_ledger_says_who(tmp_path: Path) -> None:
    heard: list[tuple[int, int, bytes, bytes]] = []

    async def listen(stage: CallStage) -> None:
        with stage.call.operator.listen("lena") as listener:
            async for frame in listener.frames():
                at_ms, caller, agent = parts(frame)
                now_ms = round((stage.now) * 1000)
                heard.append((now_ms, at_ms, caller, agent))

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(0.02)
        listening = asyncio.create_task(listen(stage))
        await asyncio.sleep(2)
        assert stage.call.operator.listened == 1
        await media_of(stage).say(speech(1000) + silence(3000))
        media_of(stage).break_off("caller_hangup")
        await listening
        assert stage.call.operator.listened == 0

    stage = play_call(tmp_path, FakeAgent, scenario)
    assert all(now - at >= DELAY * 1000 - 1 for now, at, _, _ in heard)
    assert min(now - at for now, at, _, _ in heard) < DELAY * 1000 + 200
    times = [at for _, at, _, _ in heard]
    assert times == sorted(times)
    assert any(any(caller) for _, _, caller, _ in heard)
    assert any(any(agent) for _, _, _, agent in heard)
    (listened,) = stage.of(events.Listened)
    assert listened.who == "lena"
    assert listened.from_ms < listened.to_ms <= stage.ended.duration_ms - DELAY * 1000 + 1


def test_a_context_may_forbid_it_and_have_it_announced(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        if not stage.call.operator.may_listen:
            with (
                pytest.raises(LineError, match="forbids"),
                stage.call.operator.listen("lena"),
            ):
                pass
        media_of(stage).break_off("caller_hangup")

    notice = "A colleague may listen."
    off = {"listening": {"enabled": False, "notice": notice}}
    stage = play_call(tmp_path / "off", FakeAgent, scenario, context=off)
    assert said(stage) == [("Good morning.", "")]
    stage = play_call(
        tmp_path / "on", FakeAgent, scenario, context={"listening": {"notice": notice}}
    )
    assert said(stage) == [(f"{notice} Good morning.", "")]


def test_a_listener_who_does_not_take_the_sound_is_dropped() -> None:
    async def run() -> None:
        media = FakeMedia()
        listener = Listener(CallSound(media), DELAY, round)
        await media.say(speech(round(1000 * DELAY) + 8000))
        assert listener.too_slow
        assert [frame async for frame in listener.frames()] == []
        await media.close()

    with virtual_time() as loop:
        loop.run_until_complete(run())


LOUD = (20_000).to_bytes(2, "little") * 160
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("key", "secret_begins", "secret_ends", "pause", "resume", "listen")),
        st.integers(0, 60),
    ),
    max_size=12,
)


class Eavesdropping:
    """A caller who makes noise without a pause, listeners, and what they must not hear."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._media = FakeMedia()
        self._sound = CallSound(self._media)
        self._begun = self._loop.time()
        self._taking: list[asyncio.Task[None]] = []
        self._listeners: list[Listener] = []
        self._secret_since = self._paused_since = -1.0
        self.forbidden: list[tuple[float, float]] = []
        """Stretches of loop time."""
        self.heard: list[tuple[float, bytes]] = []

    def listen(self) -> None:
        listener = Listener(self._sound, SECRET_DELAY, lambda at: round((at - self._begun) * 1000))
        self._listeners.append(listener)
        self._taking.append(self._loop.create_task(self._take(listener)))

    async def _take(self, listener: Listener) -> None:
        async for frame in listener.frames():
            at_ms, caller, _ = parts(frame)
            self.heard.append((self._begun + at_ms / 1000, caller))

    def key(self) -> None:
        """A key that turns out to be secret as late as possible."""
        pressed = self._loop.time() - EARLY
        self._sound.mute(pressed - TONE_BEFORE, pressed)
        self.forbidden.append((pressed - TONE_BEFORE, pressed))

    def secret_begins(self) -> None:
        if self._secret_since < 0:
            self._secret_since = self._loop.time() - TONE_BEFORE / 3
            self._sound.secret_begins(self._secret_since)

    def secret_ends(self) -> None:
        if self._secret_since >= 0:
            until = self._loop.time() + TONE_AFTER
            self._sound.secret_ends(until)
            self.forbidden.append((self._secret_since, until))
            self._secret_since = -1.0

    def pause(self) -> None:
        if self._paused_since < 0:
            self._paused_since = self._loop.time()
            self._sound.pause()

    def resume(self) -> None:
        if self._paused_since >= 0:
            self._sound.resume()
            self.forbidden.append((self._paused_since, self._loop.time()))
            self._paused_since = -1.0

    async def noise(self, frames: int) -> None:
        await self._media.say(LOUD * frames)

    async def end(self) -> None:
        await self.noise(round((SECRET_DELAY + 1) / 0.02))
        self.secret_ends()
        self.resume()
        for each in self._listeners:
            each.end()
        await asyncio.gather(*self._taking)
        self._sound.close()
        await self._media.close()


@settings(deadline=None, max_examples=150)
@given(STEPS, st.integers(0, 40))
def test_what_is_muted_for_a_recording_is_never_heard_by_a_listener(
    steps: list[tuple[str, int]], first: int
) -> None:
    """Keys turn out to be secret up to `EARLY` s after they were pressed; a listener may come at
    any moment."""

    async def run() -> Eavesdropping:
        call = Eavesdropping()
        call.listen()
        await call.noise(first)
        for step, frames in steps:
            getattr(call, step)()
            await call.noise(frames)
        await call.end()
        return call

    with virtual_time() as loop:
        call = loop.run_until_complete(run())
    audible = 0
    for at, caller in call.heard:
        audible += any(caller)
        for since, until in call.forbidden:
            low = max(0, round((since - at) * 8000) + 8)
            high = min(len(caller) // 2, round((until - at) * 8000) - 8)
            assert not any(caller[2 * low : 2 * high] if low < high else b"")
    assert audible or call.forbidden


PHONE = {
    "endpoint": "PJSIP/6001",
    "takeover": True,
    "ring_ms": 5_000,
    "briefing": "For you. {reason} Press 1 or 2.",
}


async def talk(agent: FakeAgent) -> None:
    await agent.speak(1, SIX * 20)


def test_an_operator_takes_a_call_over_and_the_agent_leaves(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        taking = asyncio.ensure_future(stage.call.operator.take_over("sales", "otto"))
        await stage.line.dialled.wait()
        leg = stage.line.legs[0]
        leg.ring()
        assert (stage.line.place, stage.call.state) == ("hold", "transferring")
        leg.answer()
        await asyncio.sleep(6)
        assert (stage.line.place, leg.party_hears) == ("hold", "agent"), "who answers is asked"
        media_of(stage).press("1")
        await taking
        assert (stage.line.place, leg.party_hears) == ("party", "caller")
        await asyncio.sleep(600)
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, lambda: FakeAgent(talk), scenario, sales=PHONE)

    assert stage.ended.reason == "transfer:sales"
    assert stage.of(events.OperatorTakeover) == [events.OperatorTakeover("otto", "sales")]
    assert len(stage.of(events.BargedIn)) == 1, "the agent falls silent at once"
    assert stage.agent.said == ["For you. Press 1 or 2."]
    assert stage.line.legs[0].operations == ["hold", "dial", "brief", "join", "drop"]


@pytest.mark.parametrize("by", ["mailbox", "key"])
def test_only_a_person_at_the_phone_takes_a_call_over(tmp_path: Path, by: str) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        taking = asyncio.ensure_future(stage.call.operator.take_over("sales", "otto"))
        await stage.line.dialled.wait()
        leg = stage.line.legs[0]
        leg.answer()
        await asyncio.sleep(6)
        if by == "key":
            media_of(stage).press("2")
        else:
            await media_of(stage).say(speech(3000))
        with pytest.raises(LineError, match="declined" if by == "key" else "machine"):
            await taking
        assert (leg.live, stage.line.place) == (False, "agent")
        await asyncio.sleep(5)
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, FakeAgent, scenario, sales=PHONE)
    assert stage.ended.reason == "caller_hangup"
    assert stage.agent.said[-1] == BACK


def test_a_call_is_taken_over_from_an_agent_that_cannot_speak(tmp_path: Path) -> None:
    class Mute(FakeAgent):
        def say(self, speech: Speech) -> None:
            """Say nothing, ever."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        taking = asyncio.ensure_future(stage.call.operator.take_over("sales", "otto"))
        await stage.line.dialled.wait()
        conversation = stage.call.conversation
        assert conversation is not None
        conversation.take(AgentFailed("the service is gone"))
        stage.line.legs[0].answer()
        await asyncio.sleep(2)
        media_of(stage).press("1")
        await taking
        assert stage.line.place == "party"
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, Mute, scenario, sales=PHONE)
    assert stage.ended.reason == "transfer:sales"


def test_a_caller_whom_the_dialplan_hands_back_to_an_operator_is_told_so(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        stage.line.refuse_transfer = TransferFailed("the dialplan has no 6001")
        with pytest.raises(LineError, match="has no 6001"):
            await stage.call.operator.transfer("sales")
        assert (stage.call.state, stage.agent.said) == ("talking", [])
        stage.line.refuse_transfer = None
        stage.line.away = asyncio.get_running_loop().create_future()
        await stage.call.operator.transfer("sales")  # waits for no queue
        assert stage.call.state == "transferring"
        await asyncio.sleep(30)
        stage.line.away.set_result("TIMEOUT")
        await asyncio.sleep(5)
        stage.line.caller_hangs_up()

    queue = {"type": "queue", "returns": True}
    stage = play_call(tmp_path, FakeAgent, scenario, sales=queue)
    assert stage.ended.reason == "caller_hangup"
    assert stage.agent.said == [BACK]


@pytest.mark.parametrize("end", ["busy", "silent", "caller"])
def test_a_call_that_is_not_taken_over_is_the_agents_again(tmp_path: Path, end: str) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        taking = asyncio.ensure_future(stage.call.operator.take_over("sales", "otto"))
        await stage.line.dialled.wait()
        leg = stage.line.legs[0]
        leg.ring()
        if end == "busy":
            leg.leave(17, 486)
        elif end == "caller":
            stage.line.caller_hangs_up()
        with pytest.raises(LineError, match="busy" if end == "busy" else None):
            await taking
        assert not leg.live
        await asyncio.sleep(5)
        stage.line.caller_hangs_up()

    stage = play_call(tmp_path, FakeAgent, scenario, sales=PHONE)

    assert stage.ended.reason == "caller_hangup"
    assert stage.agent.said == ([] if end == "caller" else [BACK])


def test_a_call_is_not_taken_over_while_a_tool_asks_or_against_the_firewall(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        with pytest.raises(LineError, match="firewall"):
            await stage.call.operator.take_over("sales", "otto")
        asking = asyncio.ensure_future(stage.call.line.confirm("Shall I?"))
        await asyncio.sleep(1)
        with pytest.raises(LineError, match="is being asked"):
            await stage.call.operator.take_over("sales", "otto")
        stage.line.caller_hangs_up()
        with pytest.raises(LineGone):
            await asking

    stage = play_call(tmp_path, FakeAgent, scenario, sales=PHONE, firewall={"deny": ["6001"]})
    assert not stage.line.legs
    assert stage.agent.said == ["Shall I?"], "the caller notices nothing of it"


def test_the_engine_stops_while_an_operator_talks_with_the_caller(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        taking = asyncio.ensure_future(stage.call.operator.take_over("sales", "otto"))
        await stage.line.dialled.wait()
        stage.line.legs[0].answer()
        await asyncio.sleep(6)
        media_of(stage).press("1")
        await taking
        stage.call.end("shutdown", "engine_stopped")

    stage = play_call(tmp_path, FakeAgent, scenario, sales=PHONE)
    assert not stage.line.legs[0].live
