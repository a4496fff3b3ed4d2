"""Campaigns and the do-not-call list over the admin port."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import pytest

from cordboard.accounts.rights import Grant, Role
from cordboard.admin import outbound
from cordboard.calls.outbound_order import OutboundResult
from cordboard.outbound.campaigns.making import numbers_to_block
from cordboard.outbound.campaigns.store import CampaignStore

from .conftest import Room, code

LIST = "number,ORDER\n+4722000001,blue\n22 00 00 02,=1+1\n112,none\n+4722000001,twice\n"
WANTED = {"name": "spring", "context": "demo", "csv": LIST, "hours": "00:00-23:59"}


def called(room: Room, outcome: str) -> str:
    """Let the campaign call its next person; return the id of the call."""
    with closing(CampaignStore(room.running.outbound.campaigns)) as store:
        [claimed] = store.claim(1, room.clock.now)
        assert store.begin(claimed.call_id)
        store.finish(OutboundResult(claimed.call_id, outcome, "", "human", 2_000), room.clock.now)
    return claimed.call_id


async def test_a_list_becomes_a_campaign_that_is_started_paused_and_cancelled(room: Room) -> None:
    room.add("otto", Role.OPERATOR, (Grant.PERSONAL,))
    browser = room.browser("otto")
    assert (await browser.get("/campaigns")).json() == {"campaigns": []}
    assert not room.running.outbound.campaigns.exists(), "a look makes no file"
    made = (await browser.post("/campaigns", {**WANTED, "days": "mon-sun"})).json()
    assert (made["people"], made["left_out"]) == (2, 2)
    assert made["broken"] == [
        {"line": 4, "problem": "number: numbers of class emergency are shut"},
        {"line": 5, "problem": "the number is there already"},
    ]
    [campaign] = (await browser.get("/campaigns")).json()["campaigns"]
    assert (campaign["state"], campaign["people"]) == ("paused", {"pending": 2})
    assert campaign["waits"] == "", "it is not to call"
    assert (await browser.post("/campaigns/spring/start")).status_code == 200
    call_id = called(room, "answered")
    shown = (await browser.get("/campaigns/spring?limit=1")).json()
    assert shown["campaign"]["people"] == {"answered": 1, "pending": 1}
    [person] = shown["people"]
    assert (person["number"], person["outcome"], person["call_id"], person["duration_ms"]) == (
        "+4722000001", "answered", call_id, 2_000,
    )  # fmt: skip
    rest = (await browser.get(f"/campaigns/spring?cursor={shown['next']}")).json()
    assert [each["state"] for each in rest["people"]] == ["pending"]
    assert rest["next"] is None
    few = (await browser.get("/campaigns/spring?what=answered")).json()
    assert [each["number"] for each in few["people"]] == ["+4722000001"]
    assert (await browser.post("/campaigns/spring/pause")).status_code == 200
    assert (await browser.post("/campaigns/spring/cancel")).status_code == 200
    again = await browser.post("/campaigns/spring/start")
    assert (again.status_code, "is cancelled" in again.text) == (409, True)
    assert [entry["action"] for entry in room.entries()][:4] == [
        "campaign.make", "campaign.start", "campaign.pause", "campaign.cancel",
    ]  # fmt: skip
    assert {entry["on"] for entry in room.entries() if entry["result"] == "done"} == {"spring"}
    assert "4722000001" not in str(room.entries())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"context": "nowhere"}, "there is no such thing"),
        ({"csv": "number,bicycle\n+4722000001,blue\n"}, "'bicycle' is unknown"),
        ({"csv": "+4722000001\n"}, "expected the names of the columns"),
        ({"csv": ""}, "the list is empty"),
        ({"name": "a/b"}, "expected a name"),
        ({"name": "callbacks-demo"}, "promised call-backs"),
        ({"name": "Callbacks-demo"}, "promised call-backs"),
        ({"hours": "20:00-09:00"}, "the end must be after"),
        ({"days": "someday"}, "expected such as mon-fri"),
        ({"zone": "Europe/Olso"}, "there is no 'Europe/Olso'"),
        ({"keys": ["1x"]}, "other characters"),
        ({"consent": "x" * 1_001}, "at most 1000 characters"),
    ],
)  # fmt: skip
async def test_what_is_wrong_makes_no_campaign(
    room: Room, change: dict[str, object], told: str
) -> None:
    room.add("otto", Role.OPERATOR)
    browser = room.browser("otto")
    wrong = await browser.post("/campaigns", {**WANTED, **change})
    assert wrong.status_code in (404, 422), wrong.text
    assert told in wrong.text
    if wrong.status_code == 422:
        [place] = wrong.json()["error"]["at"]
        assert [place["key"]] == [*change], "the page shows it beside that field"
    assert (await browser.get("/campaigns")).json() == {"campaigns": []}
    assert (await browser.post("/campaigns", WANTED)).status_code == 200
    twice = await browser.post("/campaigns", WANTED)
    assert "already" in twice.text, twice.text
    assert twice.json()["error"]["at"][0]["key"] == "name"


async def test_numbers_are_masked_and_other_contexts_do_not_exist(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("sally", Role.OPERATOR, (Grant.PERSONAL,), ("sales",))
    otto, sally = room.browser("otto"), room.browser("sally")
    assert (await otto.post("/campaigns", WANTED)).status_code == 200
    shown = await otto.get("/campaigns/spring")
    assert [each["number"] for each in shown.json()["people"]] == ["*******0001", "*******0002"]
    assert "blue" not in shown.text
    results = (await otto.get("/campaigns/spring/results")).text.splitlines()
    assert results[0].startswith("number,state,outcome")
    assert [line.split(",")[0] for line in results[1:]] == ["*******0001", "*******0002"]
    assert room.entries()[-1]["action"] == "campaign.results"
    assert (await sally.get("/campaigns")).json() == {"campaigns": []}
    for answer in (
        await sally.get("/campaigns/spring"),
        await sally.get("/campaigns/spring/results"),
        await sally.post("/campaigns/spring/start"),
        await sally.post("/campaigns", {**WANTED, "name": "hers"}),
    ):
        assert (answer.status_code, code(answer)) == (404, "not_there")


async def test_the_do_not_call_list_counts_for_single_calls(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("anna", Role.ADMIN, (Grant.PERSONAL,))
    otto, anna = room.browser("otto"), room.browser("anna", elevated=True)
    assert (await otto.get("/do-not-call")).json() == {"numbers": [], "next": None}
    wrong = await otto.post("/do-not-call", {"numbers": ["+4722000001", "Kari"]})
    assert (wrong.status_code, "'Kari'" in wrong.text) == (422, True)
    assert wrong.json()["error"]["at"][0]["key"] == "numbers"
    added = await otto.post("/do-not-call", {"numbers": ["22 00 00 01", "+4722000002"]})
    assert added.json() == {"added": 2}
    masked = (await otto.get("/do-not-call?limit=1")).json()
    assert [each["number"] for each in masked["numbers"]] == ["*******0002"]
    shown = (await anna.get(f"/do-not-call?cursor={masked['next']}")).json()
    assert ([each["number"] for each in shown["numbers"]], shown["next"]) == (["+4722000001"], None)
    about = {"number": "+47 22 00 00 01", "context": "demo"}
    judged = (await otto.post("/calls/check-number", about)).json()
    assert (judged["number"], judged["country"], judged["kind"]) == ("+4722000001", "NO", "fixed")
    assert (judged["allowed"], judged["blocked"]) == (True, True)
    refused = await otto.post("/calls", about)
    assert (refused.status_code, code(refused)) == (403, "do_not_call")
    assert refused.json()["error"]["at"][0]["key"] == "number"
    reason = "she asked for it"
    assert (await otto.post("/calls", {**about, "despite_block": reason})).status_code == 200
    assert room.entries()[-1]["detail"]["despite_block"] == reason
    number = {"number": "22000001"}
    assert code(await otto.post("/do-not-call/remove", number)) == "not_elevated"
    assert (await anna.post("/do-not-call/remove", number)).status_code == 200
    assert (await anna.post("/do-not-call/remove", number)).status_code == 404
    assert (await otto.post("/calls", about)).status_code == 200
    premium = {"number": "+4782900000", "context": "demo"}
    judged = (await otto.post("/calls/check-number", premium)).json()
    assert (judged["allowed"], judged["rule"], judged["for_now"]) == (False, "number.class", False)
    assert "22000001" not in str(room.entries())


async def test_numbers_for_the_list_are_read_beside_the_event_loop(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.add("anna", Role.ADMIN)
    anna = room.browser("anna", elevated=True)
    read_in: list[int] = []

    def reading(*arguments: Any) -> list[str]:
        read_in.append(threading.get_ident())
        return numbers_to_block(*arguments)

    monkeypatch.setattr(outbound, "numbers_to_block", reading)
    added = await anna.post("/do-not-call", {"numbers": ["22 00 00 01"] * 1_000})
    assert added.json() == {"added": 1}
    removed = await anna.post("/do-not-call/remove", {"number": "22 00 00 01"})
    assert removed.status_code == 200
    assert len(read_in) == 2
    assert threading.get_ident() not in read_in


async def test_a_limited_scope_sees_the_number_of_its_own_outbound_calls(room: Room) -> None:
    room.add("sally", Role.VIEWER, (), ("sales",))
    room.add("otto", Role.OPERATOR)
    otto, sally = room.browser("otto"), room.browser("sally")
    for number in ("22000001", "22000002"):
        placed = await otto.post("/calls", {"number": number, "context": "demo"})
        assert placed.status_code == 200
    for call in room.calls.values():  # one of demo, one of sales
        call.outbound = object()
    assert (await otto.get("/outbound")).json()["live"] == 2
    assert (await sally.get("/outbound")).json()["live"] == 1
    room.calls["call-sales"].outbound = None
    assert (await sally.get("/outbound")).json()["live"] == 0


async def test_the_page_learns_whether_the_engine_may_call(room: Room) -> None:
    room.add("sally", Role.VIEWER, (), ("sales",))
    room.add("otto", Role.OPERATOR)
    state = (await room.browser("otto").get("/outbound")).json()
    assert (state["enabled"], state["max_calls"], state["live"]) == (True, 5, 0)
    assert state["contexts"][0] == {"context": "demo", "variables": ["ORDER"]}
    hers = (await room.browser("sally").get("/outbound")).json()
    assert [each["context"] for each in hers["contexts"]] == ["sales"]
