"""One AudioSocket connection as the media of one call.

`AudioSocketServer` makes one for each TCP connection. Until Asterisk has named the call it only
waits; then it is claimed for a call and used as `calls.offer.Media`.

Each arriving frame goes straight to the call by a function call. Each outgoing frame is sent at a
tick of the shared pacer: 320 bytes every 20 ms, silence when nothing is queued, because Asterisk
hangs up a call in which neither side has sent anything for 2 s and plays each frame on arrival
(both measured on 22.10.1).

Dead peers: a phone on hold or muted sends nothing, and then neither does Asterisk (measured), so
silence alone is no sign. Our frame every 20 ms is: the kernel gives up on a host that acknowledges
nothing (`net.tcp`), and a peer that acknowledges but reads nothing fills the buffers at last, after
which it has `STALLED_SECONDS` to read again. `IDLE_SECONDS` without any frame is the last resort;
the line shortens it by `idle_seconds` when ARI is gone too.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.net.tcp import live_transport
from cordboard.telephony.asterisk import audiosocket
from cordboard.telephony.asterisk.audiosocket import Audio, Dtmf, Hangup, Identified, Violation
from cordboard.telephony.line_media import ArrivalMeter, PacedMedia
from cordboard.telephony.outgoing import OutgoingAudio

log = structlog.get_logger()

STALLED_SECONDS = 2.0
PIECE_BYTES = 16_384
"""Bytes read before the flood check; the other calls wait meanwhile."""
SEND_BUFFER_BYTES = 16_384
"""Half a second on the wire, so that a peer that does not read is noticed soon."""
CLOSE_SECONDS = 1.0
"""Time for a closing connection to send its remaining data."""


def _header(audio_format: AudioFormat) -> bytes:
    """Return the header of each 20 ms frame."""
    whole = audiosocket.encode_audio(audio_format.silence(), audio_format.rate)
    return whole[: audiosocket.HEADER_SIZE]


class ConnectionOwner(Protocol):
    """Callbacks of a connection; the server implements them."""

    def connected(self, media: AudioSocketMedia) -> None:
        """A TCP connection was accepted."""

    def identified(self, media: AudioSocketMedia, uuid: UUID) -> None:
        """Asterisk has named the call. Claim the connection (`claim`) or `abort` it."""

    def disconnected(self, media: AudioSocketMedia) -> None:
        """The TCP connection is gone, whichever side ended it."""


class AudioSocketMedia(PacedMedia, asyncio.Protocol):
    """The media of one call over one connection (implements `media_path.LineMedia`)."""

    def __init__(self, owner: ConnectionOwner, pacer: Pacer) -> None:
        super().__init__(SLIN_8K)
        self._owner = owner
        self._pacer = pacer
        self._loop = asyncio.get_running_loop()
        self._parser = audiosocket.Parser("server")
        self.format = SLIN_8K
        self._bytes_per_second = SLIN_8K.bytes_per_ms * 1000
        self._header = _header(SLIN_8K)
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()
        self._heard_at = self._loop.time()
        self._arrivals = ArrivalMeter(self._heard_at)
        self._stalled_at: float | None = None
        self._begun = False
        self.peer = ("", 0)
        """Address and port of the other end."""
        self.own_address = ""
        """Our address to which the peer has connected."""
        self.uuid: UUID | None = None
        """UUID of the call, None until Asterisk has sent it. A secret: never log it."""
        self.stalled_seconds = STALLED_SECONDS
        """Time for which Asterisk may leave waiting data unread."""
        self.problem = ""
        """Fault of the connection, for the log; empty when there was none."""
        self.fault = ""
        """The fault as one word, for counting: `protocol`, `rate`, `flood`, `stalled`, `idle`,
        `sending`; empty when the connection did nothing wrong."""

    # For the server and the source.

    @property
    def connected(self) -> bool:
        return self._transport is not None and not self._gone.is_set()

    @property
    def has_unread(self) -> bool:
        """True if received bytes still wait for the event loop."""
        if self._transport is None or self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def carry(self, audio_format: AudioFormat) -> None:
        """Use another slin rate than 8 kHz. Call before anything is written."""
        self.format = audio_format
        self._bytes_per_second = audio_format.bytes_per_ms * 1000
        self._header = _header(audio_format)
        self._outgoing = OutgoingAudio(audio_format)

    def begin(self) -> None:
        """Send silence from now on.

        Before the channel is put into a bridge: `ast_audiosocket_receive_frame_with_hangup`
        (res_audiosocket.c, 22.10.1) waits for a frame with the channel's lock held, and in 1 of
        some 200 private sounds it waited from the moment in which that channel entered. The other
        channel, and all requests behind it, then waited too, until the sound was given up.
        """
        if self.connected and not self._begun:
            self._begun = True
            self._pacer.register(self, self._pacer_failed)

    def claim(self, on_lost: Callable[[str], None]) -> None:
        """Take the connection for a call, and `begin`.

        `on_lost(problem)` is called when the connection is lost (empty text: Asterisk simply closed
        it); the callback finds the reason for the call and passes it to `end`.
        """
        self._on_lost = on_lost
        self.begin()
        if not self.connected:
            on_lost(self.problem)

    def take_key(self, key: str) -> None:
        """Do nothing: AudioSocket brings each key itself, in a frame of its own."""

    def abort(self) -> None:
        """Drop the connection at once."""
        self._stop_sound()
        if self._transport is not None:
            self._transport.abort()

    def send_hangup(self) -> None:
        """Request the end of the AudioSocket() application, so that the dialplan continues."""
        self._stop_sound()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(audiosocket.encode_hangup())
            self._transport.close()

    # calls.offer.Media

    async def close(self) -> None:
        self._begin_closing()
        self.send_hangup()
        if self._transport is not None and not self._gone.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), CLOSE_SECONDS)
            self._transport.abort()

    # audio.pacer.Outlet

    def tick(self, count: int) -> None:
        """Send the frames that are due."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        now = self._loop.time()
        if self._stalled_at is not None:
            # Nothing is taken while the peer does not read: queued audio has not been heard.
            if now - self._stalled_at > self.stalled_seconds:
                self._fail("stalled", f"Asterisk has read nothing for {self.stalled_seconds:g} s")
            return
        if now - self._heard_at > self.idle_seconds:
            self._fail("idle", f"no frame from Asterisk for {self.idle_seconds:g} s")
            return
        for _ in range(count):
            frame = self._outgoing.frame()
            transport.write(self._header + frame)
            if self._on_sent is not None:
                self._on_sent(frame)
        self._outgoing.settle()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = live_transport(transport, SEND_BUFFER_BYTES)
        self.peer = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.own_address = (transport.get_extra_info("sockname") or ("",))[0]
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        now = self._heard_at = self._loop.time()
        for start in range(0, len(data), PIECE_BYTES):
            events = self._parser.feed(data[start : start + PIECE_BYTES])
            if not self._arrivals.takes_messages(self._parser.frames, now):
                self._fail("flood", "frames come in a flood")
            for event in events:
                if self._transport is not None and self._transport.is_closing():
                    return  # frames after the end no longer count
                if not isinstance(event, Audio):
                    self._take(event)
                elif event.rate != self.format.rate:
                    self._wrong_rate(event.rate)
                elif not self._arrivals.takes_sound(len(event.pcm) / self._bytes_per_second, now):
                    self._fail("flood", "sound comes faster than real time")
                elif self._on_audio is not None:
                    self._on_audio(event.pcm)

    def pause_writing(self) -> None:
        self._stalled_at = self._loop.time()

    def resume_writing(self) -> None:
        self._stalled_at = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_sound()
        self._gone.set()
        if exc is not None and not self.problem:
            self.problem = str(exc) or type(exc).__name__
        self._tell_lost(self.problem)
        self._owner.disconnected(self)

    def _take(self, event: audiosocket.Event) -> None:
        if isinstance(event, Dtmf):
            if self._on_dtmf is not None:
                self._on_dtmf(event.digit)
        elif isinstance(event, Identified):
            self.uuid = event.uuid
            self._owner.identified(self, event.uuid)
        elif isinstance(event, Violation):
            self._fail("protocol", event.message)
        elif isinstance(event, Hangup) and self._transport is not None:
            self._transport.close()

    def _wrong_rate(self, rate: int) -> None:
        problem = f"Asterisk sends {rate} Hz; this line takes {self.format.rate} Hz"
        self._fail("rate", problem)

    def _fail(self, fault: str, problem: str) -> None:
        if not self.problem:
            self.fault, self.problem = fault, problem
        self.abort()

    def _pacer_failed(self, error: Exception) -> None:
        self._fail("sending", f"sending failed: {error!r}")

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self._outgoing.flush()
