"""Days as callers say them, relative to a given today. English. Pure.

`tomorrow`, `next friday`, `the third of may`, `in two weeks`. Values are ISO (`2026-11-28`); the
spoken forms are for sentences. Times of day are in `times`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from cordboard.agents.rules.numbers import (
    NUMBER_WORDS,
    ordinal_in_words,
    read_number,
    read_ordinal,
)

LONGEST = 7
"""Most words of a day."""
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_SHORT = {month[:3]: number for number, month in enumerate(_MONTHS, start=1)} | {"sept": 9}
_MONTH = {month: number for number, month in enumerate(_MONTHS, start=1)} | _SHORT
_NEAR = {
    "today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1,
    "the day after tomorrow": 2, "day after tomorrow": 2, "the day before yesterday": -2,
}  # fmt: skip
_SMALL = "on this coming next in a the of day days week weeks"
_PLURALS = frozenset(f"{day}s" for day in _DAYS)
DATE_WORDS = NUMBER_WORDS | _PLURALS | {*_DAYS, *_MONTH, *" ".join(_NEAR).split(), *_SMALL.split()}
"""Words that days are made of."""
_UNITS = {"day": 1, "days": 1, "week": 7, "weeks": 7}


def read_date(words: Sequence[str], today: date) -> date | None:
    """Return the day that these words name, all of them; None when they name none.

    A weekday is the next one after today, `next friday` the one in the following calendar week
    (Monday to Sunday); a day without a year is the next one to come.
    """
    words = [word.removesuffix("s") if word in _PLURALS else word for word in words]
    text = " ".join(words)
    if text in _NEAR:
        return today + timedelta(days=_NEAR[text])
    rest = list(words)
    if rest and rest[0] in ("on", "this", "coming") and len(rest) > 1:
        rest = rest[1:]
    return _weekday(rest, today) or _in_days(rest, today) or _calendar_day(rest, today)


def _weekday(words: Sequence[str], today: date) -> date | None:
    following = len(words) == 2 and words[0] == "next"
    if not following and len(words) != 1:
        return None
    if words[-1] not in _DAYS:
        return None
    wanted = _DAYS.index(words[-1])
    if following:
        monday = today + timedelta(days=7 - today.weekday())
        return monday + timedelta(days=wanted)
    return today + timedelta(days=(wanted - today.weekday() - 1) % 7 + 1)


def _in_days(words: Sequence[str], today: date) -> date | None:
    if " ".join(words) == "next week":
        return today + timedelta(days=7 - today.weekday())
    if len(words) >= 3 and words[0] == "in" and words[-1] in _UNITS:
        count = 1 if words[1:-1] in (["a"], ["one"]) else read_number(words[1:-1])
        if count is not None and count < 1000:
            return today + timedelta(days=count * _UNITS[words[-1]])
    return None


def _calendar_day(words: list[str], today: date) -> date | None:
    """`the third of may [2027]`, `may third`, `may 3`, `the third`."""
    words = [word for word in words if word not in ("the", "of")]
    year = None
    if len(words) > 2 and re.fullmatch(r"20\d\d", words[-1]):
        year = int(words.pop())
    months = [word for word in words if word in _MONTH]
    if len(months) > 1 or not words:
        return None
    if months and words.index(months[0]) not in (0, len(words) - 1):
        return None
    days = [word for word in words if word not in _MONTH]
    number = read_ordinal(days) if days else None
    if number is None or not 1 <= number <= 31:
        return None
    if not months:
        return _coming(number, None, today) if read_number(days) is None else None
    month = _MONTH[months[0]]
    return _coming(number, month, today) if year is None else _date(year, month, number)


def _coming(day: int, month: int | None, today: date) -> date | None:
    """Return the next such day; without a month, that of any."""
    for ahead in range(9 * 12):
        year, number = divmod(today.year * 12 + today.month - 1 + ahead, 12)
        found = _date(year, number + 1, day) if month in (None, number + 1) else None
        if found is not None and found >= today:
            return found
    return None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def say_date(day: date) -> str:
    """`Friday the third of May`."""
    weekday, month = _DAYS[day.weekday()].capitalize(), _MONTHS[day.month - 1].capitalize()
    return f"{weekday} the {ordinal_in_words(day.day)} of {month}"
