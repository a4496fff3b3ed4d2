"""The firewall before callers and their transfers by a real Asterisk, and over a restart."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from cordboard.calls.events import FirewallRefused
from cordboard.errors import CallRefused
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
        await caller.say("Goodbye.")
        assert (await caller.line.ended()).by == "them", "the call went on"
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
