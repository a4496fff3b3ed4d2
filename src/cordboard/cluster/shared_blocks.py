"""The do-not-call list of all engines of a cluster: each has all of it in its own file.

    block, unblock ──▶ own file ──unsent──▶ bus ──▶ files of the other engines

The newest change of a number is in force (`BlockChange.order`); a block wins over an unblock of the
same moment. Changes that are made while the bus is away, or by a command without a running engine,
are sent later. An entry's key is a digest of its number. An entry that a later program has written,
in a version that this engine does not read, is left alone: the own change of its number is sent
when this engine is updated.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from typing import NoReturn, Protocol

import structlog

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.limit_wire import decode_block, encode_block
from cordboard.errors import BusAway, CampaignRefused, RevisionLost, WireTooNew, WireUnreadable
from cordboard.firewall.blocks import UNBLOCK_SECONDS, BlockChange
from cordboard.firewall.counts import digest_of

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""Pause between two looks into the own file: commands change it, too."""
RETRY_SECONDS = 1.0
BATCH = 500


class BlockBook(Protocol):
    """The do-not-call list of one engine's file. Each method raises `CampaignRefused` if the file
    cannot be used."""

    async def begin(self) -> None:
        """Note the numbers that were on the list before there were changes."""

    async def unsent(self, most: int) -> Sequence[BlockChange]:
        """Return changes that were made here and are not on the bus."""

    async def sent(self, changes: Sequence[BlockChange]) -> None:
        """Note that these are on the bus, unless the number has changed again meanwhile."""

    async def send_again(self, is_lost: Callable[[str], bool]) -> None:
        """Note that blocks of the numbers that the bus has lost are not on it."""

    async def apply(self, changes: Sequence[BlockChange]) -> None:
        """Take changes of other engines that are newer than the own ones."""


class SharedBlocks:
    """One per engine. Start `run` as a task."""

    def __init__(
        self, bucket: Bucket, book: BlockBook, key: Callable[[], Awaitable[bytes]]
    ) -> None:
        """`key()` returns the cluster's key for digests, once it is known."""
        self._bucket = bucket
        self._book = book
        self._key = key
        self._arrived: dict[str, BlockChange] = {}
        self._there: Set[str] | None = None
        """Names on the bus, as it was listed, until they are compared with the file's."""
        self._news = asyncio.Event()
        self._unreadable: set[str] = set()
        self.unsent = 0
        """Changes that wait for the bus, as far as they were looked at."""

    async def run(self) -> NoReturn:
        """Share until cancelled."""
        salt = await self._key()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bucket.watch(self))
            begun = False
            while True:
                try:
                    if not begun:
                        await self._book.begin()
                        begun = True
                    await self._take()
                    await self._compare(salt)
                    await self._send(salt)
                except BusAway as error:
                    log.debug("blocks_not_sent", error=str(error))
                except CampaignRefused as error:
                    log.error("blocks_not_shared", error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._news.wait()
        raise AssertionError

    def listed(self, entries: Mapping[str, Entry]) -> None:
        """See `BucketListener`."""
        for entry in entries.values():
            self.changed(entry)
        self._there = {*entries}
        self._news.set()

    def changed(self, entry: Entry) -> None:
        """See `BucketListener`."""
        with contextlib.suppress(WireTooNew):
            change = self._read(entry)
            if change is not None:
                self._arrived[entry.key] = change
                self._news.set()

    def _read(self, entry: Entry) -> BlockChange | None:
        """Return the change in an entry; None if there is none that can be read. Raises
        `WireTooNew`."""
        try:
            return None if entry.value is None else decode_block(entry.value)
        except WireUnreadable as error:
            if entry.key not in self._unreadable:
                self._unreadable.add(entry.key)
                log.warning("block_unreadable", entry=entry.key, error=str(error))
            if isinstance(error, WireTooNew):
                raise
            return None

    async def _take(self) -> None:
        """Write what has arrived. Raises `CampaignRefused`."""
        self._news.clear()
        while self._arrived:
            batch = dict([*self._arrived.items()][:BATCH])
            await self._book.apply([*batch.values()])
            for name, change in batch.items():
                if self._arrived.get(name) is change:
                    del self._arrived[name]

    async def _compare(self, salt: bytes) -> None:
        """Have those blocks sent again that a bus without its data does not have: an engine that
        is new would call the numbers. Raises `CampaignRefused`."""
        there = self._there
        if there is not None:
            await self._book.send_again(lambda number: digest_of(number, salt) not in there)
            if self._there is there:  # else it was listed again meanwhile
                self._there = None

    async def _send(self, salt: bytes) -> None:
        """Send what has changed here. Raises `BusAway` and `CampaignRefused`."""
        while True:
            changes = await self._book.unsent(BATCH)
            self.unsent = len(changes)
            sent: list[BlockChange] = []
            try:
                for change in changes:
                    if await self._put(digest_of(change.number, salt), change):
                        sent.append(change)
                        self.unsent -= 1
            finally:  # also if the bus goes away: the rest is sent later
                if sent:
                    await self._book.sent(sent)
            if len(sent) < BATCH:
                return

    async def _put(self, name: str, change: BlockChange) -> bool:
        """Put a change on the bus, unless a newer one is there; return False if it has to wait,
        because a later program has written the entry. Raises `BusAway`."""
        while True:
            entry = await self._bucket.get(name)
            try:
                there = self._read(entry) if entry is not None else None
            except WireTooNew:
                return False
            if there is not None and there.order >= change.order:
                self._arrived[name] = there
                self._news.set()
                return True
            last = entry.revision if entry is not None else 0
            with contextlib.suppress(RevisionLost):
                ttl = None if change.blocked else UNBLOCK_SECONDS
                await self._bucket.put(name, encode_block(change), last=last, ttl=ttl)
                return True
