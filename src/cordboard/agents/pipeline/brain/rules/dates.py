"""Days and times of day as callers say them, relative to a given today. English. Pure.

`tomorrow`, `next friday`, `the third of may`, `in two weeks`; `half past five`, `5 pm`, `17:30`.
Values are ISO (`2026-11-28`, `17:30`); the spoken forms are for sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, time, timedelta

from cordboard.agents.pipeline.brain.rules.numbers import (
    in_words,
    ordinal_in_words,
    read_number,
    read_ordinal,
)

LONGEST = 7
"""Words a day or a time may have."""
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
_UNITS = {"day": 1, "days": 1, "week": 7, "weeks": 7}


def read_date(words: Sequence[str], today: date) -> date | None:
    """The day that these words name, all of them; None when they name none.

    A weekday is the next one after today, `next friday` the one in the following calendar week
    (Monday to Sunday); a day without a year is the next one to come.
    """
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
        return _next_day_of_month(number, today) if read_number(days) is None else None
    return _next_date(number, _MONTH[months[0]], year, today)


def _next_day_of_month(day: int, today: date) -> date | None:
    for ahead in range(13):
        month = today.month - 1 + ahead
        found = _date(today.year + month // 12, month % 12 + 1, day)
        if found is not None and found >= today:
            return found
    return None


def _next_date(day: int, month: int, year: int | None, today: date) -> date | None:
    if year is not None:
        return _date(year, month, day)
    for ahead in range(9):
        found = _date(today.year + ahead, month, day)
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


def read_time(words: Sequence[str]) -> time | None:
    """The time of day that these words name; a bare `five` is 05:00."""
    words = [word for word in words if word != "at"]
    half = ""
    text = " ".join(words)
    for ending, meaning in _HALVES.items():
        if text.endswith(f" {ending}"):
            text, half = text.removesuffix(f" {ending}"), meaning
            break
    if text in ("noon", "midday", "midnight"):
        return time(0 if text == "midnight" else 12)
    found = _clock(text)
    if found is None:
        return None
    hour, minute = found
    if half == "pm" and hour < 12:
        hour += 12
    if half == "am" and hour == 12:
        hour = 0
    return time(hour, minute) if hour < 24 and minute < 60 else None


_HALVES = {
    "in the morning": "am", "in the afternoon": "pm", "in the evening": "pm", "at night": "pm",
    "p m": "pm", "a m": "am", "pm": "pm", "am": "am",
}  # fmt: skip
_PAST = re.compile(r"(half|quarter|a quarter|[\w ]+?)(?: minutes)? (past|to|after|before) ([\w ]+)")


def _clock(text: str) -> tuple[int, int] | None:
    text = text.removesuffix(" oclock")
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})", text):
        return int(match[1]), int(match[2])
    if match := _PAST.fullmatch(text):
        named = {"half": 30, "quarter": 15, "a quarter": 15}
        minutes = named.get(match[1], read_number(match[1].split()))
        hour = read_number(match[3].split())
        if minutes is None or hour is None or hour > 24 or minutes > 59:
            return None
        if match[2] in ("past", "after"):
            return hour, minutes
        return (hour - 1) % 24, 60 - minutes
    words = text.split()
    for cut in range(len(words), 0, -1):
        hour = read_number(words[:cut])
        minute = read_number([w for w in words[cut:] if w != "oh"]) if words[cut:] else 0
        if hour is not None and minute is not None and hour <= 24 and minute < 60:
            return hour, minute
    return None


def say_time(moment: time) -> str:
    """`five thirty in the afternoon`, `noon`."""
    if moment.minute == 0 and moment.hour in (0, 12):
        return "noon" if moment.hour else "midnight"
    part = "morning" if moment.hour < 12 else "afternoon" if moment.hour < 18 else "evening"
    hour = in_words((moment.hour - 1) % 12 + 1)
    minute = in_words(moment.minute) if moment.minute else ""
    if 0 < moment.minute < 10:
        minute = f"oh {minute}"
    return f"{hour} {minute or 'o clock'} in the {part}"
