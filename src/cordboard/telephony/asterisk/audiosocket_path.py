"""Audio of Asterisk's calls by AudioSocket (implements `media_path.MediaPath`).

Asterisk connects to our TCP port (`AudioSocketServer`, which also serves calls without ARI) and
names the connection by a random UUID that only Asterisk knows. AudioSocket carries signed linear
audio only: 8 or 16 kHz here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from cordboard.audio.format import SLIN_8K, SLIN_16K, AudioFormat
from cordboard.errors import MediaError
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia
from cordboard.telephony.asterisk.audiosocket_server import AudioSocketServer, Expected

_NAMES = {SLIN_8K: "slin", SLIN_16K: "slin16"}
"""Asterisk's names. Never ulaw: Asterisk would send u-law bytes labelled as slin (measured)."""


class AudioSocketPath:
    """Makes arrivals of the connections of one server. The engine owns the server."""

    def __init__(self, server: AudioSocketServer, codec: str = "auto") -> None:
        """`codec` is `asterisk.codec`; a name fixes the format."""
        self._server = server
        self._codec = codec
        chosen = tuple(each for each, name in _NAMES.items() if name == codec)
        self._formats = chosen or tuple(_NAMES)

    @property
    def connect_seconds(self) -> float:
        return self._server.connect_seconds

    @property
    def trouble(self) -> str:
        return "" if self._server.listening else "the AudioSocket port is not open"

    def health(self) -> Mapping[str, Any]:
        """Return nothing: the port serves calls without ARI too."""
        return {}

    def report(self, metrics: Metrics) -> None:
        """Do nothing: the port counts the connections that it turns away."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> AudioSocketArrival:
        chosen = next((each for each in formats if each in self._formats), self._formats[0])
        return AudioSocketArrival(self._server.address, self._server.expect(chosen))

    async def start(self) -> None:
        """Check the codec. The engine opens the server, which calls without ARI use too.

        Raises `MediaError` for an unusable codec.
        """
        if self._codec not in ("auto", *_NAMES.values()):
            raise MediaError(
                f"asterisk.codec {self._codec} cannot be used with asterisk.media: audiosocket; "
                f"use one of {', '.join(_NAMES.values())}"
            )

    async def stop(self) -> None:
        """Do nothing: the engine closes the server."""


class AudioSocketArrival:
    """Pending connection of one call (implements `media_path.MediaArrival`)."""

    def __init__(self, address: str, expected: Expected) -> None:
        """`address` is the address to which Asterisk connects."""
        self._address = address
        self._expected = expected
        self._connection = expected.connection

    @property
    def external_media(self) -> Mapping[str, str]:
        return {
            "external_host": self._address,
            "encapsulation": "audiosocket",
            "transport": "tcp",
            "connection_type": "client",
            "format": _NAMES[self._expected.format],
            "data": str(self._expected.uuid),
        }

    @property
    def advice(self) -> str:
        return (
            f"Asterisk must be able to connect to {self._address}: check "
            "audiosocket.advertise_host, audiosocket.allow_from and the firewall"
        )

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        """Do nothing: Asterisk connects to us."""

    async def bridgeable(self) -> None:
        """Wait until Asterisk itself has reached us.

        `ast_audiosocket_receive_frame_with_hangup` (res_audiosocket.c, 22.10.1) waits without end
        for a peer that is silent, and holds the channel's lock. In a bridge it is called although
        nothing came: in 4 of 478 calls to a stranger who accepted and stayed silent all of Asterisk
        stood still for good; in none of 1,160 calls outside a bridge. The wait costs no time: the
        connection is there before Asterisk has answered that it made the channel.
        """
        await asyncio.wait((self._connection,))

    async def media(self) -> AudioSocketMedia:
        return await self._connection

    def give_up(self) -> None:
        if not self._connection.cancel() and not self._connection.cancelled():
            self._connection.result().abort()  # it came while we gave up
