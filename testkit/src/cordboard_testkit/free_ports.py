"""Free loopback ports below the kernel's range of ephemeral ports.

A port taken there stays free while its owner is down (a restarted Asterisk finds it again), because
no outgoing connection of a busy test run can get the same number.
"""

from __future__ import annotations

import random
import socket
from collections import deque

from cordboard.errors import KitError

# Linux assigns 32768-60999 by default (ip_local_port_range); Debian's services live below 10000.
_LOWEST, _HIGHEST = 10_000, 32_000
_ATTEMPTS = 400
_GIVEN: deque[int] = deque(maxlen=256)
"""The last ports that were given out: they may not be bound yet."""


def free_port() -> int:
    """One port that is free for both TCP and UDP on 127.0.0.1. Raises `KitError`."""
    return free_port_range(1)[0]


def free_port_range(count: int) -> range:
    """`count` consecutive free ports; an even first port when `count` > 1 (RTP wants pairs)."""
    for _ in range(_ATTEMPTS):
        first = random.randrange(_LOWEST, _HIGHEST - count, 2)  # noqa: S311 - not a secret
        found = range(first, first + count)
        if not any(port in _GIVEN for port in found) and all(map(_is_free, found)):
            _GIVEN.extend(found)
            return found
    raise KitError(f"no {count} consecutive free ports between {_LOWEST} and {_HIGHEST}")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
