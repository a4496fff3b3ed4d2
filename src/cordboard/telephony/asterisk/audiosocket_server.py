"""The TCP port to which Asterisk connects with the audio of its calls.

One server for all calls. It takes connections from the addresses of `audiosocket.allow_from`; each
first names its call by a UUID:

- an ARI call waits for a random UUID that only Asterisk knows (`expect`); the first connection
  that sends it belongs to the call, and a second one is turned away;
- with `audiosocket.context` in the YAML, another UUID is a call that comes by the bare
  `AudioSocket()` dialplan application without ARI: the server offers it, under an id of our own;
- any other connection is closed.

A connection that does not send its UUID in time, or sends something else, is closed likewise.
Connections closed unused are counted and logged. There is no task and no queue per connection.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal
from uuid import UUID, uuid4

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.bare_calls import BARE
from cordboard.calls.offer import LineWithoutTelephone, Media, Offer
from cordboard.config.peers import THIS_MACHINE
from cordboard.config.schema import AudioSocket
from cordboard.errors import LineGone, ListenError, MediaError
from cordboard.observe.limited_log import LimitedLog
from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia
from cordboard.telephony.asterisk.audiosocket_peers import AllowedPeers

log = structlog.get_logger()

Reason = Literal[
    "not_allowed", "unknown_uuid", "used_uuid", "late_uuid", "no_uuid", "protocol", "too_many"
]
"""Reason for which a connection was turned away. `used_uuid`: the ARI call already has its
connection; `late_uuid`: the call no longer waits."""
IDENTIFY_SECONDS = 2.0
"""Timeout for the UUID, which Asterisk sends at once."""
SPENT_SECONDS = 600.0
"""Time for which the UUID of an ARI call is remembered after its connection or wait has ended."""
BACKLOG = 1024
"""Connections that the kernel keeps until the event loop takes them: strangers who connect as fast
as they can must not fill it while the loop is busy for a moment. With 100 places, as is usual,
Asterisk once had to connect again after a second."""
LOOK_UP_PATIENCE = 2.0
"""Seconds for which opening the port waits for the addresses of host names."""


MOST_PLACES = 1024
LOOKED_AT = 8
"""Number of oldest connections searched for one without unread bytes. The others are read in the
next turn of the event loop, which also frees their places."""


def places_of_process() -> int:
    """Return a quarter of this process's limit of file descriptors, so that calls keep theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_PLACES if soft == resource.RLIM_INFINITY else max(8, min(MOST_PLACES, soft // 4))


