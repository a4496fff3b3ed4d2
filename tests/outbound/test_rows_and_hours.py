"""Lists of people: every broken line is named, and the others are taken; hours; the policy."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.sections.firewall import Firewall
from cordboard.errors import CampaignRefused
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.hours import ZONES, CallingHours, is_zone, open_zones, zone_of
from cordboard.outbound.campaigns.rows import BrokenLine, Row, read_rows

POLICY = Policy(Firewall.model_validate({"country": "NO", "countries": ["NO", "US", "GB"]}))


def rows(*lines: bytes, head: bytes = b"number,zone,name\n", zone: str = "") -> list[object]:
    given = iter((head, *lines))
    return list(read_rows(given, ("name",), POLICY.dialled, zone))


def test_each_line_is_a_row_or_says_what_is_wrong() -> None:
    found = rows(
        b"+4722000001,,Kari\r\n",
        b"call me,,Ola\n",
        b'+4722000003,,"open\n',
        b"+4722000004,,Per\n",
        b"\n",
        b"+4722000005,Per\n",
        b"+12125550100,,Joe\n",
        b"+12125550100,America/New_York,Joe\n",
        b"+4722000006,Europe/Olso,Eva\n",
        b"+4722\xff00007,,Eva\n",
        b"+4722000008,,E\0va\n",
        b"+4722000009,," + b"x" * 20_000 + b"\n",
        b"+4682000010,,Eva\n",
        b"+4782900010,,Eva\n",
        "+4722000011,,Bjørn\n".encode(),
    )
    assert found[0] == Row(2, "+4722000001", "Europe/Oslo", {"name": "Kari"})
    assert [(each.line, each.number) for each in found if isinstance(each, Row)] == [
        (2, "+4722000001"),
        (5, "+4722000004"),
        (9, "+12125550100"),
        (16, "+4722000011"),
    ]
    broken = {each.line: str(each) for each in found if isinstance(each, BrokenLine)}
    assert set(broken) == {3, 4, 7, 8, 10, 11, 12, 13, 14, 15}
    for line, word in {
        3: "number: the number cannot be read",
        4: "name: a quote is not closed",
        7: "expected 3 values (number, zone, name), found 2",
        8: "several",
        10: "Europe/Olso",
        11: "number: not UTF-8",
        12: "name: a NUL character",
        13: "16384 bytes",
        14: "SE is not allowed",
        15: "premium",
    }.items():
        assert broken[line].startswith(f"line {line}: ")
        assert word in broken[line]


def test_a_default_zone_is_for_numbers_of_large_countries_alone() -> None:
    found = rows(b"+12125550100,,Joe\n", b"+4722000001,,Kari\n", zone="America/Chicago")
    assert [each.zone for each in found if isinstance(each, Row)] == [
        "America/Chicago",
        "Europe/Oslo",
    ]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (b"\n", "`number` among them"),
        (b"name\n", "`number` among them"),
        (b"number;age\n", "line 1, column 2: 'age' is unknown"),
        (b"number,number\n", "line 1, column 2: 'number' comes twice"),
        (b"number;\xff\n", "line 1, column 2: not UTF-8"),
        (b'"number\n', "line 1, column 1: a quote is not closed"),
        ("\ufeffnumber\r\n".encode("utf-16-le"), "UTF-16"),
        ("\ufeffnumber\r\n".encode("utf-16-be"), "UTF-16"),
        (b"number,name\r+4722000001,Kari\r", "CR alone"),
    ],
)
def test_a_head_that_cannot_be_used_is_refused(head: bytes, told: str) -> None:
    with pytest.raises(CampaignRefused, match=re.escape(told)):
        rows(b"+4722000001\n", head=head)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_list_is_read_as_a_spreadsheet_writes_it(separator: str, end: str, mark: bytes) -> None:
    """Quotes where a value has the separator, a quote or a line break."""
    names = ["Kari", f"Smith{separator} Joe", 'Eva "Evi" Olsen', f"Per{end}c/o Ola", ""]
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=separator, lineterminator=end)
    table.writerow(["number", "zone", "name"])
    for place, name in enumerate(names, 1):
        table.writerow([f"+472200000{place}", "", name])
    found = list(read_rows(io.BytesIO(mark + text.getvalue().encode()), ["name"], POLICY.dialled))
    assert [each.line for each in found] == [2, 3, 4, 5, 7], "a record's first line"
    assert [row.variables.get("name", "") for row in found if isinstance(row, Row)] == names


def test_a_missing_quote_swallows_nobody() -> None:
    found = rows(
        b'+4722000001,,"Kari\n',
        b"+4722000002,,Ola\n",
        b'+4722000003,,Eva"\n',
        b'112,,"Per\n',
        b'c/o Ola"\n',
        b'+4722000004,,5" pipe\n',
        b'+4722000005,,"Liv\n',
    )
    assert [str(each) for each in found if isinstance(each, BrokenLine)] == [
        "line 2: name: a quote is not closed",
        "line 5: number: numbers of class emergency are shut",
        "line 8: name: a quote is not closed",
    ]
    names = {each.number: each.variables["name"] for each in found if isinstance(each, Row)}
    assert names == {
        "+4722000002": "Ola", "+4722000003": 'Eva"', "+4722000004": '5" pipe',
    }  # fmt: skip


@given(st.lists(st.binary(max_size=60).filter(lambda line: b"\n" not in line), max_size=20))
def test_no_line_spoils_the_next(lines: list[bytes]) -> None:
    good = b"+4722000001,,Kari"
    found = rows(*(line + b"\n" for each in lines for line in (each, good)))
    assert sum(isinstance(row, Row) and row.number == "+4722000001" for row in found) >= len(lines)


def test_many_lines_are_streamed() -> None:
    """The reader holds one line at a time, and knows the number of each broken one."""
    dice, broken = random.Random(5), set()

    def lines() -> Iterator[bytes]:
        yield b"number\n"
        for line in range(2, 100_002):
            if dice.random() < 0.01 and line - 1 not in broken:  # two quotes may be one record
                broken.add(line)
                yield dice.choice((b"none\n", b"\xff\n", b'"\n', b"+4722,\n"))
            else:
                yield b"+47%08d\n" % line

    taken = 0
    for row in read_rows(lines(), (), lambda number: (number, "" if len(number) > 9 else "no")):
        if isinstance(row, Row):
            taken += 1
        else:
            broken.remove(row.line)
    assert not broken
    assert 98_000 < taken < 100_000


def test_hours_are_those_of_the_called_person() -> None:
    hours = CallingHours.read("09:00-20:00", "mon-fri")
    zones = ["Europe/Oslo", "America/New_York", "Asia/Tokyo"]

    def at(hour: int, day: int = 23) -> list[str]:
        return open_zones(zones, hours, datetime(2026, 11, day, hour, tzinfo=UTC).timestamp())

    assert at(8) == ["Europe/Oslo", "Asia/Tokyo"]
    assert at(15) == ["Europe/Oslo", "America/New_York"]
    assert at(23) == ["America/New_York"]
    assert at(12, 22) == [], "it is Sunday"
    assert at(0, 24) == ["America/New_York", "Asia/Tokyo"]


@pytest.mark.parametrize(
    ("hours", "days"),
    [("9-20", "mon"), ("20:00-09:00", "mon"), ("09:00-24:00", "mon"), ("09:00-10:00", "fri-mon"),
     ("09:00-10:00", "Montag"), ("09:00-10:00", "")],
)  # fmt: skip
def test_hours_that_make_no_sense_are_refused(hours: str, days: str) -> None:
    with pytest.raises(ValueError, match=r"hours|days"):
        CallingHours.read(hours, days)


def test_every_zone_of_a_country_exists() -> None:
    assert all(map(is_zone, ZONES.values()))
    assert zone_of("+35312345678") == "Europe/Dublin"
    assert zone_of("+3312345678") == "Europe/Paris"
    assert zone_of("+12125550100") is None


@pytest.mark.parametrize(
    "number",
    ["", "112", "911", "+47112", "+4722000000;ext=1", "+4722w00000", "+\u0664\u066722000000",
     "+4722000000\n", "+0722000000", "+881612345678", "+4682000000", "+4782900000",
     "+4722000000000000"],
)  # fmt: skip
def test_nobody_calls(number: str) -> None:
    assert POLICY.dialled(number)[1]


@pytest.mark.parametrize("written", ["+4722000000", "22 00 00 00", "0047 22000000"])
def test_a_number_is_called_in_its_international_form(written: str) -> None:
    assert POLICY.dialled(written) == ("+4722000000", "")


def test_without_a_country_nobody_is_called() -> None:
    assert Policy(Firewall()).dialled("+4722000000")[1]
