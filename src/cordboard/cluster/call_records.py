"""The records of this engine's calls on the bus: who owns a call, and where its caller is.

Written behind the calls: `put` and `remove` return at once, one task writes, the newest value of a
call wins, and each write builds on the revision of the last one. A call that another engine has
claimed is noticed at the next write, and is not written any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import structlog

from cordboard.cluster.bus import IN_FLIGHT_SECONDS, Bucket, Entry
from cordboard.cluster.wire import CallRecord, decode_record, encode_record, token
from cordboard.errors import BusAway, RevisionLost, WireUnreadable

log = structlog.get_logger()

RETRY_SECONDS = 0.5
MOST_REMOVALS = 10_000
"""Ended calls whose records wait to be removed. Without room the record stays, and an engine that
takes it up later finds that its caller is gone."""
_CLAIMS = 5
"""Attempts to claim a record that its owner was just writing."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A call that this engine owns from now on."""

    record: CallRecord
    """As its former owner left it, with the new owner and epoch."""
    epoch: int
    former: str
    """Instance that owned it before."""


@dataclass(slots=True)
class _Known:
    """A record as this engine wrote it last."""

    revision: int = 0
    epoch: int = 0
    unsure: bool = False
    """True if the last write may or may not have been carried out."""


class CallRecords:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        bucket: Bucket,
        instance: str,
        *,
        taken: Callable[[str], None] = lambda call_id: None,
        owned: Callable[[str, int], None] = lambda call_id, epoch: None,
    ) -> None:
        """`taken(call_id)`: another engine owns this call now. `owned(call_id, epoch)`: the bus has
        accepted that this engine owns it."""
        self._bucket = bucket
        self._instance = instance
        self._taken = taken
        self._owned = owned
        self._known: dict[str, _Known] = {}
        self._wanted: dict[str, CallRecord | None] = {}
        """Records to be written; None: the record is to be removed."""
        self._over = set[str]()
        """Calls that have ended before the bus has accepted their first record. It is written all
        the same, and then removed: the call's events need its revision as their epoch."""
        self._changed = asyncio.Event()

    @property
    def unwritten(self) -> int:
        """Number of calls whose newest record is not on the bus yet."""
        return len(self._wanted)

    def epoch(self, call_id: str) -> int | None:
        """Return the epoch of a call of this engine; None until the bus has accepted it."""
        known = self._known.get(call_id)
        return known.epoch or None if known is not None else None

    def is_written(self, call_id: str) -> bool:
        """Return True if the bus has what was put last, as far as is known."""
        known = self._known.get(call_id)
        return call_id not in self._wanted and known is not None and not known.unsure

    def put(self, record: CallRecord) -> None:
        """Write the state of a call of this engine, at its milestones. Returns at once."""
        self._wanted[token(record.call_id)] = replace(record, owner=self._instance)
        self._changed.set()

    def remove(self, call_id: str) -> None:
        """Remove the record of a call that has ended. Returns at once."""
        if self.epoch(call_id) is not None:
            self._wanted[call_id] = None
            self._changed.set()
        elif call_id in self._known or call_id in self._wanted:
            self._over.add(call_id)
        self._bound()

    def forget(self, call_id: str) -> None:
        """Write no more of a call that belongs to another engine now."""
        self._wanted.pop(call_id, None)
        self._known.pop(call_id, None)
        self._over.discard(call_id)

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            calls = tuple(self._wanted)
            written = await asyncio.gather(*map(self._write, calls))
            if not all(written):
                await asyncio.sleep(RETRY_SECONDS)
                self._changed.set()

    async def flush(self) -> None:
        """Write once what waits, in an orderly stop, after `run` was cancelled."""
        await asyncio.gather(*map(self._write, tuple(self._wanted)))

    async def find(self, call_id: str) -> CallRecord | None:
        """Return the record of any call; None if it has none that can be read. Raises
        `BusAway`."""
        return _record_in(await self._bucket.get(token(call_id)))

    async def claim(self, call_id: str, owner: str, *, handed_over: bool = False) -> Claimed | None:
        """Take over a call of another engine; with `handed_over`, only if it hands it to this one.
        None if it has ended, or is another one's already. Raises `BusAway`, after which it is
        unknown: claim again."""
        for _ in range(_CLAIMS):
            entry = await self._bucket.get(token(call_id))
            record = _record_in(entry)
            if entry is None or record is None:
                return None
            if record.owner == self._instance:  # an earlier attempt that seemed to fail
                return self._own(record, entry.revision, owner)
            if record.owner != owner:
                return None
            if handed_over and record.handing_over_to != self._instance:
                return None
            mine = replace(record, owner=self._instance, epoch=0, handing_over_to="")
            try:
                revision = await self._bucket.put(call_id, encode_record(mine), last=entry.revision)
            except RevisionLost:
                await asyncio.sleep(IN_FLIGHT_SECONDS)
                continue
            return self._own(mine, revision, owner)
        return None

    async def keep(self, call_id: str) -> Claimed | None:
        """Have a call be this engine's that it was handing over, even if another one has claimed
        it: afterwards no other can. None if it has no record. Raises `BusAway`, after which it is
        unknown: do it again."""
        while True:
            entry = await self._bucket.get(token(call_id))
            record = _record_in(entry)
            if entry is None or record is None:
                return None
            epoch = record.epoch if record.owner == self._instance else 0
            mine = replace(record, owner=self._instance, epoch=epoch, handing_over_to="")
            with contextlib.suppress(RevisionLost):  # another engine was faster
                revision = await self._bucket.put(call_id, encode_record(mine), last=entry.revision)
                return self._own(mine, revision, record.owner)
            await asyncio.sleep(IN_FLIGHT_SECONDS)

    async def give_back(self, call_id: str, owner: str) -> None:
        """Have a claimed call be its former owner's again: it has not come here. Nothing is done if
        it is not this engine's any more. Raises `BusAway`, after which it is unknown: do it
        again."""
        self.forget(call_id)
        while True:
            entry = await self._bucket.get(token(call_id))
            record = _record_in(entry)
            if entry is None or record is None or record.owner != self._instance:
                return
            theirs = encode_record(replace(record, owner=owner, epoch=0))
            with contextlib.suppress(RevisionLost):  # another engine was faster
                await self._bucket.put(call_id, theirs, last=entry.revision)
                return
            await asyncio.sleep(IN_FLIGHT_SECONDS)

    def _own(self, record: CallRecord, revision: int, former: str) -> Claimed:
        epoch = record.epoch or revision
        self._known[record.call_id] = _Known(revision, epoch)
        self._owned(record.call_id, epoch)
        return Claimed(replace(record, epoch=epoch), epoch, former)

    async def _write(self, call_id: str) -> bool:
        """Write what is wanted of one call; False if it has to be tried again."""
        wanted = self._wanted.pop(call_id)
        known = self._known.setdefault(call_id, _Known())
        try:
            if known.unsure and not await self._still_ours(call_id, known):
                self.forget(call_id)
                if wanted is not None:  # else our own removal, which seemed to fail
                    self._taken(call_id)
                return True
            known.unsure = True  # until the answer is there
            if wanted is None:
                await self._bucket.remove(call_id, last=known.revision)
                self._known.pop(call_id, None)
                return True
            content = encode_record(replace(wanted, epoch=known.epoch))
            known.revision = await self._bucket.put(call_id, content, last=known.revision)
            known.unsure = False
        except (BusAway, RevisionLost) as error:
            log.debug("call_record_not_written", call_id=call_id, error=repr(error))
            if self._known.get(call_id) is known:  # else it was forgotten meanwhile
                self._wanted.setdefault(call_id, wanted)
            return False
        if not known.epoch:
            known.epoch = known.revision
            self._owned(call_id, known.epoch)
        if call_id in self._over:
            self._over.discard(call_id)
            self.remove(call_id)
        return True

    async def _still_ours(self, call_id: str, known: _Known) -> bool:
        """Find out what the record is like now."""
        entry = await self._bucket.get(call_id)
        record = _record_in(entry)
        if entry is None or entry.value is None:
            if known.epoch:  # the engine that claimed it has ended it
                return False
            known.revision = entry.revision if entry is not None else 0
            return True
        if record is None or record.owner != self._instance:
            return False
        known.revision = entry.revision
        if not known.epoch:
            known.epoch = record.epoch or entry.revision
            self._owned(call_id, known.epoch)
        return True

    def _bound(self) -> None:
        if len(self._wanted) > MOST_REMOVALS:
            oldest = next(
                (each for each, last in self._wanted.items() if last is None or each in self._over),
                None,
            )
            if oldest is not None:
                log.warning("call_record_left", call_id=oldest)
                self.forget(oldest)


def _record_in(entry: Entry | None) -> CallRecord | None:
    if entry is None or entry.value is None:
        return None
    try:
        return decode_record(entry.value)
    except WireUnreadable as error:
        log.warning("call_record_unreadable", key=entry.key, error=str(error))
        return None
