"""Conditions of rules, at one moment: what holds, what does not, and what cannot be known."""

from __future__ import annotations

import datetime
from typing import Any, get_args

import pytest

from cordboard.alarms.readings import MOST_CALLS, Live, Moment, Reading, begin_of, read
from cordboard.config.alarms import DISK, AlarmRule, Component
from cordboard.config.alarms import Measured as MeasuredName
from cordboard.config.checks import alarms as checks
from cordboard.history.measured import STAGES, Measured
from cordboard.history.series import MEASURES

from .measured import NOON, call


def judged(given: dict[str, Any], *calls: Measured, **moment: Any) -> Reading:
    listed = tuple((f"c{number}", each) for number, each in enumerate(calls))
    return read(
        AlarmRule.model_validate(given), Moment(moment.pop("now", NOON), calls=listed, **moment)
    )


SLOW = {"measure": "wait", "above": 1500, "at_least": 3}


def test_slow_answers_fire_with_the_calls_that_were_slow() -> None:
    reading = judged(SLOW, call(waits=(300, 400)), call(waits=(2000,)))
    assert reading.holds is True
    assert reading.calls == ("c1",)
    assert reading.value == pytest.approx(2000, rel=0.025)
    assert "p95 of wait: " in reading.text
    assert judged(SLOW, call(waits=(300, 400, 1400))).holds is False


def test_too_few_turns_are_not_judged() -> None:
    assert judged(SLOW, call(waits=(9000, 9000))).holds is False
    assert judged(SLOW, call(waits=(9000, 9000)), call(waits=(9000,))).holds is True


def test_only_calls_of_the_period_and_the_context_count() -> None:
    rule = {"measure": "calls", "above": 1, "over_minutes": 60, "context": "demo"}
    inside = call(59)
    assert judged(rule, inside, call(61), call(1, context="sales")).value == 1
    reading = judged(rule, inside, call(1))
    assert (reading.holds, reading.calls) == (True, ("c1", "c0"))


def test_what_is_of_today_begins_at_midnight() -> None:
    rule = {"measure": "cost", "above": 20, "today": True}
    before, since = call(12 * 60 + 5, cost__EUR__m=10**8), call(11 * 60, cost__EUR__m=21_000_000)
    local = NOON.replace(hour=12)
    midnight = call(local.hour * 60 + 1, cost__EUR__m=10**8, now=local)
    reading = judged(rule, midnight, since, now=local)
    assert (reading.holds, reading.value, reading.calls) == (True, 21, ("c1",))
    assert begin_of(AlarmRule.model_validate(rule), local).hour == 0
    assert before.counts["calls"] == 1


def test_the_share_of_failures_of_one_tool() -> None:
    rule = {"measure": "tool_failure_share", "of": "crm", "above": 0.05, "at_least": 2}
    good = call(tool__crm=10, tool__mail=5, tool_failed__mail=5)
    assert judged(rule, good).holds is False
    reading = judged(rule, good, call(tool__crm=10, tool_failed__crm=2))
    assert (reading.holds, reading.value, reading.calls) == (True, 0.1, ("c1",))


def test_a_low_share_names_the_calls_that_lower_it() -> None:
    rule = {"measure": "containment", "below": 0.8}
    reading = judged(rule, call(judged=1, contained=1), call(judged=1), call())
    assert (reading.holds, reading.value, reading.calls) == (True, 0.5, ("c1",))


def test_no_call_for_hours_is_judged_only_in_business_hours() -> None:
    hours = {"from": "09:00", "to": "18:00"}
    rule = {"measure": "calls", "below": 1, "over_minutes": 240, "hours": hours}
    at = {hour: NOON.replace(hour=hour) for hour in (8, 12, 13, 17, 18)}
    found = {hour: judged(rule, now=now).holds for hour, now in at.items()}
    assert found == {8: False, 12: False, 13: True, 17: True, 18: False}
    assert judged(rule, now=at[13] - datetime.timedelta(days=1)).holds is False
    assert judged(rule, call(30, now=at[13]), now=at[13]).holds is False


def test_parts_and_servers_that_are_down() -> None:
    live = Live({"recordings": "disk full", "ari": ""}, {"crm": "failed exit 1\x1b[2J", "atis": ""})
    assert judged({"component": "recordings"}, live=live).holds is True
    assert judged({"component": "ari"}, live=live).holds is False
    assert judged({"component": "plugins"}, live=live).holds is False
    reading = judged({"server": "crm"}, live=live)
    assert (reading.holds, reading.text) == (
        True, "the MCP server crm is not up: failed exit 1 [2J",
    )  # fmt: skip
    assert judged({"server": "atis"}, live=live).holds is False


def test_a_disk_that_is_nearly_full() -> None:
    rule = {"measure": "disk_free", "below": 10}
    assert judged(rule, disk_free=9.9).holds is True
    assert judged(rule, disk_free=10.1).holds is False
    assert judged(rule).holds is None


@pytest.mark.parametrize(
    "moment",
    [{"calls": None}, {"steady": 100.0}, {"running": 100.0}],
    ids=["index being made", "clock was set", "just started"],
)
def test_what_cannot_be_known_is_not_judged(moment: dict[str, Any]) -> None:
    rule = AlarmRule.model_validate({"measure": "calls", "below": 1, "over_minutes": 10})
    assert read(rule, Moment(NOON)).holds is True
    assert read(rule, Moment(NOON, **moment)).holds is None


def test_an_engine_that_was_just_started_judges_what_is_too_high() -> None:
    rule = {"measure": "calls", "above": 0, "over_minutes": 10}
    assert judged(rule, call(), running=5.0).holds is True


def test_an_alarm_names_the_newest_calls() -> None:
    reading = judged({"measure": "calls", "above": 0}, *(call() for _ in range(MOST_CALLS + 5)))
    assert len(reading.calls) == MOST_CALLS
    assert reading.calls[0] == f"c{MOST_CALLS + 4}"


def test_the_schema_knows_the_measures_of_the_history() -> None:
    known = {name for name, measure in MEASURES.items() if measure.over != "time"}
    assert set(get_args(MeasuredName)) == {*known, DISK}
    assert checks._STAGES == STAGES
    keyless = {name for name in known if not MEASURES[name].keyed}
    assert set(checks._WITHOUT_KEYS) == keyless
    assert "recordings" in get_args(Component)
