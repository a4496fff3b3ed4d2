"""A call placed over the admin port: permission, scope, audit, repetition, and the policy."""

from __future__ import annotations

from cordboard.accounts.rights import Role

from .conftest import Room, code

WANTED = {"number": "+4722000000", "context": "demo", "message": "Please call us back."}


async def test_an_operator_places_a_call_once_and_the_audit_has_no_number(room: Room) -> None:
    room.add("otto", Role.OPERATOR)
    browser, key = room.browser("otto"), {"Idempotency-Key": "k-1"}
    placed = await browser.post("/calls", {**WANTED, "keys": ["1"]}, headers=key)
    assert placed.status_code == 200, placed.text
    again = await browser.post("/calls", {**WANTED, "keys": ["1"]}, headers=key)
    assert again.json() == placed.json()
    [order] = room.orders
    assert placed.json() == {"call_id": order.call_id}
    assert (order.number, order.context, order.message, order.keys) == (
        "+4722000000", "demo", "Please call us back.", ("1",),
    )  # fmt: skip
    [entry] = room.entries()
    assert (entry["action"], entry["context"]) == ("call.place", "demo")
    assert "+4722000000" not in str(entry)
    assert "call us back" not in str(entry)


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
