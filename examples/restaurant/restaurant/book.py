"""The book of reservations: availability, booking, finding and cancelling by code.

A booking lasts two hours, begins on a quarter of an hour, and lies within the opening hours of its
day. Two callers cannot get the same table: the rows of `seating` are written in the transaction
that checked them, and their primary key refuses a second owner (see `schema`). The loser of such
a race gets another table, or a refusal.

Blocking; the API calls it in threads.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .database import Database
from .errors import ApiError, Closed, Invalid, NoTableFree, NotFound, Problem
from .model import Availability, Booking, NewBooking
from .records import day_of, minutes
from .schema import BookingRow, CustomerRow, SeatingRow, TableRow
from .spoken import either, say_day, say_moment, say_time

STAY = dt.timedelta(hours=2)
QUARTER = dt.timedelta(minutes=15)
FURTHEST = dt.timedelta(days=180)
MOST_ALTERNATIVES = 3
_TRIES = 10
"""Each lost race removes a table or a code from the next try."""

Taken = Mapping[int, Collection[dt.datetime]]
"""Table → the quarters of an hour in which it is taken."""


class Book:
    """The reservations of one restaurant."""

    def __init__(self, database: Database, now: Callable[[], dt.datetime]) -> None:
        self._database = database
        self._now = now

    def availability(self, people: int, date: dt.date, time: dt.time) -> Availability:
        """Check whether a table is free. Raises `Invalid` or `Closed`."""
        starts = self._moment(date, time)
        with self._database.reading() as session:
            opens, closes = _opening(session, starts)
            tables, taken = _tables(session, people), _taken(session, starts)
        table = first_free(tables, taken, starts)
        others = nearest_starts(tables, taken, starts, opens, closes, self._now())
        alternatives = [f"{other:%H:%M}" for other in others]
        if table is not None:
            summary = f"There is a table for {people} on {say_moment(starts)}."
        else:
            summary = _no_table(people, starts, others)
        return Availability(
            free=table is not None,
            people=people,
            starts_at=minutes(starts),
            table=table.name if table else None,
            alternatives=alternatives,
            summary=summary,
        )

    def book(self, new: NewBooking) -> Booking:
        """Book the smallest table that fits. Raises `Invalid`, `Closed` or `NoTableFree`."""
        starts = self._moment(new.date, new.time)
        for _ in range(_TRIES):
            try:
                with self._database.writing() as session:
                    return self._book(session, new, starts)
            except IntegrityError:
                continue  # another guest was quicker: look again
        raise NoTableFree("There are too many callers at once. Please try again.")

    def find(self, code: str) -> Booking:
        """A booking by its code. Raises `NotFound`."""
        with self._database.reading() as session:
            return _booking(_row(session, code))

    def cancel(self, code: str) -> Booking:
        """Free the table; idempotent. Raises `NotFound`."""
        with self._database.writing() as session:
            row = _row(session, code)
            row.status = "cancelled"
            session.execute(delete(SeatingRow).where(SeatingRow.booking_code == code))
            return _booking(row)

    def _moment(self, date: dt.date, time: dt.time) -> dt.datetime:
        starts = dt.datetime.combine(date, time)
        now = self._now()
        if time.minute % 15 or time.second or time.microsecond or time.tzinfo:
            raise _invalid("time", "Tables are booked for a quarter of an hour, such as 7:15 PM.")
        if starts <= now:
            raise _invalid("date", f"{say_moment(starts)} is over already.")
        if starts > now + FURTHEST:
            raise _invalid("date", f"{say_day(date)} is more than half a year from now.")
        return starts

    def _book(self, session: Session, new: NewBooking, starts: dt.datetime) -> Booking:
        opens, closes = _opening(session, starts)
        tables, taken = _tables(session, new.people), _taken(session, starts)
        table = first_free(tables, taken, starts)
        if table is None:
            others = nearest_starts(tables, taken, starts, opens, closes, self._now())
            raise NoTableFree(_no_table(new.people, starts, others))
        row = BookingRow(
            code=str(secrets.randbelow(900_000) + 100_000),
            table=table,
            customer_id=self._customer(session, new, starts).id,
            name=new.name,
            phone=new.phone,
            people=new.people,
            starts_at=starts,
            ends_at=starts + STAY,
            status="booked",
            created_at=self._now(),
        )
        session.add(row)
        session.flush()
        for quarter in quarters(starts):
            session.add(SeatingRow(table_id=table.id, at=quarter, booking_code=row.code))
        session.flush()
        return _booking(row)

    def _customer(self, session: Session, new: NewBooking, starts: dt.datetime) -> CustomerRow:
        """The guest who booked before, by telephone number or else by name; or a new one."""
        known = select(CustomerRow).order_by(CustomerRow.id).limit(1)
        if new.phone is not None:
            known = known.where(CustomerRow.phone == new.phone)
        else:
            known = known.where(func.lower(CustomerRow.name) == new.name.lower())
        row = session.scalar(known)
        if row is None:
            row = CustomerRow(name=new.name, phone=new.phone, created_at=self._now())
            row.booking_count = row.total_spent_cents = 0
            session.add(row)
        row.booking_count += 1
        row.last_booking_at = starts
        session.flush()
        return row


def quarters(starts: dt.datetime) -> Iterator[dt.datetime]:
    """The quarters of an hour of a booking."""
    for number in range(STAY // QUARTER):
        yield starts + number * QUARTER


def first_free(tables: Sequence[TableRow], taken: Taken, starts: dt.datetime) -> TableRow | None:
    """The first of the tables that is free for the whole stay."""
    wanted = set(quarters(starts))
    return next((table for table in tables if wanted.isdisjoint(taken.get(table.id, ()))), None)


def nearest_starts(
    tables: Sequence[TableRow],
    taken: Taken,
    starts: dt.datetime,
    opens: dt.datetime,
    closes: dt.datetime,
    now: dt.datetime,
) -> list[dt.datetime]:
    """Other times of the day at which one of the tables is free, the nearest first."""
    found = []
    moment = opens
    while moment + STAY <= closes:
        if moment != starts and moment > now and first_free(tables, taken, moment):
            found.append(moment)
        moment += QUARTER
    nearest = sorted(found, key=lambda other: (abs(other - starts), other))
    return nearest[:MOST_ALTERNATIVES]


def _opening(session: Session, starts: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    """Opening hours of a day. Raises `Closed` when the stay does not fit in."""
    date = starts.date()
    day = day_of(session, date)
    if day.opens is None or day.closes is None:
        note = f" because of {day.note}" if day.note else ""
        raise Closed(f"We are closed on {say_day(date)}{note}.")
    opens = dt.datetime.combine(date, dt.time.fromisoformat(day.opens))
    closes = dt.datetime.combine(date, dt.time.fromisoformat(day.closes))
    if starts < opens or starts + STAY > closes:
        last = closes - STAY
        raise Closed(
            f"On {say_day(date)} tables can be booked from {say_time(opens.time())}"
            f" to {say_time(last.time())}."
        )
    return opens, closes


def _tables(session: Session, people: int) -> list[TableRow]:
    """The tables that are large enough, the smallest first."""
    large = select(TableRow).where(TableRow.seats >= people)
    return list(session.scalars(large.order_by(TableRow.seats, TableRow.id)))


def _taken(session: Session, starts: dt.datetime) -> Taken:
    midnight = dt.datetime.combine(starts.date(), dt.time())
    rows = session.execute(
        select(SeatingRow.table_id, SeatingRow.at).where(
            SeatingRow.at >= midnight, SeatingRow.at < midnight + dt.timedelta(days=1)
        )
    )
    taken: dict[int, set[dt.datetime]] = defaultdict(set)
    for table_id, at in rows:
        taken[table_id].add(at)
    return taken


def _row(session: Session, code: str) -> BookingRow:
    row = session.get(BookingRow, code)
    if row is None:
        raise NotFound("There is no booking with that code.")
    return row


def _booking(row: BookingRow) -> Booking:
    return Booking.model_validate(
        {
            "code": row.code,
            "status": row.status,
            "name": row.name,
            "people": row.people,
            "table": row.table.name,
            "starts_at": minutes(row.starts_at),
            "ends_at": minutes(row.ends_at),
            "when": say_moment(row.starts_at),
        }
    )


def _no_table(people: int, starts: dt.datetime, others: Sequence[dt.datetime]) -> str:
    text = f"There is no table for {people} on {say_moment(starts)}."
    if others:
        text += f" There is one at {either([say_time(other.time()) for other in others])}."
    return text


def _invalid(field: str, sentence: str) -> ApiError:
    return Invalid(sentence, [Problem(field, sentence)])
