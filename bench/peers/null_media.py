"""A caller's line without a telephone or a socket: the transport's door, and nothing behind it.

Written audio is paced out and dropped, by the same parts as in real transports.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from bench.peers.harness import Stamps
from bench.peers.verdicts import Door
from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import Media, Offer, TransferTarget
from cordboard.telephony.outgoing import OutgoingAudio


class NullMedia:
    """Implements `cordboard.calls.offer.Media`, and the harness's `Call`."""

    def __init__(self, pacer: Pacer, door: Door | None = None) -> None:
        self.stamps = Stamps()
        self._door = door or Door()
        self._pacer = pacer
        self._outgoing = OutgoingAudio(SLIN_8K)
        self._audio: Callable[[bytes], None] | None = None
        self._sent: Callable[[bytes], None] | None = None
        self._closed: Callable[[str], None] | None = None
        pacer.register(self)

    @property
    def connected(self) -> bool:
        """True once the call takes audio."""
        return self._audio is not None

    async def hand_over(self, frame: bytes, due: float) -> None:
        handed = time.perf_counter()
        if self._audio is not None:
            self._door.due = due
            self._audio(frame)
            self.stamps.taken.append((due, handed, time.perf_counter()))

    def hang_up(self) -> None:
        if self._closed is not None:
            self._closed("caller_hangup")

    def tick(self, count: int) -> None:
        for _ in range(count):
            frame = self._outgoing.frame()
            if self._sent is not None:
                self._sent(frame)
        self._outgoing.settle()

    @property
    def format(self) -> AudioFormat:
        return SLIN_8K

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        self._audio = callback

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        """There are no keys."""

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        self._sent = callback

    def on_closed(self, callback: Callable[[str], None]) -> None:
        self._closed = callback

    def write(self, pcm: bytes) -> None:
        self._outgoing.write(pcm)

    def mark(self, callback: Callable[[], None]) -> None:
        self._outgoing.mark(callback)

    def hold(self) -> None:
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
        self._pacer.unregister(self)


class NullLine:
    """Implements `LineControl`: every request returns at once."""

    def __init__(self, media: NullMedia) -> None:
        self.media = media

    def offer(self) -> Offer:
        return Offer(call_id=str(uuid.uuid4()), source="bench", media=self._open, control=self)

    async def _open(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        return self.media

    async def answer(self) -> None:
        """Answered from the start."""

    async def hangup(self, cause: str = "normal") -> None:
        """Gone already."""

    async def decline(self, status: str) -> None:
        """There is no caller to turn away."""

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> None:
        """Nowhere to go."""

    async def dtmf(self, keys: str) -> None:
        """Digits are dropped."""

    async def variable(self, name: str) -> str | None:
        return None

    async def release(self) -> None:
        """Nothing is held."""
