"""Endpoints of measures over time, and of alarms."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import Field

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import UNRECORDED, Ask, Done, Endpoint, Gives, Scope, Takes
from cordboard.admin.history import keeper_of
from cordboard.admin.pace import TRY
from cordboard.admin.services import AdminServices
from cordboard.alarms.watch import Alarm
from cordboard.errors import HistoryError, IndexUnavailable, NotThere, RequestRefused
from cordboard.history.query import moment
from cordboard.history.series import CELL, DEFAULT_DAYS, MEASURES, Series, SeriesQuery, Step
from cordboard.history.store import HistoryStore

_SEPARATE = (",", 100)
"""Separator of several values in a filter, and the most of them."""


class TotalsOf(Takes):
    from_: str | None = Field(None, alias="from", max_length=40)
    """First day, or ISO 8601 time with `step=hour`; default: 30 days ago."""
    to: str | None = Field(None, max_length=40)
    """The day or time after the last one; default: now."""
    context: str = Field("", max_length=2_000)
    """Names with commas between them; the same for the other filters."""
    provider: str = Field("", max_length=2_000)
    version: str = Field("", max_length=2_000)
    kind: str = Field("", max_length=100)
    """`call` (default), `chat`, `test`."""


class SeriesOf(TotalsOf):
    step: Step = "day"
    by: str = Field("", max_length=40)
    """One line for each `context`, `provider`, `version`, `kind`, or for each key of the measure,
    such as `tool`."""
    key: str = Field("", max_length=2_000)
    """Keys of the measure: tools, destinations, parts, stages."""


class SeriesLine(Gives):
    key: str
    """Value of `by`; of a cost, its currency comes first."""
    stat: str
    unit: str
    values: list[float | None]
    samples: list[int]
    """Number of calls, turns or tool calls behind each value."""
    calls: dict[str, str]
    """Filters of `/calls` that find the calls behind the line; those of point n are between t[n]
    (`since`) and t[n+1] (`until`)."""


class SeriesAnswer(Gives):
    measure: str
    about: str
    by: list[str]
    """Allowed values of `by`."""
    t: list[str]
    """Beginnings of the points, and the end of the last one: ISO 8601 with the engine's zone."""
    series: list[SeriesLine]
    left_out: int
    """Lines beyond the 50 with the most calls."""


class TotalsAnswer(Gives):
    measures: list[SeriesAnswer]
    """Each with one point for the whole period: by hours if it has at most four days, else by
    days."""


class AlarmSeen(Gives):
    who: str
    note: str
    at: str
    until: str


class AlarmState(Gives):
    id: str
    state: str
    """`quiet`, `rising`, `firing` or `falling`."""
    text: str
    value: float | None
    limit: float | None
    context: str
    since: str
    """Time when it began to fire; empty if it does not."""
    calls: list[str]
    """Ids of the newest calls behind it."""
    rule: dict[str, Any]
    """As it is in the configuration, `alarms.rules`, without its note."""
    note: str
    acknowledged: AlarmSeen | None


class AlarmStates(Gives):
    alarms: list[AlarmState]


class Acknowledge(Takes):
    note: str = Field("", max_length=500)
    until: str = Field("", max_length=40)
    """No reminder before this ISO 8601 time; left out: none at all."""

    def facts(self) -> dict[str, Any]:
        """Return how long it is silent."""
        return {"until": self.until}


class AlarmsTested(Gives):
    ways: dict[str, str]
    """Error by way (`tool`, `email`), empty if it was taken; no way is configured if it is
    empty."""


async def series(ask: Ask) -> SeriesAnswer:
    """Show a measure of calls over time: counts, shares, costs, percentiles.

    Only what is within the caller's scope is counted. Tests and chats are left out unless `kind`
    names them.
    """
    keeper, asked, name = keeper_of(ask), ask.query, ask.params["measure"]
    measure = MEASURES.get(name)
    if measure is None:
        raise NotThere(f"there is no such measure; known: {', '.join(MEASURES)}")
    keys = {measure.keyed or "key": asked.key}
    with _explained():
        query = _query(asked, ask.who.rights, keys, measure=name, step=asked.step, by=asked.by)
        return _answer(name, await ask.services.run(_answered, keeper.store, query))


async def totals(ask: Ask) -> TotalsAnswer:
    """Show every measure for a whole period.

    Only what is within the caller's scope is counted. Tests and chats are left out unless `kind`
    names them.
    """
    keeper = keeper_of(ask)
    with _explained():
        query = _query(ask.query, ask.who.rights, {}, measure="calls")
        found = await ask.services.run(_all_answered, keeper.store, query)
    return TotalsAnswer(measures=[_answer(name, series) for name, series in found.items()])


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except IndexUnavailable:
        raise
    except HistoryError as error:
        raise RequestRefused(422, "invalid", str(error)) from None


def _answer(name: str, found: Series) -> SeriesAnswer:
    measure = MEASURES[name]
    return SeriesAnswer(
        measure=name,
        about=measure.about,
        by=[*CELL, *filter(None, [measure.keyed])],
        t=[datetime.datetime.fromisoformat(each).astimezone().isoformat() for each in found.t],
        series=[
            SeriesLine(
                key=line.key,
                stat=line.stat,
                unit=line.unit,
                values=list(line.values),
                samples=list(line.samples),
                calls=dict(line.calls),
            )
            for line in found.lines
        ],
        left_out=found.left_out,
    )


