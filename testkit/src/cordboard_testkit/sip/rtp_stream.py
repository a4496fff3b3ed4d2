"""The RTP of one call: sends the mouth's audio every 20 ms, gives the ear the incoming audio.

Runs in the `MediaThread`. Arrival times are the kernel's (`SO_TIMESTAMPNS`), so they hold even when
this thread is woken late. Payload: G.711 u-law, and telephone events for keys.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import numpy as np

from cordboard.audio.g711 import linear_to_ulaw, ulaw_to_linear
from cordboard.errors import MalformedPacket
from cordboard_testkit.mouth_and_ear import Ear, Mouth
from cordboard_testkit.sip.rtp import (
    PCMU,
    TELEPHONE_EVENT,
    RtpPacket,
    TelephoneEvent,
    key_press,
)
from cordboard_testkit.timeline import FRAME_SAMPLES, FRAME_SECONDS

_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; the ancillary message has the same number
_TIMESPEC = struct.Struct("@qq")
_RECEIVE_BUFFER = 1 << 20
_LARGEST_DATAGRAM = 4096
_STALL = 0.2  # s; after a longer stall the schedule restarts instead of sending a flood
_TICKS_BETWEEN_KEYS = 4


class RtpStream:
    """One RTP socket. The event loop sets `remote` and friends; the media thread does the rest."""

    def __init__(self, mouth: Mouth, ear: Ear, host: str) -> None:
        self.due = 0.0
        self.remote: tuple[str, int] | None = None
        """The far side's address; no packet is sent before it is known."""
        self.muted = False
        """True: send no packets at all, like a phone on hold."""
        self.event_type = TELEPHONE_EVENT
        self._mouth, self._ear = mouth, ear
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, 0))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.port: int = self._socket.getsockname()[1]
        self._sequence = random.randrange(1 << 16)  # noqa: S311 - RFC 3550 wants it random, no more
        self._timestamp = random.randrange(1 << 31)  # noqa: S311
        self._ssrc = random.randrange(1 << 32)  # noqa: S311
        self._first = True
        self._press: Iterator[TelephoneEvent] | None = None
        self._press_timestamp = 0
        self._ticks_to_next_key = 0
        self._last_key_timestamp: int | None = None

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish(self) -> None:
        self._socket.close()

    # -- sending -----------------------------------------------------------------------------

    def tick(self) -> None:
        now = time.monotonic()
        skipped = int((now - self.due) / FRAME_SECONDS) if now - self.due > _STALL else 0
        self.due = now + FRAME_SECONDS if self._first else self.due + (1 + skipped) * FRAME_SECONDS
        self._timestamp += (1 + skipped) * FRAME_SAMPLES
        if self.remote is None or self.muted:
            return
        if not self._send_key():
            frame = self._mouth.next_frame()
            picked_up = self._mouth.picked_up(time.monotonic(), frame)
            sent_at = self._send(
                PCMU, linear_to_ulaw(picked_up.tobytes()), self._timestamp, self._first
            )
            self._mouth.sent(sent_at, frame)
        self._first = False

    def _send_key(self) -> bool:
        """Send the next packet of a key press; False when no key is down."""
        if self._press is None:
            if self._ticks_to_next_key:
                self._ticks_to_next_key -= 1
                return False
            key = self._mouth.next_key()
            if key is None:
                return False
            self._press, self._press_timestamp = key_press(key), self._timestamp
        event = next(self._press, None)
        if event is None:
            self._press, self._ticks_to_next_key = None, _TICKS_BETWEEN_KEYS
            return False
        first = self._press_timestamp == self._timestamp
        self._send(self.event_type, event.to_bytes(), self._press_timestamp, first)
        return True

    def _send(self, payload_type: int, payload: bytes, timestamp: int, marker: bool) -> float:
        packet = RtpPacket(payload_type, self._sequence, timestamp, self._ssrc, payload, marker)
        self._sequence += 1
        sent_at = time.monotonic()
        if self.remote is not None:
            try:
                self._socket.sendto(packet.to_bytes(), self.remote)
            except OSError:  # the far side is gone: its BYE, not its RTP port, ends the call
                return sent_at
        return sent_at

    # -- receiving ---------------------------------------------------------------------------

    def receive(self) -> None:
        while True:
            try:
                data, notes, _, _ = self._socket.recvmsg(_LARGEST_DATAGRAM, 64)
            except BlockingIOError:
                return
            except ConnectionError:  # an ICMP refusal of something sent earlier
                continue
            try:
                self._take(RtpPacket.parse(data), _arrival(notes))
            except MalformedPacket:
                continue

    def _take(self, packet: RtpPacket, arrived_at: float) -> None:
        if packet.payload_type == PCMU:
            sound = np.frombuffer(ulaw_to_linear(packet.payload), "<i2").astype(np.int16)
            self._ear.hear(arrived_at, sound)
        elif packet.payload_type == self.event_type:
            event = TelephoneEvent.parse(packet.payload)
            # The end is sent three times with the timestamp of the press.
            if event.end and packet.timestamp != self._last_key_timestamp and event.key:
                self._last_key_timestamp = packet.timestamp
                self._ear.hear_key(event.key)


def _arrival(notes: list[tuple[int, int, bytes]]) -> float:
    """The kernel's arrival time on the monotonic clock; the current time if the kernel has none."""
    now = time.monotonic()
    for level, kind, data in notes:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            age: float = (time.time_ns() - seconds * 1_000_000_000 - nanoseconds) / 1e9
            return now - max(0.0, age)
    return now
