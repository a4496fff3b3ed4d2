"""The UDP sockets of all RTP calls, one for each call, and the one handler that reads them.

    ports = RtpPorts(config)
    await ports.start()
    socket = ports.open(receiver)    # bound; the kernel keeps what comes
    socket.listen()                  # from now on `receiver.datagram` is called

All sockets hang on one selector of their own, the only one that the event loop knows: one wake-up
serves every readable call, and an error on one socket (an ICMP answer) stays between that socket
and its receiver. A socket that receives more than a call can have is left alone until `refresh`:
its own kernel buffer overflows, and the other calls do not notice.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
from collections import Counter
from typing import Protocol

import structlog

from cordboard.config.schema import Rtp
from cordboard.errors import ListenError, MediaError

log = structlog.get_logger()

MAX_DATAGRAM = 2048
"""Longer datagrams are not our RTP: the longest frame, slin of 20 ms, has 332 bytes."""
BUFFER_BYTES = 65_536
"""Kernel buffer of one socket, its bookkeeping included: some 80 packets."""
AT_ONCE = 8
"""Datagrams read from one socket before the others have their turn."""
MAX_PER_TICK = 50
"""Datagrams accepted from one socket between two `refresh`: a second of audio in 20 ms."""

# Asterisk's and our addresses are of one of two families; the constants are linux/in.h, in6.h.
_RECEIVE_ERRORS = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),  # IP_RECVERR
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25),  # IPV6_RECVERR
}
_LINUX = sys.platform == "linux"

Address = tuple[str, int]


class Receiver(Protocol):
    """Callbacks of a socket."""

    def datagram(self, data: bytes, source: Address) -> None:
        """A datagram came; one longer than `MAX_DATAGRAM` was cut off."""

    def refused(self) -> None:
        """No socket listens at the address we sent to (ICMP)."""

    def flooded(self) -> None:
        """More has come than is read until the next `refresh`."""

    def broken(self, error: Exception) -> None:
        """`datagram` raised: reading has stopped."""


class RtpPorts:
    """Opens the sockets and reads them."""

    def __init__(self, config: Rtp) -> None:
        self._config = config
        self._family = socket.AF_INET
        self._host = config.host
        self._loop = asyncio.get_running_loop()
        self._selector: selectors.DefaultSelector | None = None
        self._sockets: set[RtpSocket] = set()
        self._next_port = config.first_port
        self.counts: Counter[str] = Counter()
        """Errors on all calls so far, by a fixed word."""

    async def start(self) -> None:
        """Find the address family, and try to bind. Raises `ListenError`."""
        try:
            found = await self._loop.getaddrinfo(self._config.host, None, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            self._family, self._host = socket.AddressFamily(family), str(address[0])
            self._bound(0).close()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListenError(
                f"no UDP port can be opened on {self._config.host}: {reason} (rtp.host)"
            ) from error
        self._selector = selectors.DefaultSelector()
        self._loop.add_reader(self._selector.fileno(), self._readable)

    def stop(self) -> None:
        """Close all sockets."""
        if self._selector is None:
            return
        for each in tuple(self._sockets):
            each.close()
        self._loop.remove_reader(self._selector.fileno())
        self._selector.close()
        self._selector = None

    @property
    def opened(self) -> int:
        """Sockets that are open now."""
        return len(self._sockets)

    @property
    def running(self) -> bool:
        return self._selector is not None

    def open(self, receiver: Receiver) -> RtpSocket:
        """Return a bound socket. Raises `MediaError` when no port is free."""
        if self._selector is None:
            raise MediaError("the RTP ports are closed")
        opened = RtpSocket(self._selector, self._bind(), self._forget, receiver)
        self._sockets.add(opened)
        return opened

    def _bind(self) -> socket.socket:
        first, last = self._config.first_port, self._config.last_port
        try:
            if first == 0:
                return self._bound(0)
            for _ in range(last - first + 1):
                # Onwards from the last port: late packets of an old call meet no new one.
                port = self._next_port
                self._next_port = port + 1 if port < last else first
                try:
                    return self._bound(port)
                except OSError:
                    continue
        except OSError as error:
            self.counts["no_port"] += 1
            raise MediaError(f"no UDP port for the sound: {error}") from error
        self.counts["no_port"] += 1
        raise MediaError(
            f"no UDP port is free from {first} to {last} (rtp.first_port, rtp.last_port); "
            f"{self.opened} of them carry calls"
        )

    def _bound(self, port: int) -> socket.socket:
        made = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            if _LINUX:
                made.setsockopt(*_RECEIVE_ERRORS[socket.AddressFamily(self._family)], 1)
            made.bind((self._host, port))
        except OSError:
            made.close()
            raise
        return made

    def _forget(self, closed: RtpSocket) -> None:
        self._sockets.discard(closed)

    def _readable(self) -> None:
        if self._selector is None:
            return
        for key, _ in self._selector.select(0):
            one: RtpSocket = key.data
            one.read()


class RtpSocket:
    """The socket of one call."""

    def __init__(
        self,
        selector: selectors.DefaultSelector,
        bound: socket.socket,
        on_closed: _OnClosed,
        receiver: Receiver,
    ) -> None:
        self._selector = selector
        self._socket = bound
        self._on_closed = on_closed
        self._receiver = receiver
        self._budget = MAX_PER_TICK
        self._listening = False
        self._reading = False
        self._closed = False
        self.port: int = bound.getsockname()[1]

    def listen(self) -> None:
        """Hand on arriving datagrams, and those that have come since the socket was opened."""
        self._listening = True
        self._watch(True)

    def refresh(self) -> None:
        """Renew the budget after 20 ms: as much again may come."""
        self._budget = MAX_PER_TICK
        if self._listening and not self._reading:
            self._watch(True)

    def send(self, data: bytes, target: Address) -> None:
        """Send a datagram. Raises `OSError`."""
        self._socket.sendto(data, target)

    def close(self) -> None:
        """Close the socket and stop the callbacks. Idempotent."""
        if not self._closed:
            self._listening = False
            self._watch(False)
            self._closed = True
            self._socket.close()
            self._on_closed(self)

    def read(self) -> None:
        """Read waiting datagrams, within the budget. For `RtpPorts`."""
        for number in range(AT_ONCE):
            if not self._reading:
                return  # closed, or the budget is used up
            try:
                data, source = self._socket.recvfrom(MAX_DATAGRAM + 1)
            except BlockingIOError:
                if number == 0:
                    self._take_errors()
                return
            except OSError:
                self._take_errors()
                return
            self._budget -= 1
            if self._budget < 0:
                self._watch(False)
                self._receiver.flooded()
                return
            try:
                self._receiver.datagram(data, source[:2])
            except Exception as error:  # border: one call must not stop the others
                self._watch(False)
                self._listening = False
                log.error("rtp_receiver_failed", port=self.port, error=repr(error), exc_info=error)
                self._receiver.broken(error)
                return

    def _take_errors(self) -> None:
        """Take ICMP answers, which wait in a queue of their own and wake us up until then."""
        if not _LINUX:
            self._receiver.refused()
            return
        refused = False
        while self._reading:
            try:
                self._socket.recvmsg(0, 0, socket.MSG_ERRQUEUE)
            except OSError:
                break
            refused = True
        if refused:
            self._receiver.refused()

    def _watch(self, yes: bool) -> None:
        if yes == self._reading or self._closed:
            return
        self._reading = yes
        if yes:
            self._selector.register(self._socket, selectors.EVENT_READ, self)
        else:
            self._selector.unregister(self._socket)


class _OnClosed(Protocol):
    def __call__(self, closed: RtpSocket, /) -> None: ...
