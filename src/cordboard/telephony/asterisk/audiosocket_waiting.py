"""AudioSocket connections that have not sent their UUID yet, and the eviction when they are many.

Asterisk sends the UUID within milliseconds, so a connection that waits long is a stranger's. When
all places are taken, the oldest connection of the address with the most connections is closed:
strangers at one address push out none from another. A connection with unread bytes stays.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from itertools import islice

from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia

MOST_PLACES = 1024
LOOKED_AT = 8
"""Number of oldest connections searched for one without unread bytes. The others are read in the
next turn of the event loop, which also frees their places."""


def places_of_process() -> int:
    """Return a quarter of this process's limit of file descriptors, so that calls keep theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_PLACES if soft == resource.RLIM_INFINITY else max(8, min(MOST_PLACES, soft // 4))


class WaitingRoom:
    """Waiting connections by peer address, each with its timer."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._timers: dict[AudioSocketMedia, asyncio.TimerHandle] = {}
        self._by_address: dict[str, dict[AudioSocketMedia, None]] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def __iter__(self) -> Iterator[AudioSocketMedia]:
        return iter(tuple(self._timers))

    def enter(self, media: AudioSocketMedia, timer: asyncio.TimerHandle) -> None:
        self._timers[media] = timer
        self._by_address.setdefault(media.peer[0], {})[media] = None

    def leave(self, media: AudioSocketMedia) -> bool:
        """Remove a connection; return True if it was here."""
        timer = self._timers.pop(media, None)
        if timer is None:
            return False
        timer.cancel()
        address = media.peer[0]
        others = self._by_address[address]
        del others[media]
        if not others:
            del self._by_address[address]
        return True

    def one_too_many(self) -> AudioSocketMedia | None:
        """Return the connection to close so that another may enter; None while there is a place."""
        if len(self) < self.places:
            return None
        most = max(self._by_address.values(), key=len)
        for media in islice(most, LOOKED_AT):
            if not media.has_unread:
                return media
        return next(iter(most)) if len(self) >= 2 * self.places else None
