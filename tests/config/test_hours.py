"""Business hours in a time zone of their own: machines of containers are in UTC."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError

from cordboard.config.hours import ZonedHours

MONDAY_IN_TOKYO = datetime.datetime(2026, 11, 30, 8, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
"""A Sunday evening in UTC."""


@pytest.mark.parametrize(
    ("zone", "open_"), [("Asia/Tokyo", True), ("", False), ("America/New_York", False)]
)
def test_hours_count_in_their_zone(zone: str, open_: bool) -> None:
    hours = ZonedHours.model_validate({"days": ["mon"], "from": "08:00", "zone": zone})
    assert hours.cover(MONDAY_IN_TOKYO.astimezone(datetime.UTC)) is open_


def test_the_clock_may_be_changed_within_the_hours() -> None:
    hours = ZonedHours.model_validate({"days": ["sun"], "from": "02:00", "zone": "Europe/Oslo"})
    before = datetime.datetime(2026, 3, 29, 0, 59, tzinfo=datetime.UTC)  # 01:59, then 03:00
    assert not hours.cover(before)
    assert hours.cover(before + datetime.timedelta(minutes=1))


def test_a_zone_that_nobody_knows_is_a_mistake() -> None:
    for zone in ("Europe/Olso", "../etc/passwd", "+02:00"):
        with pytest.raises(ValidationError, match="expected Europe/Oslo, say"):
            ZonedHours.model_validate({"zone": zone})
