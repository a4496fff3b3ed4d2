"""A caller's line without a telephone: media and control that implement the doors of `calls.offer`.

The media plays written audio at the pace of the event loop's clock, as a pacer would, so that
`heard_ms`, marks and `flush` behave as on a real line, in virtual time too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import (
    CallerGone,
    CallerKey,
    GuestEvent,
    Media,
    Offer,
    PartyAnswered,
    PartyEvent,
    PartyGone,
    PartyKey,
    PartyRings,
    TransferTarget,
)
from cordboard.calls.outbound_order import (
    Dialling,
    NotReached,
    OutboundCall,
    OutboundOrder,
    OutboundResult,
)
from cordboard.errors import LineError, LineGone, LineUnsupported
from cordboard.telephony.line_media import Ending, PacedMedia

FRAME = 0.02


class FakeMedia(PacedMedia):
    """Implements `cordboard.calls.offer.Media`; sends a frame every 20 ms, like a real one."""

    def __init__(self) -> None:
        super().__init__(SLIN_8K)
        self._pacer = Pacer(asyncio.get_running_loop())
        self._pacer.register(self)
        self.played = bytearray()
        """The written audio that the caller has heard."""
        self.holds = 0
        """Number of holds of the agent's audio."""

    def tick(self, count: int) -> None:
        """One frame is sent."""
        for _ in range(count):
            heard, frame = self._outgoing.heard_ms, self._outgoing.frame()
            self.played += frame[: 16 * (self._outgoing.heard_ms - heard)]
            if self._on_sent is not None:
                self._on_sent(frame)
        self._outgoing.settle()

    @property
    def format(self) -> AudioFormat:
        return SLIN_8K

    def hold(self) -> None:
        self.holds += 1
        super().hold()

    async def close(self) -> None:
        self._begin_closing()
        self._stop_sound()

    @property
    def closed(self) -> bool:
        """True once the call has closed it."""
        return self._closing

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self.flush()

    # The caller's side.

    async def say(self, pcm: bytes) -> None:
        """Play the caller's audio, frame by frame, in real (or virtual) time."""
        for start in range(0, len(pcm), 320):
            await asyncio.sleep(FRAME)
            if self._on_audio is not None:
                self._on_audio(pcm[start : start + 320])

    def press(self, key: str) -> None:
        if self._on_dtmf is not None:
            self._on_dtmf(key)

    def break_off(self, reason: Ending) -> None:
        """The far side ends (`caller_hangup`) or the media dies (`media_lost`)."""
        self.end(reason)


Place = Literal["agent", "hold", "party", "gone"]


class FakeParty:
    """Implements `Party`: a phone that is called besides the caller's, without a telephone.

    A party that was hung up, by either side, is no longer `live`. Each operation takes `leg_delay`
    seconds, or raises what `refuse_leg` has under its name.
    """

    def __init__(
        self,
        line: FakeLine,
        target: TransferTarget,
        watch: Callable[[PartyRings | PartyAnswered | PartyGone], None],
    ) -> None:
        self.target = target
        self.operations: list[str] = []
        self.party: Literal["none", "calling", "answered", "gone"] = "none"
        self.asides: list[FakeMedia] = []
        """The sounds for the party alone, in their order."""
        self.closed = False
        self._line = line
        self._tell = watch

    @property
    def live(self) -> bool:
        """True while the other party is called, or on the line."""
        return self.party in ("calling", "answered")

    def ring(self) -> None:
        if self.party == "calling":
            self._tell(PartyRings())

    def answer(self) -> None:
        if self.party == "calling":
            self.party = "answered"
            self._tell(PartyAnswered())

    def leave(self, cause: int = 16, status: int = 0) -> None:
        """The other party hangs up, or refuses the call."""
        if self.live:
            self.party = "gone"
            self._end_asides()
            self._tell(PartyGone(cause, status))

    # Party

    async def dial(self) -> None:
        await self._operate("dial")
        self.party = "calling"
        self._line.dialled.set()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[Media]:
        await self._operate("aside")
        media = FakeMedia()
        self.asides.append(media)
        try:
            yield media
        finally:
            await media.close()

    async def drop(self) -> None:
        await self._operate("drop")
        self.party = "gone"

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.party = "gone"
            self._end_asides()

    def _end_asides(self) -> None:
        for media in self.asides:
            media.end("hangup")

    async def _operate(self, name: str) -> None:
        self.operations.append(name)
        await asyncio.sleep(self._line.leg_delay)
        if self.closed:
            raise LineGone("the consultation is over")
        if (error := self._line.refuse_leg.get(name)) is not None:
            raise error


class FakeGuest(FakeParty):
    """Implements `Guest`."""

    def __init__(
        self, line: FakeLine, target: TransferTarget, watch: Callable[[GuestEvent], None]
    ) -> None:
        super().__init__(line, target, watch)
        self._watch = watch
        self.joined = False
        self.louds: list[FakeMedia] = []
        """Those of its sounds that were for all who talk, in their order."""

    def press(self, key: str) -> None:
        self._watch(PartyKey(key))

    @asynccontextmanager
    async def aloud(self) -> AsyncIterator[Media]:
        async with self.aside() as media:
            self.louds.append(self.asides[-1])
            yield media

    async def join(self) -> None:
        await self._operate("join")
        self.joined = True


