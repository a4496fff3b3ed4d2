"""Dates, times and durations in spoken form: `November 21st, 2026 at 3:20 PM UTC`.

Input: ISO 8601 dates and times (2026-11-21, 15:20, 2026-11-21T15:20:00Z), ISO 8601 durations
(PT2H5M) and seconds. A time is spoken as it is written: an offset is not applied, `Z` is "UTC".
Functions return None for other input, and never raise.
"""

from __future__ import annotations

import calendar
import re

from cordboard.tools.speech.numbers import as_number, ordinal

_MONTHS = (
    "January February March April May June July August September October November December"
).split()
_DATE_TIME = re.compile(
    r"(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d))?"
    r"(?P<between>[T ])?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::\d\d(?:[.,]\d{1,9})?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_DURATION = re.compile(
    r"P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9})(?:\.\d+)?S)?)?",
    re.ASCII,
)
_PARTS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_LONGEST = 10**11
"""Seconds; longer spans (3,000 years) are not read as durations."""


def time_words(value: object) -> str | None:
    """Return the time of day in a date-time or time: `3:20 PM`, `8 AM`, `noon`, `midnight`."""
    match = _match(value)
    if match is None or match["hour"] is None:
        return None
    words = clock(int(match["hour"]), int(match["minute"]))
    return f"{words} UTC" if words and match["zone"] == "Z" else words


def date_words(value: object) -> str | None:
    """Return the date in a date or a date and time: `November 21st, 2026`."""
    match = _match(value)
    if match is None or match["year"] is None:
        return None
    return calendar_day(int(match["year"]), int(match["month"]), int(match["day"]))


def date_time_words(value: object) -> str | None:
    """Return date and time, or the one that exists: `November 21st, 2026 at 3:20 PM`."""
    day, time = date_words(value), time_words(value)
    return f"{day} at {time}" if day and time else day or time


def clock(hour: int, minute: int) -> str | None:
    """Return an unambiguous form of a time of the 24-hour clock."""
    if not (0 <= hour < 24 and 0 <= minute < 60):
        return None
    if minute == 0 and hour % 12 == 0:
        return "noon" if hour else "midnight"
    words = str(hour % 12 or 12) + (f":{minute:02}" if minute else "")
    return f"{words} {'AM' if hour < 12 else 'PM'}"


def calendar_day(year: int, month: int, day: int) -> str | None:
    """Return a date in words; None for a day that does not exist."""
    if not (1 <= year <= 9999 and 1 <= month <= 12):
        return None
    if not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year}"


def duration_words(value: object) -> str | None:
    """Return seconds, or an ISO 8601 duration, in two parts: `2 hours and 5 minutes`."""
    seconds = _seconds(value)
    if seconds is None:
        return None
    left = round(seconds)
    if left >= 86_400:
        left = round(left / 3_600) * 3_600
    elif left >= 3_600:
        left = round(left / 60) * 60
    pieces: list[str] = []
    for name, size in _PARTS:
        count, left = divmod(left, size)
        if count:
            pieces.append(f"{count:,} {name}{'' if count == 1 else 's'}")
    return " and ".join(pieces) or "0 seconds"


def _match(value: object) -> re.Match[str] | None:
    if not isinstance(value, str) or len(value) > 60:
        return None
    match = _DATE_TIME.fullmatch(value.strip())
    if match is None or bool(match["between"]) != bool(match["year"] and match["hour"]):
        return None
    return match


def _seconds(value: object) -> float | None:
    if isinstance(value, str) and value[:1] == "P" and len(value) < 60:
        match = _DURATION.fullmatch(value)
        if match is None or not any(match.groups()):
            return None
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return (weeks * 7 + days) * 86_400 + hours * 3_600 + minutes * 60 + seconds
    found = as_number(value)
    return found if found is not None and 0 <= found < _LONGEST else None
