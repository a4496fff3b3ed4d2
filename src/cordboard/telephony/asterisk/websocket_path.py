"""Audio of Asterisk's calls by websocket (implements `media_path.MediaPath`).

Asterisk's chan_websocket is used in its server mode: the ExternalMedia channel waits under an id of
Asterisk's making, and the engine connects to `/media/<id>` at the address that it knows already,
`asterisk.url`. So Asterisk needs no configuration and the engine opens no port. The channel is
answered, and enters our application, once we are connected (measured on 22.10.1).

User and password go in a header. Asterisk 22 does not require them there (the id, known to ARI
clients only, is the key), but a proxy in front of it may.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.config.schema import Asterisk
from cordboard.errors import MediaError
from cordboard.net.tls import trusted
from cordboard.net.websocket import WebsocketConnection, WebsocketRequest
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.websocket_media import PeerTimes, WebsocketMedia
from cordboard.telephony.asterisk.websocket_messages import MediaStart
from cordboard.telephony.asterisk.websocket_playout import AHEAD_SECONDS

CONNECT_SECONDS = 5.0
_NAMES = {ULAW_8K: "ulaw", ALAW_8K: "alaw", SLIN_8K: "slin", SLIN_16K: "slin16"}
"""Asterisk's names of the formats."""
MAX_MESSAGE_BYTES = 65_535
"""Asterisk refuses longer messages (measured), and has no reason to send them."""
SEND_BUFFER_BYTES = 131_072
"""Buffer for an Asterisk that does not read: the start of a long sentence fits in."""
_CONNECTION_ID = re.compile(r"[0-9A-Za-z-]{8,64}")


class WebsocketPath:
    """Connects to one Asterisk for the audio of each call."""

    def __init__(
        self,
        config: Asterisk,
        pacer: Pacer,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        ahead_seconds: float = AHEAD_SECONDS,
        times: PeerTimes = PeerTimes(),  # noqa: B008 - frozen
    ) -> None:
        """`config.codec` fixes the format, unless it is `auto`."""
        self._pacer = pacer
        self.connect_seconds = connect_seconds
        self._ahead_seconds = ahead_seconds
        self._times = times
        self._codec = config.codec
        chosen = tuple(each for each, name in _NAMES.items() if name == config.codec)
        self._formats = chosen or tuple(_NAMES)
        self._own_format = chosen[0] if chosen else SLIN_8K
        password = config.password.get_secret_value()
        credentials = base64.b64encode(f"{config.username}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credentials}"}
        parts = urlsplit(config.url)
        tls = parts.scheme == "https"
        self._tls = trusted() if tls else None
        self.address = f"{'wss' if tls else 'ws'}://{parts.netloc}{parts.path.rstrip('/')}/media/"
        """URL to which the engine connects, without the id of the call."""
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls else 80)
        self._open: set[WebsocketMedia] = set()
        self.counts: Counter[str] = Counter()
        """Errors of the connections, by reason."""

    @property
    def trouble(self) -> str:
        return ""  # ARI reports an unreachable Asterisk: it is the same port

    def health(self) -> Mapping[str, Any]:
        return {"websocket_events": dict(self.counts)}

    def report(self, metrics: Metrics) -> None:
        """Do nothing: no metric counts these events."""

    async def prepare(self, formats: Sequence[AudioFormat]) -> WebsocketArrival:
        chosen = next((each for each in formats if each in self._formats), self._own_format)
        return WebsocketArrival(self, chosen)

    async def start(self) -> None:
        """Check the codec: the calls share nothing. Raises `MediaError` for an unusable one."""
        if self._codec not in ("auto", *_NAMES.values()):
            raise MediaError(
                f"asterisk.codec {self._codec} cannot be used with asterisk.media: websocket; "
                f"use one of {', '.join(_NAMES.values())}"
            )

    async def stop(self) -> None:
        for media in tuple(self._open):
            media.abort()

    async def connect(
        self, channel_id: str, connection_id: str, audio_format: AudioFormat
    ) -> WebsocketMedia:
        """Open the media of the channel that waits under this id. Raises MediaError."""
        request = WebsocketRequest(
            self.address + connection_id,
            "Asterisk",
            self._headers,
            "media",
            MAX_MESSAGE_BYTES,
            SEND_BUFFER_BYTES,
        )
        connection = WebsocketConnection(request)
        media = WebsocketMedia(
            connection,
            audio_format,
            self._pacer,
            self.counts,
            ahead_seconds=self._ahead_seconds,
            times=self._times,
        )
        try:
            start = await media.connect(self._host, self._port, self._tls)
            self._check(start, channel_id, audio_format)
        except BaseException:
            media.abort()
            raise
        self._open.add(media)
        media.on_gone(self._open.discard)
        return media

    def _check(self, start: MediaStart, channel_id: str, audio_format: AudioFormat) -> None:
        """Raise MediaError unless channel and format are the requested ones."""
        if start.channel_id != channel_id:
            self.counts["wrong_channel"] += 1
            raise MediaError("the websocket is of another channel than was asked for")
        wanted = (_NAMES[audio_format], audio_format.frame_bytes)
        if (start.format, start.frame_bytes) != wanted:
            self.counts["wrong_format"] += 1
            raise MediaError(
                f"Asterisk speaks {start.format[:20]} in frames of {start.frame_bytes} bytes; "
                f"{wanted[0]} in frames of {wanted[1]} was asked for"
            )


class WebsocketArrival:
    """Pending connection of one call (implements `media_path.MediaArrival`)."""

    def __init__(self, path: WebsocketPath, audio_format: AudioFormat) -> None:
        self._path = path
        self._format = audio_format
        self._connecting: asyncio.Future[asyncio.Task[WebsocketMedia]]
        self._connecting = asyncio.get_running_loop().create_future()

    @property
    def external_media(self) -> Mapping[str, str]:
        return {
            "external_host": "INCOMING",
            "encapsulation": "none",
            "transport": "websocket",
            "connection_type": "server",
            "format": _NAMES[self._format],
            "transport_data": "f(json)",
        }

    @property
    def advice(self) -> str:
        return (
            f"Asterisk must have chan_websocket and answer at {self._path.address}: check "
            "'module show like chan_websocket' and asterisk.url"
        )

    def channel_made(self, channel: Mapping[str, Any]) -> None:
        if self._connecting.done():
            return  # given up meanwhile
        variables = channel.get("channelvars")
        key = variables.get("MEDIA_WEBSOCKET_CONNECTION_ID") if isinstance(variables, dict) else ""
        if not isinstance(key, str) or not _CONNECTION_ID.fullmatch(key):
            self._connecting.set_exception(
                MediaError("Asterisk names no MEDIA_WEBSOCKET_CONNECTION_ID for the channel")
            )
            self._connecting.exception()  # retrieved: the waiter may be gone
            return
        task = asyncio.get_running_loop().create_task(
            self._path.connect(str(channel.get("id")), key, self._format), name="websocket-connect"
        )
        self._connecting.set_result(task)

    async def bridgeable(self) -> None:
        """Return at once: we are the side that connects, so no stranger can be at the other end."""

    async def media(self) -> WebsocketMedia:
        return await (await self._connecting)

    def give_up(self) -> None:
        self._connecting.cancel()
        if self._connecting.cancelled() or self._connecting.exception() is not None:
            return
        task = self._connecting.result()
        task.cancel()
        task.add_done_callback(_drop)


def _drop(task: asyncio.Task[WebsocketMedia]) -> None:
    """Abort media that came after it was given up."""
    with contextlib.suppress(asyncio.CancelledError, MediaError):
        task.result().abort()