class WaitingRoom:
    """Connections that have not sent their UUID yet, by peer address, each with its timer.

    Asterisk sends the UUID within milliseconds, so a connection that waits long is a stranger's.
    When all places are taken, the oldest connection of the address with the most connections is
    closed: strangers at one address push out none from another. A connection with unread bytes
    stays.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._timers: dict[AudioSocketMedia, asyncio.TimerHandle] = {}
        self._by_address: dict[str, dict[AudioSocketMedia, None]] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[AudioSocketMedia]:
        return iter(tuple(self._timers))

    def enter(self, media: AudioSocketMedia, timer: asyncio.TimerHandle) -> None:
        self._timers[media] = timer
        self._by_address.setdefault(media.peer[0], {})[media] = None

    def leave(self, media: AudioSocketMedia) -> bool:
        """Remove a connection; return True if it was here."""
        timer = self._timers.pop(media, None)
        if timer is None:
            return False
        timer.cancel()
        address = media.peer[0]
        others = self._by_address[address]
        del others[media]
        if not others:
            del self._by_address[address]
        return True

    def one_too_many(self) -> AudioSocketMedia | None:
        """Return the connection to close so that another may enter; None while there is a place."""
        if len(self) < self.places:
            return None
        most = max(self._by_address.values(), key=len)
        for media in islice(most, LOOKED_AT):
            if not media.has_unread:
                return media
        return next(iter(most)) if len(self) >= 2 * self.places else None


@dataclass(frozen=True, slots=True)
class Expected:
    """Pending connection of one ARI call."""

    uuid: UUID = field(repr=False)
    """A secret: the first connection that sends it gets the call. Give it to Asterisk only."""
    connection: asyncio.Future[AudioSocketMedia]
    """Cancel it to stop waiting for the connection."""
    format: AudioFormat = SLIN_8K
    """Format of the connection, from its first frame on."""


class AudioSocketServer:
    """Listens, and hands each connection to its call."""

    def __init__(
        self,
        config: AudioSocket,
        pacer: Pacer,
        on_offer: Callable[[Offer], None],
        *,
        peers: AllowedPeers | None = None,
        identify_seconds: float = IDENTIFY_SECONDS,
        most_unidentified: int | None = None,
        on_turned_away: Callable[[Reason], None] = lambda _: None,
    ) -> None:
        """`on_offer` gets the bare calls; it must return at once. `peers`: allowed addresses, by
        default this machine. `most_unidentified`: limit of connections without a UUID yet, see
        `WaitingRoom`. `on_turned_away` counts."""
        self._config = config
        self._host, self._configured_port = config.host, config.port
        self._pacer = pacer
        self._on_offer = on_offer
        self._peers = peers or AllowedPeers((THIS_MACHINE,))
        self._identify_seconds = identify_seconds
        self._on_turned_away = on_turned_away
        self._server: asyncio.Server | None = None
        self._changing = asyncio.Lock()
        self._stopped = False
        self._waiting = WaitingRoom(most_unidentified or places_of_process())
        self._live: set[AudioSocketMedia] = set()
        self._expected: dict[UUID, Expected] = {}
        self._taken: set[UUID] = set()
        """UUIDs of ARI calls that have their connection."""
        self._spent: dict[UUID, tuple[Reason, float]] = {}
        """UUIDs of former ARI calls: reason of their refusal, and loop time of their removal."""
        self._turned_away_log = LimitedLog("audiosocket_turned_away")
        self.trouble = "the AudioSocket port is not open"
        """Reason why the port is not open, unless it is `listening`."""
        self.turned_away: Counter[str] = Counter()
        """Connections closed unused, by reason."""
        self.faults: Counter[str] = Counter()
        """Calls whose connection was given up, by reason: the words of `AudioSocketMedia.fault`,
        and `broken` when the network did it."""

    async def start(self) -> None:
        """Open the port. Raises ListenError when that fails."""
        await self.listen(True)

    async def listen(self, wanted: bool) -> None:
        """Open or close the port; live calls continue. Raises ListenError."""
        async with self._changing:
            if wanted and self._server is None and not self._stopped:
                await self._open()
            elif not wanted and self._server is not None:
                self._server.close()
                self._server = None
                self._dismiss()
                log.info("audiosocket_closed", host=self._host, port=self._configured_port)

    async def stop(self) -> None:
        """Close the port and every remaining connection."""
        async with self._changing:
            self._stopped = True
            server, self._server = self._server, None
            if server is not None:
                server.close()
            self._dismiss()
            for media in tuple(self._live):
                media.abort()
            if server is not None:
                await server.wait_closed()
        self._turned_away_log.close()
        await self._peers.close()

    async def _open(self) -> None:
        if (looking := self._peers.look_up()) is not None:
            await asyncio.wait((looking,), timeout=LOOK_UP_PATIENCE)
        loop = asyncio.get_running_loop()
        host, port = self._host, self._configured_port
        try:
            self._server = await loop.create_server(
                lambda: AudioSocketMedia(self, self._pacer), host, port, backlog=BACKLOG
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            self.trouble = (
                f"the AudioSocket port {host}:{port} cannot be opened: {reason} (audiosocket.port)"
            )
            raise ListenError(self.trouble) from error
        log.info("audiosocket_listening", host=host, port=self.port)

    def _dismiss(self) -> None:
        """Close the connections without a call."""
        for media in self._waiting:
            self._waiting.leave(media)
            media.abort()

    def use(self, config: AudioSocket, peers: Sequence[str]) -> None:
        """Apply other settings from now on; host and port stay as they are."""
        self._config = config
        self._peers.use(peers)
        self._peers.look_up()

    def asterisk_reached(self) -> None:
        """Resolve the allowed peers again: Asterisk may have a new address."""
        self._peers.look_up()

    @property
    def listening(self) -> bool:
        return self._server is not None and self._server.is_serving()

    @property
    def port(self) -> int:
        """The TCP port in use (the configured one may be 0)."""
        if self._server is None or not self._server.sockets:
            return self._configured_port
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def address(self) -> str:
        """`host:port` to which Asterisk connects."""
        return f"{self._config.advertise_host}:{self.port}"

    @property
    def connect_seconds(self) -> float:
        """Time for which an ARI call waits for its connection."""
        return self._config.connect_timeout_ms / 1000

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._waiting) + len(self._live)

    def expect(self, audio_format: AudioFormat = SLIN_8K) -> Expected:
        """Wait for the connection of an ARI call, under an unguessable UUID."""
        connection: asyncio.Future[AudioSocketMedia] = asyncio.get_running_loop().create_future()
        expected = Expected(uuid4(), connection, audio_format)
        self._expected[expected.uuid] = expected
        connection.add_done_callback(lambda _: self._expected_no_longer(expected))
        return expected

    def _expected_no_longer(self, expected: Expected) -> None:
        if self._expected.pop(expected.uuid, None) is not None:
            self._spend(expected.uuid, "late_uuid")  # its connection may yet come: no bare call

    def _spend(self, uuid: UUID, reason: Reason) -> None:
        now = asyncio.get_running_loop().time()
        self._spent[uuid] = reason, now + SPENT_SECONDS
        while self._spent[first := next(iter(self._spent))][1] < now:
            del self._spent[first]

    # audiosocket_media.ConnectionOwner

    def connected(self, media: AudioSocketMedia) -> None:
        if not self._peers.permits(media.peer[0], media.own_address):
            self._turn_away(media, "not_allowed")
            return
        if (other := self._waiting.one_too_many()) is not None:
            self._turn_away(other, "too_many")
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._identify_seconds, self._turn_away, media, "no_uuid")
        self._waiting.enter(media, timer)

    def identified(self, media: AudioSocketMedia, uuid: UUID) -> None:
        if not self._waiting.leave(media):  # turned away already
            return
        expected = self._expected.get(uuid)
        if expected is not None and not expected.connection.done():
            del self._expected[uuid]
            self._taken.add(uuid)
            self._live.add(media)
            media.carry(expected.format)  # now: sound may follow in the very same segment
            media.begin()
            expected.connection.set_result(media)
        elif (reason := self._why_not(uuid)) is not None:
            self._turn_away(media, reason)
        else:
            self._live.add(media)
            self._offer(media, uuid)

    def _why_not(self, uuid: UUID) -> Reason | None:
        """Return why an unexpected UUID makes no bare call; None when it makes one."""
        if uuid in self._taken:
            return "used_uuid"
        if uuid in self._expected:
            return "late_uuid"
        if uuid in self._spent:
            return self._spent[uuid][0]
        return "unknown_uuid" if self._config.context is None else None

    def disconnected(self, media: AudioSocketMedia) -> None:
        if self._waiting.leave(media):
            if media.problem:
                self._count_turned_away(media, "protocol", problem=media.problem)
        elif media in self._live:
            self._live.remove(media)
            if media.uuid is not None and media.uuid in self._taken:
                self._taken.remove(media.uuid)
                self._spend(media.uuid, "used_uuid")
            if media.problem:
                fault = media.fault or "broken"
                self.faults[fault] += 1
                log.warning(
                    "audiosocket_broke", peer=_name(media), fault=fault, problem=media.problem
                )

    def _turn_away(self, media: AudioSocketMedia, reason: Reason) -> None:
        self._waiting.leave(media)
        self._count_turned_away(media, reason)
        media.abort()

    def _count_turned_away(self, media: AudioSocketMedia, reason: Reason, **details: str) -> None:
        self.turned_away[reason] += 1
        self._on_turned_away(reason)
        self._turned_away_log.warn(reason, peer=_name(media), **details)

    def _offer(self, media: AudioSocketMedia, uuid: UUID) -> None:
        """Offer a call without ARI. A dialplan, or a stranger, chose its UUID: it is recorded as a
        fact, but not used as an id."""
        line = BareLine(media)
        self._on_offer(
            Offer(
                call_id=str(uuid4()),
                source=BARE,
                media=line.open_media,
                control=line,
                external_id=str(uuid),
                variables={"AI_CONTEXT": self._config.context or ""},
            )
        )


def _name(media: AudioSocketMedia) -> str:
    """Return the address of the peer, for the log."""
    host, port = media.peer
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class BareLine(LineWithoutTelephone):
    """The line of a call without ARI (implements `calls.offer.LineControl`).

    The dialplan has answered it already. Hanging up ends the `AudioSocket()` application, then the
    dialplan continues at its next priority (usually `Hangup()`), so no cause can be given.
    """

    line_name = "a call by AudioSocket()"
    line_lacks = "that needs ARI"

    def __init__(self, media: AudioSocketMedia) -> None:
        self._media = media

    async def open_media(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        """Return the connection, which is there already. When it is gone again, raises LineGone if
        the caller has hung up, else MediaError."""
        media = self._media
        if media.connected:
            media.claim(lambda problem: media.end("media_lost" if problem else "caller_hangup"))
            return media
        if media.problem:
            raise MediaError(f"the AudioSocket connection is gone: {media.problem}")
        raise LineGone("the caller hung up before the call was taken")

    async def hangup(self, cause: str = "normal") -> None:
        self._media.send_hangup()

    async def decline(self, status: str) -> None:
        """End the application; the dialplan continues, but does not learn the reason."""
        self._media.send_hangup()

    async def release(self) -> None:
        await self._media.close()
