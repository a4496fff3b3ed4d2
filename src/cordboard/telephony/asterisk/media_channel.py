"""The ExternalMedia channel of a media arrival."""

from __future__ import annotations

import asyncio

from cordboard.errors import AsteriskError, MediaError
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.media_path import MediaArrival


async def open_media_channel(
    ari: AriClient,
    app: str,
    channel_id: str,
    arrival: MediaArrival,
    entered: asyncio.Event,
) -> None:
    """Create the channel of an arrival; return when it may be put into a bridge. `entered` is set
    when the channel is in our application. Raises `MediaError`, and `AsteriskError`."""
    try:
        channel = await ari.request(
            "POST",
            "channels/externalMedia",
            channelId=channel_id,
            app=app,
            direction="both",
            **arrival.external_media,
        )
    except AsteriskError as error:
        if error.status != 500:
            raise
        # The only error of 22.10.1 when no server listens at the address.
        raise MediaError(f"{arrival.advice} ({error})") from error
    arrival.channel_made(channel)
    await entered.wait()
    await arrival.bridgeable()
