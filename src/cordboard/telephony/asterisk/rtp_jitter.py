"""Puts the packets of one RTP stream in order. No socket, no clock: each call passes `now`.

The output feeds recognisers, not a loudspeaker with a playout clock, so delaying packets that
arrive in order would gain nothing: they are always handed on at once. Only when one is missing are
those behind it kept, for at most `depth` seconds; then it is given up as lost.

`depth` adapts: 0 on a network that keeps the order. A packet that comes after it was given up
raises it to the value that would have saved that packet, up to `MAX_DEPTH`; `CALM_SECONDS` without
need of it lower it by a step. Order comes from sequence numbers alone: timestamps that jump, and
pauses of a phone that sends nothing (hold, keys, silence suppression), leave those continuous and
are no loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from cordboard.telephony.asterisk.rtp import RtpPacket

MAX_DEPTH = 0.080
"""Longest wait for a packet: the wait delays the answer."""
STEP = 0.010
CALM_SECONDS = 5.0
MAX_MISORDER = 100
"""Largest distance of sequence numbers in one stream (RFC 3550 appendix A.1); a larger one is a
restart if a second packet confirms it."""
MAX_WAITING = 16
"""Packets kept behind a missing one: more than `MAX_DEPTH` of them are a burst, not a wait."""
MAX_FILL = 3
"""Frames in a row (60 ms) that are concealed. More are a gap: a fade is silent by then.
Where it does not transcode, Asterisk leaves such a gap for each key that a phone sends (measured on
22.10.1: nothing comes for 180 ms, and nine sequence numbers are left out)."""
_REMEMBERED = 64
"""Given-up sequence numbers that are remembered, to recognise late packets."""

Lost = None
"""Stands for one lost frame."""


class JitterBuffer:
    """One incoming stream."""

    def __init__(self, note: Callable[[str, int], None]) -> None:
        """`note(word, count)` is called for `lost`, `late`, `duplicate`, `reordered`, `restart` and
        `jumped` packets, and for each `gap`."""
        self._note = note
        self._ssrc: int | None = None
        self._next = 0
        self._waiting: dict[int, tuple[bytes, float]] = {}
        """Payload and arrival by sequence number."""
        self._given_up: dict[int, float] = {}
        """Loop time at which the gap was noticed, by sequence number."""
        self._jumped_to: int | None = None
        self._needed_at = 0.0
        self.depth = 0.0
        """Seconds for which a missing packet is waited for at present."""

    @property
    def waiting(self) -> bool:
        """True while packets are kept: `expire` must then be called."""
        return bool(self._waiting)

    def push(self, packet: RtpPacket, now: float) -> Sequence[bytes | None]:
        """Take one packet. Returns the payloads to be handed on, `Lost` for each lost frame."""
        if packet.ssrc != self._ssrc:
            return self._restart(packet)
        sequence = packet.sequence
        ahead = sequence - self._next & 0xFFFF
        if ahead == 0 and not self._waiting:
            self._next = sequence + 1 & 0xFFFF
            self._jumped_to = None
            if self.depth and now - self._needed_at >= CALM_SECONDS:
                self._relax(now)
            return (packet.payload,)
        if ahead <= MAX_MISORDER:
            self._jumped_to = None
            return self._out_of_order(packet, ahead, now)
        if ahead >= 0x10000 - MAX_MISORDER:
            self._behind(sequence, now)
            return ()
        if sequence == self._jumped_to:
            return self._restart(packet)
        self._jumped_to = sequence + 1 & 0xFFFF
        self._note("jumped", 1)
        return ()

    def expire(self, now: float) -> Sequence[bytes | None]:
        """Give up packets whose wait is over."""
        ready: list[bytes | None] = []
        while self._waiting:
            first = min(self._waiting, key=self._distance)
            noticed = min(arrival for _, arrival in self._waiting.values())
            # The loop's clock is a float: a fraction of a microsecond early is on time.
            if now - noticed < self.depth - 1e-6 and len(self._waiting) <= MAX_WAITING:
                break
            self._give_up(first, noticed, ready)
            self._release(ready)
        return ready

    def _out_of_order(self, packet: RtpPacket, ahead: int, now: float) -> Sequence[bytes | None]:
        if packet.sequence in self._waiting:
            self._note("duplicate", 1)
            return ()
        if ahead == 0:
            lateness = now - min(arrival for _, arrival in self._waiting.values())
            self._note("reordered", 1)
            if lateness > self.depth / 2:
                self._needed_at = now
        self._waiting[packet.sequence] = (packet.payload, now)
        ready: list[bytes | None] = []
        self._release(ready)
        ready += self.expire(now)
        return ready

    def _release(self, ready: list[bytes | None]) -> None:
        """Move the packets that are in order now from the waiting to `ready`."""
        while (found := self._waiting.pop(self._next, None)) is not None:
            ready.append(found[0])
            self._next = self._next + 1 & 0xFFFF

    def _give_up(self, first: int, noticed: float, ready: list[bytes | None]) -> None:
        """Continue with `first`, and give up what is missing before it."""
        missing = self._distance(first)
        if missing <= MAX_FILL:
            self._note("lost", missing)
            ready.extend((Lost,) * missing)
        else:
            self._note("gap", 1)
        for offset in range(missing):
            self._given_up[self._next + offset & 0xFFFF] = noticed
        while len(self._given_up) > _REMEMBERED:
            del self._given_up[next(iter(self._given_up))]
        self._next = first

    def _behind(self, sequence: int, now: float) -> None:
        noticed = self._given_up.pop(sequence, None)
        if noticed is None:
            self._note("duplicate", 1)
            return
        self._note("late", 1)
        wanted = max(STEP, ceil((now - noticed) / STEP - 1e-6) * STEP)
        if wanted <= MAX_DEPTH + 1e-6:
            self.depth = max(self.depth, min(wanted, MAX_DEPTH))
            self._needed_at = now

    def _relax(self, now: float) -> None:
        self.depth = max(0.0, round(self.depth - STEP, 3))
        self._needed_at = now

    def _restart(self, packet: RtpPacket) -> Sequence[bytes | None]:
        """Begin another stream with this packet; kept packets of the old one go first."""
        ready: list[bytes | None] = []
        if self._ssrc is not None:
            self._note("restart", 1)
            order = sorted(self._waiting, key=self._distance)
            ready += [self._waiting[sequence][0] for sequence in order]
        self._waiting.clear()
        self._given_up.clear()
        self._jumped_to = None
        self._ssrc = packet.ssrc
        self._next = packet.sequence + 1 & 0xFFFF
        ready.append(packet.payload)
        return ready

    def _distance(self, sequence: int) -> int:
        return sequence - self._next & 0xFFFF
