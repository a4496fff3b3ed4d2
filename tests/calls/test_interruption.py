"""A voice over the agent's: what the call holds, writes down and measures of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cordboard.agent_api.agent import Interrupted, OverlapBegan, OverlapDismissed
from cordboard.calls import events
from cordboard.calls.interruption import UNDECIDED_AFTER
from cordboard.telephony.line_media import Ending
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_pipeline import MS_PER_WORD

WORDS = "one two three four five six seven eight nine ten."


def talk(tmp_path: Path, script: Script) -> CallStage:
    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(20)
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    no_greeting = {"greeting": ""}
    stage = play_call(tmp_path, lambda: FakeAgent(script), scenario, context=no_greeting)
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.problem is None, f"the script failed: {stage.agent.problem!r}"
    return stage


async def somebody_speaks(agent: FakeAgent, heard_after: float = 0.06) -> float:
    """One second into the answer; returns the moment of the hold."""
    await agent.speak(1, WORDS)
    await asyncio.sleep(1)
    now = asyncio.get_running_loop().time()
    agent.emit(OverlapBegan(now, now - heard_after))
    return now


def figures(stage: CallStage) -> dict[str, float]:
    """All series, with the values of their labels behind the name."""
    return {
        f"{sample.name} {' '.join(sample.labels.values())}".strip(): sample.value
        for family in text_string_to_metric_families(stage.metrics.render().decode())
        for sample in family.samples
    }


def played_ms(stage: CallStage) -> float:
    assert stage.line.media is not None
    return len(stage.line.media.played) / 16


@pytest.mark.parametrize("why", ["backchannel", "noise", "echo", "key"])
def test_what_is_no_interruption_costs_a_moment_of_silence_and_no_sample(
    tmp_path: Path, why: str
) -> None:
    async def script(agent: FakeAgent) -> None:
        held_at = await somebody_speaks(agent)
        await asyncio.sleep(0.24)
        agent.emit(OverlapDismissed(held_at + 0.24, why))

    stage = talk(tmp_path, script)
    assert [event.reaction_ms for event in stage.of(events.Held)] == [60]
    assert stage.of(events.Resumed) == [events.Resumed(why, 240)]
    assert stage.of(events.BargedIn) == []
    assert played_ms(stage) == 10 * MS_PER_WORD
    shown = figures(stage)
    assert shown["ai_agent_barge_in_reaction_seconds_sum"] == pytest.approx(0.06)
    assert shown[f"ai_agent_overlaps_total {why}"] == 1
    assert shown[f"ai_agent_resumed_hold_seconds_bucket 0.2 {why}"] == 0
    assert shown[f"ai_agent_resumed_hold_seconds_bucket 0.25 {why}"] == 1


def test_an_interruption_counts_from_the_first_sample_of_the_voice(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        held_at = await somebody_speaks(agent)
        await asyncio.sleep(0.2)
        agent.emit(Interrupted(held_at + 0.2))

    stage = talk(tmp_path, script)
    [cut] = stage.of(events.BargedIn)
    assert (cut.reaction_ms, cut.decision_ms) == (60, 260)
    assert played_ms(stage) == cut.heard_ms < 1100, "nothing was said after the hold"
    assert isinstance(stage.agent, FakeAgent)
    assert stage.agent.interruptions == [cut.heard]
    assert WORDS.startswith(cut.heard)
    shown = figures(stage)
    assert shown["ai_agent_overlaps_total interruption"] == 1
    assert shown["ai_agent_barge_in_reaction_seconds_count"] == 1, "held and cut are one voice"
    assert not any(name.startswith("ai_agent_resumed_hold_seconds_count") for name in shown)


def test_an_agent_that_does_not_decide_does_not_silence_the_call(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await somebody_speaks(agent)
        await asyncio.sleep(1)

    stage = talk(tmp_path, script)
    assert stage.of(events.Resumed) == [events.Resumed("undecided", round(UNDECIDED_AFTER * 1000))]
    assert played_ms(stage) == 10 * MS_PER_WORD
    assert figures(stage)["ai_agent_resumed_hold_seconds_sum undecided"] == pytest.approx(
        UNDECIDED_AFTER
    )


def test_a_voice_in_our_silence_holds_nothing(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "one.")
        await asyncio.sleep(3)
        now = asyncio.get_running_loop().time()
        agent.emit(OverlapBegan(now, now))
        agent.emit(OverlapDismissed(now, "noise"))

    stage = talk(tmp_path, script)
    assert stage.of(events.Held) == stage.of(events.Resumed) == []


@pytest.mark.parametrize("reason", ["caller_hangup", "media_lost"])
def test_of_an_answer_that_the_end_of_the_call_cuts_off_the_heard_part_is_kept(
    tmp_path: Path, reason: Ending
) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, "Whole.")
        await asyncio.sleep(1)
        await agent.speak(2, WORDS)

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(3)
        assert stage.line.media is not None
        stage.line.media.break_off(reason)

    no_greeting = {"greeting": ""}
    stage = play_call(tmp_path, lambda: FakeAgent(script), scenario, context=no_greeting)
    [cut] = stage.of(events.CutOff)
    assert cut.turn == 2
    assert cut.heard
    assert WORDS.startswith(cut.heard)
    assert cut.heard != WORDS
    assert cut.heard_ms == played_ms(stage) - MS_PER_WORD
    assert stage.of(events.BargedIn) == []
    history = stage.history()
    assert [turn.cut for turn in history.turns.values()] == [False, True]
    assert history.transcript() == [("agent", "Whole."), ("agent", cut.heard)]
    assert history.turns[2].interrupted is None, "the caller did not interrupt"


def test_an_answer_that_was_heard_to_its_end_is_not_cut_off_by_the_hangup(tmp_path: Path) -> None:
    async def script(agent: FakeAgent) -> None:
        await agent.speak(1, WORDS)

    assert talk(tmp_path, script).of(events.CutOff) == []
