"""Sound for every phone of a bridge that a third channel has entered.

With the third channel Asterisk turns a bridge of two into a `softmix`, and now and then it sends
one of the phones not one packet more, until that phone enters the bridge anew. Measured on 22.10.1:
8 of some 1,700 times from `simple_bridge`, also from `native_rtp`, and always where the agent's
media is RTP; none of 720 times with this module. The agent's own media lost nothing in some 800.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial

import structlog

from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.caller_side import together

log = structlog.get_logger()

LOOK_SECONDS = 0.1
"""Time in which a phone with sound gets a few packets."""
TRIES = 3
"""Most looks: a phone that enters anew may take another one's sound away."""
NO_SOUND = 404
"""Status of the statistics of a channel that is gone, or has no RTP."""


async def restore_sound(ari: AriClient, bridge: str, absorbing: Collection[str] = ()) -> None:
    """Have the phones enter a bridge anew to which it sends nothing. `absorbing`: those whose keys
    do not reach the bridge. Returns soon, and leaves a bridge alone that Asterisk does not show."""
    try:
        for _ in range(TRIES):
            body = await ari.request("GET", f"bridges/{bridge}")
            before = await _packets(ari, body["channels"])
            await asyncio.sleep(LOOK_SECONDS)
            now = await _packets(ari, before)
            deaf = [each for each, sent in now.items() if sent == before[each]]
            if not deaf:
                return
            log.warning("phones_without_sound", bridge=bridge, channels=deaf)
            for channel in deaf:
                # In a task of its own, so that a cancelled call leaves no phone outside.
                again = _enter_anew(ari, bridge, channel, absorbs=channel in absorbing)
                await asyncio.shield(asyncio.create_task(again, name=f"enter anew {channel}"))
    except AsteriskError as error:
        log.warning("sound_not_restored", bridge=bridge, error=str(error))


async def _packets(ari: AriClient, channels: Collection[str]) -> Mapping[str, int]:
    """Return the number of packets sent to each of the phones. Raises `AsteriskError`."""
    found = await asyncio.gather(*(_sent(ari, channel) for channel in channels))
    return {each: sent for each, sent in zip(channels, found, strict=True) if sent is not None}


async def _sent(ari: AriClient, channel: str) -> int | None:
    try:
        body = await ari.request("GET", f"channels/{channel}/rtp_statistics")
    except AsteriskError as error:
        if error.status == NO_SOUND:
            return None
        raise
    return int(body["txcount"])


async def _enter_anew(ari: AriClient, bridge: str, channel: str, *, absorbs: bool) -> None:
    await together(
        partial(ari.request, "POST", f"bridges/{bridge}/removeChannel", channel=channel),
        partial(
            ari.request,
            "POST",
            f"bridges/{bridge}/addChannel",
            channel=channel,
            absorbDTMF=str(absorbs).lower(),
            inhibitConnectedLineUpdates="true",
        ),
    )
