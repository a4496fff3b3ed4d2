"""The book of reservations: booked, read back, cancelled; and never two guests at one table."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .conftest import NOW, System, opened, settings_for

# isort: split
from restaurant.database import Database, DatabaseError
from restaurant.settings import SettingsError, from_environment

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_booked_read_back_and_cancelled(system: System) -> None:
    answer = await system.book("2026-11-27", "19:30", people=3, name="  Mary   Jones ")
    assert answer.status_code == 201
    booking = answer.json()
    assert booking == {
        "code": booking["code"],
        "status": "booked",
        "name": "Mary Jones",
        "people": 3,
        "table": "Main 1",
        "starts_at": "2026-11-27T19:30",
        "ends_at": "2026-11-27T21:30",
        "when": "Friday, November 27th at 7:30 PM",
    }
    path = f"/bookings/{booking['code']}"
    assert (await system.api("GET", path)).json() == booking
    for _ in range(2):  # twice is the same as once
        cancelled = await system.api("DELETE", path)
        assert cancelled.json() == {**booking, "status": "cancelled"}
    assert (await system.api("GET", path)).json()["status"] == "cancelled"
    again = await system.book("2026-11-27", "19:30", people=3)
    assert again.json()["table"] == "Main 1", "the table is free again"


async def test_the_second_for_the_only_table_is_told_other_times(system: System) -> None:
    assert (await system.book("2026-11-25", "19:00", people=8)).json()["table"] == "Garden 1"
    for time in ("19:00", "18:00", "20:45"):
        refused = await system.book("2026-11-25", time, people=8)
        assert refused.status_code == 409
        assert refused.json()["error"]["code"] == "no_table_free"
    assert refused.json()["error"]["message"] == (
        "There is no table for 8 on Wednesday, November 25th at 8:45 PM."
        " There is one at 9 PM or 5 PM."
    )
    query = {"people": 8, "date": "2026-11-25", "time": "19:00"}
    seen = (await system.api("GET", "/availability", params=query)).json()
    assert (seen["free"], seen["table"], seen["alternatives"]) == (False, None, ["17:00", "21:00"])
    assert (await system.book("2026-11-25", "21:00", people=8)).status_code == 201
    free = (await system.api("GET", "/availability", params={**query, "people": 6})).json()
    assert (free["free"], free["table"]) == (True, "Main 3")


async def test_twenty_callers_at_once_get_six_tables(system: System) -> None:
    token = await system.token()
    body = {"date": "2026-11-28", "time": "20:00", "people": 2, "name": "Mary Jones"}
    asked = [system.api("POST", "/bookings", token=token, json=body) for _ in range(20)]
    answers = await asyncio.gather(*asked)
    assert Counter(answer.status_code for answer in answers) == {201: 6, 409: 14}
    tables = [answer.json()["table"] for answer in answers if answer.status_code == 201]
    assert len(set(tables)) == 6


@pytest.mark.parametrize(
    ("change", "status", "field", "told"),
    [
        ({"people": 0}, 422, "people", "greater than or equal to 1"),
        ({"people": 13}, 422, "people", "less than or equal to 12"),
        ({"people": "many"}, 422, "people", "integer"),
        ({"date": "tomorrow"}, 422, "date", "date"),
        ({"date": "2026-02-30"}, 422, "date", "date"),
        ({"time": "25:00"}, 422, "time", "time"),
        ({"time": "19:07"}, 422, "time", "a quarter of an hour"),
        ({"time": "19:30+02:00"}, 422, "time", "a quarter of an hour"),
        ({"date": "2026-11-20"}, 422, "date", "is over already"),
        ({"date": "2027-11-20"}, 422, "date", "more than half a year"),
        ({"name": " \t "}, 422, "name", "visible"),
        ({"name": "a\u202eb"}, 422, "name", "visible"),
        ({"name": "x" * 81}, 422, "name", "80"),
        ({"phone": "call me"}, 422, "phone", "pattern"),
        ({"vip": True}, 422, "vip", "not permitted"),
        ({"date": "2026-11-23"}, 409, "", "We are closed on Monday, November 23rd."),
        ({"date": "2026-12-25"}, 409, "", "because of Christmas"),
        ({"time": "21:15"}, 409, "", "tables can be booked from 5 PM to 9 PM."),
        ({"time": "16:45"}, 409, "", "tables can be booked from 5 PM to 9 PM."),
    ],
)
async def test_a_booking_that_cannot_be_is_refused_with_the_reason(
    system: System, change: dict[str, Any], status: int, field: str, told: str
) -> None:
    answer = await system.book(**{"date": "2026-12-02", "time": "19:00", **change})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    if field:
        [problem] = error["problems"]
        assert problem["field"] == field
        assert told in problem["problem"]
    else:
        assert told in error["message"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": "{", "headers": {}}, 400),
        ({"content": '{"people": 2}', "headers": {"Content-Type": "text/plain"}}, 400),
        ({"content": "[]", "headers": {"Content-Type": "application/json"}}, 422),
        ({"content": "{", "headers": {"Content-Type": "application/json"}}, 400),
        ({"content": b"\xff" * 40_000, "headers": {"Content-Type": "application/json"}}, 413),
    ],
)
async def test_a_body_that_is_none_is_refused(
    system: System, request_: dict[str, Any], status: int
) -> None:
    headers = {**request_["headers"], "Authorization": f"Bearer {await system.token()}"}
    url = f"{system.restaurant.backend_url}/bookings"
    answer = await system.http.post(url, content=request_["content"], headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


async def test_what_is_not_there(system: System) -> None:
    for method in ("GET", "DELETE"):
        answer = await system.api(method, "/bookings/000000")
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "There is no booking with that code."
    assert (await system.api("GET", "/recipes")).status_code == 404
    assert (await system.api("PUT", "/tables")).status_code == 405


async def test_who_gives_up_waiting_has_booked_nothing(system: System) -> None:
    token = await system.token()
    system.restaurant.faults.delay_ms = 1_000
    body = {"date": "2026-12-03", "time": "19:00", "people": 8, "name": "Mary Jones"}
    try:
        with pytest.raises(httpx2.ReadTimeout):
            await system.api("POST", "/bookings", token=token, json=body, timeout=0.5)
        query = {"people": 8, "date": "2026-12-03", "time": "19:00"}
        seen = await system.api("GET", "/availability", token=token, params=query)
    finally:
        system.restaurant.faults.delay_ms = 0
    assert seen.json()["free"] is True, "asked after the first one was over"


async def test_a_guest_who_comes_again_is_known(system: System) -> None:
    for date in ("2026-12-05", "2026-12-06"):
        await system.book(date, "13:00", name="Otto Otter", phone="+47 123 45678")
    query = {"customQuery": 'name = "Otto Otter"'}
    [customer] = (await system.api("GET", "/customers", params=query)).json()["items"]
    assert customer["booking_count"] == 2
    assert customer["last_booking_at"] == "2026-12-06T13:00"


async def test_faults_can_be_switched_only_where_that_was_asked_for(
    system: System, tmp_path: Path
) -> None:
    def url(other: System) -> str:
        return other.restaurant.backend_url.removesuffix("/api/v1") + "/admin/faults"

    assert (await system.http.put(url(system), json={"status": 500})).status_code == 404
    async with opened(settings_for(tmp_path, faults_route=True)) as other:
        assert (await other.http.put(url(other), json={"status": 418})).status_code == 422
        assert (await other.http.put(url(other), json={"status": 500})).status_code == 200
        answer = await other.api("GET", "/tables")
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "this fault was asked for"
        health = other.restaurant.backend_url.replace("/api/v1", "/health")
        assert (await other.http.get(health)).json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://host/db", "expected a URL of sqlite or postgresql, found 'mysql'"),
        ("what is this", "cannot be read"),
        ("postgresql://me:geheim@127.0.0.1:1/db", "cannot be used"),
    ],
)
async def test_a_database_that_cannot_be_is_told_without_its_password(url: str, told: str) -> None:
    with pytest.raises(DatabaseError, match=told) as caught:
        Database(url).prepare(lambda: NOW)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESTAURANT_MCP_PORT", "70000"),
        ("RESTAURANT_TOKEN_LIFETIME_S", "soon"),
        ("RESTAURANT_CLIENT_SECRET", "short"),
        ("RESTAURANT_FAULTS", "maybe"),
    ],
)
async def test_a_setting_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: expected"):
        from_environment({name: value})
