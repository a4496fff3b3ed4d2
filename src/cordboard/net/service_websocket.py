"""One connection to a realtime service: opened within a limit, then direct calls both ways.

A proxy of the environment is used as `cordboard.net.proxy` says. Messages that arrive before `take`
are kept and handed over then. There is no task or queue between the socket and the protocol;
messages are sent at once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from websockets.exceptions import InvalidURI
from websockets.frames import CLOSE_CODE_EXPLANATIONS

from cordboard.errors import AgentError, FailureKind
from cordboard.net.failures import refused, why_not_connected, words_of_error
from cordboard.net.proxy import proxy_to
from cordboard.net.websocket import WebsocketConnection, WebsocketRequest

SEND_BUFFER_BYTES = 262_144
"""Bytes that may wait for a service that does not read: 10 s of the largest sound format."""
_TLS_PORT, _PLAIN_PORT = 443, 80


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a service."""

    url: str
    """`wss://…` or `ws://…`. Never logged: it may hold a signature."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    subprotocol: str = ""
    max_message_bytes: int = 16 * 1024 * 1024


class NotConnected(AgentError):
    """The service could not be reached, or refused us: a sentence with its name."""

    def __init__(
        self,
        message: str,
        kind: FailureKind = "connect",
        status: int | None = None,
        words: str = "",
    ) -> None:
        super().__init__(message, kind)
        self.status = status
        """The HTTP status with which it refused us; None: it could not be reached."""
        self.words = words
        """Its own words about the refusal; often empty."""


class Receiver(Protocol):
    """Callbacks of a service's connection."""

    def receive_text(self, message: bytes) -> None: ...

    def receive_binary(self, data: bytes) -> None: ...

    def connection_lost(self, code: int | None, problem: str) -> None:
        """Note that the connection is gone, without our doing. `code`: the code of the close; None:
        it broke. `problem`: the reason, without the service's name; may be empty."""


class ServiceConnection:
    """One websocket. Implements `ConnectionOwner`."""

    def __init__(self, address: Address, peer: str) -> None:
        """Raises `AgentError` for an invalid address."""
        request = WebsocketRequest(
            address.url,
            peer,
            address.headers,
            address.subprotocol,
            address.max_message_bytes,
            SEND_BUFFER_BYTES,
        )
        try:
            parts = urlsplit(address.url)
            self._host = parts.hostname or ""
            self._tls = parts.scheme in ("wss", "https")
            self._port = parts.port or (_TLS_PORT if self._tls else _PLAIN_PORT)
            self._socket = WebsocketConnection(request)
        except (ValueError, InvalidURI):  # its message quotes the address: it may hold a signature
            raise AgentError(f"the address of {peer} is not valid", "garbage") from None
        self._peer = peer
        self._opening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._receiver: Receiver | None = None
        self._early: list[tuple[bool, bytes]] = []
        self._lost = False
        self._closing = False
        self.congested = False
        """The service reads too slowly: sound should be skipped for now."""

    async def open(self, tls: ssl.SSLContext, seconds: float) -> None:
        """Connect, handshake included. Raises `NotConnected`; then nothing is left open."""
        try:
            async with asyncio.timeout(seconds):
                context = tls if self._tls else None
                proxy = proxy_to(self._host, self._port, secure=self._tls)
                await self._socket.open(self, self._host, self._port, context, proxy)
                await self._opening
        except TimeoutError:
            why = f"no answer within {seconds:g} s"
        except OSError as error:
            why = why_not_connected(error)
        except _NotOpened:
            why = self._socket.problem or "it closed the connection at once"
        except asyncio.CancelledError:
            self.abort()
            raise
        else:
            return
        self.abort()
        refusal = self._socket.refusal
        if refusal is None:
            raise NotConnected(f"{self._peer} cannot be reached ({why})")
        status, body = refusal.status_code, bytes(refusal.body)
        failure = refused(self._peer, status, body)
        raise NotConnected(str(failure), failure.kind, status, words_of_error(body))

    def take(self, receiver: Receiver) -> None:
        """Pass all messages to `receiver` from now on, first those that have already arrived."""
        self._receiver = receiver
        early, self._early = self._early, []
        for binary, message in early:
            (receiver.receive_binary if binary else receiver.receive_text)(message)
        if self._lost and not self._closing:
            self._tell_lost(receiver)

    @property
    def alive(self) -> bool:
        """True while a message has a chance to arrive."""
        return self._socket.sending and not self._lost

    def send_text(self, message: bytes) -> None:
        self._socket.send_text(message)
        self._socket.transmit()

    def send_binary(self, data: bytes) -> None:
        self._socket.send_sound(data)
        self._socket.transmit()

    def abort(self) -> None:
        """Drop the connection at once; the receiver is not called."""
        self._closing = True
        self._socket.abort()

    async def close(self) -> None:
        """Say goodbye and wait a moment for the answer. Idempotent; the receiver is not called."""
        self._closing = True
        await self._socket.close()

    # ConnectionOwner

    def opened(self) -> None:
        if not self._opening.done():
            self._opening.set_result(None)

    def text_received(self, text: bytes) -> None:
        if self._receiver is not None:
            self._receiver.receive_text(text)
        else:
            self._early.append((False, text))

    def sound_received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.receive_binary(data)
        else:
            self._early.append((True, data))

    def writable(self, yes: bool) -> None:
        self.congested = not yes

    def failed(self, reason: str) -> None:
        """Do nothing: `lost` follows."""

    def lost(self, problem: str) -> None:
        self._lost = True
        if not self._opening.done():
            self._opening.set_exception(_NotOpened())
            self._opening.exception()  # retrieved: no task may be waiting any more
        elif self._receiver is not None and not self._closing:
            self._tell_lost(self._receiver)

    def _tell_lost(self, receiver: Receiver) -> None:
        closed = self._socket.closed
        if closed is None:
            receiver.connection_lost(None, self._socket.problem)
        else:
            reason = closed.reason or CLOSE_CODE_EXPLANATIONS.get(closed.code, "")
            receiver.connection_lost(closed.code, reason)


class _NotOpened(Exception):
    """The connection was lost in its handshake."""


def websocket_url(base_url: str, path: str) -> str:
    """Return `wss://host/v1/listen` for `https://host` and `/v1/listen`."""
    scheme, _, rest = base_url.rstrip("/").partition("://")
    secure = scheme in ("https", "wss")
    return f"{'wss' if secure else 'ws'}://{rest}{path}"
