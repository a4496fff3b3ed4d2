"""Measures and alarms over the admin port: what a scope shows, and what a wrong request gets."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from cordboard.accounts.rights import Role
from cordboard.calls import events
from cordboard.calls.ledger_file import encode_event
from cordboard.errors import IndexUnavailable
from cordboard.history.sql_store import SqlHistoryStore

from .conftest import Room, code

NOW = datetime.datetime.now().astimezone()


def record(room: Room, folder: Path, call_id: str, context: str, tool: str = "") -> None:
    """Write the ledger of a call into the index."""
    directory = folder / "calls"
    room.on_record.clear()
    at = NOW.isoformat(timespec="milliseconds")
    lines = [
        (0, events.Offered(call_id, at, "asterisk", "+4530", "", "100")),
        (1, events.Bound(context, "local", 1, [])),
    ]
    if tool:
        lines.append((5, events.ToolCalled(1, "1.1", tool, f"http:{tool}", {})))
        lines.append((9, events.ToolAnswered("1.1", tool, "error", "", 4)))
    lines.append((1000, events.Ended("completed", "caller_hangup", 1000)))
    path = directory / f"{NOW:%Y-%m-%d}" / f"{call_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encode_event(at_ms, event) for at_ms, event in lines))
    keeper = room.services.history()
    assert keeper is not None
    keeper.catch_up()


async def test_a_measure_over_time_with_the_filters_of_its_calls(
    room: Room, tmp_path: Path
) -> None:
    record(room, tmp_path, "a", "demo", "crm")
    record(room, tmp_path, "b", "sales", "crm")
    room.add("viewer", Role.VIEWER)
    browser = room.browser("viewer")
    answer = await browser.get("/analytics/tool_failures?by=tool&context=demo,other&step=week")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["by"] == ["context", "provider", "version", "kind", "tool"]
    (line,) = found["series"]
    assert (line["key"], line["stat"], sum(line["values"])) == ("crm", "count", 1)
    assert line["calls"] == {"tool_failed": "crm"}
    assert len(found["t"]) == len(line["values"]) + 1
    begin = datetime.datetime.fromisoformat(found["t"][0])
    assert (begin.isoweekday(), begin.hour, begin.tzinfo is not None) == (1, 0, True)
    answer = await browser.get("/analytics/tools?key=other")
    assert answer.json()["series"] == []


async def test_a_scope_counts_its_own_calls_only(room: Room, tmp_path: Path) -> None:
    record(room, tmp_path, "a", "demo")
    record(room, tmp_path, "b", "sales")
    room.add("limited", Role.VIEWER, scope=("sal*",))
    browser = room.browser("limited")
    found = (await browser.get("/analytics/calls?by=context")).json()
    assert [line["key"] for line in found["series"]] == ["sales"]
    found = (await browser.get("/analytics/calls?context=demo")).json()
    assert found["series"] == []
    found = (await browser.get("/analytics")).json()["measures"]
    calls = {each["measure"]: each for each in found}["calls"]
    assert [line["values"] for line in calls["series"]] == [[1]], "of one context, in one point"
    assert (await browser.get("/analytics?from=soon")).status_code == 422


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/analytics/nonsense", 404, "there is no such measure; known: calls,"),
        ("/analytics/calls?by=tool", 422, "by: expected one of context"),
        ("/analytics/calls?from=soon", 422, "from: expected a time such as"),
        ("/analytics/calls?from=2026-01-02&to=2026-01-01", 422, "to: expected a time after"),
        ("/analytics/calls?from=2020-01-01&step=hour", 422, "at most 1000 points"),
        ("/analytics/calls?step=minute", 422, "step"),
        (
            "/analytics/calls?step=hour&from=0001-01-01T03:00:00Z&to=0001-01-01T05:00:00Z",
            422,
            "expected a time between 1970 and 9000",
        ),
        ("/analytics/calls?key=x", 422, "filter: expected one of"),
        ("/analytics/calls?to=9999-12-31", 422, "between 1970 and 9000"),
    ],
)
async def test_a_wrong_query_says_what_is_expected(
    room: Room, path: str, status: int, word: str
) -> None:
    room.add("viewer", Role.VIEWER)
    answer = await room.browser("viewer").get(path)
    assert answer.status_code == status
    assert word in str(answer.json()["error"])


@pytest.mark.parametrize("path", ["/analytics/calls", "/analytics"])
async def test_an_index_that_is_locked_is_to_be_asked_again_later(
    room: Room, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def locked(self: SqlHistoryStore, query: object) -> None:
        raise IndexUnavailable("the index is locked")

    for name in ("series", "totals"):
        monkeypatch.setattr(SqlHistoryStore, name, locked)
    room.add("viewer", Role.VIEWER)
    answer = await room.browser("viewer").get(path)
    assert (answer.status_code, code(answer)) == (503, "index_unavailable")
    assert answer.headers["retry-after"]


async def test_without_an_index_there_are_no_measures(room: Room) -> None:
    room.services.history = lambda: None
    room.add("viewer", Role.VIEWER)
    answer = await room.browser("viewer").get("/analytics/calls")
    assert (answer.status_code, code(answer)) == (409, "no_index")


async def test_alarms_and_who_has_seen_them(room: Room) -> None:
    await room.fire("demo")
    room.add("anna", Role.OPERATOR)
    browser = room.browser("anna")
    alarms = {each["id"]: each for each in (await browser.get("/alarms")).json()["alarms"]}
    assert {name: each["state"] for name, each in alarms.items()} == {
        "demo-busy": "firing", "sales-busy": "quiet", "ledger": "firing",
    }  # fmt: skip
    assert alarms["demo-busy"]["calls"] == ["busy-demo"]
    assert alarms["ledger"]["text"] == "ledger is not ready: disk full"
    assert alarms["ledger"]["rule"] == {"component": "ledger"}
    assert alarms["demo-busy"]["rule"] == {"measure": "calls", "above": 0, "context": "demo"}
    done = await browser.post("/alarms/ledger/acknowledge", {"note": "a new disk comes"})
    assert done.status_code == 200
    alarms = {each["id"]: each for each in (await browser.get("/alarms")).json()["alarms"]}
    assert alarms["ledger"]["acknowledged"]["who"] == "anna"
    assert alarms["ledger"]["acknowledged"]["note"] == "a new disk comes"
    answer = await browser.post("/alarms/sales-busy/acknowledge", {})
    assert (answer.status_code, code(answer)) == (409, "not_firing")
    for until in ("tomorrow", "0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00"):
        answer = await browser.post("/alarms/ledger/acknowledge", {"until": until})
        assert (answer.status_code, code(answer)) == (422, "invalid"), until
    answer = await browser.post("/alarms/other/acknowledge", {})
    assert (answer.status_code, code(answer)) == (404, "not_there")


async def test_a_scope_sees_the_alarms_of_its_contexts_only(room: Room) -> None:
    await room.fire("demo", "sales")
    room.add("limited", Role.OPERATOR, scope=("sales",))
    browser = room.browser("limited")
    found = (await browser.get("/alarms")).json()["alarms"]
    assert [each["id"] for each in found] == ["sales-busy"]
    for hidden in ("demo-busy", "ledger"):
        answer = await browser.post(f"/alarms/{hidden}/acknowledge", {})
        assert (answer.status_code, code(answer)) == (404, "not_there")
