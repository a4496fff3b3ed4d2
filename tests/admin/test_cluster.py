"""The admin port of one engine shows the calls of all, and reaches them where they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.history.ledgers import Told

from cordboard.accounts.audit import verify
from cordboard.accounts.rights import Grant, Rights, Role
from cordboard.admin import live_feed, other_engines
from cordboard.admin.cluster_door import Exchange
from cordboard.admin.live import PROTOCOL, LiveRow
from cordboard.admin.live_calls import LiveCalls
from cordboard.admin.steering import PROTOCOL as LISTEN
from cordboard.admin.table import ENDPOINTS
from cordboard.admin.tickets import PREFIX
from cordboard.calls import events
from cordboard.calls.call import CallState
from cordboard.errors import LineError
from cordboard_testkit.patience import until

from .conftest import Room, code
from .neighbours import Neighbours, neighbours
from .test_live import Calls, Talk

NUMBER = "+4930123456"
WORDS = "plum jam"


@pytest.fixture
async def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Neighbours]:
    monkeypatch.setattr(live_feed, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(other_engines, "RETRY_SECONDS", 0.01)
    async with neighbours(tmp_path) as found:
        yield found


def begin(room: Room, call_id: str, context: str = "demo") -> Calls:
    """A live call of an engine, with its ledger."""
    calls = Calls(room, room.audit.path.parent)
    calls.begin(call_id, context)
    return calls


async def watching(room: Room, name: str, **topic: Any) -> Any:
    visit = await room.browser(name).connect("/live", PROTOCOL)
    assert visit.status == 101
    visit.send({"op": "subscribe", "id": 7, **topic})
    return visit


async def test_the_list_of_any_node_has_the_calls_of_all(two: Neighbours) -> None:
    two.a.add("vera", Role.VIEWER)
    two.a.add("paula", Role.VIEWER, (Grant.PERSONAL,), ("demo",))
    begin(two.a, "near")
    begin(two.b, "far")
    begin(two.b, "secret", "sales")
    listed = (await two.a.browser("vera").get("/calls/live")).json()["calls"]
    assert {(row["call_id"], row["node"]) for row in listed} == {
        ("near", "a"), ("far", "b"), ("secret", "b"),
    }  # fmt: skip
    assert NUMBER not in json.dumps(listed)
    assert {row["state"] for row in listed} == {"talking"}
    listed = (await two.a.browser("paula").get("/calls/live")).json()["calls"]
    assert [(row["call_id"], row["caller_number"]) for row in listed] == [
        ("near", NUMBER), ("far", NUMBER),
    ]  # fmt: skip


async def test_the_feed_has_rows_of_other_nodes_as_they_change(two: Neighbours) -> None:
    two.a.add("vera", Role.VIEWER, (Grant.PERSONAL,), ("demo",))
    calls = begin(two.b, "far")
    begin(two.b, "secret", "sales")
    visit = await watching(two.a, "vera", topic="calls")
    rows: dict[str, Any] = {}

    async def following(wanted: Any) -> None:
        while not wanted():
            frame = await visit.frame()
            for row in [*frame.get("snapshot", ()), *frame.get("rows", ())]:
                rows.setdefault(row["call_id"], {}).update(row)
            for call_id in frame.get("gone", ()):
                del rows[call_id]

    await following(lambda: "far" in rows)
    assert rows["far"]["node"] == "b"
    calls.take("far", 900, events.TurnEnded(1, 800), events.Heard(1, WORDS, 0.9))
    await following(lambda: rows["far"]["turn"] == 1 and rows["far"]["last"])
    assert rows["far"]["last"]["text"] == WORDS
    calls.end("far")
    await following(lambda: not rows)
    assert [(each.path, each.who) for each in two.doors.requests] == [("/live", "")]
    await visit.leave()


async def test_ready_frames_of_other_nodes_rows_are_kept_for_one_version_only(
    two: Neighbours,
) -> None:
    two.a.add("vera", Role.VIEWER)
    calls = begin(two.b, "far")
    visit = await watching(two.a, "vera", topic="calls")
    turn, seen, kept = 0, -1, []
    while turn < 8:
        frame = await visit.frame()
        kept.append(len(two.a.services.feed._frames))
        changed = [*frame.get("snapshot", ()), *frame.get("rows", ())]
        seen = next((row["turn"] for row in changed if "turn" in row), seen)
        if seen == turn:
            turn += 1
            calls.take("far", turn * 1_000, events.TurnEnded(turn, turn * 1_000))
    assert max(kept) == 1
    await visit.leave()


async def test_a_call_that_moves_here_is_ours_and_one_that_leaves_is_theirs(
    two: Neighbours,
) -> None:
    two.a.add("vera", Role.VIEWER)
    browser = two.a.browser("vera")
    calls = begin(two.b, "moving")

    async def node() -> list[str]:
        listed = (await browser.get("/calls/live")).json()["calls"]
        return [row["node"] for row in listed]

    assert await node() == ["b"]
    live = two.a.services.feed.live
    here = begin(two.a, "moving")
    live.refresh()
    calls.end("moving")
    two.b.services.feed.live.refresh()
    await until(lambda: not live._others["b-1"])
    assert await node() == ["a"]
    begin(two.b, "moving")
    await until(lambda: bool(live._others["b-1"]))
    here.end("moving")
    live.refresh()
    assert await node() == ["b"]


async def test_a_call_that_comes_here_is_not_gone_in_the_frame_that_has_it(
    two: Neighbours,
) -> None:
    two.a.add("vera", Role.VIEWER)
    calls = begin(two.b, "moving")
    visit = await watching(two.a, "vera", topic="calls")
    frame = await visit.frame()
    while "moving" not in json.dumps(frame):
        frame = await visit.frame()
    begin(two.a, "moving")
    live = two.a.services.feed.live
    live.take_elsewhere("b-1", {}, gone=["moving"])  # before we have made a row of it
    frame = await visit.frame()
    assert (frame["rows"][0]["node"], frame["gone"]) == ("a", [])
    calls.end("moving")
    here = Calls(two.a, two.a.audit.path.parent)
    here.end("moving")
    while not frame["gone"]:
        frame = await visit.frame()
    assert frame["gone"] == ["moving"]
    await visit.leave()


async def test_an_engine_that_gets_a_call_shows_the_others_all_of_its_fields(
    two: Neighbours,
) -> None:
    begin(two.b, "moving")
    await two.a.services.others.look()
    live = two.a.services.feed.live
    seen = live.version
    assert live.changes(seen - 1, Rights(), own=True) == ([], [])
    begin(two.a, "moving")
    live.refresh()
    changes = live.changes(seen, Rights(), own=True)
    assert changes is not None
    (row,), gone = changes
    assert (row["call_id"], row["node"], row["context"], gone) == ("moving", "a", "demo", [])
    assert row.keys() == LiveRow.model_fields.keys()


def test_a_call_that_goes_on_in_another_context_is_of_that_scope() -> None:
    """The configuration of the engine that goes on with it lacks the context."""
    live = LiveCalls(dict)
    sales, demo = (Rights(scopes=((name,),)) for name in ("sales", "demo"))
    live.take_elsewhere("b-1", {"moving": {"context": "sales", "turn": 3, "unknown_since": None}})
    seen = live.version
    live.take_elsewhere("c-1", {"moving": {"context": "demo", "turn": 3, "unknown_since": None}})
    live.take_elsewhere("b-1", {}, gone=["moving"])
    row = {"call_id": "moving", "context": "demo", "turn": 3, "unknown_since": None}
    assert live.changes(seen, demo) == ([row], [])
    assert live.changes(seen, sales) == ([], ["moving"])
    assert live.changes(0, sales) == ([], [])
    assert live.rows_elsewhere(sales) == []


async def test_a_call_that_comes_here_in_another_context_is_of_that_scope(
    two: Neighbours,
) -> None:
    begin(two.b, "moving", "sales")
    await two.a.services.others.look()
    live = two.a.services.feed.live
    seen = live.version
    begin(two.a, "moving", "demo")
    live.refresh()
    changes = live.changes(seen, Rights(scopes=(("demo",),)))
    assert changes is not None
    assert [row["context"] for row in changes[0]] == ["demo"]
    assert live.changes(seen, Rights(scopes=(("sales",),))) == ([], ["moving"])


def test_a_row_of_an_earlier_version_may_lack_fields() -> None:
    live = LiveCalls(dict)
    live.take_elsewhere("b-1", {"x": {"context": "demo", "new": 1, "unknown_since": None}})
    live.take_elsewhere("c-1", {"x": {"context": "demo", "unknown_since": None}})
    row = {"call_id": "x", "context": "demo", "unknown_since": None}
    assert live.changes(0, Rights()) == ([row], [])


async def test_words_go_to_the_node_that_has_the_call_and_both_audits_name_the_other(
    two: Neighbours,
) -> None:
    two.a.add("otto", Role.OPERATOR, (), ("demo",))
    two.a.add("vera", Role.VIEWER)
    begin(two.b, "far")
    begin(two.b, "secret", "sales")
    browser, operator = two.a.browser("otto"), two.b.calls["far"].operator
    key = {"Idempotency-Key": "k-1"}
    said = await browser.post("/calls/far/say", {"text": WORDS}, headers=key)
    assert (said.status_code, said.json()) == (200, {"state": "begun"})
    again = await browser.post("/calls/far/say", {"text": WORDS}, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    assert operator.asked == [("say", WORDS, "otto@a")]
    (here,), (there,) = two.a.entries(), two.b.entries()
    assert (here["who"], here["action"], here["context"]) == ("otto", "call.say", "demo")
    assert here["detail"]["on_node"] == "b"
    assert (there["who"], there["via"], there["role"]) == ("otto@a", "node", "operator")
    assert there["detail"]["from_node"] == "a"
    assert (there["request"], there["client"]) == (here["request"], here["client"])
    assert verify(two.b.audit.path).problem == ""
    assert WORDS not in str(two.b.entries())
    for path in ("/calls/secret/say", "/calls/none/say"):
        assert (await browser.post(path, {"text": "x"})).status_code == 404
    assert (await two.a.browser("vera").post("/calls/far/hangup")).status_code == 403
    assert two.b.calls["far"].ended == []
    sent = next(each for each in two.doors.requests if each.path.endswith("/say"))
    assert set(sent.headers) <= {"content-type", "idempotency-key"}
    cookie = next(iter(browser.cookies.values()))
    assert cookie not in repr(two.doors.requests)


async def test_a_refusal_of_the_other_node_comes_back_as_it_is(two: Neighbours) -> None:
    two.a.add("otto", Role.OPERATOR)
    begin(two.b, "far")
    browser, call = two.a.browser("otto"), two.b.calls["far"]
    call.operator.failure = LineError("this agent cannot take notes")
    refused = await browser.post("/calls/far/hint", {"text": "offer Thursday"})
    assert (refused.status_code, "cannot take notes" in refused.text) == (409, True)
    call.operator.failure = None
    unknown = await browser.post("/calls/far/transfer", {"destination": "+49900123456"})
    assert (unknown.status_code, "known: desk" in unknown.text) == (422, True)
    call.state = CallState.ENDING
    over = await browser.post("/calls/far/hangup")
    assert (over.status_code, code(over)) == (409, "ended")
    lines = two.a.entries()
    assert [(line["action"], line["result"]) for line in lines] == [
        (f"call.{act}", result)
        for act in ("hint", "transfer", "hangup") for result in ("done", "failed")
    ]  # fmt: skip
    assert lines[1]["detail"] == {"of": lines[0]["seq"], "why": "this agent cannot take notes"}


async def test_a_node_that_is_gone_is_a_refusal_and_our_calls_go_on(two: Neighbours) -> None:
    two.a.add("otto", Role.OPERATOR)
    begin(two.a, "near")
    begin(two.b, "far")
    browser = two.a.browser("otto")
    assert len((await browser.get("/calls/live")).json()["calls"]) == 2
    two.door_b.cut_off()
    live = two.a.services.feed.live
    await until(lambda: bool(live.rows_elsewhere(Rights())[0]["unknown_since"]))
    gone = await browser.post("/calls/far/hangup")
    assert (gone.status_code, code(gone)) == (503, "node_gone")
    assert "node b" in gone.json()["error"]["message"]
    assert (await browser.post("/calls/near/hangup")).status_code == 200
    rows = {row["call_id"]: row for row in (await browser.get("/calls/live")).json()["calls"]}
    assert rows["far"]["unknown_since"]
    assert rows["near"]["unknown_since"] is None
    two.doors.away = False
    await until(lambda: not live.rows_elsewhere(Rights())[0]["unknown_since"])
    assert (await browser.post("/calls/far/hangup")).status_code == 200
    two.door_b.die()
    two.a.services.others._reconcile()
    rows = {row["call_id"]: row for row in (await browser.get("/calls/live")).json()["calls"]}
    assert list(rows) == ["near"]


async def test_a_call_of_another_node_is_followed_with_its_words_so_far(two: Neighbours) -> None:
    two.a.add("vera", Role.VIEWER)
    two.a.add("paula", Role.VIEWER, (Grant.PERSONAL,))
    calls = begin(two.b, "far")
    calls.take("far", 900, events.TurnEnded(1, 800), events.Heard(1, WORDS, 0.9))
    seen: dict[str, list[dict[str, Any]]] = {}
    for name in ("vera", "paula"):
        visit = await watching(two.a, name, topic="call", call="far")
        seen[name] = []
        while len(seen[name]) < 3:
            frame = await visit.frame()
            assert frame["id"] == 7
            seen[name] += frame.get("events", [])
        if name == "paula":
            calls.take("far", 1_500, events.Heard(2, "and butter", 0.9))
            while "and butter" not in json.dumps(frame):
                frame = await visit.frame()
            calls.end("far")
            while not frame.get("over"):
                frame = await visit.frame()
        await visit.leave()
    assert WORDS in json.dumps(seen["paula"])
    assert WORDS not in json.dumps(seen["vera"])
    watched = [(line["who"], line["action"]) for line in two.b.entries()]
    assert watched == [("paula@a", "call.watched")]
    assert [line["who"] for line in two.a.entries()] == ["paula"]


async def test_a_call_that_has_just_ended_on_its_node_is_not_followed_for_ever(
    two: Neighbours,
) -> None:
    two.a.add("vera", Role.VIEWER)
    begin(two.b, "far")
    await two.a.services.others.look()
    two.b.calls.clear()
    two.b.services.feed.live._facts.clear()  # our rows do not say so yet
    visit = await watching(two.a, "vera", topic="call", call="far")
    frame = await visit.frame()
    assert (frame["id"], frame["error"]["code"]) == (7, "not_there")
    (viewer,) = two.a.services.feed._viewers
    await until(lambda: not viewer._topics)
    await visit.leave()


async def test_somebody_listens_to_a_call_of_another_node(two: Neighbours) -> None:
    two.a.add("lisa", Role.OPERATOR, (Grant.LISTEN,))
    two.a.add("otto", Role.OPERATOR)
    begin(two.b, "far")
    operator = two.b.calls["far"].operator
    operator.frames = [b"\1" * 1600, b"\2" * 1600]
    assert (await two.a.browser("otto").post("/calls/far/listen")).status_code == 403
    browser = two.a.browser("lisa")
    ticket = (await browser.post("/calls/far/listen")).json()["ticket"]
    without = await browser.connect("/listen/far", LISTEN)
    assert (without.status, without.refusal["error"]["code"]) == (403, "no_ticket")
    visit = await browser.connect("/listen/far", LISTEN, PREFIX + ticket)
    assert (visit.status, visit.protocol) == (101, LISTEN)
    assert (await visit.frame())["rate"] == 8000
    assert [await visit.binary(), await visit.binary()] == operator.frames
    assert operator.asked == [("listen", "lisa@a")]
    await visit.leave()
    await until(lambda: operator.asked[-1] == ("listened", "lisa@a"))
    await until(lambda: [line["action"] for line in two.b.entries()][-1] == "call.listened")
    operator.may_listen = False
    refused = await browser.post("/calls/far/listen")
    assert (refused.status_code, code(refused)) == (409, "not_allowed_here")


async def test_a_listener_whose_node_is_cut_off_is_disconnected_on_both_sides(
    two: Neighbours,
) -> None:
    two.a.add("lisa", Role.OPERATOR, (Grant.LISTEN,))
    begin(two.b, "far")
    browser, operator = two.a.browser("lisa"), two.b.calls["far"].operator
    ticket = (await browser.post("/calls/far/listen")).json()["ticket"]
    visit = await browser.connect("/listen/far", LISTEN, PREFIX + ticket)
    await visit.frame()
    two.door_a.cut_off()
    assert await visit.closed() == 4503
    await until(lambda: operator.asked[-1] == ("listened", "lisa@a"))


async def test_one_live_call_of_another_node_is_shown_from_there(two: Neighbours) -> None:
    two.a.add("paula", Role.VIEWER, (Grant.PERSONAL,))
    begin(two.b, "call-demo")
    two.b.calls["call-demo"].conversation = Talk()
    browser = two.a.browser("paula")
    shown = await browser.get("/calls/call-demo")
    assert (shown.status_code, shown.json()["live"]) == (200, True)
    lines = await browser.get("/calls/call-demo/ledger")
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert lines.status_code == 200


async def test_what_is_not_meant_for_other_nodes_is_refused_there(two: Neighbours) -> None:
    fields = {"method": "GET", "path": "/users", "permissions": ("people.manage",)}
    exchange = await two.door_a.begin("b-1", {**fields, "scopes": ('["*"]',), "who": "eve"})
    start = await exchange.receive()
    assert (start.type, start.code) == ("start", 403)
    begin(two.b, "far")
    for scopes in (("[]",), (), ("nonsense",), ('["sales"]',)):
        fields = {"method": "POST", "path": "/calls/far/hangup", "scopes": scopes}
        more = {"permissions": ("calls.control", "from.the.future"), "who": "eve"}
        exchange = await two.door_a.begin("b-1", {**fields, **more})
        assert (await exchange.receive()).code == 404
    assert two.b.calls["far"].ended == []


def test_only_what_is_about_a_call_is_forwarded() -> None:
    forwarded = {(each.method, each.path) for each in ENDPOINTS if each.forwards}
    lists = {("GET", path) for path in ("/live", "/calls", "/calls/facets", "/calls/export")}
    assert all("{call_id}" in path for _, path in forwarded - lists)
    acts = ("hangup", "transfer", "takeover", "conference", "say", "hint", "whisper", "flag")
    assert {("POST", f"/calls/{{call_id}}/{act}") for act in acts} <= forwarded
    assert not any(each.elevated for each in ENDPOINTS if each.forwards)


async def test_the_cluster_is_shown_and_a_node_drained(two: Neighbours) -> None:
    two.a.add("adam", Role.ADMIN)
    two.a.add("vera", Role.VIEWER)
    two.a.add("some", Role.ADMIN, (), ("demo",))
    viewer, admin = two.a.browser("vera"), two.a.browser("adam")
    state = (await viewer.get("/cluster")).json()
    assert (state["clustered"], state["bus"]["connected"]) == (True, True)
    own, other = state["nodes"]
    assert (own["node"], own["own"], own["lease_age_ms"]) == ("a", True, None)
    assert (other["node"], other["version"], other["lease_age_ms"]) == ("b", "1.2.3", 250)
    for browser in (viewer, two.a.browser("some")):
        assert (await browser.post("/cluster/nodes/b/drain")).status_code == 403
    drained = {"node": "b", "draining": True, "moving": 0}
    assert (await admin.post("/cluster/nodes/b/drain")).json() == drained
    handed = await admin.post("/cluster/nodes/b/drain", {"hand_over": True})
    assert handed.json()["moving"] == 3
    assert two.door_b.draining
    assert two.a.entries()[-1]["action"] == "cluster.drain"
    assert two.a.entries()[-1]["on"] == "b"
    assert (await admin.post("/cluster/nodes/b/undrain")).json()["draining"] is False
    assert (await admin.post("/cluster/nodes/x/drain")).status_code == 404
    two.doors.away = True
    away = await admin.post("/cluster/nodes/b/drain")
    assert (away.status_code, code(away)) == (503, "bus_away")
    assert (await admin.post("/cluster/nodes/a/drain")).status_code == 200, "our own node"
    assert two.a.admission.draining_since is not None


async def test_a_limited_scope_sees_the_number_of_its_own_calls_in_the_cluster(
    two: Neighbours,
) -> None:
    two.a.add("vera", Role.VIEWER)
    two.a.add("sally", Role.VIEWER, (), ("sales",))
    for room, call_id, context in (
        (two.a, "1", "demo"), (two.a, "2", "sales"), (two.b, "3", "demo"), (two.b, "4", "demo"),
    ):  # fmt: skip
        begin(room, call_id, context)

    async def counts(name: str) -> list[tuple[int | None, int | None]]:
        nodes = (await two.a.browser(name).get("/cluster")).json()["nodes"]
        return [(each["live_calls"], each["free_slots"]) for each in nodes]

    assert await counts("vera") == [(1, 7), (1, 7)], "as the leases have it"
    assert await counts("sally") == [(1, None), (0, None)]
    begin(two.b, "5", "sales")
    await until(lambda: two.a.services.feed.live.elsewhere("5") is not None)
    assert await counts("sally") == [(1, None), (1, None)]
    two.door_b.cut_off()
    await until(lambda: two.a.services.others.problem("b-1") != "")
    assert await counts("sally") == [(1, None), (None, None)]


async def test_the_number_of_calls_of_an_engine_that_has_not_answered_is_unknown(
    two: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_engines, "LOOK_SECONDS", 0.01)
    two.a.add("sally", Role.VIEWER, (), ("sales",))

    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    two.door_b.take_requests(silent)
    nodes = (await two.a.browser("sally").get("/cluster")).json()["nodes"]
    assert [each["live_calls"] for each in nodes] == [0, None]


async def test_an_engine_alone_says_so(room: Room) -> None:
    room.add("adam", Role.ADMIN)
    browser = room.browser("adam")
    assert (await browser.get("/cluster")).json()["clustered"] is False
    refused = await browser.post("/cluster/nodes/a/drain")
    assert (refused.status_code, code(refused)) == (409, "no_cluster")


async def test_nobody_looks_and_nothing_is_followed(
    two: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_engines, "KEEP_SECONDS", 0.05)
    two.a.add("vera", Role.VIEWER)
    await asyncio.sleep(0.05)
    assert two.doors.requests == []
    await two.a.browser("vera").get("/calls/live")
    assert len(two.doors.requests) == 1
    others = two.a.services.others
    await until(lambda: not others._followers)
    await until(lambda: two.b.services.feed._viewers == set())


async def test_a_person_can_remove_a_note_of_theirs_from_a_call_of_another_node(
    two: Neighbours,
) -> None:
    two.b.on_record, two.a.on_record = [Told("far")], [Told("near")]
    two.a.add("otto", Role.OPERATOR)
    two.b.add("otto", Role.OPERATOR)
    browser, namesake = two.a.browser("otto"), two.b.browser("otto")
    for call_id, you in (("near", "otto"), ("far", "otto@a")):
        given = {"revision": "", "notes": [{"text": "Call back."}]}
        assert (await browser.ask("PUT", f"/calls/{call_id}/notes", given)).status_code == 200
        answer = await browser.get(f"/calls/{call_id}")
        shown = answer.json()
        (note,) = shown["call"]["notes"]["notes"]
        assert (shown["you"], note["by"]) == (you, you)
    given = {"revision": shown["call"]["notes_revision"], "notes": []}
    tag = {"If-None-Match": answer.headers["etag"]}
    assert (await browser.get("/calls/far", headers=tag)).status_code == 304
    theirs = await namesake.get("/calls/far", headers=tag)
    assert (theirs.json()["you"], theirs.json()["call"]["notes"]["notes"]) == ("otto", [note])
    refused = await namesake.ask("PUT", "/calls/far/notes", given)
    assert (refused.status_code, code(refused)) == (403, "not_yours")
    assert (await browser.ask("PUT", "/calls/far/notes", given)).status_code == 200


async def test_a_node_that_answers_late_may_have_the_call(
    two: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_engines, "LOOK_SECONDS", 0.05)
    two.a.add("vera", Role.VIEWER)

    async def never(_request: object, exchange: Exchange) -> None:
        await exchange.receive()

    two.door_b.take_requests(never)
    late = await two.a.browser("vera").get("/calls/far")
    assert (late.status_code, code(late)) == (503, "node_gone")
    assert "node b does not answer in time" in late.json()["error"]["message"]
    assert late.headers["retry-after"] == "2"
    two.door_b.take_requests(None)  # its admin port is off
    assert (await two.a.browser("vera").get("/calls/far")).status_code == 404


async def test_the_history_of_another_node_is_asked_for_and_its_calls_are_found_by_id(
    two: Neighbours,
) -> None:
    two.a.add("paula", Role.VIEWER, (Grant.PERSONAL,), ("demo",))
    two.a.add("vera", Role.VIEWER)
    two.b.on_record = [Told("old-demo", context="demo"), Told("old-sales", context="sales")]
    two.a.on_record = []
    paula, vera = two.a.browser("paula"), two.a.browser("vera")
    assert (await vera.get("/calls")).json()["rows"] == []
    listed = (await vera.get("/calls?node=b&limit=10")).json()["rows"]
    assert {row["id"] for row in listed} == {"old-demo", "old-sales"}
    assert [row["id"] for row in (await paula.get("/calls?node=b")).json()["rows"]] == ["old-demo"]
    counted = (await vera.get("/calls/facets?node=b")).json()["facets"]["context"]
    assert counted == {"demo": 1, "sales": 1}
    assert (await vera.get("/calls?node=x")).status_code == 404
    shown = await paula.get("/calls/old-demo")
    assert (shown.status_code, shown.json()["call"]["row"]["id"]) == (200, "old-demo")
    ledger = await paula.get("/calls/old-demo/ledger")
    assert ledger.text.splitlines()[0].startswith('{"at_ms":')
    assert (await vera.get("/calls/old-demo/ledger")).status_code == 403
    for path in ("/calls/old-sales", "/calls/none"):
        assert (await paula.get(path)).status_code == 404
    tags = {"revision": "", "tags": ["refund"]}
    assert (await paula.ask("PUT", "/calls/old-demo/tags", tags)).status_code == 200, (
        "kept beside the call"
    )
    assert [line["action"] for line in two.b.entries()] == ["call.tag"]
    two.door_b.cut_off()
    away = await paula.get("/calls/old-demo")
    assert (away.status_code, code(away)) == (503, "node_gone")
