"""The shapes on the wire: those of the REST API, and the same in the MCP tools' results.

Times are those of the restaurant's own clock, without a zone: `date` is `2026-11-27`, `time` is
`19:30`, `starts_at` is `2026-11-27T19:30`. Money is in whole cents.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_PEOPLE = 12
CODE = r"^[0-9]{6}$"


def _tidy(text: str) -> str:
    """Collapse white space; remove invisible characters."""
    tidied = re.sub(r"\s+", " ", text).strip()
    if not tidied or not tidied.isprintable():
        raise ValueError("expected visible characters")
    return tidied


Name = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_tidy)]
Phone = Annotated[str, Field(pattern=r"^\+?[0-9][0-9 ()/-]{3,24}$")]
Code = Annotated[str, Field(pattern=CODE, description="The six digits of the booking code")]
People = Annotated[int, Field(ge=1, le=MAX_PEOPLE, description="How many people come")]


class Asked(BaseModel):
    """What a client sends: nothing that is not known."""

    model_config = ConfigDict(extra="forbid")


class NewBooking(Asked):
    people: People
    date: dt.date
    time: dt.time
    name: Name
    phone: Phone | None = None


class NewFeedback(Asked):
    rating: int = Field(ge=1, le=5)
    comment: str = Field("", max_length=500)
    booking_code: Code | None = None


class Table(BaseModel):
    """A table of the restaurant."""

    name: str
    area: Literal["window", "main room", "garden"]
    seats: int


class TableList(BaseModel):
    """All tables, the smallest first."""

    tables: list[Table]


class Customer(BaseModel):
    """Somebody who has booked before."""

    id: int
    name: str
    email: str | None
    phone: str | None
    created_at: str
    last_booking_at: str | None
    booking_count: int
    total_spent_cents: int


class Feedback(BaseModel):
    """What a guest said afterwards."""

    id: int
    rating: int = Field(description="1 (bad) to 5 (very good)")
    comment: str
    created_at: str
    customer: str | None = Field(description="The guest's name, where it is known")


class Page(BaseModel):
    """Where a page stands in the whole list."""

    skip: int
    limit: int
    total: int


class CustomerPage(Page):
    """Some of the customers."""

    items: list[Customer]


class FeedbackPage(Page):
    """Some of the feedback."""

    items: list[Feedback]


class Day(BaseModel):
    """When the restaurant is open on one day."""

    date: str
    weekday: str
    open: bool
    opens: str | None = None
    closes: str | None = None
    note: str = ""


class OpeningHours(BaseModel):
    """Some days, and the same as one says it."""

    days: list[Day]
    summary: str


class Availability(BaseModel):
    """Whether a table is free, and what else could be had that day."""

    free: bool
    people: int
    starts_at: str
    table: str | None = Field(None, description="The table that would be given")
    alternatives: list[str] = Field(description="Other times of that day, the nearest first")
    summary: str


class Booking(BaseModel):
    """A booked table."""

    code: str = Field(description="Six digits, by which the guest finds the booking again")
    status: Literal["booked", "cancelled"]
    name: str
    people: int
    table: str
    starts_at: str
    ends_at: str
    when: str = Field(description="Day and time as one says them")
