"""Phones to which a bridge sends nothing since a third channel came. Without Asterisk, in virtual
time; that it helps a real one is shown by the conferences of `tests/whole_calls/test_parties.py`,
whose caller gets no packet otherwise where the agent's media is RTP."""

from __future__ import annotations

import asyncio
from typing import Any

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.bridge_sound import restore_sound
from cordboard_testkit.virtual_time import in_virtual_time


class Bridge:
    """The requests of an Asterisk with one bridge, which sends fifty packets a second to each
    phone that is not deaf."""

    def __init__(self, *deaf: str) -> None:
        self.channels = ["caller", "media", "guest"]
        self.deaf = set(deaf)
        self.heals = True
        self.gone: set[str] = set()
        self.sent: dict[str, float] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def request(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        channel = query.get("channel", "")
        if path == "bridges/b":
            if "b" in self.gone:
                raise AsteriskError("no bridge", 404)
            return {"channels": self.channels}
        if path.endswith("/rtp_statistics"):
            channel = path.split("/")[1]
            if channel == "media" or channel in self.gone:
                raise AsteriskError("no statistics", 404)
            now = asyncio.get_running_loop().time()
            if channel not in self.deaf:
                self.sent[channel] = now * 50
            return {"txcount": int(self.sent.get(channel, 7))}
        self.asked.append((f"{path.removeprefix('bridges/b/')} {channel}", query))
        if path.endswith("addChannel") and self.heals:
            self.deaf.discard(channel)
        return None


async def restored(bridge: Bridge) -> list[str]:
    await restore_sound(bridge, "b", absorbing=("guest",))  # type: ignore[arg-type]
    return [asked for asked, _ in bridge.asked]


@in_virtual_time
async def test_nothing_is_done_where_all_phones_have_sound() -> None:
    assert await restored(Bridge()) == []


@in_virtual_time
async def test_a_phone_without_sound_enters_anew_as_it_was() -> None:
    bridge = Bridge("guest")
    assert await restored(bridge) == ["removeChannel guest", "addChannel guest"]
    assert bridge.asked[1][1]["absorbDTMF"] == "true"
    bridge = Bridge("caller")
    assert await restored(bridge) == ["removeChannel caller", "addChannel caller"]
    assert bridge.asked[1][1]["absorbDTMF"] == "false", "the caller's keys are for the agent"


@in_virtual_time
async def test_a_phone_that_loses_its_sound_by_the_other_s_entry_has_it_too() -> None:
    bridge = Bridge("caller")
    request = bridge.request

    async def harms(method: str, path: str, body: Any = None, **query: str) -> Any:
        if path.endswith("addChannel") and query["channel"] == "caller":
            bridge.deaf.add("guest")
        return await request(method, path, body, **query)

    bridge.request = harms  # type: ignore[method-assign]
    assert (await restored(bridge))[2:] == ["removeChannel guest", "addChannel guest"]


@in_virtual_time
async def test_it_ends_where_nothing_helps_and_where_all_are_gone() -> None:
    bridge = Bridge("caller")
    bridge.heals = False
    assert len(await restored(bridge)) == 6
    bridge = Bridge("caller")
    bridge.gone = {"caller", "guest"}
    assert await restored(bridge) == []
    bridge.gone = {"b"}
    assert await restored(bridge) == []
