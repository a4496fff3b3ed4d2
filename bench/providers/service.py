"""The services of the benchmark, as a process: `python -m bench.providers.service WIRE [tls]`.

A websocket server that does as little as possible: it records the arrival of messages without
reading them, and sends prepared messages. The first part of a connection's path names its call.
Each call has its own phase within the 20 ms, as real calls have.

It prints `{"port": ..., "certificate": ...}` when it accepts connections. It executes each line of
JSON on its standard input and answers with one line; at the end of its input it stops.

    {"do": "sound", "on": true}    begin to send sound on every connection, or stop
    {"do": "barge_in", "on": true} speak on every connection, and interrupt it (OpenAI's wire)
    {"do": "times"}                by call: when each sound was sent, when each frame arrived
    {"do": "cuts"}                 by cut: when `speech_started` was sent, when the truncation came
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, cast

import orjson
from websockets.utils import apply_mask

from bench.providers.wires import PAUSE, SPOKEN, WIRES, Message, Wire
from cordboard.cli.options import run_async
from cordboard_testkit.emulators.throw_away_certificate import ThrowAwayCertificate

PHASES = 20
"""Of 1 ms each in a frame's 20 ms."""
SMALLEST_SOUND = 120
"""Bytes of a message; smaller ones keep the connection awake."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE, _TEXT, _BINARY, _PING = 8, 1, 2, 9
_BY_TEN_BITS = 126


class Connection(asyncio.Protocol):
    """One call's."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._open = False
        self._introduced = False
        self.call = -1
        self.sent: list[float] = []
        self.arrived: list[float] = []
        self._count = 0
        self._answer = 0
        """Of barge-ins: the number of the answer, and how many frames it has."""
        self._frames = 0
        self._cut_sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        plain = transport.get_extra_info("socket")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.connections.pop(self.call, None)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        buffer = self._buffer
        buffer += data
        if not self._open:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._accept(bytes(buffer[:end]))
            del buffer[: end + 4]
        while (size := _whole(buffer)) is not None:
            self._frame(buffer, size, now)
            del buffer[:size]

    def send(self, message: Message) -> None:
        binary, content = message
        self._write(_BINARY if binary else _TEXT, content)

    def next_sound(self) -> None:
        """Send 20 ms of the answer."""
        self._count += 1
        message = self._service.wire.sound(self._count)
        self.sent.append(time.monotonic())
        self.send(message)

    def next_of_cut(self) -> None:
        """An answer of some frames, over which the caller speaks, and a pause; in turns."""
        frame, self._frames = self._frames, (self._frames + 1) % (SPOKEN + PAUSE)
        if frame == 0:
            self._answer += 1
            self._say("response.created", response={"id": self._names["response_id"]})
        if frame < SPOKEN - 1:
            self._say("response.output_audio.delta", **self._names, delta=self._service.sound)
        elif frame == SPOKEN - 1:
            self._cut_sent = time.monotonic()
            item = f"caller_{self._answer}"
            self._say("input_audio_buffer.speech_started", item_id=item, audio_start_ms=0)
            done = {"id": self._names["response_id"], "status": "cancelled"}
            done["status_details"] = {"type": "cancelled", "reason": "turn_detected"}
            self._say("response.done", response=done)
        elif frame == SPOKEN + 1:
            item = f"caller_{self._answer}"
            self._say("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=100)

    @property
    def _names(self) -> dict[str, Any]:
        return {"response_id": f"resp_b{self._answer}", "item_id": f"item_b{self._answer}"}

    def _say(self, kind: str, **fields: Any) -> None:
        self._count += 1
        named = {"type": kind, "event_id": f"event_b{self._count}"}
        self.send((False, orjson.dumps(named | fields)))

    def _accept(self, request: bytes) -> None:
        first, *lines = request.split(b"\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, value in (line.split(b":", 1) for line in lines)
        }
        self.call = int(first.split(b" ")[1].split(b"/")[1])
        key = hashlib.sha1(headers[b"sec-websocket-key"] + _GUID, usedforsecurity=False)
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(key.digest()) + b"\r\n\r\n"
        )
        self._open = True
        self._service.connections[self.call] = self
        for message in self._service.wire.welcome:
            self.send(message)

    def _frame(self, buffer: bytearray, size: int, now: float) -> None:
        opcode = buffer[0] & 0x0F
        if opcode == _CLOSE:
            self._write(_CLOSE, b"\x03\xe8")
            self._transport.close()
        elif opcode == _PING:
            self._write(10, _content(buffer, size))
        elif opcode not in (_TEXT, _BINARY):
            return
        elif not self._introduced:
            self._introduced = True
            for message in self._service.wire.accepted:
                self.send(message)
        elif self._service.listens_for_cuts:
            if b"conversation.item.truncate" in _content(buffer, size):
                self._service.cuts.append((self._cut_sent, now))
        elif size > SMALLEST_SOUND:
            self.arrived.append(now)

    def _write(self, opcode: int, content: bytes) -> None:
        size = len(content)
        if size < _BY_TEN_BITS:
            head = bytes((0x80 | opcode, size))
        else:
            head = bytes((0x80 | opcode, _BY_TEN_BITS)) + size.to_bytes(2, "big")
        self._transport.write(head + content)


