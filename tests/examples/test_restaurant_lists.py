"""Customers, tables, feedback, opening hours: paging, sorting, filtering, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard_testkit.patience import PATIENCE

from .conftest import System, opened, settings_for

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _names(system: System, **query: str) -> list[str]:
    answer = await system.api("GET", "/customers", params=query)
    assert answer.status_code == 200, answer.text
    return [customer["name"] for customer in answer.json()["items"]]


async def test_pages_make_up_the_whole_list_without_gaps(system: System) -> None:
    found: list[int] = []
    for skip in range(0, 40, 15):
        query = {"limit": 15, "skip": skip, "sort": "booking_count"}  # many have the same count
        page = (await system.api("GET", "/customers", params=query)).json()
        assert (page["total"], page["skip"], page["limit"]) == (40, skip, 15)
        found += [customer["id"] for customer in page["items"]]
    assert len(found) == len(set(found)) == 40
    beyond = (await system.api("GET", "/customers", params={"skip": 40})).json()
    assert (beyond["items"], beyond["total"]) == ([], 40)


async def test_sorted_up_and_down(system: System) -> None:
    query = {"sort": "-booking_count,name", "limit": "100"}
    items = (await system.api("GET", "/customers", params=query)).json()["items"]
    keys = [(-customer["booking_count"], customer["name"]) for customer in items]
    assert keys == sorted(keys)
    assert len({key[0] for key in keys}) > 3


async def test_filtered(system: System) -> None:
    some = await _names(system, customQuery='booking_count >= 3 and name ~ "BROWN"', sort="name")
    assert some
    assert all("Brown" in name for name in some)
    fewer = await _names(system, customQuery='booking_count >= 10 and name ~ "BROWN"')
    assert len(fewer) < len(some)
    assert await _names(system, customQuery='name = "Ada Adler"') == ["Ada Adler"]
    assert len(await _names(system, customQuery="created_at >= 2025-05-01")) == 2


async def test_what_is_written_is_data_and_never_sql(system: System) -> None:
    assert await _names(system, customQuery="name = \"x' OR '1'='1\"") == []
    assert await _names(system, customQuery='name ~ "%"') == []
    assert await _names(system, customQuery='name ~ "_"') == []


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [
        ({"limit": "0"}, "limit", "from 1 to 100"),
        ({"limit": "many"}, "limit", "from 1 to 100"),
        ({"skip": "-1"}, "skip", "from 0"),
        ({"sort": "password"}, "sort", "unknown field 'password'; known are id, name"),
        ({"customQuery": "name"}, "customQuery", "at character 1"),
        ({"customQuery": "name = a or name = b"}, "customQuery", "at character 10: expected 'and'"),
        ({"customQuery": "secret = 1"}, "customQuery", "unknown field 'secret'"),
        ({"customQuery": "booking_count > many"}, "customQuery", "expected a whole number"),
        ({"customQuery": f"id = {10**30}"}, "customQuery", "expected a whole number"),
        ({"customQuery": "created_at > soon"}, "customQuery", "expected a date"),
        ({"customQuery": "id ~ 1"}, "customQuery", "~ is for texts"),
        ({"customQuery": "id = 1 and " * 9 + "id = 1"}, "customQuery", "at most 8 conditions"),
        ({"customQuery": "x" * 401}, "customQuery", "at most 400"),
    ],
)
async def test_a_list_that_cannot_be_is_refused(
    system: System, query: dict[str, str], field: str, told: str
) -> None:
    answer = await system.api("GET", "/customers", params=query)
    assert answer.status_code == 422
    [problem] = answer.json()["error"]["problems"]
    assert problem["field"] == field
    assert told in problem["problem"]


async def test_tables(system: System) -> None:
    tables = (await system.api("GET", "/tables")).json()["tables"]
    assert [table["seats"] for table in tables] == [2, 2, 4, 4, 6, 8]


async def test_opening_hours_of_two_weeks_in_days_and_in_words(system: System) -> None:
    """The clock stands at Saturday, 21 November 2026."""
    hours = (await system.api("GET", "/opening-hours")).json()
    assert len(hours["days"]) == 14
    assert hours["days"][0] == {
        "date": "2026-11-21",
        "weekday": "Saturday",
        "open": True,
        "opens": "12:00",
        "closes": "23:00",
        "note": "",
    }
    assert hours["days"][2]["open"] is False, "a Monday"
    assert hours["summary"] == (
        "We are open on Saturday from noon to 11 PM; on Sunday from noon to 9 PM;"
        " on Tuesday, Wednesday, Thursday and Friday from 5 PM to 11 PM. We are closed on Monday."
    )
    christmas = (await system.api("GET", "/opening-hours/2026-12-24")).json()
    assert christmas["summary"] == "We are closed on Thursday, December 24th (Christmas)."
    friday = await system.api("GET", "/opening-hours", params={"from": "2026-11-27", "days": 1})
    assert friday.json()["summary"] == "On Friday, November 27th we are open from 5 PM to 11 PM."


async def test_feedback_is_kept_and_found(tmp_path: Path) -> None:
    async with opened(settings_for(tmp_path, backend_timeout=PATIENCE)) as system:
        await _feedback(system)


async def _feedback(system: System) -> None:
    code = (await system.book("2026-12-01", "18:00")).json()["code"]
    body = {"rating": 2, "comment": "Cold  soup.", "booking_code": code}
    given = await system.api("POST", "/feedback", json=body)
    assert given.status_code == 201
    assert given.json()["customer"] == "Mary Jones"
    found = await system.api("GET", "/feedback", params={"customQuery": 'comment ~ "cold"'})
    assert [item["id"] for item in found.json()["items"]] == [given.json()["id"]]
    unknown = await system.api("POST", "/feedback", json={**body, "booking_code": "000000"})
    assert unknown.status_code == 404
