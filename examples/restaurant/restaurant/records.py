"""Reads the restaurant's records: tables, customers, feedback, opening hours; stores feedback.

Blocking; the API calls it in threads. Answers are the shapes of `model`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from .database import Database
from .errors import NotFound
from .listing import Listing
from .model import (
    Customer,
    CustomerPage,
    Day,
    Feedback,
    FeedbackPage,
    NewFeedback,
    OpeningHours,
    Table,
    TableList,
)
from .schema import (
    BookingRow,
    CustomerRow,
    FeedbackRow,
    OpeningRow,
    SpecialDayRow,
    TableRow,
)
from .spoken import WEEKDAYS, say_hours

CUSTOMERS = Listing(
    {
        name: getattr(CustomerRow, name)
        for name in (
            "id",
            "name",
            "email",
            "phone",
            "created_at",
            "last_booking_at",
            "booking_count",
            "total_spent_cents",
        )
    },
    default_sort="-created_at",
)
FEEDBACK = Listing(
    {name: getattr(FeedbackRow, name) for name in ("id", "rating", "comment", "created_at")},
    default_sort="-created_at",
)


class Records:
    """The restaurant's lists."""

    def __init__(self, database: Database, now: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._now = now

    def tables(self) -> TableList:
        with self._database.reading() as session:
            rows = session.scalars(select(TableRow).order_by(TableRow.seats, TableRow.id))
            return TableList(
                tables=[
                    Table.model_validate({"name": r.name, "area": r.area, "seats": r.seats})
                    for r in rows
                ]
            )

    def customers(self, limit: int, skip: int, sort: str, query: str) -> CustomerPage:
        """Some customers. Raises `Invalid`."""
        with self._database.reading() as session:
            found, total = _page(session, select(CustomerRow), CUSTOMERS, limit, skip, sort, query)
            items = [_customer(row) for row in found]
        return CustomerPage(skip=skip, limit=limit, total=total, items=items)

    def feedback(self, limit: int, skip: int, sort: str, query: str) -> FeedbackPage:
        """Some of what guests said. Raises `Invalid`."""
        with self._database.reading() as session:
            found, total = _page(session, select(FeedbackRow), FEEDBACK, limit, skip, sort, query)
            items = [_feedback(row) for row in found]
        return FeedbackPage(skip=skip, limit=limit, total=total, items=items)

    def give_feedback(self, new: NewFeedback) -> Feedback:
        """Write down what a guest says. Raises `NotFound` for an unknown booking."""
        with self._database.writing() as session:
            booking = None
            if new.booking_code is not None:
                booking = session.get(BookingRow, new.booking_code)
                if booking is None:
                    raise NotFound("There is no booking with that code.")
            row = FeedbackRow(
                rating=new.rating,
                comment=new.comment,
                created_at=self._now(),
                booking_code=booking.code if booking else None,
                customer_id=booking.customer_id if booking else None,
            )
            session.add(row)
            session.flush()
            return _feedback(row)

    def opening_hours(self, first: dt.date, days: int) -> OpeningHours:
        """So many days from the first on."""
        with self._database.reading() as session:
            found = [day_of(session, first + dt.timedelta(days=n)) for n in range(days)]
        return OpeningHours(days=found, summary=say_hours(found))


def day_of(session: Session, date: dt.date) -> Day:
    """When the restaurant is open on a date."""
    special = session.get(SpecialDayRow, date)
    usual = session.get(OpeningRow, date.weekday())
    opens, closes, note = None, None, ""
    if special is not None:
        opens, closes, note = special.opens, special.closes, special.note
    elif usual is not None:
        opens, closes = usual.opens, usual.closes
    return Day(
        date=date.isoformat(),
        weekday=WEEKDAYS[date.weekday()],
        open=opens is not None and closes is not None,
        opens=f"{opens:%H:%M}" if opens else None,
        closes=f"{closes:%H:%M}" if closes else None,
        note=note,
    )


def _page(
    session: Session,
    rows: Select[Any],
    listing: Listing,
    limit: int,
    skip: int,
    sort: str,
    query: str,
) -> tuple[list[Any], int]:
    order, where = listing.order(sort), listing.where(query)
    chosen = rows.where(*where)
    total = session.scalar(select(func.count()).select_from(chosen.order_by(None).subquery()))
    found = session.scalars(chosen.order_by(*order).limit(limit).offset(skip))
    return list(found), total or 0


def _customer(row: CustomerRow) -> Customer:
    return Customer(
        id=row.id,
        name=row.name,
        email=row.email,
        phone=row.phone,
        created_at=minutes(row.created_at),
        last_booking_at=minutes(row.last_booking_at) if row.last_booking_at else None,
        booking_count=row.booking_count,
        total_spent_cents=row.total_spent_cents,
    )


def _feedback(row: FeedbackRow) -> Feedback:
    return Feedback(
        id=row.id,
        rating=row.rating,
        comment=row.comment,
        created_at=minutes(row.created_at),
        customer=row.customer.name if row.customer else None,
    )


def minutes(moment: dt.datetime) -> str:
    """`2026-11-27T19:30`."""
    return moment.isoformat(timespec="minutes")
