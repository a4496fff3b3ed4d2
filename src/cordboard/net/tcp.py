"""Options of a TCP connection that carries live sound."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

UNACKNOWLEDGED_MS = 10_000
"""The kernel gives up on a host that acknowledges nothing for this long (Linux)."""


def live_transport(transport: asyncio.BaseTransport, send_buffer_bytes: int) -> asyncio.Transport:
    """Make the connection send small pieces at once and notice a dead host; return its transport.

    Writing pauses while more than `send_buffer_bytes` wait for the peer.
    """
    # A cast, because uvloop's transports are not subclasses of asyncio's.
    stream = cast(asyncio.Transport, transport)
    stream.set_write_buffer_limits(high=send_buffer_bytes)
    connection = stream.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
    return stream