class FakeLeg(FakeParty):
    """Implements `SecondLeg`: a caller, a hold bridge and another party."""

    def __init__(
        self, line: FakeLine, target: TransferTarget, watch: Callable[[PartyEvent], None]
    ) -> None:
        super().__init__(line, target, watch)
        self.party_hears: Literal["nothing", "agent", "caller"] = "nothing"
        self.follows = False
        self._watch = watch

    # The caller.

    def caller_presses(self, key: str) -> None:
        self._watch(CallerKey(key))

    def caller_leaves(self) -> None:
        self._watch(CallerGone())

    # SecondLeg

    async def hold(self) -> None:
        await self._operate("hold")
        self._move("hold")

    async def brief(self) -> None:
        await self._operate("brief")
        self.party_hears = "agent"

    async def introduce(self) -> None:
        await self._operate("introduce")
        self._move("agent")

    async def join(self) -> None:
        await self._operate("join")
        self._move("party")
        self.party_hears = "caller"

    async def follow(self) -> None:
        await self._operate("follow")
        self.follows = True

    async def back(self) -> None:
        await self._operate("back")
        self._move("agent")
        self.follows = False

    async def close(self) -> None:
        if not self.closed:
            await super().close()
            self.follows = False
            self._line.consulted()

    def _move(self, place: Place) -> None:
        if self._line.place == "gone":
            raise LineGone("the caller is gone")
        self._line.place = place


class FakeLine:
    """Implements `LineControl`, and makes the offer that goes with it."""

    def __init__(
        self, call_id: str = "11111111-2222-4333-8444-555555555555", source: str = "test"
    ) -> None:
        self.call_id = call_id
        self.source = source
        self.media: FakeMedia | None = None
        self.transfers: list[TransferTarget] = []
        self.refuse_transfer: Exception | None = None
        self.refuse_media: Exception | None = None
        self.media_delay = 0.0
        self.hangups: list[str] = []
        self.declined: list[str] = []
        self.sent_keys = ""
        self.released = 0
        self.legs: list[FakeLeg] = []
        """The consultations, in their order."""
        self.guests: list[FakeGuest] = []
        """The third parties, in their order."""
        self.dialled = asyncio.Event()
        """Set when a consultation has dialled, or a third party was."""
        self.leg_delay = 0.01
        self.refuse_leg: dict[str, LineError] = {}
        self.place: Place = "agent"
        """Where the caller is."""
        self.music_heard: list[tuple[str, int]] = []
        """Each start (its class) and end (empty) of hold music, and what was heard of us then, in
        ms."""
        self.devices: dict[str, str] = {}
        self.away: asyncio.Future[str | None] | None = None
        """Set it to have a transfer return its result: the status of a caller who is back."""
        self.order: OutboundOrder | None = None
        """Set for an outbound call."""
        self.dialling = Dialling("answered", rang=True)
        """How dialling ends, after `ring_seconds`."""
        self.ring_seconds = 1.0
        self.results: list[OutboundResult] = []
        """How an outbound call ended."""
        self.number = "4791234567"
        """The caller's."""
        self.trunk = ""
        """By which it comes or leaves."""

    def offer(self, variables: Mapping[str, str] | None = None, called: str = "100") -> Offer:
        return Offer(
            call_id=self.call_id,
            source=self.source,
            media=self._open,
            control=self,
            caller_number=self.number,
            caller_name="Kari Nordmann",
            called_number=called,
            variables=variables or {},
            outbound=OutboundCall(self.order, self._dial, self.results.append)
            if self.order is not None
            else None,
            trunk=self.trunk,
        )

    async def _dial(self) -> None:
        await asyncio.sleep(self.ring_seconds)
        if self.dialling.outcome != "answered":
            raise NotReached(self.dialling)

    async def _open(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        await asyncio.sleep(self.media_delay)
        if self.refuse_media is not None:
            raise self.refuse_media
        self.media = FakeMedia()
        return self.media

    async def answer(self) -> None:
        """Answered from the start."""

    async def hangup(self, cause: str = "normal") -> None:
        self.hangups.append(cause)

    async def decline(self, status: str) -> None:
        self.declined.append(status)

    async def dtmf(self, keys: str) -> None:
        self.sent_keys += keys

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> str | None:
        if self.refuse_transfer is not None:
            raise self.refuse_transfer
        self.transfers.append(target)
        if not target.away_seconds or self.away is None:
            return None
        left()
        return await self.away

    def consult(self, target: TransferTarget, watch: Callable[[PartyEvent], None]) -> FakeLeg:
        if self.source == "audiosocket":
            raise LineUnsupported("this line has one leg")
        leg = FakeLeg(self, target, watch)
        self.legs.append(leg)
        return leg

    def invite(self, target: TransferTarget, watch: Callable[[GuestEvent], None]) -> FakeGuest:
        if self.source == "audiosocket":
            raise LineUnsupported("this line has one leg")
        guest = FakeGuest(self, target, watch)
        self.guests.append(guest)
        return guest

    def consulted(self) -> None:
        """A consultation is closed: the call learns of a caller who left in it."""
        if self.place == "gone" and self.media is not None:
            self.media.break_off("caller_hangup")

    def caller_hangs_up(self) -> None:
        """The caller hangs up, wherever they are."""
        self.place = "gone"
        if self.legs and not self.legs[-1].closed:
            self.legs[-1].caller_leaves()
        elif self.media is not None:
            self.media.break_off("caller_hangup")

    async def music(self, music: str) -> None:
        if self.source == "audiosocket":
            raise LineUnsupported("this line has no music")
        await asyncio.sleep(self.leg_delay)
        now = self.media.heard_ms if self.media is not None else 0
        self.music_heard.append((music, now))

    async def device_state(self, device: str) -> str:
        if device not in self.devices:
            raise LineError("404 Resource not found")
        return self.devices[device]

    async def variable(self, name: str) -> str | None:
        return None

    async def release(self) -> None:
        self.released += 1
