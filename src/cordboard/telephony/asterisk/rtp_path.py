"""Audio of Asterisk's calls by RTP (implements `media_path.MediaPath`).

Asterisk's ExternalMedia channel with `encapsulation=rtp` sends to a UDP port of ours. Its answer
(`UNICASTRTP_LOCAL_ADDRESS`, `..._PORT`) names the address from which it sends and at which it
listens. We may send there at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from cordboard.audio.format import AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.config.schema import Rtp
from cordboard.errors import MediaError
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.rtp_codings import RtpCoding, choose
from cordboard.telephony.asterisk.rtp_media import RtpMedia
from cordboard.telephony.asterisk.rtp_ports import RtpPorts

log = structlog.get_logger()

CONNECT_SECONDS = 5.0
"""Timeout of our own request; Asterisk answers in a few ms."""


class RtpPath:
    """Makes the media of every call by RTP."""

    def __init__(self, config: Rtp, pacer: Pacer, codec: str = "auto") -> None:
        """`codec` is `asterisk.codec`."""
        self._config = config
        self._pacer = pacer
        self._codec = codec
        self._ports = RtpPorts(config)
        self._reported: Counter[str] = Counter()

    @property
    def connect_seconds(self) -> float:
        return CONNECT_SECONDS

    @property
    def trouble(self) -> str:
        return "" if self._ports.running else "the RTP ports are not open"

    def health(self) -> Mapping[str, Any]:
        """Return the UDP sockets open now, one for each call, and the packets dropped or
        concealed so far, by a fixed word."""
        return {"rtp_ports": self._ports.opened, "rtp_events": dict(self._ports.counts)}

    def report(self, metrics: Metrics) -> None:
        for word, count in self._ports.counts.items():
            metrics.media.rtp_events(word, count - self._reported[word])
            self._reported[word] = count

    async def start(self) -> None:
        """Try to open a port. Raises `ListenError`; `MediaError` for an unusable codec."""
        choose((), self._codec)
        await self._ports.start()

    async def stop(self) -> None:
        self._ports.stop()

    async def prepare(self, formats: Sequence[AudioFormat]) -> RtpArrival:
        coding = choose(formats, self._codec)
        media = RtpMedia(self._ports, coding, self._pacer)
        host = self._config.advertise_host
        address = f"[{host}]:{media.port}" if ":" in host else f"{host}:{media.port}"
        return RtpArrival(media, coding, address)


class RtpArrival:
    """Pending stream of one call (implements `media_path.MediaArrival`)."""

    def __init__(self, media: RtpMedia, coding: RtpCoding, address: str) -> None:
        self._media = media
        self._coding = coding
        self._address = address
        self._directed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def external_media(self) -> Mapping[str, str]:
        return {
            "external_host": self._address,
            "encapsulation": "rtp",
            "transport": "udp",
            "connection_type": "client",
            "format": self._coding.name,
        }

    @property
    def advice(self) -> str:
        return (
            f"Asterisk must have an RTP port free (rtp.conf) and be able to send to "
            f"{self._address}: check rtp.advertise_host and the firewall"
        )

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        if self._directed.done():
            return
        variables = channel.get("channelvars") or {}
        address = str(variables.get("UNICASTRTP_LOCAL_ADDRESS", ""))
        port = str(variables.get("UNICASTRTP_LOCAL_PORT", ""))
        if not address or not port.isdecimal() or not 0 < int(port) < 65536:
            self._directed.set_exception(
                MediaError("Asterisk has not said where its RTP comes from (UNICASTRTP_LOCAL_*)")
            )
            return
        self._media.direct((address, int(port)))
        self._directed.set_result(None)

    async def bridgeable(self) -> None:
        """Return at once: RTP needs no connection."""

    async def media(self) -> RtpMedia:
        await self._directed
        return self._media

    def give_up(self) -> None:
        if not self._directed.cancel() and not self._directed.cancelled():
            self._directed.exception()  # retrieved, though the waiter may be gone
        self._media.abort()
