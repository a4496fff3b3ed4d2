"""Campaigns and the telephone firewall: what is shut for now waits, what is shut is refused."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.call_firewall import local_now
from cordboard.calls.outbound_order import OutboundOrder, OutboundResult
from cordboard.config.schema import Config
from cordboard.errors import OutboundRefused
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.outbound.placing import CallWanted, OutboundCalls

NUMBERS = ("+4790000001", "+4790000002", "+4790000003", "+4790000004")
NOT_NOW = {
    "days": [f"{local_now() + timedelta(days=3):%a}".lower()],
    "from": "00:00",
    "to": "01:00",
}


class Town:
    """An engine whose calls are answered and over at once, and are counted."""

    def __init__(self, **firewall: Any) -> None:
        self.config = Config.model_validate(
            {
                "contexts": {"demo": {"greeting": "Hello."}},
                "outbound": {"enabled": True, "max_calls": 4},
                "firewall": {"country": "NO", **firewall},
            }
        )
        self.counts = Counts()
        self.dialled: list[str] = []
        policy = Policy(self.config.firewall)
        self.blocked: set[str] = set()
        self.calls = OutboundCalls(
            lambda: self.config, self.place, lambda: policy, self.counts, self.is_blocked
        )

    async def is_blocked(self, number: str) -> bool:
        return number in self.blocked

    def place(self, order: OutboundOrder, finished: Any) -> None:
        self.dialled.append(order.number)
        self.counts.act("out", order.number, order.context, local_now())
        result = OutboundResult(order.call_id, "answered", "caller_hangup", "human", 20)
        asyncio.get_running_loop().call_soon(finished, result)


@pytest.mark.parametrize(
    ("outgoing", "called"), [({"total": {"calls_per_day": 2}}, 2), ({"hours": [NOT_NOW]}, 0)]
)
async def test_a_campaign_waits_for_hours_and_caps(
    tmp_path: Path, outgoing: dict[str, Any], called: int
) -> None:
    town, path = Town(outgoing=outgoing, deny=["+4790000001"]), tmp_path / "c.db"
    settings = CampaignSettings("demo", "00:00-23:59", "mon-sun", concurrency=4)
    with closing(CampaignStore(path)) as store:
        people = (Row(number, each, "Europe/Oslo", {}) for number, each in enumerate(NUMBERS, 2))
        assert not list(store.add_people(store.add("spring", settings), people))
        store.set_state("spring", "running")
        runner = CampaignRunner(lambda: path, town.calls, print, look_seconds=0.01)
        runner.start()
        async with asyncio.timeout(30):
            while not settled(store):  # noqa: ASYNC110 - another thread writes
                await asyncio.sleep(0.01)
        await runner.close()
        assert not store.claim(4, time.time()), "they wait"
        found = {row["number"]: (row["state"], row["reason"]) for row in store.results("spring")}
    assert len(town.dialled) == called
    state, reason = found.pop("+4790000001")
    assert (state, reason.partition(":")[0]) == ("done", "number.deny"), "it is never called"
    states = sorted(state for state, _ in found.values())
    assert states == ["done"] * called + ["pending"] * (3 - called)


def settled(store: CampaignStore) -> bool:
    """True when all four, whom the first look has claimed, were tried."""
    states = {row["state"] for row in store.results("spring")}
    return "done" in states and not states & {"claimed", "dialling"}


async def test_a_number_is_called_in_the_form_of_its_country_or_of_the_world() -> None:
    town = Town(countries=["NO", "SE"], outgoing={"per_caller": {"calls_per_day": 2}})
    for number in ("90 00 00 01", "+47 90 00 00 01"):
        call_id = await town.calls.place(CallWanted(number, "demo"))
        await town.calls.ended(call_id)
    assert town.dialled == ["+4790000001"] * 2
    with pytest.raises(OutboundRefused, match=r"cap\.caller") as refused:
        await town.calls.place(CallWanted("0047 90000001", "demo"))
    assert refused.value.reason == "not_now"
    for number, rule in (
        ("+4532123456", "country"),
        ("112", "class"),
        ("90000001&1", "unreadable"),
    ):
        with pytest.raises(OutboundRefused, match=rf"number\.{rule}") as refused:
            await town.calls.place(CallWanted(number, "demo"))
        assert refused.value.reason == "not_allowed"


async def test_a_number_on_the_do_not_call_list_needs_a_reason() -> None:
    town = Town()
    town.blocked.add("+4790000001")
    judged = await town.calls.judge("90 00 00 01", "demo")
    assert (judged.decision.allowed, judged.blocked) == (True, True)
    with pytest.raises(OutboundRefused, match="do-not-call list") as refused:
        await town.calls.place(CallWanted("90 00 00 01", "demo"))
    assert refused.value.reason == "do_not_call"
    wanted = CallWanted("90 00 00 01", "demo", despite_block="she asked for it at the counter")
    await town.calls.ended(await town.calls.place(wanted))
    assert town.dialled == ["+4790000001"]
    with pytest.raises(OutboundRefused, match=r"number\.class"):
        await town.calls.place(
            CallWanted("112", "demo", despite_block="a reason opens no firewall")
        )


async def test_nobody_is_called_while_the_do_not_call_list_cannot_be_read(tmp_path: Path) -> None:
    town = Town()
    (tmp_path / "c.db").write_text("no database")
    blocked = CallbackQueue(lambda: tmp_path / "c.db").is_blocked
    policy = Policy(town.config.firewall)
    calls = OutboundCalls(lambda: town.config, town.place, lambda: policy, town.counts, blocked)
    with pytest.raises(OutboundRefused, match="cannot be used") as refused:
        await calls.place(CallWanted("+4790000001", "demo"))
    assert (refused.value.reason, town.dialled) == ("no_list", [])
