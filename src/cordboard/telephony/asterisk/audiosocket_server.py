"""The TCP port to which Asterisk connects with the sound of its calls.

One server for all calls. A connection first says which call it is for, by UUID:

- an ARI call waits for exactly that UUID (`expect`) and gets the connection;
- else, with `audiosocket.context` in the YAML, it is a call that comes by the bare `AudioSocket()`
  dialplan application without ARI: an offer is made of it;
- else it is closed, counted and logged.

A connection that does not say its UUID in time, or says something else, is closed likewise. There
is no task and no queue per connection.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Media, Offer, TransferTarget
from cordboard.config.schema import AudioSocket
from cordboard.errors import LineUnsupported, ListenError, MediaError
from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia

log = structlog.get_logger()

IDENTIFY_SECONDS = 5.0
GIVEN_UP_SECONDS = 60.0
MAX_UNIDENTIFIED = 256
"""Connections that have not said their UUID yet. Of more, the oldest is closed:
Asterisk says it within milliseconds, so a stranger who fills the port keeps nobody out."""


class AudioSocketServer:
    """Listens, and hands each connection to whom it belongs."""

    def __init__(
        self,
        config: AudioSocket,
        pacer: Pacer,
        on_offer: Callable[[Offer], None],
        *,
        identify_seconds: float = IDENTIFY_SECONDS,
        most_unidentified: int = MAX_UNIDENTIFIED,
    ) -> None:
        """`on_offer` gets the bare calls; it must return at once."""
        self._config = config
        self._pacer = pacer
        self._on_offer = on_offer
        self._identify_seconds = identify_seconds
        self._most_unidentified = most_unidentified
        self._server: asyncio.Server | None = None
        self._unidentified: dict[AudioSocketMedia, asyncio.TimerHandle] = {}
        self._live: set[AudioSocketMedia] = set()
        self._expected: dict[UUID, asyncio.Future[AudioSocketMedia]] = {}
        self._formats: dict[UUID, AudioFormat] = {}
        self._given_up: dict[UUID, float] = {}
        """When a call stopped waiting: its connection may yet come, and is no bare call."""
        self.turned_away: Counter[str] = Counter()
        """Connections closed unused, by why: `unknown_uuid`, `no_uuid`, `protocol`, `too_many`."""
        self.faults: Counter[str] = Counter()
        """Calls whose connection was given up, by why: the words of `AudioSocketMedia.fault`, and
        `broken` when the network did it."""

    async def start(self) -> None:
        """Open the port. Raises ListenError when that cannot be done."""
        loop = asyncio.get_running_loop()
        host, port = self._config.host, self._config.port
        try:
            self._server = await loop.create_server(
                lambda: AudioSocketMedia(self, self._pacer), host, port
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ListenError(
                f"the AudioSocket port {host}:{port} cannot be opened: {reason} (audiosocket.port)"
            ) from error
        log.info("audiosocket_listening", host=host, port=self.port)

    async def stop(self) -> None:
        """Close the port and every connection that is left."""
        if self._server is None:
            return
        self._server.close()
        for media in (*self._unidentified, *self._live):
            media.abort()
        await self._server.wait_closed()
        self._server = None

    def use(self, config: AudioSocket) -> None:
        """Go by other settings from now on; the port stays as it is."""
        self._config = config

    @property
    def listening(self) -> bool:
        return self._server is not None and self._server.is_serving()

    @property
    def port(self) -> int:
        """The TCP port that is really open (the configured one may be 0)."""
        if self._server is None or not self._server.sockets:
            return self._config.port
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """`host:port` that Asterisk is told to connect to."""
        return f"{self._config.advertise_host}:{self.port}"

    @property
    def connect_seconds(self) -> float:
        """How long an ARI call waits for its connection."""
        return self._config.connect_timeout_ms / 1000

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._unidentified) + len(self._live)

    def expect(
        self, uuid: UUID, audio_format: AudioFormat = SLIN_8K
    ) -> asyncio.Future[AudioSocketMedia]:
        """The connection that will name `uuid`, which carries this format from its first frame on.
        Cancel the future to expect it no longer."""
        arrival: asyncio.Future[AudioSocketMedia] = asyncio.get_running_loop().create_future()
        self._expected[uuid] = arrival
        self._formats[uuid] = audio_format
        arrival.add_done_callback(lambda _: self._expected_no_longer(uuid, arrival))
        return arrival

    def _expected_no_longer(self, uuid: UUID, arrival: asyncio.Future[AudioSocketMedia]) -> None:
        self._expected.pop(uuid, None)
        self._formats.pop(uuid, None)
        if arrival.cancelled():
            now = asyncio.get_running_loop().time()
            self._given_up[uuid] = now
            old = [key for key, at in self._given_up.items() if at < now - GIVEN_UP_SECONDS]
            for key in old:
                del self._given_up[key]

    # audiosocket_media.ConnectionOwner

    def connected(self, media: AudioSocketMedia) -> None:
        if len(self._unidentified) >= self._most_unidentified:
            self._turn_away(next(iter(self._unidentified)), "too_many")
        loop = asyncio.get_running_loop()
        self._unidentified[media] = loop.call_later(
            self._identify_seconds, self._turn_away, media, "no_uuid"
        )

    def identified(self, media: AudioSocketMedia, uuid: UUID) -> None:
        timer = self._unidentified.pop(media, None)
        if timer is None:  # turned away already
            return
        timer.cancel()
        arrival = self._expected.get(uuid)
        context = self._config.context
        if arrival is not None and not arrival.done():
            self._live.add(media)
            media.carry(self._formats[uuid])  # now: sound may follow in the very same segment
            arrival.set_result(media)
        elif arrival is None and context is not None and uuid not in self._given_up:
            self._live.add(media)
            self._offer(media, uuid, context)
        else:
            self._turn_away(media, "unknown_uuid", uuid=str(uuid))

    def disconnected(self, media: AudioSocketMedia) -> None:
        self._live.discard(media)
        timer = self._unidentified.pop(media, None)
        if timer is not None:
            timer.cancel()
            if media.problem:
                self.turned_away["protocol"] += 1
                log.warning("audiosocket_turned_away", why="protocol", problem=media.problem)
        elif media.problem:
            fault = media.fault or "broken"
            self.faults[fault] += 1
            log.warning(
                "audiosocket_broke", uuid=str(media.uuid), fault=fault, problem=media.problem
            )

    def _turn_away(self, media: AudioSocketMedia, why: str, **details: str) -> None:
        timer = self._unidentified.pop(media, None)
        if timer is not None:
            timer.cancel()
        self.turned_away[why] += 1
        log.warning("audiosocket_turned_away", why=why, **details)
        media.abort()

    def _offer(self, media: AudioSocketMedia, uuid: UUID, context: str) -> None:
        """A call without ARI. Where a dialplan gives all its calls one UUID, we choose another."""
        used = any(other.uuid == uuid for other in self._live if other is not media)
        call_id = uuid4() if used else uuid
        if used:
            log.warning("audiosocket_uuid_in_use", uuid=str(uuid), call_id=str(call_id))
        media.claim(lambda problem: media.end("media_lost" if problem else "caller_hangup"))
        line = BareLine(media)
        self._on_offer(
            Offer(
                call_id=str(call_id),
                source="audiosocket",
                media=line.open_media,
                control=line,
                variables={"AI_CONTEXT": context},
            )
        )


class BareLine:
    """The line of a call without ARI (implements `calls.offer.LineControl`).

    The dialplan has answered it already. Hanging up ends the `AudioSocket()` application; what
    happens then is the dialplan's next priority (usually `Hangup()`), so no cause can be given.
    """

    def __init__(self, media: AudioSocketMedia) -> None:
        self._media = media

    async def open_media(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        """The connection that is there already. Raises MediaError when it is gone again."""
        if not self._media.connected:
            raise MediaError("the AudioSocket connection is gone")
        return self._media

    async def answer(self) -> None:
        """Nothing to do."""

    async def hangup(self, cause: str = "normal") -> None:
        self._media.send_hangup()

    async def decline(self, status: str) -> None:
        """End the application; the dialplan goes on, but cannot be told why."""
        self._media.send_hangup()

    async def dtmf(self, keys: str) -> None:
        raise LineUnsupported("a call by AudioSocket() cannot be sent keys: that needs ARI")

    async def transfer(self, target: TransferTarget) -> None:
        raise LineUnsupported("a call by AudioSocket() cannot be transferred: that needs ARI")

    async def variable(self, name: str) -> str | None:
        return None

    async def release(self) -> None:
        await self._media.close()
