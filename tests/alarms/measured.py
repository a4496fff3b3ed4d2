"""Calls for the tests of alarms, as the index gives them out."""

from __future__ import annotations

import datetime
from collections import Counter

from cordboard.history.histogram import histogram
from cordboard.history.measured import Cell, Measured

NOON = datetime.datetime(2026, 11, 23, 12, 0, tzinfo=datetime.UTC).astimezone()
"""A Monday."""


def call(
    minutes_ago: float = 1,
    *,
    context: str = "demo",
    waits: tuple[int, ...] = (),
    now: datetime.datetime = NOON,
    **counts: int,
) -> Measured:
    """A call that ended so long ago. A count of `tool_x` is of the family `tool`."""
    ended = round((now.timestamp() - minutes_ago * 60) * 1000)
    named = {name.replace("__", "/"): count for name, count in counts.items()}
    waited = {"total": histogram(waits)} if waits else {}
    cell = Cell(ended // 3_600_000, now.date().toordinal(), context, "local")
    return Measured(cell, ended, Counter({"calls": 1, **named}), waited)
