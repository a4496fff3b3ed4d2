"""Measures over time: from the ledgers, on both databases, whatever order they came in."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.calls import events
from cordboard.errors import HistoryError
from cordboard.history.erasure import Erasure
from cordboard.history.indexer import Indexer
from cordboard.history.query import parse_query
from cordboard.history.series import MEASURES, MOST_LINES, Line, Series, SeriesQuery
from cordboard.history.sql_store import SqlHistoryStore

from .conftest import History
from .ledgers import NOON, Told, refuse

BEGIN = round(dt.datetime(2026, 11, 18, tzinfo=dt.UTC).timestamp() * 1000)
END = round(dt.datetime(2026, 11, 23, tzinfo=dt.UTC).timestamp() * 1000)


def ask(history: History, measure: str, **more: object) -> Series:
    return history.store.series(SeriesQuery(measure, BEGIN, END, **more))  # type: ignore[arg-type]


def values(series: Series, key: str = "", stat: str = "") -> list[float | None]:
    (line,) = [each for each in series.lines if each.key == key and stat in ("", each.stat)]
    return list(line.values)


def totals(series: Series) -> dict[str, float]:
    return {line.key: sum(value or 0 for value in line.values) for line in series.lines}


def test_calls_are_counted_on_their_day_and_in_their_hour(history: History) -> None:
    next_hour = NOON + dt.timedelta(hours=1, minutes=5)
    next_day = Told("d", NOON + dt.timedelta(days=1))
    late = Told("b", NOON + dt.timedelta(minutes=59))
    history.add(Told("a"), late, Told("c", next_hour), next_day)
    series = ask(history, "calls")
    assert series.t[:2] == ("2026-11-18", "2026-11-19")
    assert len(series.t) == 6
    assert values(series) == [0, 0, 3, 1, 0]
    hours = ask(history, "calls", step="hour")
    at = {t: value for t, value in zip(hours.t, values(hours), strict=False) if value}
    assert list(at.values()) == [2, 1, 1]
    assert dt.datetime.fromisoformat(next(iter(at))) == NOON
    week = ask(history, "calls", step="week")
    assert (week.t, values(week)) == (("2026-11-16", "2026-11-23"), [4])
    month = ask(history, "calls", step="month")
    assert (month.t, values(month)) == (("2026-11-01", "2026-12-01"), [4])


def test_a_whole_period_is_one_point_with_its_own_percentiles(history: History) -> None:
    waits = [("a", NOON, 400), ("b", NOON + dt.timedelta(days=1), 4000)]
    history.add(*(Told(name, at, waited=ms) for name, at, ms in waits))
    calls = ask(history, "calls", step="whole")
    assert (calls.t, values(calls)) == (("2026-11-18", "2026-11-23"), [2])
    (median,) = values(ask(history, "wait", step="whole"), stat="p50")
    (worst,) = values(ask(history, "wait", step="whole"), stat="p99")
    assert median == pytest.approx(400, rel=0.05)
    assert worst == pytest.approx(4000, rel=0.05)
    begin = round(NOON.timestamp() * 1000)
    hours = history.store.series(SeriesQuery("calls", begin, begin + 2 * 3_600_000, "whole"))
    assert values(hours) == [1], "a short period is counted by hours, not by whole days"
    assert dt.datetime.fromisoformat(hours.t[1]) - NOON == dt.timedelta(hours=2)


def test_totals_are_the_series_of_every_measure(history: History) -> None:
    history.add(Told("a", cost=0.5, tools=[("crm", "error")]), Told("b", context="sales"))
    query = SeriesQuery("calls", BEGIN, END, "whole", only={"context": frozenset({"booking"})})
    totals = history.store.totals(query)
    assert totals.keys() == MEASURES.keys()
    assert values(totals["calls"]) == [1]
    for name, found in totals.items():
        assert found == ask(history, name, step="whole", only=query.only)


def test_percentiles_of_waits_by_stage_and_context(history: History) -> None:
    slow = [Told(f"s{number}", waited=2000, context="sales") for number in range(5)]
    history.add(*[Told(f"f{number}", waited=500) for number in range(95)], *slow)
    series = ask(history, "wait")
    assert {line.stat for line in series.lines} == {"p50", "p95", "p99"}
    assert values(series, stat="p50")[2] == pytest.approx(500, rel=0.025)
    assert values(series, stat="p95")[2] == pytest.approx(500, rel=0.025)
    assert values(series, stat="p99")[2] == pytest.approx(2000, rel=0.025)
    assert values(series, stat="p99")[0] is None
    (line, *_) = series.lines
    assert line.samples == (0, 0, 100, 0, 0)
    sales = ask(history, "wait", by="context")
    assert values(sales, "sales", "p50")[2] == pytest.approx(2000, rel=0.025)
    stages = ask(history, "wait", by="stage", only={"context": frozenset({"booking"})})
    assert values(stages, "brain", "p95")[2] == pytest.approx(50, rel=0.025)
    assert values(stages, "endpoint", "p95")[2] == pytest.approx(400, rel=0.025)
    assert stages.lines[0].calls == {"context": "booking"}


def contained(history: History, call: Told) -> float | None:
    history.add(call)
    return values(ask(history, "containment"))[2]


def test_a_call_is_contained_if_the_agent_has_served_it_to_the_end(history: History) -> None:
    served = [Told("a"), Told("b", reason="agent_hangup")]
    never_spoke = Told("c", turns=[])
    moved = Told("d", outcome="transferred", reason="transfer:sales")
    moved.more = [(9000, events.Transferred("sales", ok=True))]
    waiting = Told("e")
    waiting.more = [
        (20_000, events.TurnEnded(2, 19_800)),
        (20_000, events.Heard(2, "hello?", 0.9)),
    ]
    failed = Told("f", outcome="failed", reason="agent_failed")
    not_judged = [Told("g", outcome="killed", reason="engine_killed"), Told("h", ended=False)]
    not_judged.append(Told("i", outcome="not_reached", reason="no_answer", turns=[]))
    history.add(*served, never_spoke, moved, waiting, failed, *not_judged)
    series = ask(history, "containment")
    assert values(series)[2] == pytest.approx(2 / 6, abs=1e-6)
    assert series.lines[0].samples[2] == 6
    assert values(ask(history, "abandonment"))[2] == pytest.approx(2 / 8, abs=1e-6)
    assert totals(ask(history, "transfers", by="destination")) == {"sales": 1}
    assert totals(ask(history, "outcomes", by="outcome")) == {
        "completed": 4, "transferred": 1, "failed": 1, "killed": 1, "not_reached": 1,
    }  # fmt: skip


def test_what_went_wrong_and_what_it_cost(history: History) -> None:
    call = Told("a", tools=[("crm", "ok"), ("crm", "timeout"), ("mail", "ok")], troubles=["tts"])
    call.interrupted = "for"
    call.more = [
        (3000, events.Held(2900, 100)),
        (3100, events.Resumed("backchannel", 100)),
        (3200, events.Silence("reprompt", 8000, "hello?")),
        (3500, events.AgentUsed("m", "x", {"seconds": 2.0}, 0.1, "EUR")),
        (3600, events.AgentUsed("m", "x", {"seconds": 1.0}, 0.2, "EUR")),
        (3700, events.AgentUsed("n", "y", {"seconds": 1.0}, 0.4, "EUR")),
        (3800, events.AgentUsed("n", "y", {"seconds": 1.0})),
    ]
    history.add(call)
    refuse(history.directory, "r", reason="busy")
    history.indexer.catch_up()
    assert totals(ask(history, "tools", by="tool")) == {"crm": 2, "mail": 1}
    failures = ask(history, "tool_failures", by="tool")
    assert totals(failures) == {"crm": 1}
    assert failures.lines[0].calls == {"tool_failed": "crm"}
    assert values(ask(history, "tool_failure_share", by="tool"), "crm")[2] == 0.5
    share = ask(history, "tool_failure_share", only={"tool": frozenset({"crm"})})
    assert values(share)[2] == 0.5
    assert totals(ask(history, "troubles", by="part")) == {"tts": 1}
    assert totals(ask(history, "interruptions")) == {"": 1}
    assert totals(ask(history, "pauses", by="cause")) == {"backchannel": 1}
    assert totals(ask(history, "silences", by="of")) == {"reprompt": 1}
    cost = ask(history, "cost")
    assert totals(cost) == {"EUR": pytest.approx(0.7)}
    assert cost.lines[0].unit == "EUR"
    assert totals(ask(history, "cost", by="part")) == {
        "EUR m": pytest.approx(0.3), "EUR n": pytest.approx(0.4),
    }  # fmt: skip
    refused = ask(history, "refused", by="reason")
    assert (totals(refused), refused.lines[0].calls) == (
        {"busy": 1}, {"outcome": "refused", "reason": "busy"},
    )  # fmt: skip
    assert totals(ask(history, "calls")) == {"": 1}


def test_the_calls_behind_a_point_are_found_by_its_filters(history: History) -> None:
    bad = Told("bad", tools=[("crm", "error")], context="sales")
    history.add(Told("good", tools=[("crm", "ok")], context="sales"), bad, Told("other"))
    series = ask(history, "tool_failures", by="tool", only={"context": frozenset({"sales"})})
    (line,) = series.lines
    at = line.values.index(1)
    filters = {**line.calls, "since": series.t[at], "until": series.t[at + 1]}
    query = parse_query({name: [value] for name, value in filters.items()})
    assert [row.id for row in history.rows(query)] == ["bad"]


def test_tests_and_chats_are_left_out_unless_asked_for(history: History) -> None:
    history.add(*(Told(source, source=source) for source in ("asterisk", "try", "chat")))
    history.add(Told("tried", test=True), Told("written", source="chat", test=True))
    assert totals(ask(history, "calls")) == {"": 1}
    kinds = frozenset({"call", "chat", "test"})
    assert totals(ask(history, "calls", by="kind", only={"kind": kinds})) == {
        "call": 1, "chat": 1, "test": 3,
    }  # fmt: skip


def test_outside_of_the_scope_nothing_is_counted(history: History) -> None:
    history.add(Told("a", context="sales"), Told("b", context="booking"))
    refuse(history.directory, "r")
    history.indexer.catch_up()

    def covers(context: str) -> bool:
        return context == "sales"

    assert totals(ask(history, "calls", by="context", covers=covers)) == {"sales": 1}
    assert totals(ask(history, "refused", covers=covers)) == {}
    hidden = {"context": frozenset({"booking"})}
    assert totals(ask(history, "calls", covers=covers, only=hidden)) == {}


def test_an_erased_call_leaves_the_counts(history: History) -> None:
    history.add(Told("a", number="+4511"), Told("b", waited=2000))
    erasure = Erasure(history.directory, history.store)
    erasure.carry_out(erasure.of_call("a"))
    assert totals(ask(history, "calls")) == {"": 1}
    (line, *_) = ask(history, "wait").lines
    assert line.samples[2] == 1
    erasure.carry_out(erasure.of_call("b"))
    assert ask(history, "calls").lines == ()
    assert ask(history, "wait").lines == ()


def test_the_newest_calls_are_given_out_one_by_one(history: History) -> None:
    history.add(Told("a"), Told("b", NOON + dt.timedelta(hours=2), tools=[("crm", "error")]))
    history.add(Told("t", source="try"), Told("open", ended=False))
    since = round((NOON + dt.timedelta(hours=1)).timestamp() * 1000)
    ((call_id, measured),) = history.store.recent(since)
    assert (call_id, measured.counts["tool_failed/crm"], measured.cell.context) == (
        "b", 1, "booking",
    )  # fmt: skip
    assert [each for each, _ in history.store.recent(0)] == ["a", "b"]


def test_at_most_so_many_lines_come_back_those_with_the_most_calls(history: History) -> None:
    history.add(*(Told(f"c{number}", context=f"x{number}") for number in range(MOST_LINES + 5)))
    history.add(Told("more", context="x54"))
    series = ask(history, "calls", by="context")
    assert (len(series.lines), series.left_out) == (MOST_LINES, 5)
    assert "x54" in totals(series)


@pytest.mark.parametrize(
    ("given_query", "expected"),
    [
        (SeriesQuery("nonsense", 0, 1), "there is no measure 'nonsense'; expected one of calls"),
        (SeriesQuery("calls", 5, 5), "to: expected a time after"),
        (SeriesQuery("calls", 0, 10**16), "expected a time between 1970 and 9000"),
        (SeriesQuery("calls", BEGIN, END, "minute"), "step: expected one of hour"),  # type: ignore[arg-type]
        (SeriesQuery("calls", 0, END), "step: expected one that makes at most 1000 points"),
        (SeriesQuery("calls", BEGIN, END, by="tool"), "by: expected one of context"),
        (
            SeriesQuery("calls", BEGIN, END, only={"tool": frozenset({"x"})}),
            "filter: expected one of context",
        ),
        (SeriesQuery("calls", BEGIN, END, only={"kind": frozenset({"x"})}), "kind: expected one"),
    ],
)
def test_a_wrong_query_says_what_is_expected(
    tmp_path: Path, given_query: SeriesQuery, expected: str
) -> None:
    store = SqlHistoryStore(tmp_path)
    store.open()
    with pytest.raises(HistoryError, match=expected):
        store.series(given_query)
    store.close()


CALLS = st.lists(
    st.tuples(
        st.integers(0, 5),  # the call: the same again is a changed ledger
        st.integers(0, 50),  # hours after the beginning
        st.sampled_from(["booking", "sales"]),
        st.integers(0, 3000),
        st.sampled_from(["completed", "failed"]),
        st.sampled_from([True, True, False]),  # False: it is deleted
        st.floats(0, 1),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(CALLS, st.randoms(use_true_random=False))
def test_rollups_that_have_grown_equal_rebuilt_ones(
    changes: Sequence[tuple[int, int, str, int, str, bool, float]], chance: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        directory = Path(folder)
        # Closed in any case: a draw may end an example in the middle.
        store = stack.enter_context(closing(SqlHistoryStore(directory)))
        store.open()
        indexer = Indexer(directory, store)
        present: dict[int, Path] = {}
        for number, hours, context, waited, outcome, there, cost in changes:
            if number in present:
                present.pop(number).unlink()
            if there:
                started = NOON - dt.timedelta(days=2) + dt.timedelta(hours=hours)
                call = Told(str(number), started, context=context, waited=waited, outcome=outcome)
                call.more = [(5000, events.AgentUsed("m", "x", {"seconds": 1.0}, cost, "EUR"))]
                present[number] = call.write(directory)
            if chance.random() < 0.5:
                indexer.catch_up()
        indexer.catch_up()
        grown = _everything(store)
        indexer.rebuild()
        assert _everything(store) == grown
        counted = sum(sum(filter(None, line.values)) for line in grown["calls", "day", ""])
        assert counted == len(present)


def _everything(store: SqlHistoryStore) -> Mapping[tuple[str, str, str], tuple[Line, ...]]:
    return {
        (name, step, by): store.series(SeriesQuery(name, BEGIN, END, step, by)).lines  # type: ignore[arg-type]
        for name, measure in MEASURES.items()
        for step in ("hour", "day", "month")
        for by in ("", "context", measure.keyed)
    }
