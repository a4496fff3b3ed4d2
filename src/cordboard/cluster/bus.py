"""The doors of the bus: entries with revisions, and journals. No connection here.

`cluster.nats_bus` has the real one. Every operation that fails raises `BusAway`, after which it is
unknown whether the operation was carried out, or `RevisionLost`, after which it certainly was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from cordboard.errors import BusAway

LISTING_SECONDS = 5.0
IN_FLIGHT_SECONDS = 0.02
"""Pause after a lost revision. NATS refuses a write already while another one of the same key is on
its way to the other servers, and shows the old state until that one is stored."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest state of one key."""

    key: str
    value: bytes | None
    """None: it was removed, or has expired."""
    revision: int
    expired: bool = False
    """True if its time ran out; False also for a key that was removed."""


class BucketListener(Protocol):
    """Callbacks of `Bucket.watch`."""

    def listed(self, entries: Mapping[str, Entry]) -> None:
        """All entries there are, and the marks of removed and expired ones, at the beginning and
        after each interruption. A key that was known and is missing here has gone meanwhile."""

    def changed(self, entry: Entry) -> None: ...


class Bucket(Protocol):
    """Entries by key. Each write gets a revision; revisions grow over the whole bucket."""

    async def get(self, key: str) -> Entry | None:
        """Return the newest state of a key; None if nothing is known of it."""

    async def put(self, key: str, value: bytes, *, last: int, ttl: int | None = None) -> int:
        """Write an entry whose revision is `last`, 0 for a new key; return the new revision. The
        entry expires after `ttl` seconds. Raises `RevisionLost`."""

    async def remove(self, key: str, *, last: int) -> None:
        """Remove an entry whose revision is `last`. Raises `RevisionLost`."""

    async def watch(self, listener: BucketListener) -> NoReturn:
        """Report the entries and each change, through all interruptions, until cancelled."""


EMPTY_SECONDS = 0.2
"""Time for which more entries are waited for when there seem to be none."""


class _Once:
    """Waits for the first list."""

    def __init__(self) -> None:
        self.found: asyncio.Future[Mapping[str, Entry]] = asyncio.Future()
        self.later: dict[str, Entry] = {}
        """Changes since the first list."""

    def listed(self, entries: Mapping[str, Entry]) -> None:
        if not self.found.done():
            self.found.set_result(entries)

    def changed(self, entry: Entry) -> None:
        self.later[entry.key] = entry


async def listing(bucket: Bucket, settle: float = 0.0) -> Mapping[str, Entry]:
    """Return all entries of a bucket now. Raises `BusAway`.

    An entry that is changed at this moment may be missing: it is listed in its new state
    a moment later. `settle`: seconds to wait for such ones.
    """
    once = _Once()
    watch = asyncio.get_running_loop().create_task(bucket.watch(once))
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            found = await once.found
            # A server that is behind may count none, and deliver them a moment later.
            await asyncio.sleep(settle if found else max(settle, EMPTY_SECONDS))
            return {**found, **once.later}
    except TimeoutError:
        raise BusAway("the bus does not answer") from None
    finally:
        watch.cancel()


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a journal."""

    data: bytes
    revision: int


class Journal(Protocol):
    """Messages by name, in order."""

    async def append(self, name: str, data: bytes, *, last: int) -> int:
        """Add a message after the one with the revision `last`, 0 for the first; return its
        revision. Raises `RevisionLost`."""

    async def last(self, name: str) -> Message | None:
        """Return the newest message; None if there is none."""

    async def read(self, name: str) -> list[Message]:
        """Return all messages of that name, in order; the newest may be missing."""
