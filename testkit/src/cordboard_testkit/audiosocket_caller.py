"""`SimulatedCaller`: a caller on the AudioSocket protocol, without SIP and without Asterisk.

It behaves like the `AudioSocket()` application of Asterisk 22: it connects, names the call by
its UUID, sends 20 ms of audio every 20 ms (silence included, none while a key is down), and ends
the call for the reasons for which Asterisk ends it: a hangup frame, a closed connection, a frame
that is neither audio nor hangup, one without payload, or a server that does not read.

Incoming audio is placed on the clock as a telephone behind Asterisk plays it, see `timeline`.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Literal
from uuid import UUID, uuid4

import numpy as np

from cordboard.audio.resample import Resampler
from cordboard.errors import CallRefused
from cordboard.telephony.asterisk.audiosocket import (
    Audio,
    Event,
    Hangup,
    Parser,
    Violation,
    encode_audio,
    encode_dtmf,
    encode_uuid,
)
from cordboard_testkit.media_thread import MediaThread, MediaUser
from cordboard_testkit.mouth_and_ear import Ear, Mouth
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.timeline import FRAME_SECONDS, RATE, Samples
from cordboard_testkit.voice_line import CallEnd, VoiceLine

_STALL = 0.2  # s; after a longer stall the schedule restarts instead of sending a flood
_TICKS_KEY_DOWN = 6
_TICKS_BETWEEN_KEYS = 4
_READ_SIZE = 65536


class SimulatedCaller(VoiceLine, MediaUser):
    """One call to an AudioSocket server. `async with`, or `start` and `close`.

    `uuid` is sent as the name of the call; by default a new one. The first frame is sent at
    `begins_at` (`time.monotonic()`), by default at once; the others follow every 20 ms.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        uuid: UUID | None = None,
        media: MediaThread | None = None,
        begins_at: float = 0.0,
    ) -> None:
        VoiceLine.__init__(self)
        MediaUser.__init__(self, media)
        self.uuid = uuid or uuid4()
        self.answered_at: float | None = None
        """Time at which the connection was established."""
        self._address = (host, port)
        self._begins_at = begins_at
        self._stream: _AudioSocketStream | None = None

    async def start(self) -> None:
        """Connect and begin to send. Raises `CallRefused` if the port is closed."""
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            await self._loop.sock_connect(connection, self._address)
        except OSError as problem:
            connection.close()
            host, port = self._address
            raise CallRefused(f"no AudioSocket server at {host}:{port}: {problem}") from problem
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._start_media()
        self.answered_at = time.monotonic()
        connection.send(encode_uuid(self.uuid))
        self._stream = _AudioSocketStream(
            connection, self._mouth, self._ear, self._over, self._begins_at
        )
        self._media.add(self._stream)

    async def answered(self, timeout: float = PATIENCE) -> float:
        """Time of the connection; a caller of this kind is answered at once."""
        return await self._until(lambda: self.answered_at, timeout)

    def hangup(self) -> None:
        """Hang up: close the connection."""
        self._over("us", "")

    async def close(self) -> None:
        """Hang up and free everything. Idempotent."""
        self.hangup()
        await self._stop_media()

    def _over(self, by: Literal["us", "them"], reason: str) -> None:
        if self.end is None and self._stream is not None:
            self._line_over(CallEnd(by, time.monotonic(), reason=reason))
            self._media.remove(self._stream)


class _AudioSocketStream:
    """The connection, in the media thread."""

    def __init__(
        self,
        connection: socket.socket,
        mouth: Mouth,
        ear: Ear,
        over: Callable[[Literal["us", "them"], str], None],
        begins_at: float,
    ) -> None:
        self.due = begins_at
        self._socket = connection
        self._mouth, self._ear, self._over = mouth, ear, over
        self._parser = Parser("client")
        self._resamplers: dict[int, Resampler] = {}
        self._key: str | None = None
        self._ticks_left = 0
        self._ended = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish(self) -> None:
        self._socket.close()

    def tick(self) -> None:
        now = time.monotonic()
        late = now - self.due > _STALL
        self.due = now + FRAME_SECONDS if late else self.due + FRAME_SECONDS
        if self._ended or self._send_key():
            return
        frame = self._mouth.next_frame()
        sent_at = time.monotonic()
        picked_up = self._mouth.picked_up(sent_at, frame)
        if self._send(encode_audio(picked_up.astype("<i2").tobytes())):
            self._mouth.sent(sent_at, frame)

    def receive(self) -> None:
        while not self._ended:
            try:
                data = self._socket.recv(_READ_SIZE)
            except BlockingIOError:
                return
            except OSError as problem:
                self._end(f"the connection broke: {problem}")
                return
            arrived_at = time.monotonic()
            if not data:
                self._end("the server closed the connection")
            for event in self._parser.feed(data):
                self._take(event, arrived_at)

    def _take(self, event: Event, arrived_at: float) -> None:
        if isinstance(event, Audio):
            self._ear.hear(arrived_at, self._to_8k(event))
        elif isinstance(event, Hangup):
            self._end("the server hung up")
        elif isinstance(event, Violation):
            self._end(f"Asterisk would refuse this: {event.message}")

    def _to_8k(self, audio: Audio) -> Samples:
        """The audio at the line's rate; Asterisk transcodes any rate of a frame."""
        sound = np.frombuffer(audio.pcm, "<i2")
        if audio.rate == RATE:
            return sound.astype(np.int16)
        if audio.rate not in self._resamplers:
            self._resamplers[audio.rate] = Resampler(audio.rate, RATE)
        resampled = self._resamplers[audio.rate].process(sound.astype(np.float32))
        return np.clip(np.rint(resampled), -32768, 32767).astype(np.int16)

    def _send_key(self) -> bool:
        """True while a key is down: no audio is sent then (measured on 22.10.1)."""
        if self._key is None:
            if self._ticks_left:
                self._ticks_left -= 1
                return False
            self._key = self._mouth.next_key()
            self._ticks_left = _TICKS_KEY_DOWN
        if self._key is None:
            self._ticks_left = 0
            return False
        self._ticks_left -= 1
        if self._ticks_left == 0:
            self._send(encode_dtmf(self._key))
            self._key, self._ticks_left = None, _TICKS_BETWEEN_KEYS
        return True

    def _send(self, data: bytes) -> bool:
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as problem:
            self._end(f"the connection broke: {problem}")
            return False
        if sent < len(data):  # Asterisk writes without a queue and gives up as well
            self._end("the server does not read")
        return sent == len(data)

    def _end(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._over("them", reason)
