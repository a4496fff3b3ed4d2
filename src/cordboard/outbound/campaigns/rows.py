"""Reads a list of people to be called: CSV, one line for each, however long the file is.

    number,zone,first_name
    +4722000000,,Kari
    +12125550100,America/New_York,Joe

`number` is needed. `zone` is needed where a country has several time zones. The other columns are
variables that the context declares. A line is one record: a quoted value cannot have a line break,
so that one broken line never spoils the next.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from cordboard.errors import CampaignRefused
from cordboard.outbound.campaigns.hours import is_zone, zone_of

MOST_LINE = 16_384
"""Bytes of a line."""
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
    """Yield each line's row, or what is wrong with it; the first line names the columns.

    `variables`: the context's. `dialled` returns a number in E.164, and why it is never called.
    `zone`: for numbers of countries with several, where the line names none. Raises
    `CampaignRefused` if the first line cannot be used.
    """
    reader, number = _Lines(variables, dialled, zone), 0
    for number, line in enumerate(lines, 1):
        if number == 1:
            reader.read_head(line)
        elif line.strip():
            yield reader.read(number, line)
    if not number:
        raise CampaignRefused("the list is empty")


class _Lines:
    """The columns, and what is known of the lines so far."""

    def __init__(
        self,
        variables: Collection[str],
        dialled: Callable[[str], tuple[str, str]],
        zone: str,
    ) -> None:
        self._variables = variables
        self._dialled = dialled
        self._zone = zone
        self._columns: list[str] = []
        self._zones: dict[str, bool] = {}

    def read_head(self, line: bytes) -> None:
        columns = _values(line.removeprefix(b"\xef\xbb\xbf"))
        if isinstance(columns, str):
            raise CampaignRefused(f"line 1: {columns}")
        columns = [column.strip() for column in columns]
        known = {"number", "zone", *self._variables}
        strange = [column for column in columns if column not in known]
        if "number" not in columns:
            raise CampaignRefused("line 1: expected the names of the columns, `number` among them")
        if strange or len(set(columns)) < len(columns):
            what = f"{strange[0][:64]!r} is unknown" if strange else "a column comes twice"
            names = ", ".join(sorted(known))
            raise CampaignRefused(f"line 1: {what}; the context has the columns {names}")
        self._columns = columns

    def read(self, line: int, content: bytes) -> Row | BrokenLine:
        values = _values(content)
        if isinstance(values, str):
            return BrokenLine(line, values)
        if len(values) != len(self._columns):
            wanted = len(self._columns)
            return BrokenLine(line, f"expected {wanted} values, found {len(values)}")
        found = dict(zip(self._columns, (value.strip() for value in values), strict=True))
        number, zone = found.pop("number"), found.pop("zone", "")
        number, refusal = self._dialled(number)
        if refusal:
            return BrokenLine(line, refusal)
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


def _values(line: bytes) -> list[str] | str:
    """Return the values of a line, or what is wrong with it."""
    if len(line) > MOST_LINE:
        return f"expected at most {MOST_LINE} bytes"
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} is not UTF-8"
    if "\0" in text:
        return "a NUL character"
    if '"' not in text and "\r" not in text:
        return text.split(",")
    try:
        return next(csv.reader((text,), strict=True))
    except csv.Error as error:
        return f"not CSV: {error}"
    except StopIteration:
        return "an empty line"
