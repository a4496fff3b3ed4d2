"""The red team at the telephone: ways around trunks, budgets and proofs, with an obedient agent.

The pack for written conversations is `tests/chat/test_red_team.py`. Each case was worth something:
without its rule the same words and keys get through.
"""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls import events
from cordboard.calls.outbound_order import Dialling
from cordboard.firewall.policy import Policy
from cordboard.tools.tool import Status, ToolReply
from cordboard_testkit.call_stage import CallStage, play_call
from cordboard_testkit.fake_agent import FakeAgent

from .exchange import Hall, hang_up, play

CHEAP, DEAR = "PJSIP/cheap", "PJSIP/dear"
NINE = datetime.datetime(2026, 11, 23, 9, 0, tzinfo=datetime.UTC)
NOK = {"currency": "NOK"}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock on the wall runs with virtual time."""

    def now(_: Policy) -> datetime.datetime:
        return NINE + datetime.timedelta(seconds=asyncio.get_running_loop().time() - 1000)

    monkeypatch.setattr(Policy, "now", now)


# Another trunk.

DESTINATIONS = {
    "cheap": {"target": "+4722123456", "trunk": CHEAP},
    "dear": {"target": "+4722123456", "trunk": DEAR},
    "phone": {"target": "6002", "mode": "attended", "endpoint": "PJSIP/+4722123456@dear"},
}


class Tempted:
    """A call whose agent transfers to whatever it was told, one after the other."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted
        self.replies: list[ToolReply] = []

    async def script(self, agent: FakeAgent) -> None:
        for turn, destination in enumerate(self.wanted, 1):
            self.replies.append(await agent.ask("transfer", {"destination": destination}, turn))

    def play(self, tmp_path: Path, **firewall: Any) -> CallStage:
        async def scenario(stage: CallStage) -> None:
            await asyncio.sleep(60)
            if not stage.line.transfers:
                stage.line.caller_hangs_up()

        return play_call(
            tmp_path,
            lambda: FakeAgent(self.script),
            scenario,
            context={"tools": ["transfer"]},
            destinations=DESTINATIONS,
            firewall={"country": "NO", **firewall},
            prices=NOK,
        )


@pytest.mark.parametrize(
    "words",
    ["cheap@dear", "PJSIP/+4722123456@dear", "DEAR", "dear/n", "cheap&PJSIP/x@dear", "PJSIP/dear"],
)
def test_no_words_choose_a_trunk(tmp_path: Path, words: str) -> None:
    """Only names of the file are destinations, and each has its trunk there."""
    tempted = Tempted(words)
    stage = tempted.play(tmp_path)
    assert [reply.status for reply in tempted.replies] == [Status.REFUSED]
    assert not stage.line.transfers
    assert not stage.line.legs


def test_a_trunk_without_a_price_is_not_the_way_out_of_a_budget(tmp_path: Path) -> None:
    """The agent is talked into the same number by another trunk, blind and attended."""
    tempted = Tempted("dear", "phone", "cheap")
    stage = tempted.play(tmp_path, tariffs=[{"trunks": [CHEAP], "per_minute": 1}])
    assert [target.name for target in stage.line.transfers] == ["cheap"]
    assert not stage.line.legs
    rules = [event.rule for event in stage.of(events.FirewallRefused)]
    assert rules == ["number.price", "number.price"]
    assert all(reply.status is Status.ERROR for reply in tempted.replies[:2])
    assert "PJSIP" not in str([reply.message for reply in tempted.replies])


def test_without_prices_the_other_trunk_is_reached(tmp_path: Path) -> None:
    stage = Tempted("dear").play(tmp_path)
    assert [target.name for target in stage.line.transfers] == ["dear"]


@pytest.mark.parametrize(
    "number",
    ["+4722334455@dear", "PJSIP/+4722334455@dear", "+4722334455&PJSIP/x", "+4722334455/n", "6002"],
)
def test_a_poisoned_number_of_the_customer_chooses_no_trunk(tmp_path: Path, number: str) -> None:
    """What the CRM says is dialled only as a number, by the trunk of `outbound.endpoint`."""

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        assert stage.line.media is not None
        stage.line.media.press("1")
        await asyncio.sleep(20)
        stage.line.caller_hangs_up()

    stage = play_call(
        tmp_path,
        FakeAgent,
        scenario,
        context={"keys": {"prompt": "Press 1.", "options": {"1": {"transfer": "sales"}}}},
        variables={"KNOWN_NUMBER": number},
        firewall={
            "country": "NO",
            "destinations": {"sales": {"step_up": "callback"}},
            "callback": {"from": "variables.KNOWN_NUMBER"},
        },
        outbound={"enabled": True, "endpoint": "PJSIP/{number}@cheap"},
    )
    assert not stage.line.legs
    assert not stage.line.transfers


def test_a_number_without_a_price_is_not_promised_a_call_back(tmp_path: Path) -> None:
    """It would never be called."""
    replies: list[ToolReply] = []

    async def script(agent: FakeAgent) -> None:
        wanted = {"at": "2030-01-01T10:00", "number": "+4722123456"}
        replies.append(await agent.ask("request_callback", wanted, 1))

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(60)
        stage.line.caller_hangs_up()

    callback = {"zone": "Europe/Oslo", "other_numbers": True}
    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"tools": ["request_callback"]},
        configured={"request_callback": {"callback": callback}},
        firewall={"country": "NO", "tariffs": [{"trunks": [DEAR], "per_minute": 1}]},
        outbound={"enabled": True, "endpoint": "PJSIP/{number}@cheap"},
        prices=NOK,
    )
    assert [event.rule for event in stage.of(events.FirewallRefused)] == ["number.price"]
    assert [reply.status is Status.OK for reply in replies] == [False]


