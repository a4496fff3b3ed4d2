"""One client connection of the websocket protocol, without tasks or queues.

The protocol is `websockets`' sans-I/O `ClientProtocol`; this is the socket under it. Each incoming
message is passed to the owner by a function call. Outgoing messages are collected until `transmit`,
so that related ones leave in one piece. Compression is never offered.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from cordboard.net.proxy import Proxy, tunnel
from cordboard.net.tcp import live_transport

CLOSE_SECONDS = 1.0
"""Timeout in seconds of a closing connection."""
PIECE_BYTES = 16_384
"""Bytes that are parsed before the check for a flood: the other calls wait meanwhile."""
EMPTY_FRAMES_PER_SECOND = 1_000
"""More pings, pongs and empty continuations than these are a flood."""
_NORMAL_CLOSURES = (1000, 1001)


@dataclass(frozen=True, slots=True)
class WebsocketRequest:
    """The address to connect to, and the limits of the messages."""

    url: str
    peer: str
    """Name of the other side in messages."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets; no message of the connection repeats them."""
    subprotocol: str = ""
    """The subprotocol that must be agreed on; empty: none."""
    max_message_bytes: int = 65_535
    send_buffer_bytes: int = 131_072
    """Bytes that may wait for a peer that does not read, before `writable(False)`."""


class ConnectionOwner(Protocol):
    """Callbacks of a websocket connection."""

    def opened(self) -> None:
        """The handshake is complete."""

    def text_received(self, text: bytes) -> None: ...

    def sound_received(self, data: bytes) -> None: ...

    def writable(self, yes: bool) -> None:
        """The peer stopped reading, or reads again."""

    def failed(self, reason: str) -> None:
        """A failure, to be counted by this reason; `lost` follows."""

    def lost(self, problem: str) -> None:
        """The connection is gone. Empty: simply closed, by either side."""


