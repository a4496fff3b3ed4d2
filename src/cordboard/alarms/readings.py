"""Judges the condition of a rule at one moment. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cordboard.config.alarms import DISK, AlarmRule
from cordboard.config.hours import ZonedHours
from cordboard.history.measured import Measured
from cordboard.history.series import MEASURES, Measure, is_behind, value_of
from cordboard.mcp.printable import printable

MOST_CALLS = 50
"""Calls that an alarm names, the newest."""
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Calls = Sequence[tuple[str, Measured]]
"""Ids and numbers, the oldest first."""


@dataclass(frozen=True, slots=True)
class Live:
    """The engine's state."""

    components: Mapping[str, str] = field(default_factory=dict)
    """Reason per component that is not ready; empty for those that are."""
    servers: Mapping[str, str] = field(default_factory=dict)
    """State per MCP server that is down; empty for those that are up, or not needed yet."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that rules are judged by."""

    now: datetime.datetime
    """In the zone of the machine."""
    live: Live = Live()
    calls: Calls | None = ()
    """Calls that have ended, for as long as `longest` asks; None if they are not known."""
    disk_free: float | None = None
    """Percent; None if it is not known."""
    steady: float = float("inf")
    """Seconds for which the clock has not been set: before that, times of calls mean nothing."""
    running: float = float("inf")
    """Seconds since the engine was started."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A judged condition."""

    holds: bool | None
    """None if it is not known."""
    text: str = ""
    value: float | None = None
    calls: tuple[str, ...] = ()
    """Ids of the newest calls behind the value."""


_UNKNOWN = Reading(None, "not known now")


def begin_of(rule: AlarmRule, now: datetime.datetime) -> datetime.datetime:
    """Return the moment from which calls count for a rule."""
    if rule.today:
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    return now - datetime.timedelta(minutes=rule.over_minutes)


def read(rule: AlarmRule, moment: Moment) -> Reading:
    """Return whether the condition of a rule holds."""
    if rule.hours is not None and not _within(rule, rule.hours, moment.now):
        return Reading(False, "outside of its hours")
    if rule.component is not None:
        reason = moment.live.components.get(rule.component, "")
        return _state(f"{rule.component} is", reason, "ready")
    if rule.server is not None:
        reason = moment.live.servers.get(rule.server, "")
        return _state(f"the MCP server {rule.server} is", reason, "up")
    if rule.measure == DISK:
        if moment.disk_free is None:
            return _UNKNOWN
        text = f"{moment.disk_free:.1f} % of the disk are free"
        return Reading(_beyond(rule, moment.disk_free), text, round(moment.disk_free, 1))
    return _of_calls(rule, MEASURES[rule.measure or ""], moment)


def _state(subject: str, reason: str, good: str) -> Reading:
    if not reason:
        return Reading(False, f"{subject} {good}")
    return Reading(True, f"{subject} not {good}: {printable(reason)}")


def _of_calls(rule: AlarmRule, measure: Measure, moment: Moment) -> Reading:
    begin = begin_of(rule, moment.now)
    window = (moment.now - begin).total_seconds()
    is_young = rule.below is not None and not measure.over and moment.running < window
    if moment.calls is None or moment.steady < window or is_young:
        return _UNKNOWN
    since = begin.timestamp() * 1000
    calls = [
        (call_id, call)
        for call_id, call in moment.calls
        if call.ended_ms >= since and rule.context in (None, call.cell.context)
    ]
    value, samples = value_of(measure, (call for _, call in calls), rule.of, rule.percentile)
    name = _name(rule, measure)
    period = "today" if rule.today else f"in the last {rule.over_minutes} minutes"
    if value is None or ((measure.waits or measure.over) and samples < rule.at_least):
        return Reading(False, f"{name}: too few to judge {period} ({samples})")
    behind = tuple(
        call_id for call_id, call in calls if is_behind(measure, call, rule.of, rule.above)
    )
    word, limit = ("above", rule.above) if rule.above is not None else ("below", rule.below)
    shown = f"{value:.0f}" if measure.unit == "ms" else f"{value:.6g}"
    text = f"{name}: {shown} {measure.unit} {period}; it fires {word} {limit:g}"
    return Reading(_beyond(rule, value), text, round(value, 6), behind[-MOST_CALLS:][::-1])


def _name(rule: AlarmRule, measure: Measure) -> str:
    name = f"{rule.percentile} of {rule.measure}" if measure.waits else str(rule.measure)
    return " ".join(
        [
            name,
            *([f"of {rule.of}"] if rule.of else ()),
            *([f"in {rule.context}"] if rule.context else ()),
        ]
    )


def _beyond(rule: AlarmRule, value: float) -> bool:
    if rule.above is not None:
        return value > rule.above
    return rule.below is not None and value < rule.below


def _within(rule: AlarmRule, hours: ZonedHours, now: datetime.datetime) -> bool:
    """Return True if the calls of a rule are all of business hours."""
    begin = begin_of(rule, now) if rule.is_of_calls and not rule.today else now
    begin, now = hours.local(begin), hours.local(now)
    clock = [each.strftime("%H:%M") for each in (begin, now)]
    same_day = begin.date() == now.date() and _DAYS[now.weekday()] in hours.days
    return same_day and hours.from_ <= clock[0] and clock[1] < hours.to
