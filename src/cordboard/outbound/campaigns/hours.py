"""The hours in which a person may be called, in the time zone of their number. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SPAN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
ZONES = {
    "+20": "Africa/Cairo", "+27": "Africa/Johannesburg", "+30": "Europe/Athens",
    "+31": "Europe/Amsterdam", "+32": "Europe/Brussels", "+33": "Europe/Paris",
    "+353": "Europe/Dublin", "+354": "Atlantic/Reykjavik", "+356": "Europe/Malta",
    "+357": "Asia/Nicosia", "+358": "Europe/Helsinki", "+359": "Europe/Sofia",
    "+36": "Europe/Budapest", "+370": "Europe/Vilnius", "+371": "Europe/Riga",
    "+372": "Europe/Tallinn", "+376": "Europe/Andorra", "+377": "Europe/Monaco",
    "+381": "Europe/Belgrade", "+385": "Europe/Zagreb", "+386": "Europe/Ljubljana",
    "+39": "Europe/Rome", "+40": "Europe/Bucharest", "+41": "Europe/Zurich",
    "+420": "Europe/Prague", "+421": "Europe/Bratislava", "+423": "Europe/Vaduz",
    "+43": "Europe/Vienna", "+44": "Europe/London", "+45": "Europe/Copenhagen",
    "+46": "Europe/Stockholm", "+47": "Europe/Oslo", "+48": "Europe/Warsaw",
    "+49": "Europe/Berlin", "+352": "Europe/Luxembourg", "+60": "Asia/Kuala_Lumpur",
    "+63": "Asia/Manila", "+65": "Asia/Singapore", "+66": "Asia/Bangkok", "+81": "Asia/Tokyo",
    "+82": "Asia/Seoul", "+84": "Asia/Ho_Chi_Minh", "+852": "Asia/Hong_Kong",
    "+86": "Asia/Shanghai", "+886": "Asia/Taipei", "+90": "Europe/Istanbul",
    "+91": "Asia/Kolkata", "+92": "Asia/Karachi", "+94": "Asia/Colombo", "+966": "Asia/Riyadh",
    "+971": "Asia/Dubai", "+972": "Asia/Jerusalem",
}  # fmt: skip
"""Time zones of countries that have only one where most people live (IANA time zone database).
Numbers of other countries need their zone beside them."""


@dataclass(frozen=True, slots=True)
class CallingHours:
    """Hours and days in which a person may be called; in their own time."""

    begin: int
    """Minutes after midnight."""
    end: int
    days: frozenset[int]
    """0 is Monday."""

    @classmethod
    def read(cls, hours: str, days: str) -> CallingHours:
        """Read `09:00-20:00` and `mon-fri,sun`. Raises `ValueError`."""
        found = _SPAN.fullmatch(hours.strip())
        if found is None:
            raise ValueError(f"hours: expected such as 09:00-20:00, not {hours[:40]!r}")
        h1, m1, h2, m2 = map(int, found.groups())
        begin, end = 60 * h1 + m1, 60 * h2 + m2
        if begin >= end:
            raise ValueError("hours: the end must be after the beginning, on the same day")
        return cls(begin, end, frozenset(_days(days)))

    def allow(self, now: datetime) -> bool:
        """True if a person may be called at this local time."""
        return now.weekday() in self.days and self.begin <= 60 * now.hour + now.minute < self.end


def _days(text: str) -> Iterable[int]:
    for part in text.lower().split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"days: expected such as mon-fri or sat,sun, not {text[:40]!r}")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        if begin > end:
            raise ValueError(f"days: {part.strip()!r} ends before it begins")
        yield from range(begin, end + 1)


def zone_of(number: str) -> str | None:
    """Return the time zone of a number in E.164; None where its country has several."""
    for length in (4, 3):
        zone = ZONES.get(number[:length])
        if zone is not None:
            return zone
    return None


def is_zone(name: str) -> bool:
    """True for a time zone that this machine knows, such as `Europe/Oslo`."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def open_zones(zones: Iterable[str], hours: CallingHours, now: float) -> list[str]:
    """Return the zones in which people may be called at this Unix time; none that this machine does
    not know: the list may be from another one."""
    moment = datetime.fromtimestamp(now, UTC)
    return [
        zone for zone in zones if is_zone(zone) and hours.allow(moment.astimezone(ZoneInfo(zone)))
    ]


def closed_text(zones: list[str], hours: str, days: str, now: float) -> str:
    """Return the words for people of these zones, of whom none may be called at this Unix time."""
    if unknown := [zone for zone in zones if not is_zone(zone)]:
        return f"this machine does not know the time zone {unknown[0]}"
    moment = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo(zones[0]))
    others = f" and {len(zones) - 1} other zones" if len(zones) > 1 else ""
    there = f"{zones[0]}, {DAYS[moment.weekday()]} {moment:%H:%M}"
    return f"outside of its hours ({hours}, {days}) in {there}{others}"
