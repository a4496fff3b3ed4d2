"""A call placed over the admin port: permission, scope, audit, repetition, and the policy."""

from __future__ import annotations

from cordboard.accounts.rights import Role
from cordboard.outbound.placed import PlacedCalls

from .conftest import Room, code

WANTED = {"number": "+4722000000", "context": "demo", "message": "Please call us back."}


async def test_an_operator_places_a_call_once_and_the_audit_has_no_number(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser, key = room.browser("otto"), {"Idempotency-Key": "k-1"}
    wanted = {**WANTED, "keys": ["1"], "purpose": "Your bicycle is ready."}
    placed = await browser.post("/calls", wanted, headers=key)
    assert placed.status_code == 200, placed.text
    again = await browser.post("/calls", wanted, headers=key)
    assert again.json() == placed.json()
    [order] = room.orders
    assert placed.json() == {"call_id": order.call_id}
    assert (order.number, order.context, order.message, order.keys) == (
        "+4722000000", "demo", "Please call us back.", ("1",),
    )  # fmt: skip
    assert order.introduction.endswith("Your bicycle is ready.")
    [entry] = room.entries()
    assert (entry["action"], entry["context"]) == ("call.place", "demo")
    assert "+4722000000" not in str(entry)
    assert "call us back" not in str(entry)


async def test_a_call_that_never_reached_the_history_shows_how_it_ended(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("sally", Role.OPERATOR, scope=("sales",))
    browser = room.browser("otto")
    call_id = (await browser.post("/calls", WANTED)).json()["call_id"]
    shown = await browser.get(f"/outbound/calls/{call_id}")
    assert shown.json() == {"live": True, "outcome": "", "reason": ""}
    assert (await room.browser("sally").get(f"/outbound/calls/{call_id}")).status_code == 404

    other, cut = PlacedCalls(room.running.outbound.campaigns), "of-another-engine"
    assert await other.begin(cut, "demo")
    assert (await browser.get(f"/outbound/calls/{cut}")).json()["live"]
    await other.close()  # as if it were killed: the call has no end
    assert (await browser.get(f"/calls/{cut}")).status_code == 404
    shown = await browser.get(f"/outbound/calls/{cut}")
    assert shown.json() == {"live": False, "outcome": "interrupted", "reason": "engine_killed"}
    assert (await browser.get("/outbound/calls/unknown")).status_code == 404


async def test_a_call_that_is_not_allowed_is_refused(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    room.add("vera", Role.VIEWER)
    room.add("sally", Role.OPERATOR, scope=("sales",))
    assert code(await room.browser("vera").post("/calls", WANTED)) == "forbidden"
    assert (await room.browser("sally").post("/calls", WANTED)).status_code == 404
    browser = room.browser("otto")
    for change, status in (
        ({"number": "112"}, 403),
        ({"number": "+4622000000"}, 403),
        ({"number": "+4782900000"}, 403),
        ({"keys": ["1x"]}, 422),
        ({"variables": {"OTHER": "x"}}, 400),
    ):
        refused = await browser.post("/calls", {**WANTED, **change})
        assert refused.status_code == status, refused.text
    assert not room.orders
    assert "failed" in [entry["result"] for entry in room.entries()]
