"""A caller who is taken out of the agent's bridge by something else; in virtual time."""

from __future__ import annotations

import asyncio

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard.telephony.asterisk.way_back import OUTSIDE_SECONDS, WayBack
from cordboard_testkit.virtual_time import in_virtual_time


class Place:
    """Where one caller is, and where they belong."""

    def __init__(self) -> None:
        self.belongs = True
        self.refused = False
        self.brought_back = 0
        self.way = WayBack("ours", lambda: self.belongs, self._enter)

    async def _enter(self) -> None:
        self.brought_back += 1
        if self.refused:
            raise AsteriskError("no such channel", 404)

    def left(self, bridge: str = "ours") -> None:
        self.way.handle(Event("ChannelLeftBridge", body={"bridge": {"id": bridge}}))

    def entered(self, bridge: str = "ours") -> None:
        self.way.handle(Event("ChannelEnteredBridge", body={"bridge": {"id": bridge}}))


@in_virtual_time
async def test_only_a_caller_who_belongs_in_the_bridge_and_stays_outside_is_brought_back() -> None:
    place = Place()
    place.left()
    await asyncio.sleep(OUTSIDE_SECONDS / 2)
    place.entered()  # a phone that enters anew
    place.left("another")
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 0
    place.left()
    place.entered("another")  # says nothing of ours
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 1
    place.belongs = False  # sent elsewhere, or hung up
    place.left()
    await asyncio.sleep(OUTSIDE_SECONDS * 2)
    assert place.brought_back == 1


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
