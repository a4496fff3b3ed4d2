"""The pure parts: what a query may look like, and days and times as one says them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import conftest  # noqa: F401 - makes the example importable

# isort: split
from restaurant.errors import Invalid
from restaurant.listing import Condition, read_query
from restaurant.spoken import either, say_day, say_time


@given(st.text(alphabet='ab ~=<>!"and19-', max_size=40))
def test_any_query_is_read_or_refused(query: str) -> None:
    try:
        conditions = read_query(query)
    except Invalid:
        return
    assert all(condition.field for condition in conditions)


@given(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(alphabet="abc =<~1'%", max_size=12))
def test_a_quoted_value_is_taken_as_it_is(field: str, value: str) -> None:
    read = read_query(f'{field} != "{value}"AND {field}~ x')
    assert read == [Condition(field, "!=", value), Condition(field, "~", "x")]


@pytest.mark.parametrize(
    ("moment", "said"),
    [("19:30", "7:30 PM"), ("12:00", "noon"), ("00:00", "midnight"), ("00:15", "12:15 AM"),
     ("12:45", "12:45 PM"), ("09:00", "9 AM")],
)  # fmt: skip
def test_times_are_said(moment: str, said: str) -> None:
    assert say_time(dt.time.fromisoformat(moment)) == said


@pytest.mark.parametrize(
    ("day", "said"),
    [("2026-12-01", "Tuesday, December 1st"), ("2026-12-11", "Friday, December 11th"),
     ("2026-12-22", "Tuesday, December 22nd"), ("2026-12-13", "Sunday, December 13th"),
     ("2026-12-23", "Wednesday, December 23rd")],
)  # fmt: skip
def test_days_are_said(day: str, said: str) -> None:
    assert say_day(dt.date.fromisoformat(day)) == said


def test_choices_are_said() -> None:
    assert [either(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]
