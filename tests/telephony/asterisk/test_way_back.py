"""A caller who is taken out of the agent's bridge by something else; in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.telephony.asterisk.way_back import OUTSIDE_SECONDS, WayBack
from cordboard_testkit.virtual_time import in_virtual_time


class Place:
    """An Asterisk with one caller."""

    def __init__(self) -> None:
        self.belongs = True
        self.bridge = ""
        self.refused = False
        self.brought_back = 0
        self.asked = 0
        self.way = WayBack(self, "ours", "caller", lambda: self.belongs)  # type: ignore[arg-type]

    async def request(self, method: str, path: str, **query: str) -> list[dict[str, Any]]:
        self.asked += 1
        if method == "GET":
            return [{"id": self.bridge, "channels": ["caller"] if self.bridge else []}]
        assert (path, query) == ("bridges/ours/addChannel", {"channel": "caller"})
        self.brought_back += 1
        if self.refused:
            raise AsteriskError("no such channel", 404)
        self.entered("ours")
        return []

    def left(self, bridge: str = "ours") -> None:
        self.bridge = ""
        self.way.handle(Event("ChannelLeftBridge", body={"bridge": {"id": bridge}}))

    def entered(self, bridge: str = "ours") -> None:
        self.bridge = bridge
        self.way.handle(Event("ChannelEnteredBridge", body={"bridge": {"id": bridge}}))


@in_virtual_time
async def test_only_a_caller_who_belongs_in_the_bridge_and_stays_outside_is_brought_back() -> None:
    place = Place()
    place.left()
    await asyncio.sleep(OUTSIDE_SECONDS / 2)
    place.entered()  # a phone that enters anew
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 0
    place.left()
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert (place.brought_back, place.bridge) == (1, "ours")
    place.left()
    place.belongs = False  # sent elsewhere, or hung up
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 1


@in_virtual_time
async def test_a_caller_whom_another_engine_has_put_into_its_bridge_is_left_there() -> None:
    """It may be slow to move them; if it gives them up, they come back."""
    place = Place()
    place.left()
    place.entered("theirs")
    await asyncio.sleep(OUTSIDE_SECONDS * 9)
    assert place.brought_back == 0
    place.left("theirs")
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert (place.brought_back, place.bridge) == (1, "ours")


@in_virtual_time
async def test_a_return_that_was_not_told_is_noticed() -> None:
    """The event is missed in a break of the connection."""
    place = Place()
    place.left()
    place.bridge = "ours"
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    asked = place.asked
    await asyncio.sleep(OUTSIDE_SECONDS * 9)
    assert (place.asked, place.brought_back) == (asked, 0)


@in_virtual_time
async def test_a_caller_who_has_gone_meanwhile_is_let_go() -> None:
    place = Place()
    place.refused = True
    place.left()
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 1
    place.left()
    place.way.close()
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 1
