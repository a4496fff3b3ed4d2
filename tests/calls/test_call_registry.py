"""Admission and the orderly end of all calls, in virtual time."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.speech import Speech
from cordboard.calls.binding import Binding
from cordboard.calls.call_registry import FAREWELL, Aside
from cordboard.calls.failure_apology import STOPPING
from cordboard.calls.history import find
from cordboard.calls.offer import CallTest
from cordboard.config.sections.firewall import Firewall
from cordboard.errors import AgentError, LineError
from cordboard_testkit.call_stage import FakeGeneration
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine

from .exchange import Hall, hang_up, play


def test_calls_live_side_by_side_and_end_one_by_one(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        lines = [hall.ring() for _ in range(10)]
        await asyncio.sleep(5)
        assert len(hall.registry.calls) == hall.generation.calls == 10
        assert hall.metric("ai_agent_active_calls 10.0")
        hang_up(lines[3])
        await asyncio.sleep(1)
        assert set(hall.registry.calls) == {line.call_id for line in lines} - {lines[3].call_id}
        for line in lines[:3] + lines[4:]:
            hang_up(line)
        await asyncio.sleep(1)

    hall = play(tmp_path, scenario)
    histories = hall.histories()
    assert [history.call_id for history in histories] == [line.call_id for line in hall.lines]
    assert {history.reason for history in histories} == {"caller_hangup"}
    assert all(history.transcript() == [("agent", "Good morning.")] for history in histories)


def test_a_call_that_is_back_before_its_end_was_recorded_is_live(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        first, again = hall.ring(), FakeLine(str(UUID(int=1)))
        await asyncio.sleep(1)
        hall.ring(again)
        await asyncio.sleep(1)
        hang_up(first)
        await asyncio.sleep(1)
        assert [call.offer.control for call in hall.registry.calls.values()] == [again]
        hang_up(again)
        await asyncio.sleep(1)
        assert not hall.registry.calls

    play(tmp_path, scenario)


def test_live_calls_may_finish_within_the_grace_period(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        line = hall.ring()
        await asyncio.sleep(1)
        asyncio.get_running_loop().call_later(3, hang_up, line)
        before = asyncio.get_running_loop().time()
        await hall.registry.drain(10)
        assert asyncio.get_running_loop().time() - before == pytest.approx(3)

    (history,) = play(tmp_path, scenario).histories()
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")


def test_towards_the_end_of_the_grace_period_callers_are_told(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.ring()
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await hall.registry.drain(15)
        assert 15 - FAREWELL < asyncio.get_running_loop().time() - before <= 15

    hall = play(tmp_path, scenario)
    (history,) = hall.histories()
    assert history.transcript()[-1][1].endswith(STOPPING)
    assert (history.outcome, history.reason) == ("shutdown", "engine_stopped")
    assert hall.lines[0].hangups == ["normal"]


def test_an_agent_that_cannot_say_it_delays_nothing(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.ring()
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await hall.registry.drain(15)
        assert asyncio.get_running_loop().time() - before <= 15 + 1e-3

    def mute_agent(_: Binding) -> Agent:
        agent = FakeAgent()
        agent.mute = True
        return agent

    hall = play(tmp_path, scenario, mute_agent)
    (history,) = hall.histories()
    assert (history.outcome, history.reason) == ("shutdown", "engine_stopped")
    assert hall.lines[0].hangups == ["normal"]


def test_an_agent_that_cannot_take_the_farewell_costs_no_other_caller_theirs(
    tmp_path: Path,
) -> None:
    class Broken(FakeAgent):
        def say(self, speech: Speech) -> None:
            raise ZeroDivisionError("a bug")

    agents = [Broken(), FakeAgent()]
    waiting = agents.copy()

    async def scenario(hall: Hall) -> None:
        hall.ring()
        hall.ring()
        await asyncio.sleep(5)
        await hall.registry.drain(15)

    hall = play(tmp_path, scenario, lambda _: waiting.pop(0))
    assert [agent.said for agent in agents] == [[], [STOPPING]]
    assert {history.reason for history in hall.histories()} == {"engine_stopped"}


def test_a_draining_exchange_takes_no_calls(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        first = hall.ring()
        await asyncio.sleep(1)
        draining = asyncio.create_task(hall.registry.drain(10))
        await asyncio.sleep(1)
        assert not hall.registry.accepting
        late = hall.ring()
        await asyncio.sleep(1)
        assert (late.declined, late.released, late.media) == (["unavailable"], 1, None)
        assert not late.hangups, "the dialplan has its say"
        hang_up(first)
        await draining

    hall = play(tmp_path, scenario)
    assert len(hall.histories()) == 1, "a refused offer is no call"
    assert hall.metric('ai_agent_refused_offers_total{reason="draining"} 1.0')


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AgentError("the models are not loaded yet"), "no_agent"),
        (KeyError("bug"), "internal_error"),
    ],
)
def test_without_an_agent_the_caller_is_turned_away(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    def open_agent(_: Binding) -> Agent:
        raise error

    async def scenario(hall: Hall) -> None:
        line = hall.ring()
        await asyncio.sleep(1)
        assert (line.declined, line.hangups) == (["unavailable"], [])

    hall = play(tmp_path, scenario, open_agent)
    assert hall.metric(f'ai_agent_refused_offers_total{{reason="{reason}"}} 1.0')
    (line,) = hall.refused()
    assert (line["reason"], line["error"]) == (
        reason,
        str(error) if reason == "no_agent" else repr(error),
    )


def test_more_callers_than_there_is_room_for_hear_the_dialplans_busy(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        first, second = hall.ring(), hall.ring()
        await asyncio.sleep(1)
        third = hall.ring()
        await asyncio.sleep(1)
        assert (third.declined, third.hangups, third.released) == (["busy"], [], 1)
        assert len(hall.registry.calls) == 2
        hang_up(first)
        await asyncio.sleep(1)
        fourth = hall.ring()
        await asyncio.sleep(1)
        assert not fourth.declined, "there is room again"
        hang_up(second)
        hang_up(fourth)

    hall = play(tmp_path, scenario, max_calls=2)
    assert len(hall.histories()) == 3
    assert hall.metric('ai_agent_refused_offers_total{reason="busy"} 1.0')
    (line,) = hall.refused()
    offer = hall.lines[2].offer()
    assert (line["type"], line["at_ms"], line["call_id"]) == ("call.refused", 0, offer.call_id)
    assert (line["source"], line["reason"], line["error"]) == (offer.source, "busy", "")
    for name in ("caller_number", "caller_name", "called_number", "external_id"):
        assert line[name] == getattr(offer, name)
    (file,) = tmp_path.glob("*/refused.jsonl")
    assert line["started_at"].startswith(file.parent.name)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_no_caller_is_taken_while_all_engines_together_have_enough(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        full = True
        hall.registry._cluster_is_full = lambda: full
        late = hall.ring()
        await asyncio.sleep(1)
        assert late.declined == ["busy"]
        full = False
        line = hall.ring()
        await asyncio.sleep(1)
        assert not line.declined
        hang_up(line)

    hall = play(tmp_path, scenario)
    assert hall.metric('ai_agent_refused_offers_total{reason="cluster_busy"} 1.0')
    assert [line["reason"] for line in hall.refused()] == ["cluster_busy"]


def test_an_overloaded_engine_takes_no_calls_until_it_has_recovered(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.degradation.level = 3
        late = hall.ring()
        await asyncio.sleep(1)
        assert late.declined == ["busy"]
        hall.degradation.level = 2
        assert not hang_up_after_a_while(hall.ring()).declined
        await asyncio.sleep(2)

    hall = play(tmp_path, scenario)
    assert len(hall.histories()) == 1
    assert hall.metric('ai_agent_refused_offers_total{reason="overloaded"} 1.0')


def hang_up_after_a_while(line: FakeLine) -> FakeLine:
    asyncio.get_running_loop().call_later(1, hang_up, line)
    return line


@pytest.mark.parametrize("problem", [RuntimeError("a bug"), LineError("it will not have them")])
def test_a_caller_whom_the_dialplan_does_not_take_back_is_let_go(
    tmp_path: Path, problem: Exception
) -> None:
    class Stubborn(FakeLine):
        async def decline(self, status: str) -> None:
            raise problem

    async def scenario(hall: Hall) -> None:
        hall.degradation.level = 3
        line = hall.ring(Stubborn())
        await asyncio.sleep(1)
        assert line.released == 1
        assert line.hangups == (["congestion"] if isinstance(problem, LineError) else [])
        is_ours = b'ai_agent_internal_errors_total{where="refusal"} 1.0' in hall.metrics.render()
        assert is_ours == isinstance(problem, RuntimeError)

    play(tmp_path, scenario)


@pytest.mark.parametrize("problem", [LineError("not possible now"), TimeoutError()])
def test_a_caller_who_cannot_be_turned_away_is_let_go_all_the_same(
    tmp_path: Path, problem: Exception
) -> None:
    class Stuck(FakeLine):
        async def decline(self, status: str) -> None:
            if isinstance(problem, TimeoutError):
                await asyncio.sleep(1000)
            raise problem

    async def scenario(hall: Hall) -> None:
        await hall.registry.drain(0)
        hall.ring(Stuck())
        before = asyncio.get_running_loop().time()
        await hall.registry.drain(0)
        assert asyncio.get_running_loop().time() - before < 10

    play(tmp_path, scenario)


def test_a_call_under_the_name_of_one_that_is_over_gets_a_ledger_of_its_own(
    tmp_path: Path,
) -> None:
    """A stranger could else add to the record of somebody's call."""

    async def scenario(hall: Hall) -> None:
        for _ in range(2):
            line = hall.ring(FakeLine("the-same"))
            await asyncio.sleep(1)
            hang_up(line)
            await asyncio.sleep(1)

    play(tmp_path, scenario).writer.close()
    paths = sorted(tmp_path.glob("*/*.jsonl"))
    assert [path.name for path in paths] == ["the-same-2.jsonl", "the-same.jsonl"]
    for path in paths:
        types = [line["type"] for line in map(json.loads, path.read_text().splitlines())]
        assert (types.count("call.offered"), types.count("call.ended")) == (1, 1)
    assert find(tmp_path, "the-same") == paths[0], "the last one"
    assert find(tmp_path, "the") is None


