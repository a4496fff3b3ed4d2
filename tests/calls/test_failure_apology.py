"""What becomes of a caller whose agent is gone: told by the engine, passed on or hung up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cordboard.agent_api.agent import AgentAudio, AgentFailed, AgentText
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.calls import events
from cordboard.calls.ending import FAREWELL_LIMIT
from cordboard.calls.failure_apology import STALLED_LIMIT, TROUBLE
from cordboard.calls.offer import TransferTarget
from cordboard.errors import AgentError, TransferFailed, VoiceError
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine, FakeMedia

WORDS = b"\x03\x03" * 8 * 1500
"""A second and a half."""
SALES = TransferTarget("sales", "extension", "6001", "internal", 1)
LEADS_ON = {"on_failure": "sales"}


async def apology(audio_format: AudioFormat) -> bytes:
    await asyncio.sleep(0.05)
    return WORDS


async def no_apology(audio_format: AudioFormat) -> bytes:
    return b""


async def breaks(agent: FakeAgent) -> None:
    await asyncio.sleep(2)
    agent.mute = True
    agent.emit(AgentFailed("the service is gone", "dropped"))


def unreachable() -> FakeAgent:
    agent = FakeAgent()
    agent.start_error = AgentError("no route", "connect")
    return agent


def ending(stage: CallStage) -> tuple[str, str]:
    return stage.ended.outcome, stage.ended.reason


def heard_whole(stage: CallStage) -> bool:
    media = stage.line.media
    assert isinstance(media, FakeMedia)
    return bytes(media.played).count(b"\x03\x03") >= 8 * 1500


def transfer_of(stage: CallStage) -> TransferTarget:
    (target,) = stage.line.transfers
    return target


def test_an_agent_that_is_dead_is_not_asked_to_say_so(tmp_path: Path) -> None:
    stage = play_call(tmp_path, lambda: FakeAgent(breaks), apology=apology)
    assert ending(stage) == ("failed", "agent_failed")
    assert heard_whole(stage)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said == []
    assert stage.history().transcript()[-1][1].endswith(TROUBLE)
    assert stage.line.hangups == ["normal"]


def test_the_caller_is_passed_on(tmp_path: Path) -> None:
    stage = play_call(tmp_path, lambda: FakeAgent(breaks), context=LEADS_ON, apology=apology)
    assert ending(stage) == ("transferred", "transfer:sales")
    assert heard_whole(stage), "the transfer did not wait for the apology"
    assert transfer_of(stage) == SALES
    assert stage.line.hangups == []
    assert ("agent", "the service is gone") in [
        (trouble.where, trouble.message) for trouble in stage.of(events.Trouble)
    ]


def test_also_when_no_agent_could_start(tmp_path: Path) -> None:
    stage = play_call(tmp_path, unreachable, context=LEADS_ON, apology=apology)
    assert ending(stage) == ("transferred", "transfer:sales")
    assert heard_whole(stage)
    assert "no route" in [trouble.message for trouble in stage.of(events.Trouble)]


def test_without_a_voice_they_are_passed_on_in_silence(tmp_path: Path) -> None:
    stage = play_call(tmp_path, unreachable, context=LEADS_ON, apology=no_apology)
    assert ending(stage) == ("transferred", "transfer:sales")
    assert stage.line.declined == []


def test_without_a_voice_and_a_place_the_dialplan_has_them_back(tmp_path: Path) -> None:
    stage = play_call(tmp_path, unreachable, apology=no_apology)
    assert ending(stage) == ("failed", "agent_failed")
    assert stage.line.declined == ["unavailable"]


def test_with_a_voice_they_are_told_and_hung_up(tmp_path: Path) -> None:
    stage = play_call(tmp_path, unreachable, apology=apology)
    assert ending(stage) == ("failed", "agent_failed")
    assert heard_whole(stage)
    assert (stage.line.hangups, stage.line.declined) == (["normal"], [])


@pytest.mark.parametrize("script", [breaks, None])
def test_a_transfer_that_fails_ends_the_call(tmp_path: Path, script: object) -> None:
    def line() -> FakeLine:
        made = FakeLine()
        made.refuse_transfer = TransferFailed("nobody there")
        return made

    make = unreachable if script is None else lambda: FakeAgent(breaks)
    stage = play_call(tmp_path, make, context=LEADS_ON, apology=apology, make_line=line)
    assert ending(stage) == ("failed", "agent_failed")
    assert ("on_failure", "nobody there") in [
        (trouble.where, trouble.message) for trouble in stage.of(events.Trouble)
    ]
    assert stage.line.hangups == ["normal"]


def test_a_caller_who_hangs_up_is_not_passed_on(tmp_path: Path) -> None:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(
        tmp_path, lambda: FakeAgent(breaks), scenario, context=LEADS_ON, apology=apology
    )
    assert stage.ended.reason == "caller_hangup"
    assert stage.line.transfers == []


def test_a_ghost_does_not_talk_into_the_apology(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await breaks(agent)
        await asyncio.sleep(0.5)
        agent.emit(AgentAudio(0, b"\x04\x04" * 800))
        agent.emit(AgentText(0, "Boo.", 0.0))
        agent.emit(AgentAudio(0, b"\x04\x04" * 800))

    stage = play_call(tmp_path, lambda: FakeAgent(script), apology=apology)
    media = stage.line.media
    assert isinstance(media, FakeMedia)
    assert b"\x04\x04" not in bytes(media.played)
    assert "Boo." not in [text for _, text in stage.history().transcript()]


def test_an_agent_that_neither_speaks_nor_fails_is_not_waited_for(tmp_path: Path) -> None:
    """No voice of the engine's, and the agent, asked to apologise, does nothing."""

    class Silent(FakeAgent):
        def say(self, speech: Speech) -> None:
            self.said.append(speech.text)

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        agent.emit(AgentFailed("gone", "dropped"))

    stage = play_call(tmp_path, lambda: Silent(script))
    assert ending(stage) == ("failed", "agent_failed")
    assert stage.ended.duration_ms < (3 + STALLED_LIMIT + 0.5) * 1000 < FAREWELL_LIMIT * 1000


def test_a_voice_that_fails_leaves_the_apology_to_the_agent(tmp_path: Path) -> None:
    async def broken(audio_format: AudioFormat) -> bytes:
        raise VoiceError("the voice is gone too")

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(2)
        agent.emit(AgentFailed("the service is gone", "dropped"))

    stage = play_call(tmp_path, lambda: FakeAgent(script), apology=broken)
    assert ending(stage) == ("failed", "agent_failed")
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.said == [TROUBLE]
    assert ("apology", "the voice is gone too") in [
        (trouble.where, trouble.message) for trouble in stage.of(events.Trouble)
    ]
