"""The MCP servers of a cluster on its bus: the engine that runs each, and open breakers.

    <server>                        `ServerHolder`: the engine that runs it, with a lease on it
    breaker.<server>.<instance>     `BreakerReport`: that engine's calls of it are not answered

`ServerLease` is the lease of one life of one server. It is not the engine's own lease
(`cordboard.cluster.lease`): a server moves to another engine while its engine is well, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NoReturn

import structlog

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.lease import LeaseTimes, boot_time
from cordboard.cluster.wire import (
    ServerHolder,
    decode_holder,
    decode_report,
    encode_holder,
)
from cordboard.errors import BusAway, RevisionLost, WireUnreadable

log = structlog.get_logger()

MARGIN = 0.25
"""Part of a lease's time before its end at which a holder that could not renew it stops its
server."""
_BREAKER = "breaker."


class Board:
    """The newest entries. A `cordboard.cluster.bus.BucketListener`. Start `run` as a task."""

    def __init__(
        self,
        bucket: Bucket,
        changed: Callable[[], None] = lambda: None,
        reported: Callable[[str, str, bool], None] = lambda server, instance, is_open: None,
    ) -> None:
        """`changed` is called after each change. `reported(server, instance, is_open)` is called
        when the breaker of an engine has opened, is first known to be open, or has closed."""
        self._bucket = bucket
        self._changed = changed
        self._reported = reported
        self._entries: dict[str, Entry] = {}
        self._holders: dict[str, ServerHolder] = {}
        self._reports: dict[str, str] = {}
        """Engine by the key of its report."""
        self._next = asyncio.Event()
        self.known = False
        """True once the entries have been listed."""

    async def run(self) -> NoReturn:
        await self._bucket.watch(self)

    def holder(self, server: str) -> ServerHolder | None:
        """Return the engine that runs a server; None if none does."""
        return self._holders.get(server)

    def reported_by(self, server: str) -> tuple[str, ...]:
        """Return the engines whose breaker of that server is open."""
        start = f"{_BREAKER}{server}."
        return tuple(sorted(who for key, who in self._reports.items() if key.startswith(start)))

    def next_change(self) -> asyncio.Event:
        """Return an event that the next change sets."""
        return self._next

    def listed(self, entries: Mapping[str, Entry]) -> None:
        self.known = True
        for key in self._entries.keys() - entries.keys():
            self._take(Entry(key, None, 0))
        for entry in entries.values():
            self._take(entry)
        self._tell()

    def changed(self, entry: Entry) -> None:
        self._take(entry)
        self._tell()

    def _take(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        if entry.key.startswith(_BREAKER):
            self._take_report(entry)
            return
        self._holders.pop(entry.key, None)
        if entry.value is None:
            return
        try:
            self._holders[entry.key] = decode_holder(entry.value)
        except WireUnreadable as error:
            # The server runs all the same: the entry is a later program's, or a stranger's.
            self._holders[entry.key] = ServerHolder(entry.key, "", "")
            log.warning("mcp_holder_unreadable", server=entry.key, error=str(error))

    def _take_report(self, entry: Entry) -> None:
        known = self._reports.pop(entry.key, None)
        if entry.value is None:
            if known is not None:
                server = entry.key.removeprefix(_BREAKER).removesuffix(f".{known}")
                self._reported(server, known, False)
            return
        try:
            report = decode_report(entry.value)
        except WireUnreadable as error:
            log.warning("mcp_report_unreadable", key=entry.key, error=str(error))
            return
        if entry.key != report_key(report.server, report.instance):
            log.warning("mcp_report_unreadable", key=entry.key, error="it is about another one")
            return
        self._reports[entry.key] = report.instance
        if known is None:
            self._reported(report.server, report.instance, True)

    def _tell(self) -> None:
        self._next.set()
        self._next = asyncio.Event()
        self._changed()


def report_key(server: str, instance: str) -> str:
    """Return the key of an engine's report about a server."""
    return f"{_BREAKER}{server}.{instance}"


class ServerLease:
    """The right to run a server: `acquire`, then `keep` as a task, then `release`."""

    def __init__(
        self,
        bucket: Bucket,
        describe: Callable[[], ServerHolder],
        times: LeaseTimes,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`describe` gives what the others see, at each renewal."""
        self._bucket = bucket
        self._describe = describe
        self._times = times
        self._clock = clock
        self._revision = 0
        self._unsure = False
        """True if the entry may not be as we know it."""
        self._renewed_at = 0.0
        self._soon = asyncio.Event()
        self.lost = False
        """True when the entry is another one's."""

    @property
    def margin(self) -> float:
        """Seconds between the end of `keep` and the moment when another engine may begin."""
        return self._times.lease * MARGIN

    async def acquire(self) -> bool:
        """Take the lease if it is free; return True if it was. Raises `BusAway`; an entry that was
        written all the same expires."""
        holder = self._describe()
        entry = await self._bucket.get(holder.server)
        if entry is not None and entry.value is not None:
            return False
        last = 0 if entry is None else entry.revision
        sent = self._clock()
        try:
            self._revision = await self._bucket.put(
                holder.server, encode_holder(holder), last=last, ttl=self._times.lease
            )
        except RevisionLost:
            return False
        self._renewed_at = sent
        return True

    def holds(self) -> bool:
        """True while no other engine can have it."""
        return not self.lost and self._left() > 0

    async def keep(self) -> str:
        """Renew until the lease is lost, or is about to end; return which, in words."""
        took = 0.0
        while not self.lost:
            try:
                async with asyncio.timeout(self._left()):
                    await self._pause(self._times.renew - took)
                    began = self._clock()
                    await self._renew()
                    took = self._clock() - began
            except TimeoutError:
                return "the cluster's bus did not confirm that it may run here"
        return "another engine runs it"

    def renew_soon(self) -> None:
        """Renew at once: what `describe` gives has changed."""
        self._soon.set()

    async def release(self) -> None:
        """Let another engine have it at once. Raises `BusAway`."""
        if self._unsure:
            await self._look()
        if not self.lost:
            with contextlib.suppress(RevisionLost):
                await self._bucket.remove(self._describe().server, last=self._revision)

    def _left(self) -> float:
        return self._renewed_at + self._times.lease - self.margin - self._clock()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._soon.wait()
        self._soon.clear()

    async def _renew(self) -> None:
        try:
            if self._unsure:
                await self._look()
            if self.lost:
                return
            holder = self._describe()
            sent, self._unsure = self._clock(), True
            self._revision = await self._bucket.put(
                holder.server, encode_holder(holder), last=self._revision, ttl=self._times.lease
            )
            self._unsure, self._renewed_at = False, sent
        except RevisionLost:
            self._soon.set()  # look, and try again
        except BusAway as error:
            log.debug("mcp_lease_not_renewed", error=str(error))

    async def _look(self) -> None:
        mine = self._describe()
        entry = await self._bucket.get(mine.server)
        try:
            found = None if entry is None or not entry.value else decode_holder(entry.value)
        except WireUnreadable:
            found = None
        if entry is None or found is None or found.life != mine.life:
            self.lost = True
            return
        self._revision = entry.revision
