"""One-time tickets: the proof that a websocket belongs to a request that was allowed.

A browser cannot add headers to a websocket. The request before it (such as `POST
/calls/{id}/listen`) is checked and recorded like any other and answers with a ticket, which the
socket gives in `Sec-WebSocket-Protocol: NAME, ticket.VALUE`. It is not in the address, because
addresses are logged.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SECONDS = 15.0
"""Life of a ticket."""
MOST = 1_000
"""Tickets kept; the oldest is dropped for a new one."""
PREFIX = "ticket."


@dataclass(slots=True)
class Tickets:
    """The tickets of one port. Not for several threads."""

    clock: Callable[[], float] = time.monotonic
    _given: dict[str, tuple[str, str, str, float]] = field(default_factory=dict)
    """Holder, purpose, subject and end by value, the oldest first."""

    def give(self, holder: str, purpose: str, about: str) -> str:
        """Return a new ticket of 128 bits. `holder` is `Caller.holder`, `purpose` the one of the
        endpoint (`Frames.ticket`), `about` the id in its path."""
        value = secrets.token_urlsafe(16)
        self._given[value] = (holder, purpose, about, self.clock() + SECONDS)
        if len(self._given) > MOST:
            del self._given[next(iter(self._given))]
        return value

    def take(self, offered: Sequence[str], holder: str, purpose: str, about: str) -> bool:
        """Use up the ticket among the offered subprotocols. True if it is for exactly this, and in
        time; a ticket that was shown for something else is spent too."""
        values = [name.removeprefix(PREFIX) for name in offered if name.startswith(PREFIX)]
        if len(values) != 1:
            return False
        given = self._given.pop(values[0], None)
        return (
            given is not None and given[:3] == (holder, purpose, about) and self.clock() < given[3]
        )
