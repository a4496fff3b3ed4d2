"""Caps, prices and budgets of trunks: calls of one exchange, in virtual time and with its clock."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.history import read_lines
from cordboard.calls.outbound_order import Dialling
from cordboard.firewall.policy import Policy
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine

from .exchange import Hall, hang_up, play

ACME, OTHER = "PJSIP/acme", "PJSIP/other"
NINE = datetime.datetime(2026, 11, 23, 9, 0, tzinfo=datetime.UTC)
DESK = {"target": "6002", "mode": "attended", "endpoint": "PJSIP/6002@acme"}
MINUTE = {"per_minute": 1, "step_ms": 60_000}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock on the wall runs with virtual time."""

    def now(_: Policy) -> datetime.datetime:
        return NINE + datetime.timedelta(seconds=asyncio.get_running_loop().time() - 1000)

    monkeypatch.setattr(Policy, "now", now)


def declined(hall: Hall) -> list[list[str]]:
    return [line.declined for line in hall.lines]


def live(hall: Hall, trunk: str, direction: str, calls: int) -> bool:
    labels = f'direction="{direction}",trunk="{trunk}"'
    return hall.metric(f"ai_agent_trunk_calls{{{labels}}} {calls:.1f}")


def test_a_full_trunk_refuses_as_configured_and_others_do_not(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        rules = {
            "trunks": {ACME: {"incoming": {"live_calls": 2}}},
            "incoming": {"capped": "announcement"},
        }
        hall.configure(firewall=rules)
        for trunk in (ACME, ACME, ACME, OTHER, ""):
            hall.call_in(trunk)
        await asyncio.sleep(1)
        assert declined(hall) == [[], [], ["announcement"], [], []]
        assert live(hall, ACME, "in", 2)
        hang_up(hall.lines[0])
        await asyncio.sleep(1)
        hall.call_in(ACME)
        await asyncio.sleep(1)
        assert declined(hall)[-1] == []
        assert live(hall, ACME, "in", 2)

    hall = play(tmp_path, scenario)
    (refused,) = hall.refused()
    assert (refused["reason"], refused["trunk"]) == ("capped", ACME)
    assert refused["error"] == "cap.trunk: live_calls of this trunk is used up"
    assert hall.metric('ai_agent_firewall_refused_total{act="incoming",rule="cap.trunk"} 1.0')
    assert live(hall, ACME, "in", 0)
    assert f'trunk="{OTHER}"' not in hall.metrics.render().decode(), "only configured ones"
    offered = [line["trunk"] for line in events_of(hall, "call.offered")]
    assert sorted(offered) == ["", ACME, ACME, ACME, OTHER]


def test_a_caller_who_calls_again_and_again_waits_a_minute(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.configure(firewall={"incoming": {"per_caller": {"calls_per_minute": 2}}})
        for _ in range(4):
            hall.call_in(ACME)
            await asyncio.sleep(1)
        hall.call_in(OTHER, "4722123456")
        await asyncio.sleep(1)
        assert declined(hall) == [[], [], ["busy"], ["busy"], []]
        await asyncio.sleep(120)
        hall.call_in(ACME)
        await asyncio.sleep(1)
        assert declined(hall)[-1] == []

    play(tmp_path, scenario)


def test_a_campaign_leaves_the_trunk_to_callers(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        rules = {"country": "NO", "trunks": {ACME: {"outgoing": {"live_calls": 2}}}}
        hall.configure(firewall=rules)
        for number in range(5):
            hall.call_out("PJSIP/x@acme", f"+472212345{number}")
        hall.call_out("PJSIP/x@other")
        callers = [hall.call_in(ACME) for _ in range(5)]
        await asyncio.sleep(0.5)
        results = [line.results for line in hall.lines[:6]]
        assert [bool(each) for each in results] == [False, False, True, True, True, False]
        assert results[2][0].outcome == "refused"
        assert results[2][0].reason == "capped"
        assert live(hall, ACME, "out", 2)
        assert not any(line.declined for line in callers)
        hall.registry.calls[hall.lines[0].call_id].end("completed", "test")
        await asyncio.sleep(0.5)
        again = hall.call_out("PJSIP/x@acme")
        await asyncio.sleep(0.5)
        assert not again.results

    play(tmp_path, scenario)


def asks_for_the_desk() -> FakeAgent:
    async def script(agent: FakeAgent) -> None:
        await agent.ask("transfer", {"destination": "desk"}, 1)

    return FakeAgent(script)


def test_transfers_share_the_trunk_with_all_that_leaves(tmp_path: Path) -> None:
    """From the call to the human's phone until caller and human part."""

    async def scenario(hall: Hall) -> None:
        rules = {"country": "NO", "trunks": {ACME: {"outgoing": {"live_calls": 1}}}}
        hall.configure(firewall=rules, destinations={"desk": DESK})
        first = hall.call_in(OTHER)
        await first.dialled.wait()
        second = hall.call_in(OTHER, "4722123456")
        out = hall.call_out("PJSIP/x@acme")
        await asyncio.sleep(5)
        assert not second.legs
        assert out.results[0].reason == "capped"
        assert live(hall, ACME, "out", 1)
        first.legs[0].leave(17, 486)  # busy
        await asyncio.sleep(5)
        assert live(hall, ACME, "out", 0)
        third = hall.call_in(OTHER, "4722123457")
        await third.dialled.wait()
        assert live(hall, ACME, "out", 1)
        third.caller_hangs_up()
        await asyncio.sleep(1)
        assert live(hall, ACME, "out", 0)

    hall = play(tmp_path, scenario, lambda _: asks_for_the_desk())
    assert hall.metric('ai_agent_firewall_refused_total{act="transfer",rule="cap.trunk"} 1.0')


USED_UP = {
    "warn_at_percent": 60,
    "warning": "One more minute.",
    "end_after_ms": 30_000,
    "goodbye": "Time is up. Goodbye.",
}
EUR = {"currency": "EUR"}


def events_of(hall: Hall, kind: str) -> list[dict[str, Any]]:
    lines = []
    hall.writer.flush()
    for path in sorted(hall.directory.glob("*/*.jsonl")):
        lines += [line for line in read_lines(path) if line["type"] == kind]
    return lines


def test_a_live_call_that_runs_into_its_budget_is_warned_and_ended(tmp_path: Path) -> None:
    agents: list[FakeAgent] = []

    def agent(_: object) -> FakeAgent:
        agents.append(FakeAgent())
        return agents[-1]

    async def scenario(hall: Hall) -> None:
        rules = {
            "tariffs": [{"direction": "in", "trunks": [ACME], **MINUTE}],
            "trunks": {ACME: {"incoming": {"cost_per_day": 5}}},
            "used_up": USED_UP,
        }
        hall.configure(firewall=rules, prices=EUR)
        line = hall.call_in(ACME)
        free = hall.call_in(OTHER)
        await asyncio.sleep(110)
        assert agents[0].said == []
        await asyncio.sleep(20)
        assert agents[0].said == ["One more minute."], "the third minute has begun"
        await asyncio.sleep(100)
        assert line.call_id in hall.registry.calls
        await asyncio.sleep(60)
        assert line.call_id not in hall.registry.calls
        assert free.call_id in hall.registry.calls
        assert agents[0].said == ["One more minute.", "Time is up. Goodbye."]
        late = hall.call_in(ACME)
        await asyncio.sleep(1)
        assert late.declined == ["busy"]
        assert agents[1].said == []

    hall = play(tmp_path, scenario, agent)
    acts = [(e["rule"], e["act"], e["why"]) for e in events_of(hall, "firewall.used_up")]
    why = "cost_per_day of this trunk"
    assert acts == [("cap.trunk", "warned", why), ("cap.trunk", "ended", why)]
    first, _ = events_of(hall, "call.ended")
    assert first["reason"] == "budget"
    assert 270_000 < first["duration_ms"] < 285_000, "30 s after the fifth minute has begun"
    assert hall.metric('ai_agent_firewall_refused_total{act="budget",rule="cap.trunk"} 2.0')


def test_without_a_word_about_it_live_calls_go_on(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        hall.configure(firewall={"incoming": {"total": {"minutes_per_day": 1}}})
        line = hall.call_in(ACME)
        await asyncio.sleep(600)
        assert line.call_id in hall.registry.calls
        assert hall.call_in(ACME, "4722123456").declined == []
        await asyncio.sleep(1)
        assert hall.lines[-1].declined == ["busy"]

    play(tmp_path, scenario)


def test_a_call_out_is_paid_from_its_answer(tmp_path: Path) -> None:
    """Ringing costs nothing, busy costs nothing."""

    async def scenario(hall: Hall) -> None:
        rules = {
            "country": "NO",
            "tariffs": [{"trunks": [ACME], **MINUTE, "connection": 3}],
            "outgoing": {"per_context": {"cost_per_day": 4}},
        }
        hall.configure(firewall=rules, prices=EUR)
        for _ in range(3):
            busy = hall.call_out("PJSIP/x@acme", dialling=Dialling("busy"), ring_seconds=90)
            await asyncio.sleep(100)
            assert busy.results[0].outcome == "busy"
        answered = hall.call_out("PJSIP/x@acme", ring_seconds=50)
        await asyncio.sleep(40)
        assert not answered.results
        assert not hall.call_out("PJSIP/x@acme", ring_seconds=60).results, "nothing is paid yet"
        await asyncio.sleep(20)
        refused = hall.call_out("PJSIP/x@acme")
        await asyncio.sleep(1)
        assert refused.results[0].reason == "capped"

    play(tmp_path, scenario)


def test_a_call_by_a_trunk_without_a_price_is_not_placed(tmp_path: Path) -> None:
    async def scenario(hall: Hall) -> None:
        rules = {"country": "NO", "tariffs": [{"trunks": [ACME], **MINUTE}]}
        hall.configure(firewall=rules, prices=EUR)
        line: FakeLine = hall.call_out("PJSIP/x@other")
        await asyncio.sleep(1)
        assert line.results[0].reason == "blocked"

    hall = play(tmp_path, scenario)
    assert hall.metric('ai_agent_firewall_refused_total{act="outbound",rule="number.price"} 1.0')


HANDED_OVER = {
    "incoming": {"per_caller": {"minutes_per_day": 5}},
    "used_up": USED_UP,
}


@pytest.mark.parametrize("returns", [True, False])
def test_a_talk_between_humans_is_not_cut_by_a_cap(tmp_path: Path, returns: bool) -> None:
    """The warning and the goodbye are spoken when the caller is back."""
    agents: list[FakeAgent] = []

    def agent(_: object) -> FakeAgent:
        agents.append(asks_for_the_desk())
        return agents[-1]

    async def scenario(hall: Hall) -> None:
        desk = {**DESK, "return_on_hangup": returns}
        hall.configure(firewall=HANDED_OVER, destinations={"desk": desk})
        line = hall.call_in(OTHER)
        await line.dialled.wait()
        line.legs[0].answer()
        await asyncio.sleep(6)
        assert line.media is not None
        line.media.press("1")
        await asyncio.sleep(540)
        assert line.place == "party", "both go on, long after the cap"
        said = len(agents[0].said)
        line.legs[0].leave()
        await asyncio.sleep(20)
        assert (line.call_id in hall.registry.calls) is returns
        assert agents[0].said[said:] == (["One more minute."] if returns else [])
        if returns:
            await asyncio.sleep(25)
            assert line.call_id not in hall.registry.calls
            assert agents[0].said[said:] == ["One more minute.", "Time is up. Goodbye."]

    hall = play(tmp_path, scenario, agent)
    acts = [event["act"] for event in events_of(hall, "firewall.used_up")]
    assert acts == (["warned", "ended"] if returns else [])
    (ended,) = events_of(hall, "call.ended")
    assert ended["reason"] == ("budget" if returns else "transfer:desk")


def test_a_warning_that_nobody_heard_is_spoken_later(tmp_path: Path) -> None:
    """A caller who is being asked something is not warned, and the ledger does not say so."""
    agents: list[FakeAgent] = []

    def agent(_: object) -> FakeAgent:
        agents.append(FakeAgent())
        return agents[-1]

    async def scenario(hall: Hall) -> None:
        hall.configure(firewall=HANDED_OVER)
        call_in = hall.call_in(OTHER)
        await asyncio.sleep(10)
        conversation = hall.registry.calls[call_in.call_id].conversation
        assert conversation is not None
        conversation.caller_enters(True)
        await asyncio.sleep(190)
        assert agents[0].said == []
        assert events_of(hall, "firewall.used_up") == []
        conversation.caller_enters(False)
        await asyncio.sleep(10)
        assert agents[0].said == ["One more minute."]
        await asyncio.sleep(50)

    hall = play(tmp_path, scenario, agent)
    assert [event["act"] for event in events_of(hall, "firewall.used_up")] == ["warned"]
