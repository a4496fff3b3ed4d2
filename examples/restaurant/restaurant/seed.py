"""The initial contents of the database: always the same, so that tests can name them."""

from __future__ import annotations

import datetime as dt

from sqlalchemy.orm import Session

from .schema import CustomerRow, FeedbackRow, OpeningRow, SpecialDayRow, TableRow

_TABLES = (
    ("Window 1", "window", 2),
    ("Window 2", "window", 2),
    ("Main 1", "main room", 4),
    ("Main 2", "main room", 4),
    ("Main 3", "main room", 6),
    ("Garden 1", "garden", 8),
)
_EVENING, _NIGHT = dt.time(17), dt.time(23)
_HOURS = {
    1: (_EVENING, _NIGHT),
    2: (_EVENING, _NIGHT),
    3: (_EVENING, _NIGHT),
    4: (_EVENING, _NIGHT),
    5: (dt.time(12), _NIGHT),
    6: (dt.time(12), dt.time(21)),
}
"""Closed on Mondays."""
_FIRST_NAMES = ("Ada", "Ben", "Clara", "David", "Emma", "Frank", "Grace", "Henry", "Iris", "Jack")
_LAST_NAMES = ("Adler", "Brown", "Clark", "Davies")
_COMMENTS = (
    (5, "The fish soup was wonderful."),
    (4, "Very good, but we waited for the bill."),
    (3, "The table by the door is draughty."),
    (5, "We shall come again."),
    (1, "My reservation could not be found."),
)
_FIRST_DAY = dt.datetime(2025, 1, 7, 18, 0)  # noqa: DTZ001 - the restaurant's own clock
_CHRISTMAS = (24, 25)


def fill(session: Session, today: dt.date) -> None:
    """Insert everything; the caller commits. `today` decides only the year of Christmas."""
    for name, area, seats in _TABLES:
        session.add(TableRow(name=name, area=area, seats=seats))
    for weekday, (opens, closes) in _HOURS.items():
        session.add(OpeningRow(weekday=weekday, opens=opens, closes=closes))
    for year in (today.year, today.year + 1):
        for day in _CHRISTMAS:
            session.add(SpecialDayRow(date=dt.date(year, 12, day), note="Christmas"))
    customers = [_customer(number) for number in range(40)]
    session.add_all(customers)
    session.flush()
    for number, (rating, comment) in enumerate(_COMMENTS * 3):
        said_at = _FIRST_DAY + dt.timedelta(days=9 * number)
        customer = customers[7 * number % len(customers)]
        session.add(
            FeedbackRow(customer_id=customer.id, rating=rating, comment=comment, created_at=said_at)
        )


def _customer(number: int) -> CustomerRow:
    first, last = _FIRST_NAMES[number % 10], _LAST_NAMES[number // 10]
    bookings = number * 7 % 13
    came = _FIRST_DAY + dt.timedelta(days=3 * number)
    return CustomerRow(
        name=f"{first} {last}",
        email=f"{first}.{last}@example.com".lower(),
        phone=f"+47 555 0{100 + number}",
        created_at=came,
        last_booking_at=came + dt.timedelta(days=11 * bookings) if bookings else None,
        booking_count=bookings,
        total_spent_cents=bookings * 4_850 + number * 125,
    )
