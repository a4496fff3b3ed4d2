"""A caller's line without a telephone: media and control that implement the doors of `calls.offer`.

The media plays written audio at the pace of the event loop's clock, as a pacer would, so that
`heard_ms`, marks and `flush` behave as on a real line, in virtual time too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Media, Offer, TransferTarget
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

    def offer(self, variables: Mapping[str, str] | None = None, called: str = "100") -> Offer:
        return Offer(
            call_id=self.call_id,
            source=self.source,
            media=self._open,
            control=self,
            caller_number="4791234567",
            caller_name="Kari Nordmann",
            called_number=called,
            variables=variables or {},
        )

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

    async def transfer(self, target: TransferTarget) -> None:
        if self.refuse_transfer is not None:
            raise self.refuse_transfer
        self.transfers.append(target)

    async def variable(self, name: str) -> str | None:
        return None

    async def release(self) -> None:
        self.released += 1
