"""AudioSocket connections that have not said their UUID yet, and who goes when there are too many.

Asterisk says the UUID within milliseconds, so a connection that waits long is a stranger's. When
the room is full the oldest goes that came from the address with the most: strangers at one address
push out none from another. One whose bytes have arrived, but are not read yet, stays.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from itertools import islice

from cordboard.telephony.asterisk.audiosocket_media import AudioSocketMedia

MOST_PLACES = 1024
LOOKED_AT = 8
"""So many of the oldest are looked at for one without unread bytes. The others are read in the next
turn of the event loop, which also brings their places back."""


def places_of_process() -> int:
    """A quarter of the file descriptors that this process may have, so that calls keep theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_PLACES if soft == resource.RLIM_INFINITY else max(8, min(MOST_PLACES, soft // 4))


class WaitingRoom:
    """The connections by the address they come from, and the timer of each."""

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
        """Whether it was here."""
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
        """The connection to close so that another may enter; None while there is a place."""
        if len(self) < self.places:
            return None
        most = max(self._by_address.values(), key=len)
        for media in islice(most, LOOKED_AT):
            if not media.has_unread:
                return media
        return next(iter(most)) if len(self) >= 2 * self.places else None