def test_only_a_test_runs_on_a_generation_that_is_not_in_force(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        line = FakeLine()
        aside = Aside(hall.generation, lambda _: FakeAgent())
        with pytest.raises(ValueError, match="not a test"):
            hall.registry.offer(line.offer(), aside)
        assert not hall.registry.calls

    play(tmp_path, scenario)


def test_a_drain_refuses_new_calls_and_lets_live_ones_go_on_until_it_ends(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        first = hall.ring()
        await asyncio.sleep(1)
        hall.registry.begin_drain()
        assert not hall.registry.accepting
        late = hall.ring()
        await asyncio.sleep(1)
        assert (late.declined, late.media) == (["unavailable"], None)
        assert first.declined == []
        hall.registry.end_drain()
        assert hall.registry.accepting
        second = hall.ring()
        await asyncio.sleep(1)
        for line in (first, second):
            hang_up(line)
        await hall.registry.idle()
        hall.registry.begin_drain()
        await hall.registry.drain(0)
        hall.registry.end_drain()
        assert not hall.registry.accepting, "an engine that stops takes no calls"

    hall = play(tmp_path, scenario)
    assert len(hall.histories()) == 2
    assert hall.metric('ai_agent_refused_offers_total{reason="draining"} 1.0')


def firewalled(hall: Hall, **incoming: Any) -> None:
    config = hall.generation.config
    hall.generation = FakeGeneration(
        config.model_copy(update={"firewall": Firewall.model_validate({"incoming": incoming})})
    )


@pytest.mark.parametrize(
    ("incoming", "reason", "rule", "status"),
    [
        ({"block": ["+479123*"]}, "blocked", "caller.block", "unavailable"),
        ({"only_allowed": True}, "blocked", "caller.not_allowed", "unavailable"),
        ({"attestation": "B"}, "blocked", "caller.attestation", "unavailable"),
    ],
)
def test_the_firewall_takes_no_unwanted_callers(
    tmp_path: Path, incoming: dict[str, Any], reason: str, rule: str, status: str
) -> None:
    async def scenario(hall: Hall) -> None:
        firewalled(hall, **incoming)
        line = hall.ring()
        await asyncio.sleep(1)
        assert line.declined == [status]
        assert not hall.registry.calls

    hall = play(tmp_path, scenario)
    (refused,) = hall.refused()
    assert refused["reason"] == reason
    assert refused["error"].startswith(rule)
    assert hall.metric(f'ai_agent_firewall_refused_total{{act="incoming",rule="{rule}"}} 1.0')
    assert hall.metric(f'ai_agent_refused_offers_total{{reason="{reason}"}} 1.0')


def test_a_caller_who_calls_too_often_waits_and_others_do_not(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        firewalled(hall, per_caller={"calls_per_hour": 3}, allow=["+4722999999"])
        for _ in range(5):
            hall.ring()
            await asyncio.sleep(1)
        assert [line.declined for line in hall.lines] == [[], [], [], ["busy"], ["busy"]]
        other = FakeLine(str(UUID(int=50)))
        hall.lines.append(other)
        hall.registry.offer(replace(other.offer(), caller_number="4722123456"))
        test = FakeLine(str(UUID(int=51)))
        hall.lines.append(test)
        hall.registry.offer(replace(test.offer(), test=CallTest()))
        allowed = [FakeLine(str(UUID(int=60 + number))) for number in range(5)]
        hall.lines += allowed
        for line in allowed:
            hall.registry.offer(replace(line.offer(), caller_number="+4722999999"))
        await asyncio.sleep(1)
        assert not any(line.declined for line in (other, test, *allowed))
        assert len(hall.registry.calls) == 10

    hall = play(tmp_path, scenario)
    assert {line["reason"] for line in hall.refused()} == {"capped"}
