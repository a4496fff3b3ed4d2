"""A promised call-back: from the queue's file to the call, through the firewall, once."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cordboard.calls.outbound_order import OutboundOrder, OutboundResult, PromisedCall
from cordboard.config.schema import Config
from cordboard.config.tools.messages import CallbackSettings
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.campaigns.store import CampaignStore
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import OutboundCalls
from cordboard_testkit.patience import until

CONFIG = Config.model_validate(
    {
        "contexts": {"demo": {"variables": ["callback_about"]}},
        "outbound": {"enabled": True},
        "firewall": {"country": "NO"},
    }
)
WEEK = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


@pytest.mark.parametrize(("number", "outcome"), [("+4722000001", "answered"), ("+4782900000", "")])
async def test_a_promise_is_kept_once_through_the_firewall(
    tmp_path: Path, number: str, outcome: str
) -> None:
    now, path, placed = datetime.now(UTC), tmp_path / "c.db", list[OutboundOrder]()
    zone = f"Etc/GMT{now.hour - 12:+d}"  # it is noon there
    settings = CallbackSettings.model_validate(
        {"zone": zone, "hours": {"days": WEEK, "from": "09:00", "to": "16:00"}, "message": "Bye."}
    )
    queue = CallbackQueue(path)
    assert not await queue.is_blocked(number)
    assert not path.exists(), "a question makes no file"
    promise = PromisedCall(number, "demo", now + timedelta(seconds=0.5), zone)
    assert await queue.add(promise, settings, {"callback_about": "The bicycle."})

    def place(order: OutboundOrder, finished) -> None:
        placed.append(order)
        result = OutboundResult(order.call_id, "answered", "", "human", 20)
        asyncio.get_running_loop().call_later(0.01, finished, result)

    policy = Policy(CONFIG.firewall)
    book = PlacedCalls(path)
    calls = OutboundCalls(lambda: CONFIG, place, lambda: policy, Counts(), queue.is_blocked, book)
    runner = CampaignRunner(lambda: path, calls, print, look_seconds=0.01)
    runner.start()
    with closing(CampaignStore(path)) as store:
        await until(lambda: next(store.results("callbacks-demo"))["state"] == "done")
        [person] = store.results("callbacks-demo")
    await runner.close()
    assert person["outcome"] == (outcome or "refused")
    if not outcome:
        assert not placed
        return
    [order] = placed
    assert (order.number, order.message) == (number, "Bye.")
    assert dict(order.variables) == {"callback_about": "The bicycle."}
    assert person["began"] >= promise.at.timestamp()