def _answered(store: HistoryStore, query: SeriesQuery) -> Series:
    store.open()
    return store.series(query)


def _all_answered(store: HistoryStore, query: SeriesQuery) -> Mapping[str, Series]:
    store.open()
    return store.totals(query)


def _query(asked: TotalsOf, rights: Rights, keys: Mapping[str, str], **more: Any) -> SeriesQuery:
    """Return the query of a request: `keys` is a further filter, `more` has other fields. Raises
    `HistoryError`."""
    now = round(time.time() * 1000)
    begin = now - DEFAULT_DAYS * 86_400_000 if asked.from_ is None else moment("from", asked.from_)
    end = now if asked.to is None else moment("to", asked.to)
    separator, most = _SEPARATE
    given = {**{name: getattr(asked, name) for name in CELL}, **keys}
    only = {name: frozenset(text.split(separator)) for name, text in given.items() if text}
    if any(len(values) > most for values in only.values()):
        raise HistoryError(f"expected at most {most} values of a filter")
    covers = None if rights.everywhere else rights.covers
    return SeriesQuery(begin_ms=begin, end_ms=end, only=only, covers=covers, **more)


async def list_alarms(ask: Ask) -> AlarmStates:
    """List the alarms and their states, in the order of the configuration.

    A limited scope shows the alarms of its contexts only: others are about the calls of all.
    """
    return alarms_for(ask.services, ask.who.rights)


def alarms_for(services: AdminServices, rights: Rights) -> AlarmStates:
    """Return the alarms as callers with these rights see them."""
    found = [each for each in services.alarms.alarms() if _is_within(rights, each)]
    return AlarmStates(alarms=[_state(each) for each in found])


async def acknowledge(ask: Ask) -> Done:
    """Note that the caller has seen a firing alarm; its reminders end, or pause."""
    body: Acknowledge = ask.body
    if body.until:
        try:
            until = datetime.datetime.fromisoformat(body.until).astimezone()
        except (OverflowError, ValueError):
            raise RequestRefused(422, "invalid", "until: expected an ISO 8601 time") from None
        body = Acknowledge(note=body.note, until=until.isoformat())
    name, who = ask.params["alarm"], ask.who.name
    if not await ask.services.alarms.acknowledge(name, who, body.note, body.until):
        raise RequestRefused(409, "not_firing", "the alarm does not fire")
    return Done()


async def test_alarms(ask: Ask) -> AlarmsTested:
    """Send a test message by all configured ways. Takes up to a minute if a mail server hangs."""
    return AlarmsTested(ways=await ask.services.alarms.test())


def _is_within(rights: Rights, alarm: Alarm) -> bool:
    return rights.covers(alarm.rule.context) if alarm.rule.context else rights.everywhere


def _context_of_alarm(ask: Ask) -> str | None:
    """Return the alarm's context. One about all contexts exists for a scope of all only."""
    alarm = ask.services.alarms.alarm(ask.params["alarm"])
    return (alarm.rule.context or "") if _is_within(ask.who.rights, alarm) else None


def _state(alarm: Alarm) -> AlarmState:
    rule, reading, seen = alarm.rule, alarm.reading, alarm.acknowledged
    return AlarmState(
        id=alarm.name,
        state=alarm.state.stage.value,
        text=reading.text,
        value=reading.value,
        limit=rule.above if rule.above is not None else rule.below,
        context=rule.context or "",
        since=alarm.since,
        calls=list(reading.calls),
        rule=rule.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"note"}),
        note=rule.note,
        acknowledged=None
        if seen is None
        else AlarmSeen(who=seen.who, note=seen.note, at=seen.at, until=seen.until),
    )


ENDPOINTS = (
    Endpoint(
        "GET",
        "/analytics",
        may=Permission.ANALYTICS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=TotalsOf,
        gives=TotalsAnswer,
        audit=UNRECORDED,
        does=totals,
    ),
    Endpoint(
        "GET",
        "/analytics/{measure}",
        may=Permission.ANALYTICS_READ,
        scope=Scope.FILTERED,
        takes=None,
        asks=SeriesOf,
        gives=SeriesAnswer,
        audit=UNRECORDED,
        does=series,
    ),
    Endpoint(
        "GET",
        "/alarms",
        may=Permission.ALARMS_READ,
        scope=Scope.FILTERED,
        takes=None,
        gives=AlarmStates,
        audit=UNRECORDED,
        does=list_alarms,
    ),
    Endpoint(
        "POST",
        "/alarms/{alarm}/acknowledge",
        may=Permission.ALARMS_ACKNOWLEDGE,
        scope=_context_of_alarm,
        takes=Acknowledge,
        gives=Done,
        audit="alarm.acknowledge",
        does=acknowledge,
    ),
    Endpoint(
        "POST",
        "/alarms/test",
        may=Permission.ENGINE_CONTROL,
        scope=Scope.NONE,
        takes=None,
        gives=AlarmsTested,
        audit="alarms.test",
        does=test_alarms,
        pace=TRY,
    ),
)
