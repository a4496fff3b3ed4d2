"""Days, times and opening hours in spoken English. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from .model import Day

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January February March April May June July August September October November December"
).split()


def say_time(moment: dt.time) -> str:
    """`7:30 PM`, `8 PM`, `noon`."""
    if moment.minute == 0 and moment.hour in (0, 12):
        return "noon" if moment.hour else "midnight"
    hour, half = (moment.hour - 1) % 12 + 1, "AM" if moment.hour < 12 else "PM"
    return f"{hour}:{moment.minute:02} {half}" if moment.minute else f"{hour} {half}"


def say_day(day: dt.date) -> str:
    """`Friday, November 27th`."""
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return f"{WEEKDAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}{ending}"


def say_moment(moment: dt.datetime) -> str:
    """`Friday, November 27th at 7:30 PM`."""
    return f"{say_day(moment.date())} at {say_time(moment.time())}"


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return _joined(words, "or")


def say_hours(days: Sequence[Day]) -> str:
    """A sentence or two for one day, or for several."""
    if len(days) == 1:
        return _one_day(days[0])
    groups: list[tuple[str, list[str]]] = []
    for day in days[:7]:
        said = f"from {_said(day.opens)} to {_said(day.closes)}" if day.open else ""
        known = next((names for text, names in groups if text == said), None)
        if known is None:
            groups.append((said, [day.weekday]))
        else:
            known.append(day.weekday)
    parts = [f"on {_joined(_in_order(names), 'and')} {said}" for said, names in groups if said]
    closed = [name for said, names in groups if not said for name in names]
    sentences = [f"We are open {'; '.join(parts)}."] if parts else []
    if closed:
        sentences.append(f"We are closed on {_joined(_in_order(closed), 'and')}.")
    return " ".join(sentences)


def _one_day(day: Day) -> str:
    name = say_day(dt.date.fromisoformat(day.date))
    note = f" ({day.note})" if day.note else ""
    if not day.open:
        return f"We are closed on {name}{note}."
    return f"On {name}{note} we are open from {_said(day.opens)} to {_said(day.closes)}."


def _said(moment: str | None) -> str:
    return say_time(dt.time.fromisoformat(moment or "00:00"))


def _in_order(names: Sequence[str]) -> list[str]:
    return sorted(names, key=WEEKDAYS.index)


def _joined(words: Sequence[str], last: str) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
