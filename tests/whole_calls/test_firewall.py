"""The firewall before callers and their transfers by a real Asterisk, and over a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from cordboard.calls.events import CapUsedUp, FirewallRefused, Offered
from cordboard.errors import CallRefused, OutboundRefused
from cordboard.outbound.placing import CallWanted
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip import SipPhone

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]


async def refused(hotline, extension: str) -> int:
    """The SIP status with which a caller is refused."""
    caller = await hotline.dial(extension)
    with pytest.raises(CallRefused) as refusal:
        await caller.line.answered()
    await hotline.idle()
    return refusal.value.status


async def test_what_is_shut_is_not_reached_and_counts_survive_a_restart(open_hotline, tmp_path):
    def change(tree: dict[str, Any]) -> None:
        tree["admin"]["ui"] = {"data": str(tmp_path / "admin")}
        tree["firewall"] = {
            "deny": ["6001"],
            "incoming": {
                "block": ["+4790000001"],
                "attestation": "B",
                "per_caller": {"calls_per_day": 1},
            },
        }

    async with open_hotline(change) as hotline, SipPhone("sales") as sales:
        await hotline.asterisk.connect_phone("6001", sales.address)
        assert await refused(hotline, "attested") == 503, "blocked: Congestion() in the dialplan"
        assert await refused(hotline, "careful") == 503, "no attestation"
        caller = await hotline.dial("attested")
        await caller.greeted_to_the_end()
        began = await caller.ask("Please put me through to sales.")
        assert "sorry" in await caller.heard(since=began)
        event = await caller.event(FirewallRefused)
        assert (event.act, event.name, event.rule) == ("transfer", "sales", "number.deny")
        assert sales.calls == {}
        assert (await caller.says_goodbye()).by == "them", "the call went on"
        assert (await caller.history()).outcome == "completed"
        metric = "ai_agent_firewall_refused_total"
        assert await hotline.metric(metric, act="transfer", rule="number.deny") == 1
        assert await hotline.metric(metric, act="incoming", rule="caller.block") == 1

    (file,) = hotline.folder.glob("*/refused.jsonl")
    errors = [orjson.loads(line)["error"] for line in file.read_bytes().splitlines()]
    assert [error.partition(":")[0] for error in errors] == ["caller.block", "caller.attestation"]

    async with open_hotline(change) as again:
        statuses = [await refused(again, "attested"), await refused(again, "careful")]
        assert statuses == [503, 503]
        assert await refused(again, "attested") == 486, "the same caller as before the restart"
        assert await again.metric("ai_agent_refused_offers_total", reason="capped") == 1


async def test_trunks_are_known_by_asterisk_and_their_caps_hold(open_hotline, tmp_path):
    """Those of a caller's channel, and of the dial string of a call that the engine places."""

    def change(tree: dict[str, Any]) -> None:
        tree["admin"]["ui"] = {"data": str(tmp_path / "admin")}
        tree["outbound"] = {"enabled": True, "endpoint": "PJSIP/{digits}@phone-4790000003"}
        tree["outbound"]["ring_ms"] = 30_000
        tree["firewall"] = {
            "country": "NO",
            "incoming": {"per_trunk": {"live_calls": 1}},
            "outgoing": {"per_trunk": {"live_calls": 1}},
            "trunks": {"PJSIP/phone-4790000003": {"outgoing": {"calls_per_hour": 9}}},
        }

    async with (
        open_hotline(change) as hotline,
        SipPhone("street", answers=False, ring_seconds=0.3) as phone,
    ):
        await hotline.asterisk.connect_phone("4790000003", phone.address)
        caller = await hotline.dial("attested")
        await caller.greeted()
        came_by = (await caller.event(Offered)).trunk
        assert came_by == "PJSIP/caller", "the endpoint of the test's Asterisk"
        refusal = await hotline.dial("attested")
        with pytest.raises(CallRefused) as refused:
            await refusal.line.answered()
        assert refused.value.status == 486

        async def place() -> str:
            return await hotline.engine.outbound.place(CallWanted("+4790000003", "reception"))

        call_id = await place()
        ringing = await phone.incoming()
        with pytest.raises(OutboundRefused) as no_room:
            await place()
        assert (no_room.value.reason, "cap.trunk" in str(no_room.value)) == ("not_now", True)
        labels = {"trunk": "PJSIP/phone-4790000003", "direction": "out"}
        assert await hotline.metric("ai_agent_trunk_calls", **labels) == 1
        ringing.answer()
        await ringing.hear_speech()
        (offered,) = [event for event in hotline.of(call_id) if isinstance(event, Offered)]
        assert offered.trunk == "PJSIP/phone-4790000003"
        ringing.hangup()
        caller.line.hangup()
        await hotline.idle()
        assert await hotline.metric("ai_agent_trunk_calls", **labels) == 0
        async with asyncio.timeout(PATIENCE):
            await hotline.engine.outbound.ended(call_id)
        again = await place()
        (await phone.incoming()).reject(486)
        assert (await hotline.engine.outbound.ended(again)).outcome == "busy"
        await hotline.idle()

    (file,) = hotline.folder.glob("*/refused.jsonl")
    (line,) = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert (line["trunk"], line["error"].partition(":")[0]) == (came_by, "cap.trunk")


async def test_a_budget_ends_a_call_and_is_still_used_up_after_a_restart(open_hotline, tmp_path):
    def change(tree: dict[str, Any]) -> None:
        tree["admin"]["ui"] = {"data": str(tmp_path / "admin")}
        tree["prices"] = {"currency": "NOK"}
        tree["firewall"] = {
            "tariffs": [{"direction": "in", "trunks": ["PJSIP/caller"], "per_minute": 60}],
            "trunks": {"PJSIP/caller": {"incoming": {"cost_per_day": 6}}},
            "used_up": {
                "warning": "You have to finish now.",
                "end_after_ms": 6_000,
                "goodbye": "Our time is over. Goodbye.",
            },
        }

    async with open_hotline(change) as hotline:
        caller = await hotline.dial("attested")
        await caller.greeted()
        warned = await caller.event(CapUsedUp)
        assert (warned.rule, warned.act) == ("cap.trunk", "warned")
        ended = await caller.event(CapUsedUp, count=2)
        assert ended.act == "ended"
        assert (await caller.line.ended()).by == "them"
        words = await caller.heard()
        assert "finish" in words
        assert "goodbye" in words
        assert (await caller.history()).reason == "budget"
        await hotline.idle()

    async with open_hotline(change) as again:
        assert await refused(again, "attested") == 486
