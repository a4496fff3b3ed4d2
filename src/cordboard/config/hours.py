"""Business hours, for alarms and for destinations of transfers."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from cordboard.config.patterns import TIME_OF_DAY
from cordboard.config.section import Section

Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
TimeOfDay = Annotated[str, Field(pattern=TIME_OF_DAY)]
"""A time of the day, such as 17:30."""


class BusinessHours(Section):
    """Days and times of a week."""

    days: tuple[Day, ...] = Field(
        ("mon", "tue", "wed", "thu", "fri"), min_length=1, description="Days of the week."
    )
    from_: TimeOfDay = Field("09:00", alias="from", description="Beginning.")
    to: TimeOfDay = Field("17:00", description="End, on the same day; after `from`.")

    @model_validator(mode="after")
    def _in_order(self) -> BusinessHours:
        if self.to <= self.from_:
            raise ValueError("to: expected a time after `from`")
        return self

    def cover(self, when: datetime.datetime) -> bool:
        """True if this moment, in its own time zone, is within the hours; `to` is outside."""
        day = get_args(Day)[when.weekday()]
        return day in self.days and self.from_ <= f"{when:%H:%M}" < self.to


class ZonedHours(BusinessHours):
    """Days and times of a week, in a time zone."""

    zone: str = Field(
        "",
        description="Time zone, such as Europe/Oslo. Left out: that of the engine's machine, in a "
        "container often UTC.",
    )

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        return zone and known_zone(zone)

    def local(self, when: datetime.datetime) -> datetime.datetime:
        """Return a moment, given in the zone of the machine, in that of the hours."""
        return when.astimezone(ZoneInfo(self.zone)) if self.zone else when

    def cover(self, when: datetime.datetime) -> bool:
        """True if this moment is within the hours; `to` is outside."""
        return super().cover(self.local(when))


def known_zone(zone: str) -> str:
    """Return the name of a time zone that this machine knows. Raises `ValueError`."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no {zone[:64]!r}; expected Europe/Oslo, say") from None
    return zone
