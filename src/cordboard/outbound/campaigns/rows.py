"""Reads a list of people to be called: CSV as spreadsheets write it, however long the file is.

    number,zone,first_name
    +4722000000,,Kari
    +12125550100,America/New_York,"Joe ""Jo"" Smith"

The first line names the columns, and shows what separates values: commas, semicolons or tabs. The
text is UTF-8, with a byte order mark or without. `number` is needed. `zone` is needed where a
country has several time zones. The other columns are variables that the context declares.

A quoted value may have line breaks, unless one of the lines within it reads as a person: then a
quote is missing. So a broken line never spoils the next.
"""

from __future__ import annotations

import csv
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from cordboard.errors import CampaignRefused
from cordboard.outbound.campaigns.hours import is_zone, zone_of

MOST_LINE = 16_384
"""Bytes of a record."""
MOST_LINES = 20
"""Lines of a record."""
SEPARATORS = (",", ";", "\t")
MOST_VALUE = 1_000
"""Characters of a variable."""


@dataclass(frozen=True, slots=True)
class Row:
    """One person to be called."""

    line: int
    number: str
    zone: str
    variables: dict[str, str]


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A line that is left out."""

    line: int
    problem: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.problem}"


def read_rows(
    lines: Iterable[bytes],
    variables: Collection[str],
    dialled: Callable[[str], tuple[str, str]],
    zone: str = "",
) -> Iterator[Row | BrokenLine]:
    """Yield the row of each person, or a `BrokenLine`; the first line names the columns.

    `variables`: the context's. `dialled` returns a number in E.164, and why it is never called.
    `zone`: for numbers of countries with several, where the line names none. Raises
    `CampaignRefused` if the first line cannot be used.
    """
    left, ahead, number = iter(lines), deque[bytes](), 1
    head = next(left, None)
    if head is None:
        raise CampaignRefused("the list is empty", "csv")
    reader = _Reader(head, variables, dialled, zone)
    while (line := ahead.popleft() if ahead else next(left, None)) is not None:
        number += 1
        if not line.strip():
            continue
        found = reader.read(number, line)
        if isinstance(found, BrokenLine) and line.count(b'"') % 2:
            more = _rest_of_record(line, ahead, left)
            within = list(islice(ahead, more))
            record = b"".join((line, *within))
            if within and reader.is_record(record, within):
                found = reader.read(number, record)
                ahead = deque(islice(ahead, more, None))
                number += more
        yield found


def _rest_of_record(line: bytes, ahead: deque[bytes], left: Iterator[bytes]) -> int:
    """Return how many lines after this one close its quote; 0 if none of the next ones does. The
    lines that are read for this are put into `ahead`."""
    quotes, length = line.count(b'"'), len(line)
    for more in range(1, MOST_LINES):
        if len(ahead) < more:
            ahead.extend(islice(left, 1))
        if len(ahead) < more:
            return 0
        quotes += ahead[more - 1].count(b'"')
        length += len(ahead[more - 1])
        if length > MOST_LINE:
            return 0
        if quotes % 2 == 0:
            return more
    return 0


class _Reader:
    """Reads the records of one list."""

    def __init__(
        self,
        head: bytes,
        variables: Collection[str],
        dialled: Callable[[str], tuple[str, str]],
        zone: str,
    ) -> None:
        """Raises `CampaignRefused` if the head cannot be used."""
        self._dialled = dialled
        self._zone = zone
        self._separator = ","
        self._columns: list[str] = []
        self._zones: dict[str, bool] = {}
        self._read_head(head.removeprefix(BOM_UTF8), {"number", "zone", *variables})

    def _read_head(self, head: bytes, known: Collection[str]) -> None:
        if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in head:
            raise CampaignRefused(
                "line 1: the list is not UTF-8 but UTF-16; save it as CSV UTF-8", "csv"
            )
        if b"\r" in head.rstrip(b"\r\n"):
            raise CampaignRefused("line 1: the lines end with CR alone; expected LF or CRLF", "csv")
        self._separator = max(SEPARATORS, key=lambda each: head.count(each.encode()))
        columns = self._values(head)
        if isinstance(columns, str):
            raise CampaignRefused(f"line 1, {columns}", "csv")
        columns = [column.strip() for column in columns]
        if "number" not in columns:
            raise CampaignRefused(
                "line 1: expected the names of the columns, `number` among them, between commas, "
                "semicolons or tabs",
                "csv",
            )
        for place, column in enumerate(columns, 1):
            if column not in known or column in columns[: place - 1]:
                what = "comes twice" if column in known else "is unknown"
                raise CampaignRefused(
                    f"line 1, column {place}: {column[:64]!r} {what}; the context has the columns "
                    + ", ".join(sorted(known)),
                    "csv",
                )
        self._columns = columns

    def is_record(self, record: bytes, within: list[bytes]) -> bool:
        """True if several lines are one record: it has a value for each column, and none of the
        lines `within` it is a person by itself."""
        values = self._values(record)
        if isinstance(values, str) or len(values) != len(self._columns):
            return False
        return not any(isinstance(self.read(0, line), Row) for line in within)

    def read(self, line: int, record: bytes) -> Row | BrokenLine:
        """Return the person of a record that begins in this line."""
        values = self._values(record)
        if isinstance(values, str):
            return BrokenLine(line, values)
        if len(values) != len(self._columns):
            columns = f"{len(self._columns)} values ({', '.join(self._columns)})"
            return BrokenLine(line, f"expected {columns}, found {len(values)}")
        found = dict(zip(self._columns, (value.strip() for value in values), strict=True))
        number, zone = found.pop("number"), found.pop("zone", "")
        number, refusal = self._dialled(number)
        if refusal:
            return BrokenLine(line, f"number: {refusal}")
        zone = zone or zone_of(number) or self._zone
        if not zone:
            return BrokenLine(line, "zone: its country has several; expected America/New_York, say")
        if not self._is_zone(zone):
            return BrokenLine(line, f"zone: there is no {zone[:64]!r}; expected Europe/Oslo, say")
        long = [name for name, value in found.items() if len(value) > MOST_VALUE]
        if long:
            return BrokenLine(line, f"{long[0]}: expected at most {MOST_VALUE} characters")
        return Row(line, number, zone, {name: value for name, value in found.items() if value})

    def _is_zone(self, zone: str) -> bool:
        if zone not in self._zones:
            if len(self._zones) > 1_000:
                return is_zone(zone)  # a file of made-up zones fills no memory
            self._zones[zone] = is_zone(zone)
        return self._zones[zone]

    def _values(self, record: bytes) -> list[str] | str:
        """Return the values of a record, or in which column something is wrong."""
        if len(record) > MOST_LINE:
            return f"expected at most {MOST_LINE} bytes"
        try:
            text = record.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            return f"{self._column(record, error.start)}: not UTF-8; save the list as CSV UTF-8"
        if "\0" in text:
            return f"{self._column(record, record.index(0))}: a NUL character"
        if '"' not in text and "\r" not in text and "\n" not in text:
            return text.split(self._separator)
        try:
            return next(csv.reader((text,), delimiter=self._separator, strict=True))
        except csv.Error as error:
            if text.count('"') % 2:
                quote = record.rindex(b'"')
                return f"{self._column(record, quote)}: a quote is not closed"
            return f"not CSV: {error}"
        except StopIteration:
            return "an empty line"

    def _column(self, record: bytes, at: int) -> str:
        """Return the name of the column of a byte; its number in the head."""
        separator, outside = self._separator.encode(), record[:at].split(b'"')[::2]
        place = sum(part.count(separator) for part in outside)
        return self._columns[place] if place < len(self._columns) else f"column {place + 1}"
