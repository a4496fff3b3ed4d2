"""`BrowserPage`: a caller on the engine's browser protocol, as the page behaves, without a browser.

It orders a call at the admin port, opens its websocket with the ticket, sends its microphone every
20 ms, and plays what comes on a clock of its own: a ring buffer that starts with `BUFFER_MS`,
holds, resumes and drops its queue when told to, and reports how much it has played. `cuts` is its
own record of that, to be compared with the ledger.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx2
import numpy as np
import orjson
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from cordboard.audio.g711 import linear_to_ulaw, ulaw_to_linear
from cordboard.audio.resample import Resampler, to_floats, to_pcm
from cordboard.errors import CallRefused
from cordboard.telephony.browser.messages import FORMATS, HEADER, SUBPROTOCOL, encode_sound
from cordboard_testkit.media_thread import MediaThread, MediaUser
from cordboard_testkit.mouth_and_ear import Ear, Mouth
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.timeline import FRAME_SECONDS, RATE, Samples
from cordboard_testkit.voice_line import CallEnd, VoiceLine

BUFFER_MS = 60
"""Sound that the page waits for before it begins to play."""
REPORT_SECONDS = 0.1
_READ_SIZE = 65_536
_STALL = 0.2


@dataclass(frozen=True, slots=True)
class Cut:
    """A flush, as the page carried it out."""

    flush: int
    played_ms: float
    """Sound played since the flush before."""
    held: bool
    """True if the sound was on hold then: the engine knows the number exactly."""


class BrowserPage(VoiceLine, MediaUser):
    """One call from a page. `async with`, or `start` and `close`."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        *,
        media: MediaThread | None = None,
        **order: Any,
    ) -> None:
        """`address`: of the admin port, such as `http://127.0.0.1:15001`. `headers` sign the page
        in. `order`: the body of `POST /browser-calls`."""
        VoiceLine.__init__(self)
        MediaUser.__init__(self, media)
        self._address = address
        self._headers = {"Origin": address, "X-Cordboard": "1", **headers}
        self._order = order
        self._stream: _PageStream | None = None
        self.call_id = ""
        self.ready_at: float | None = None
        self.ended_reason = ""
        """The reason in the engine's last message; empty if there was none."""
        self.close_code: int | None = None
        self.cuts: list[Cut] = []

    async def order(self) -> dict[str, Any]:
        """Order the call. Raises `CallRefused` with the answer."""
        async with httpx2.AsyncClient(base_url=self._address, trust_env=False) as client:
            answer = await client.post(
                "/api/v1/browser-calls", json=self._order, headers=self._headers
            )
        if answer.status_code != 200:
            raise CallRefused(f"{answer.status_code}: {answer.text}")
        given: dict[str, Any] = answer.json()
        self.call_id = given["id"]
        return given

    async def start(self) -> None:
        """Order the call and open its socket. Raises `CallRefused`."""
        await self.open(await self.order())

    async def open(self, given: Mapping[str, Any]) -> None:
        """Open the socket of an order. Raises `CallRefused`."""
        host, port = self._address.removeprefix("http://").split(":")
        protocol = ClientProtocol(
            parse_uri(f"ws://{host}:{port}{given['url']}"),
            subprotocols=[Subprotocol(SUBPROTOCOL), Subprotocol(f"ticket.{given['ticket']}")],
        )
        request = protocol.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        protocol.send_request(request)
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            await self._loop.sock_connect(connection, (host, int(port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.sock_sendall(connection, b"".join(protocol.data_to_send()))
            early = await self._shake_hands(connection, protocol)
        except BaseException:
            connection.close()
            raise
        self._start_media()
        self._stream = _PageStream(connection, protocol, self, self._mouth, self._ear)
        for event in early:
            self._stream.take(event)
        self._media.add(self._stream)

    async def _shake_hands(
        self, connection: socket.socket, protocol: ClientProtocol
    ) -> list[Frame]:
        while True:
            protocol.receive_data(await self._loop.sock_recv(connection, _READ_SIZE))
            events = protocol.events_received()
            for event in events:
                if isinstance(event, Response) and event.status_code != 101:
                    raise CallRefused(f"{event.status_code}: {bytes(event.body or b'').decode()}")
            if protocol.handshake_exc is not None:
                raise CallRefused(str(protocol.handshake_exc))
            if events:
                return [event for event in events if isinstance(event, Frame)]

    @property
    def played_ms(self) -> float:
        """Sound played since the last flush."""
        return self._stream.played_ms if self._stream is not None else 0.0

    async def ready(self, timeout: float = PATIENCE) -> float:
        """Wait until the engine has taken the call."""
        return await self._until(lambda: self.ready_at, timeout)

    def hangup(self) -> None:
        """Hang up, as the person does by the button."""
        if self._stream is not None:
            self._stream.ask("hangup")

    def vanish(self) -> None:
        """Drop the connection without a word: the browser has crashed."""
        self.over("us", "the page is gone")

    def stall(self, seconds: float) -> None:
        """Neither read nor send for a while, as on a dead network."""
        if self._stream is not None:
            self._stream.ask("stall", seconds)

    def raw(self, frame: str | bytes) -> None:
        """Send a frame that no page would."""
        if self._stream is not None:
            self._stream.ask("raw", frame)

    async def close(self) -> None:
        """Close the tab and free everything. Idempotent."""
        if self.end is None and self._stream is not None:
            self._stream.ask("leave")
            await self.ended()
        await self._stop_media()

    # In the media thread.

    def over(self, by: Literal["us", "them"], reason: str) -> None:
        """Note the end; called once by the stream."""
        if self.end is None and self._stream is not None:
            self._line_over(CallEnd(by, time.monotonic(), reason=reason))
            self._media.remove(self._stream)

    def changed(self) -> None:
        """Wake those who wait for what the page has noted."""
        self._changed()


class _PageStream:
    """The page's socket, microphone and loudspeaker, in the media thread."""

    def __init__(
        self,
        connection: socket.socket,
        protocol: ClientProtocol,
        page: BrowserPage,
        mouth: Mouth,
        ear: Ear,
    ) -> None:
        self.due = time.monotonic()
        self._socket = connection
        self._protocol = protocol
        self._page, self._mouth, self._ear = page, mouth, ear
        self._format = FORMATS[page._order.get("format", "slin16")]
        self._up = Resampler(RATE, self._format.rate) if self._format.rate != RATE else None
        self._down = Resampler(self._format.rate, RATE) if self._format.rate != RATE else None
        self._wishes: deque[tuple[str, Any]] = deque()
        self._seq = 0
        self._mic_from = 0.0
        self._ready = False
        self._over = False
        self._leaving: Literal["us", "them"] = "them"
        self._silent_until = 0.0
        self._queue = bytearray()
        self._marks: deque[tuple[int, int]] = deque()
        """Name and position of marks in the queue, counted like `_received`."""
        self._flush = 0
        self._received = self._played = 0
        """Bytes since the last flush."""
        self._held = self._playing = False
        self._clock = 0.0
        """Time up to which sound has been played."""
        self._waits_since = 0.0
        self._reported_at = 0.0
        self._underruns = 0

    def ask(self, wish: str, value: Any = None) -> None:
        """Have the thread do something at its next tick. Any thread."""
        self._wishes.append((wish, value))

    @property
    def played_ms(self) -> float:
        """Sound played since the last flush."""
        return self._format.duration_ms(self._played)

    # media_thread.MediaStream

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish(self) -> None:
        self._socket.close()

    def tick(self) -> None:
        now = time.monotonic()
        late = now - self.due > _STALL
        self.due = now + FRAME_SECONDS / 2 if late else self.due + FRAME_SECONDS / 2
        self._fulfil(now)
        if self._over or now < self._silent_until:
            return
        self._play(now)
        if self._playing and now - self._reported_at >= REPORT_SECONDS:
            self._report(now)
        if self._ready and self._open and self._mic_due(now):
            self._speak(now)
        self._transmit()

    def receive(self) -> None:
        if time.monotonic() < self._silent_until:
            return
        while not self._over:
            try:
                data = self._socket.recv(_READ_SIZE)
            except BlockingIOError:
                break
            except OSError as problem:
                self._end("them", f"the connection broke: {problem}")
                return
            if not data:
                self._end(self._leaving, "the connection was closed")
                return
            self._protocol.receive_data(data)
            for event in self._protocol.events_received():
                if isinstance(event, Frame):
                    self.take(event)
        self._transmit()

    def take(self, frame: Frame) -> None:
        """Take a frame of the engine."""
        now = time.monotonic()
        if frame.opcode is Opcode.BINARY:
            self._play(now)
            sound = bytes(frame.data)[HEADER.size :]
            if not self._queue:
                self._waits_since = now
            self._queue += sound
            self._received += len(sound)
            self._play(now)
        elif frame.opcode is Opcode.TEXT:
            self._message(orjson.loads(frame.data), now)
        elif frame.opcode is Opcode.CLOSE:
            self._page.close_code = int.from_bytes(frame.data[:2], "big")

    # The loudspeaker.

    def _play(self, now: float) -> None:
        """Play what was due until now."""
        if self._held:
            return
        if not self._playing:
            queued = self._format.duration_ms(len(self._queue))
            waited = (now - self._waits_since) * 1000
            if not self._queue or max(queued, waited) < BUFFER_MS:
                self._reach(self._played)
                return
            self._playing, self._clock = True, now
            self._report(now)
        samples = int((now - self._clock) * self._format.rate)
        self._clock += samples / self._format.rate
        size = min(len(self._queue), samples * self._format.bytes_per_sample)
        if size:
            heard = bytes(self._queue[:size])
            del self._queue[:size]
            self._played += size
            self._ear.hear(now, self._to_8k(heard))
        self._reach(self._played)
        if not self._queue:
            self._playing = False
            self._report(now)

    def _reach(self, position: int) -> None:
        while self._marks and self._marks[0][1] <= position:
            self._send_text("mark_done", name=self._marks.popleft()[0])

    def _report(self, now: float) -> None:
        self._reported_at = now
        self._send_text(
            "played",
            flush=self._flush,
            ms=self.played_ms,
            playing=self._playing,
            queued_ms=self._format.duration_ms(len(self._queue)),
            underruns=self._underruns,
        )

    def _message(self, message: dict[str, Any], now: float) -> None:
        self._play(now)
        kind = message["type"]
        if kind == "ready":
            self._ready, self._page.ready_at = True, now
        elif kind == "mark":
            self._marks.append((message["name"], self._received))
            self._reach(self._played)
        elif kind == "hold":
            self._held, self._playing = True, False
            self._report(now)
        elif kind == "resume":
            self._held, self._playing, self._clock = False, bool(self._queue), now
            self._report(now)
        elif kind == "flush":
            self._page.cuts.append(Cut(message["flush"], self.played_ms, self._held))
            self._queue.clear()
            self._marks.clear()
            self._flush = message["flush"]
            self._received = self._played = 0
            self._held = self._playing = False
            self._report(now)
        elif kind == "keys":
            for key in message["keys"]:
                self._ear.hear_key(key)
        elif kind == "ended":
            self._page.ended_reason = message["reason"]
        self._page.changed()

    def _to_8k(self, sound: bytes) -> Samples:
        pcm = ulaw_to_linear(sound) if self._format.encoding == "ulaw" else sound
        if self._down is not None:
            pcm = to_pcm(self._down.process(to_floats(pcm)))
        return np.frombuffer(pcm, "<i2").astype(np.int16)

    # The microphone.

    def _mic_due(self, now: float) -> bool:
        if self._seq == 0:
            self._mic_from = now
        return self._mic_from + self._seq * FRAME_SECONDS <= now

    def _speak(self, now: float) -> None:
        frame = self._mouth.next_frame()
        pcm = self._mouth.picked_up(now, frame).astype("<i2").tobytes()
        if self._up is not None:
            if self._seq == 0:
                self._up.process(np.zeros(self._up.lookahead, np.float32))
            pcm = to_pcm(self._up.process(to_floats(pcm)))
        if self._format.encoding == "ulaw":
            pcm = linear_to_ulaw(pcm)
        self._protocol.send_binary(encode_sound(self._seq, self._seq * 20, pcm))
        self._seq += 1
        self._mouth.sent(now, frame)
        if key := self._mouth.next_key():
            self._send_text("key", digit=key)

    # The socket.

    def _fulfil(self, now: float) -> None:
        while self._wishes and not self._over:
            wish, value = self._wishes.popleft()
            if wish == "stall":
                self._silent_until = now + value
            elif wish == "leave":
                self._leaving = "us"
                self._protocol.send_close(1001)
            elif wish == "hangup":
                self._leaving = "us"
                self._send_text("hangup")
            elif isinstance(value, str):
                self._protocol.send_text(value.encode())
            else:
                self._protocol.send_binary(value)

    @property
    def _open(self) -> bool:
        return self._protocol.state is State.OPEN

    def _send_text(self, kind: str, **fields: Any) -> None:
        if self._open:
            self._protocol.send_text(orjson.dumps({"type": kind, **fields}))

    def _transmit(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if not data or self._over:
            return
        try:
            sent = self._socket.send(data)
        except OSError as problem:
            self._end(self._leaving, f"the connection broke: {problem}")
            return
        if sent < len(data):
            self._end("them", "the engine does not read")

    def _end(self, by: Literal["us", "them"], reason: str) -> None:
        if not self._over:
            self._over = True
            self._page.over(by, reason)
