"""Campaigns and the telephone firewall: what is shut for now waits, what is shut is refused."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cordboard.calls.callbacks import local_now
from cordboard.calls.outbound_order import OutboundOrder, OutboundResult
from cordboard.config.schema import Config, Context
from cordboard.errors import OutboundRefused
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns import runner as runner_module
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import CallWanted, OutboundCalls

NUMBERS = ("+4790000001", "+4790000002", "+4790000003", "+4790000004")
NOT_NOW = {
    "days": [f"{local_now() + timedelta(days=3):%a}".lower()],
    "from": "00:00",
    "to": "01:00",
}


class Town:
    """An engine whose calls are answered and over at once, and are counted."""

    def __init__(self, file: Path, endpoint: str = "PJSIP/{number}@trunk", **firewall: Any) -> None:
        self.config = Config.model_validate(
            {
                "contexts": {
                    "demo": {"greeting": "Hello.", "purpose": "It is about your {order}."},
                    "plain": {"greeting": "Hello."},
                },
                "outbound": {"enabled": True, "max_calls": 4, "endpoint": endpoint},
                "firewall": {"country": "NO", **firewall},
            }
        )
        self.counts = Counts()
        self.dialled: list[str] = []
        self.orders: list[OutboundOrder] = []
        policy = Policy(self.config.firewall)
        self.blocked: set[str] = set()
        self.calls = OutboundCalls(
            lambda: self.config,
            self.place,
            lambda: policy,
            self.counts,
            self.is_blocked,
            PlacedCalls(file),
        )

    async def is_blocked(self, number: str) -> bool:
        return number in self.blocked

    def place(self, order: OutboundOrder, finished: Any) -> None:
        self.orders.append(order)
        self.dialled.append(order.number)
        now = local_now()
        live = self.counts.begin("out", order.number, order.context, now, trunk=order.trunk)
        self.counts.end(live, now)
        result = OutboundResult(order.call_id, "answered", "caller_hangup", "human", 20)
        asyncio.get_running_loop().call_soon(finished, result)


@pytest.mark.parametrize(
    ("outgoing", "called"), [({"total": {"calls_per_day": 2}}, 2), ({"hours": [NOT_NOW]}, 0)]
)
async def test_a_campaign_waits_for_hours_and_caps(
    tmp_path: Path, outgoing: dict[str, Any], called: int
) -> None:
    path = tmp_path / "c.db"
    town = Town(path, outgoing=outgoing, deny=["+4790000001"])
    settings = CampaignSettings("demo", "00:00-23:59", "mon-sun", concurrency=4)
    with closing(CampaignStore(path)) as store:
        people = (Row(number, each, "Europe/Oslo", {}) for number, each in enumerate(NUMBERS, 2))
        assert not list(store.add_people(store.add("spring", settings), people))
        store.set_state("spring", "running")
        runner = CampaignRunner(lambda: path, town.calls, print, look_seconds=0.01)
        runner.start()
        async with asyncio.timeout(60):
            while not settled(store):  # noqa: ASYNC110 - another thread writes
                await asyncio.sleep(0.01)
        await runner.close()
        assert not store.claim(4, time.time()), "they wait"
        [status] = store.status("spring")
        assert status["waits"].startswith("not_now: "), "the operator sees why"
        found = {row["number"]: (row["state"], row["reason"]) for row in store.results("spring")}
    assert len(town.dialled) == called
    state, reason = found.pop("+4790000001")
    assert (state, reason.partition(":")[0]) == ("done", "number.deny"), "it is never called"
    states = sorted(state for state, _ in found.values())
    assert states == ["done"] * called + ["pending"] * (3 - called)


async def test_a_newer_configuration_with_a_mistake_uses_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "PUT_OFF_SECONDS", 0.05)
    path = tmp_path / "c.db"
    town = Town(path)
    settings = CampaignSettings("demo", "00:00-23:59", "mon-sun", concurrency=4)
    mistakes = town.config.model_copy(update={"contexts": {"plain": Context()}})
    right, town.config = town.config, mistakes
    with closing(CampaignStore(path)) as store:
        people = (Row(number, each, "Europe/Oslo", {}) for number, each in enumerate(NUMBERS, 2))
        assert not list(store.add_people(store.add("spring", settings), people))
        store.set_state("spring", "running")
        with capture_logs() as logs:
            runner = CampaignRunner(lambda: path, town.calls, print, look_seconds=0.01)
            runner.start()
            async with asyncio.timeout(60):
                while not store.status("spring")[0]["waits"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            town.config = right
            async with asyncio.timeout(60):
                while len(town.dialled) < len(NUMBERS):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await runner.close()
        assert store.status("spring")[0]["waits"] == ""
    said = [line["reason"] for line in logs if line["event"] == "campaign_waits"]
    assert said == ["unknown_context: there is no such context"], "once"


def settled(store: CampaignStore) -> bool:
    """True when all four, whom the first look has claimed, were tried."""
    states = {row["state"] for row in store.results("spring")}
    return "done" in states and not states & {"claimed", "dialling"}


async def test_a_number_is_called_in_the_form_of_its_country_or_of_the_world(
    tmp_path: Path,
) -> None:
    town = Town(
        tmp_path / "c.db", countries=["NO", "SE"], outgoing={"per_caller": {"calls_per_day": 2}}
    )
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


@pytest.mark.parametrize(
    ("endpoint", "trunk"),
    [
        ("PJSIP/{number}@acme", "PJSIP/acme"),
        ("PJSIP/acme/sip:{digits}@pbx.example.com", "PJSIP/acme"),
        ("PJSIP/{number}", "PJSIP"),
        ("PJSIP/out-{digits}", "PJSIP"),
        ("Local/{number}/n", "Local"),
    ],
)
async def test_no_number_becomes_the_name_of_a_trunk(
    tmp_path: Path, endpoint: str, trunk: str
) -> None:
    """Else it would stand in the ledger and in the file of the counts, and have caps of its own."""
    town = Town(tmp_path / "c.db", endpoint, outgoing={"per_trunk": {"calls_per_day": 2}})
    for number in NUMBERS[:2]:
        await town.calls.ended(await town.calls.place(CallWanted(number, "demo")))
    assert {order.trunk for order in town.orders} == town.counts.names("trunk") == {trunk}
    with pytest.raises(OutboundRefused, match=r"cap\.trunk"):
        await town.calls.place(CallWanted(NUMBERS[2], "demo"))


async def test_a_number_on_the_do_not_call_list_needs_a_reason(tmp_path: Path) -> None:
    town = Town(tmp_path / "c.db")
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


async def test_a_screening_service_is_told_who_calls_and_why(tmp_path: Path) -> None:
    town = Town(tmp_path / "c.db")
    for context, purpose in (("demo", "Your parcel is here."), ("demo", ""), ("plain", "")):
        await town.calls.place(CallWanted("90 00 00 01", context, purpose=purpose))
    assert [order.introduction for order in town.orders] == [
        "Hello, this is {context_name}. Your parcel is here.",
        "Hello, this is {context_name}. It is about your {order}.",
        "Hello, this is {context_name}.",
    ]
    with pytest.raises(OutboundRefused, match="purpose: at most 500"):
        await town.calls.place(CallWanted("90 00 00 01", "demo", purpose="x" * 501))


async def test_nobody_is_called_while_the_do_not_call_list_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "c.db"
    town = Town(file)
    file.write_text("no database")
    blocked, policy = CallbackQueue(file).is_blocked, Policy(town.config.firewall)
    calls = OutboundCalls(
        lambda: town.config,
        town.place,
        lambda: policy,
        town.counts,
        blocked,
        PlacedCalls(file),
    )
    with pytest.raises(OutboundRefused, match="cannot be used") as refused:
        await calls.place(CallWanted("+4790000001", "demo"))
    assert (refused.value.reason, town.dialled) == ("no_list", [])