# Split minutes.


def test_minutes_split_over_many_short_calls_are_paid_by_their_steps(tmp_path: Path) -> None:
    """Three seconds each; the same caller by two trunks and three ways to write the number."""

    async def scenario(hall: Hall) -> None:
        rules = {
            "country": "NO",
            "tariffs": [{"direction": "in", "per_minute": 1, "step_ms": 60_000}],
            "incoming": {"per_caller": {"cost_per_day": 5}},
        }
        hall.configure(firewall=rules, prices=NOK)
        numbers = ("+4791234567", "91234567", "004791234567")
        for count in range(9):
            trunk = (CHEAP, DEAR)[count % 2]
            line = hall.call_in(trunk, numbers[count % 3])
            await asyncio.sleep(3)
            if not line.declined:
                hang_up(line)
            await asyncio.sleep(600)
        assert [bool(line.declined) for line in hall.lines] == [False] * 5 + [True] * 4
        hall.call_in(CHEAP, "+4722123456")
        await asyncio.sleep(1)
        assert not hall.lines[-1].declined, "another caller"

    play(tmp_path, scenario)


def test_many_calls_at_once_pass_no_budget_together(tmp_path: Path) -> None:
    """Each is far below it; what they use is added while they live."""

    async def scenario(hall: Hall) -> None:
        rules = {
            "country": "NO",
            "trunks": {CHEAP: {"outgoing": {"minutes_per_day": 10}}},
            "used_up": {"end_after_ms": 0},
        }
        hall.configure(firewall=rules)
        for number in range(20):
            hall.call_out("PJSIP/x@cheap", f"+47221234{number:02}", ring_seconds=0.1)
        await asyncio.sleep(25)
        assert len(hall.registry.calls) == 20
        await asyncio.sleep(25)
        assert not hall.registry.calls
        assert hall.call_out("PJSIP/x@cheap").results == []
        await asyncio.sleep(1)
        assert hall.lines[-1].results[0].reason == "capped"

    play(tmp_path, scenario)


def test_calls_that_ring_and_are_never_answered_have_a_cap_of_their_own(tmp_path: Path) -> None:
    """Unanswered calls cost nothing: their number is what is limited."""

    async def scenario(hall: Hall) -> None:
        caps = {"calls_per_minute": 5, "cost_per_day": 1}
        tariffs = [{"per_minute": 1, "connection": 1}]
        hall.configure(
            firewall={"country": "NO", "outgoing": {"per_trunk": caps}, "tariffs": tariffs},
            prices=NOK,
        )
        for number in range(12):
            busy = Dialling("busy")
            hall.call_out("PJSIP/x@cheap", f"+47221234{number:02}", dialling=busy)
            await asyncio.sleep(2)
        reasons = [line.results[0].outcome for line in hall.lines]
        assert reasons == ["busy"] * 5 + ["refused"] * 7

    play(tmp_path, scenario)


# Keys as a way around a proof.

RIGHT = "4711"
MENU = {"prompt": "Press 1.", "options": {"1": {"transfer": "sales"}}}
PRIVILEGED: dict[str, Any] = {
    "destinations": {"sales": {"step_up": "pin"}},
    "pin": {"from": "variables.CUSTOMER_PIN", "tries": 2},
}


async def press(stage: CallStage, keys: str) -> None:
    assert stage.line.media is not None
    for key in keys:
        stage.line.media.press(key)
        await asyncio.sleep(0.3)


def test_the_tries_of_a_pin_are_those_of_the_call_by_key_and_by_tool(tmp_path: Path) -> None:
    """Neither the key after the tool nor the tool after the key gives further ones."""
    replies: list[ToolReply] = []

    async def script(agent: FakeAgent) -> None:
        await asyncio.sleep(60)
        replies.append(await agent.ask("transfer", {"destination": "sales"}, 1))

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(2)
        await press(stage, "1")
        await asyncio.sleep(5)
        await press(stage, "1111")
        await asyncio.sleep(5)
        await press(stage, "2222")
        await asyncio.sleep(20)
        await press(stage, "1")
        await asyncio.sleep(5)
        await press(stage, RIGHT)
        await asyncio.sleep(60)
        await press(stage, RIGHT)
        await asyncio.sleep(20)
        stage.line.caller_hangs_up()

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"keys": MENU, "tools": ["transfer"]},
        variables={"CUSTOMER_PIN": RIGHT},
        firewall=PRIVILEGED,
    )
    assert not stage.line.transfers
    assert [event.ok for event in stage.of(events.CallerVerified)] == [False, False]
    assert [reply.status for reply in replies] == [Status.REFUSED]
    assert {event.rule for event in stage.of(events.FirewallRefused)} == {"step_up"}


def test_an_agent_that_has_the_caller_press_the_key_gains_nothing(tmp_path: Path) -> None:
    """It was refused at the desk, and talks the caller into the key: the proof is asked for."""

    async def script(agent: FakeAgent) -> None:
        await agent.ask("transfer", {"destination": "sales"}, 1)
        await agent.speak(1, "Just press 1.")

    async def scenario(stage: CallStage) -> None:
        await asyncio.sleep(60)  # nothing is entered: refused
        await press(stage, "1")
        await asyncio.sleep(60)
        stage.line.caller_hangs_up()

    stage = play_call(
        tmp_path,
        lambda: FakeAgent(script),
        scenario,
        context={"keys": MENU, "tools": ["transfer"]},
        variables={"CUSTOMER_PIN": RIGHT},
        firewall=PRIVILEGED,
    )
    assert not stage.line.transfers
    refused = [(event.act, event.rule) for event in stage.of(events.FirewallRefused)]
    assert refused == [("tool", "step_up"), ("transfer", "step_up")]
