"""Sorting and filtering of lists, as clients write it: `sort=-booking_count,name` and
`customQuery=booking_count >= 3 and name ~ "brown"`.

    query      condition { "and" condition }
    condition  field operator value
    operator   =  !=  <  <=  >  >=  ~ (contains, ignoring case)
    value      a number, a date or time (2026-11-27, 2026-11-27T19:30), a word, or "words"

Pure, except for SQLAlchemy's expressions: a client's input becomes a bound value, never SQL, and
only the fields of a `Listing` can be named. Raises `Invalid` with a text that names the expected
input.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func
from sqlalchemy.orm import InstrumentedAttribute

from .errors import Invalid, Problem

MAX_QUERY = 400
MAX_CONDITIONS = 8
MAX_LIMIT = 100

Column = InstrumentedAttribute[Any]

_CONDITION = re.compile(
    r"\s*(?P<field>[A-Za-z_]+)\s*(?P<operator>!=|<=|>=|=|<|>|~)\s*"
    r"(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>[^\s\"=<>~!]+))\s*"
)
_AND = re.compile(r"and\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, as written."""

    field: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The fields for sorting and filtering a list: public name → column."""

    columns: Mapping[str, Column]
    default_sort: str

    def order(self, sort: str) -> list[ColumnElement[Any]]:
        """The columns to order by; the last one makes the order total."""
        ordered: list[ColumnElement[Any]] = []
        for part in (sort or self.default_sort).split(","):
            name = part.strip()
            column = self._column(name.lstrip("-"), "sort")
            ordered.append(column.desc() if name.startswith("-") else column.asc())
        return [*ordered, self.columns["id"].asc()]

    def where(self, query: str) -> list[ColumnElement[bool]]:
        """The conditions of a `customQuery`."""
        return [self._clause(condition) for condition in read_query(query)]

    def _column(self, name: str, parameter: str) -> Column:
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise _invalid(parameter, f"unknown field {name[:40]!r}; known are {known}")
        return self.columns[name]

    def _clause(self, condition: Condition) -> ColumnElement[bool]:
        column = self._column(condition.field, "customQuery")
        kind = column.type.python_type
        if condition.operator == "~":
            if kind is not str:
                raise _invalid("customQuery", f"~ is for texts, and {condition.field} is none")
            return func.lower(column).contains(condition.value.lower(), autoescape=True)
        value = _value(condition, kind)
        clauses: dict[str, ColumnElement[bool]] = {
            "=": column == value,
            "!=": column != value,
            "<": column < value,
            "<=": column <= value,
            ">": column > value,
            ">=": column >= value,
        }
        return clauses[condition.operator]


def read_query(query: str) -> list[Condition]:
    """The conditions of a query; none when it is empty."""
    if not query.strip():
        return []
    if len(query) > MAX_QUERY:
        raise _invalid("customQuery", f"expected at most {MAX_QUERY} characters")
    conditions: list[Condition] = []
    place = 0
    while True:
        match = _CONDITION.match(query, place)
        if match is None:
            expected = 'expected a condition such as name ~ "brown"'
            raise _invalid("customQuery", f"at character {place + 1}: {expected}")
        value = match["plain"] if match["quoted"] is None else match["quoted"]
        conditions.append(Condition(match["field"], match["operator"], value))
        if len(conditions) > MAX_CONDITIONS:
            raise _invalid("customQuery", f"expected at most {MAX_CONDITIONS} conditions")
        place = match.end()
        if place >= len(query):
            return conditions
        joined = _AND.match(query, place)
        if joined is None:
            raise _invalid("customQuery", f"at character {place + 1}: expected 'and'")
        place = joined.end()


def read_whole_number(text: str | None, name: str, default: int, low: int, high: int) -> int:
    """A query parameter that is a whole number within bounds."""
    if text is None or text == "":
        return default
    if not re.fullmatch(r"-?[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise _invalid(name, f"expected a whole number from {low} to {high}")
    return int(text)


def _value(condition: Condition, kind: type) -> object:
    text = condition.value
    try:
        if kind is int:
            if not -(2**31) <= int(text) < 2**31:
                raise ValueError
            return int(text)
        if kind is dt.datetime:
            moment = dt.datetime.fromisoformat(text)
            return moment.replace(tzinfo=None)
    except ValueError:
        expected = "a whole number" if kind is int else "a date such as 2026-11-27"
        raise _invalid(
            "customQuery", f"{condition.field}: expected {expected}, found {text[:40]!r}"
        ) from None
    return text


def _invalid(parameter: str, problem: str) -> Invalid:
    return Invalid("That search is not possible.", [Problem(parameter, problem)])