class WebsocketConnection(asyncio.Protocol):
    """Open it with `asyncio`'s `create_connection`. Use once."""

    def __init__(self, request: WebsocketRequest) -> None:
        wanted = request.subprotocol
        self._protocol = ClientProtocol(
            parse_uri(request.url),
            subprotocols=[Subprotocol(wanted)] if wanted else None,
            max_size=request.max_message_bytes,
        )
        self._request = request
        self._owner: ConnectionOwner | None = None
        self._transport: asyncio.Transport | None = None
        self._opened = False
        self._first_opcode = Opcode.BINARY
        self._parts: list[bytes] = []
        """Frames of an incomplete message."""
        self._empty = 0
        self._empty_from = -math.inf
        """Frames without content in the current second, and the start of that second."""
        self._closing = False
        self._gone = asyncio.Event()
        self.problem = ""
        """Reason for the end of the connection; empty: it was simply closed, or is open."""
        self.refusal: Response | None = None
        """The HTTP response with which the peer refused the handshake, if it did."""
        self.closed: Close | None = None
        """The code and reason with which the peer closed, if it sent a close frame."""

    async def open(
        self,
        owner: ConnectionOwner,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        proxy: Proxy | None = None,
    ) -> None:
        """Connect, through a proxy's tunnel if there is one; the handshake continues by itself.

        Raises `OSError`.
        """
        self._owner = owner
        loop = asyncio.get_running_loop()
        name = host if tls else None
        if proxy is None:
            try:
                await loop.create_connection(
                    lambda: self, host, port, ssl=tls, server_hostname=name
                )
            except UnicodeError:
                raise OSError("no such name") from None  # too long, or with an empty part
            return
        opened = await tunnel(proxy, host, port)
        try:
            await loop.create_connection(lambda: self, sock=opened, ssl=tls, server_hostname=name)
        except BaseException:
            opened.close()
            raise

    @property
    def connected(self) -> bool:
        """True while there is a connection, also during its handshake."""
        return self._transport is not None and not self._gone.is_set()

    @property
    def sending(self) -> bool:
        """True while a message has a chance to arrive."""
        return self._protocol.state is State.OPEN

    def send_text(self, text: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_text(text)

    def send_sound(self, data: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)

    def transmit(self) -> None:
        """Write all queued messages to the socket."""
        pieces = self._protocol.data_to_send()
        if pieces and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(pieces))

    def fail(self, reason: str, problem: str) -> None:
        """Drop the connection for this reason."""
        if not self.problem:
            self.problem = problem
            if self._owner is not None:
                self._owner.failed(reason)
        self.abort()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Say goodbye, and wait a moment for the answer. Idempotent."""
        self._closing = True
        if self._transport is None or self._gone.is_set():
            return
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            self.transmit()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), CLOSE_SECONDS)
        finally:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = live_transport(transport, self._request.send_buffer_bytes)
        request = self._protocol.connect()
        for name, value in self._request.headers.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self.transmit()

    def data_received(self, data: bytes) -> None:
        protocol = self._protocol
        for start in range(0, len(data), PIECE_BYTES):
            protocol.receive_data(data[start : start + PIECE_BYTES])
            for event in protocol.events_received():
                if isinstance(event, Frame):
                    self._frame(event)
                elif protocol.handshake_exc is None:
                    self._handshake_done()
            if self.problem:
                break  # data after the end is ignored
        if protocol.state is not State.OPEN and not self.problem:
            self._not_open()
        self.transmit()

    def pause_writing(self) -> None:
        if self._owner is not None:
            self._owner.writable(False)

    def resume_writing(self) -> None:
        if self._owner is not None:
            self._owner.writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        if exc is not None and not self.problem:
            self.problem = str(exc) or type(exc).__name__
        if self._owner is not None:
            self._owner.lost(self.problem)
            self._owner = None

    # Inside.

    def _handshake_done(self) -> None:
        wanted = self._request.subprotocol
        if (self._protocol.subprotocol or "") != wanted:
            self.fail("handshake", f"the server does not speak {wanted!r}")
            return
        self._opened = True
        if self._owner is not None:
            self._owner.opened()

    def _frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode in (Opcode.PING, Opcode.PONG) or (opcode is Opcode.CONT and not frame.data):
            self._count_empty()
        if opcode is Opcode.BINARY or opcode is Opcode.TEXT:
            if frame.fin:
                self._message(opcode, bytes(frame.data))
            else:
                self._first_opcode, self._parts = opcode, [bytes(frame.data)]
        elif opcode is Opcode.CONT:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                whole = b"".join(self._parts)
                self._parts.clear()
                self._message(self._first_opcode, whole)

    def _count_empty(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._empty_from >= 1.0:
            self._empty, self._empty_from = 0, now
        self._empty += 1
        if self._empty > EMPTY_FRAMES_PER_SECOND:
            self.fail("flood", "frames without content come in a flood")

    def _message(self, opcode: Opcode, data: bytes) -> None:
        if self._owner is None or self._closing or self.problem:
            return  # data after the end is ignored
        if opcode is Opcode.BINARY:
            self._owner.sound_received(data)
        else:
            self._owner.text_received(data)

    def _not_open(self) -> None:
        """Handle the end: the handshake is incomplete or failed, a frame was malformed, or the peer
        has closed."""
        protocol = self._protocol
        if not self._opened:
            if (error := protocol.handshake_exc) is not None:
                reason = "handshake"
                if isinstance(error, InvalidStatus):
                    reason, self.refusal = "refused", error.response
                self.fail(reason, f"the websocket handshake failed: {error}")
            return
        if self._closing:
            return
        if protocol.close_rcvd is None:
            self.fail("malformed_frame", str(protocol.parser_exc or "the websocket broke"))
        else:
            closed = self.closed = protocol.close_rcvd
            if closed.code not in _NORMAL_CLOSURES:
                self.fail("closed", f"{self._request.peer} closed the websocket: {closed}")
            elif self._transport is not None:
                self.transmit()
                self._transport.close()
