"""A caller's line without a telephone: media and control that implement the doors of `calls.offer`.

The media plays written audio at the pace of the event loop's clock, as a pacer would, so that
`heard_ms`, marks and `flush` behave as on a real line, in virtual time too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Media, Offer, TransferTarget
from cordboard.telephony.outgoing import OutgoingAudio

FRAME = 0.02


class FakeMedia:
    """Implements `cordboard.calls.offer.Media`; sends a frame every 20 ms, like a real one."""

    def __init__(self) -> None:
        self._audio: Callable[[bytes], None] | None = None
        self._keys: Callable[[str], None] | None = None
        self._sent: Callable[[bytes], None] | None = None
        self._closed_callback: Callable[[str], None] | None = None
        self._ended: str | None = None
        self._outgoing = OutgoingAudio(SLIN_8K)
        self._pacer = Pacer(asyncio.get_running_loop())
        self._pacer.register(self)
        self.played = bytearray()
        """The written audio that the caller has heard."""
        self.holds = 0
        """Number of holds of the agent's audio."""
        self.closed = False

    def tick(self, count: int) -> None:
        """One frame is sent."""
        for _ in range(count):
            heard, frame = self._outgoing.heard_ms, self._outgoing.frame()
            self.played += frame[: 16 * (self._outgoing.heard_ms - heard)]
            if self._sent is not None:
                self._sent(frame)
        self._outgoing.settle()

    @property
    def format(self) -> AudioFormat:
        return SLIN_8K

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._audio = callback

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        self._keys = callback

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._sent = callback

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._closed_callback = callback
        if self._ended is not None:
            callback(self._ended)

    def write(self, pcm: bytes) -> None:
        if not self.closed:
            self._outgoing.write(pcm)

    def mark(self, callback: Callable[[], None]) -> None:
        self._outgoing.mark(callback)

    def hold(self) -> None:
        self.holds += 1
        self._outgoing.hold()

    def resume(self) -> None:
        self._outgoing.resume()

    def flush(self) -> int:
        return self._outgoing.flush()

    @property
    def heard_ms(self) -> int:
        return self._outgoing.heard_ms

    @property
    def queued_ms(self) -> int:
        return self._outgoing.queued_ms

    async def close(self) -> None:
        self.closed = True
        self._pacer.unregister(self)
        self.flush()

    # The caller's side.

    async def say(self, pcm: bytes) -> None:
        """Play the caller's audio, frame by frame, in real (or virtual) time."""
        for start in range(0, len(pcm), 320):
            await asyncio.sleep(FRAME)
            if self._audio is not None and not self.closed:
                self._audio(pcm[start : start + 320])

    def press(self, key: str) -> None:
        if self._keys is not None:
            self._keys(key)

    def break_off(self, reason: str) -> None:
        """The far side ends (`caller_hangup`) or the media dies (`media_lost`)."""
        self._ended = reason
        if self._closed_callback is not None:
            self._closed_callback(reason)


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