def _whole(buffer: bytearray) -> int | None:
    """Length of the first frame; None while it is incomplete."""
    if len(buffer) < 2:
        return None
    size, head = buffer[1] & 0x7F, 6
    if size == _BY_TEN_BITS:
        size, head = int.from_bytes(buffer[2:4], "big"), 8
    elif size > _BY_TEN_BITS:
        size, head = int.from_bytes(buffer[2:10], "big"), 14
    return head + size if len(buffer) >= head + size else None


def _content(buffer: bytearray, size: int) -> bytes:
    length = buffer[1] & 0x7F
    mask = {_BY_TEN_BITS: 4, _BY_TEN_BITS + 1: 10}.get(length, 2)
    return apply_mask(bytes(buffer[mask + 4 : size]), bytes(buffer[mask : mask + 4]))


class Service:
    """All connections of one service."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.connections: dict[int, Connection] = {}
        self.cuts: list[tuple[float, float]] = []
        self.listens_for_cuts = False
        """Incoming messages are searched for truncations."""
        self.sound = orjson.loads(WIRES["openai"].sound(0)[1])["delta"]
        self._speaking = self._cutting = False
        self._phase = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()
        self._tick()

    def do(self, wish: Mapping[str, Any]) -> object:
        """Execute one command; return its answer."""
        match wish["do"]:
            case "sound":
                self._speaking = wish["on"]
            case "barge_in":
                self._cutting, self.listens_for_cuts = wish["on"], True
            case "times":
                return [
                    {"call": call, "sent": each.sent, "arrived": each.arrived}
                    for call, each in sorted(self.connections.items())
                ]
            case "cuts":
                return self.cuts
        return {}

    def _tick(self) -> None:
        """Every ms: send for the calls of this phase."""
        while self._next <= self._loop.time():
            self._next += 0.001
            self._phase = (self._phase + 1) % PHASES
            if self._speaking or self._cutting:
                for call, each in self.connections.items():
                    if call % PHASES == self._phase:
                        each.next_of_cut() if self._cutting else each.next_sound()
        self._loop.call_at(self._next, self._tick)


async def _serve(wire: Wire, certificate: ThrowAwayCertificate | None) -> None:
    loop = asyncio.get_running_loop()
    service = Service(wire)
    tls = certificate.server_context if certificate is not None else None
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0, ssl=tls)
    async with server:
        path = str(certificate.path) if certificate is not None else ""
        _say({"port": server.sockets[0].getsockname()[1], "certificate": path})
        lines = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := await lines.readline():
            _say(service.do(orjson.loads(line)))
        for each in list(service.connections.values()):
            each._transport.abort()


def _say(answer: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    wire = WIRES[sys.argv[1]]
    if "tls" not in sys.argv[2:]:
        run_async(_serve(wire, None))
        return
    with ThrowAwayCertificate() as certificate:
        run_async(_serve(wire, certificate))


if __name__ == "__main__":
    main()
