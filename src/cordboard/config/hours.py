"""Business hours, for alarms and for destinations of transfers."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, model_validator

from cordboard.config.patterns import TIME_OF_DAY
from cordboard.config.section import Section

Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
TimeOfDay = Annotated[str, Field(pattern=TIME_OF_DAY)]


class BusinessHours(Section):
    """Days and times of a week, in the zone of the engine's machine."""

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
        """True if this moment is within the hours; `to` is outside."""
        day = get_args(Day)[when.weekday()]
        return day in self.days and self.from_ <= f"{when:%H:%M}" < self.to
