"""The firewall's caps over the admin port: what is used, and who sees which."""

from __future__ import annotations

from typing import Any

from cordboard.accounts.rights import Role
from cordboard.config.sections.firewall import Firewall

from .conftest import Room

RULES = {
    "zone": "Europe/Oslo",
    "incoming": {"per_caller": {"calls_per_minute": 3}, "per_trunk": {"live_calls": 9}},
    "trunks": {"PJSIP/acme": {"outgoing": {"live_calls": 5, "cost_per_day": 40}}},
}


async def shown(room: Room, name: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    answer = await room.browser(name).get("/caps")
    assert answer.status_code == 200, answer.text
    assert answer.json()["zone"] == "Europe/Oslo"
    return {(row["direction"], row["scope"], row["name"]): row for row in answer.json()["rows"]}


async def test_trunks_are_shown_beside_callers_with_what_is_used(room: Room) -> None:
    room.add("vera", Role.VIEWER)
    room.add("sally", Role.VIEWER, scope=("sales",))
    firewall = Firewall.model_validate(RULES)
    room.running = room.running.model_copy(update={"firewall": firewall})
    now = room.policy().now()
    room.counts.begin("in", "+4791234567", "demo", now, trunk="PJSIP/other")
    out = room.counts.begin("out", "+4791234567", "sales", now, lambda _: 2.5, "PJSIP/acme")
    room.counts.settle(out, now)
    rows = await shown(room, "vera")
    acme, other = rows["out", "trunk", "PJSIP/acme"], rows["in", "trunk", "PJSIP/other"]
    assert (acme["caps"]["live_calls"], acme["caps"]["cost_per_day"]) == (5, 40)
    assert (acme["used"]["live_calls"], acme["used"]["calls"], acme["used"]["cost"]) == (1, 1, 2.5)
    assert (other["caps"]["live_calls"], other["used"]["live_calls"]) == (9, 1)
    assert rows["in", "caller", ""]["caps"]["calls_per_minute"] == 3
    assert rows["in", "caller", ""]["used"] is None
    assert rows["in", "total", ""]["used"]["live_calls"] == 1
    assert rows["in", "context", "demo"]["used"]["calls"] == 1
    assert "91234567" not in str(rows)
    limited = await shown(room, "sally")
    assert {(scope, name) for _, scope, name in limited} == {("caller", ""), ("context", "sales")}
