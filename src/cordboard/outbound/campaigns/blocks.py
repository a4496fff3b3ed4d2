"""The do-not-call list of the campaigns' file, for the other engines of a cluster."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from cordboard.errors import CampaignRefused
from cordboard.firewall.blocks import BlockChange
from cordboard.outbound.campaigns.store import CampaignStore

Found = TypeVar("Found")
SETTLED_SECONDS = 2.0
"""Age of a file whose time of writing tells it from a later one: some file systems count whole
seconds."""


class BlockJournal:
    """Implements `cluster.shared_blocks.BlockBook`. The file is opened for each act, in a thread;
    it is made when another engine has blocked a number."""

    def __init__(self, path: Path) -> None:
        """`path`: the campaigns' file."""
        self._path = path
        self._all_sent: tuple[int, ...] = ()
        """The state of the file when nothing in it waited for the bus; see `_state`."""

    async def begin(self) -> None:
        """See `BlockBook.begin`."""
        if await self._exists():
            await self._do(lambda store: store.begin_block_changes())

    async def unsent(self, most: int) -> Sequence[BlockChange]:
        """See `BlockBook.unsent`."""
        return await asyncio.to_thread(self._unsent, most)

    async def sent(self, changes: Sequence[BlockChange]) -> None:
        """See `BlockBook.sent`."""
        await self._do(lambda store: store.blocks_sent(changes))

    async def send_again(self, is_lost: Callable[[str], bool]) -> None:
        """See `BlockBook.send_again`."""
        if await self._exists():
            await self._do(lambda store: store.send_blocks_again(is_lost))

    async def apply(self, changes: Sequence[BlockChange]) -> None:
        """See `BlockBook.apply`."""
        await self._do(lambda store: store.take_blocks(changes))

    async def _exists(self) -> bool:
        return await asyncio.to_thread(self._path.exists)

    async def _do(self, act: Callable[[CampaignStore], Found]) -> Found:
        return await asyncio.to_thread(self._work, act)

    def _unsent(self, most: int) -> Sequence[BlockChange]:
        """Asked each second: a file that has not been written since is not opened again."""
        path = self._path
        if not path.exists():
            return ()
        state = _state(path)
        if state and state == self._all_sent:
            return ()
        found = self._work(lambda store: store.unsent_blocks(most))
        self._all_sent = () if found else state
        return found

    def _work(self, act: Callable[[CampaignStore], Found]) -> Found:
        try:
            with closing(CampaignStore(self._path)) as store:
                return act(store)
        except sqlite3.Error as error:
            raise CampaignRefused(f"the campaigns' file cannot be used: {error}") from error


def _state(path: Path) -> tuple[int, ...]:
    """Return sizes and times of the file and of its write-ahead log, which change with every
    commit. Empty if one of them has just been written: the next commit might show the same times.
    """
    state: list[int] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = file.stat()
        except FileNotFoundError:
            state.append(-1)
            continue
        if time.time() - found.st_mtime < SETTLED_SECONDS:
            return ()
        state += (found.st_ino, found.st_size, found.st_mtime_ns)
    return tuple(state)
