"""The tables of the database, for SQLite and PostgreSQL alike.

`seating` keeps two guests from one table: a booking holds one row for each quarter of an
hour that it lasts, and (table, quarter) is its primary key. So the database itself refuses the
second of two bookings, at any isolation level and with any number of backends.

Times are naive: those of the restaurant's own clock.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class TableRow(Base):
    __tablename__ = "restaurant_table"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(40), unique=True)
    area: Mapped[str] = mapped_column(String(20))
    seats: Mapped[int]


class CustomerRow(Base):
    __tablename__ = "customer"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), index=True)
    email: Mapped[str | None] = mapped_column(String(120))
    phone: Mapped[str | None] = mapped_column(String(30))
    created_at: Mapped[dt.datetime]
    last_booking_at: Mapped[dt.datetime | None]
    booking_count: Mapped[int] = mapped_column(default=0)
    total_spent_cents: Mapped[int] = mapped_column(default=0)


class OpeningRow(Base):
    """The hours of a weekday (0 is Monday); a weekday without a row is closed."""

    __tablename__ = "opening"

    weekday: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    opens: Mapped[dt.time]
    closes: Mapped[dt.time]


class SpecialDayRow(Base):
    """A date on which other hours count, or none."""

    __tablename__ = "special_day"

    date: Mapped[dt.date] = mapped_column(primary_key=True)
    opens: Mapped[dt.time | None]
    closes: Mapped[dt.time | None]
    note: Mapped[str] = mapped_column(String(60), default="")


class BookingRow(Base):
    __tablename__ = "booking"

    code: Mapped[str] = mapped_column(String(6), primary_key=True)
    table_id: Mapped[int] = mapped_column(ForeignKey("restaurant_table.id"))
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id"))
    name: Mapped[str] = mapped_column(String(80))
    phone: Mapped[str | None] = mapped_column(String(30))
    people: Mapped[int]
    starts_at: Mapped[dt.datetime] = mapped_column(index=True)
    ends_at: Mapped[dt.datetime]
    status: Mapped[str] = mapped_column(String(10), default="booked")
    created_at: Mapped[dt.datetime]

    table: Mapped[TableRow] = relationship(lazy="joined")


class SeatingRow(Base):
    """A table that is taken for the quarter of an hour from `at`."""

    __tablename__ = "seating"

    table_id: Mapped[int] = mapped_column(ForeignKey("restaurant_table.id"), primary_key=True)
    at: Mapped[dt.datetime] = mapped_column(primary_key=True)
    booking_code: Mapped[str] = mapped_column(
        ForeignKey("booking.code", ondelete="CASCADE"), index=True
    )


class FeedbackRow(Base):
    __tablename__ = "feedback"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer_id: Mapped[int | None] = mapped_column(ForeignKey("customer.id"))
    booking_code: Mapped[str | None] = mapped_column(ForeignKey("booking.code"))
    rating: Mapped[int]
    comment: Mapped[str] = mapped_column(Text)
    created_at: Mapped[dt.datetime]

    customer: Mapped[CustomerRow | None] = relationship(lazy="joined")
