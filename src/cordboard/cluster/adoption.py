"""Taking over the calls of an engine that has died: who takes which, each call once.

    gone(a) ── revoke a's lease ── list a's calls ── plan ──> for each call, when it is our turn:
               fence a (once) ── claim its record ── read its events ── adopt

All living engines make the same plan, from the leases and the calls: a call goes to one of those at
its Asterisk that have its labels and room, weighted by room (weighted rendezvous hashing). The
others wait for their turn and take what is left, half a second later each; the record decides. One
that cannot fence, because it does not reach Asterisk, claims nothing. An engine that dies in the
middle of it owns the calls that it has claimed, and they are taken over from it; those that had
them before are fenced.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Protocol, TypeVar

import structlog

from cordboard.cluster.bus import Bucket, Entry, listing
from cordboard.cluster.call_records import CallRecords, Claimed
from cordboard.cluster.events import EventSink, Story
from cordboard.cluster.lease import Lease
from cordboard.cluster.roster import Roster
from cordboard.cluster.wire import CallRecord, EngineLease, decode_record
from cordboard.errors import BusAway, CordboardError, WireUnreadable

log = structlog.get_logger()

TURN_SECONDS = 0.5
"""Time that an engine has to claim a call before the next one may."""
MOST_TURNS = 3
"""Turns of others for which an engine without room waits."""
LATE_SECONDS = 1.0
"""Time after which the calls are listed once more: the bus may store a dead engine's last write
late, while its servers choose a leader or are busy."""
AGAIN_SECONDS = 3.0
"""Pause until the calls are looked at again that no engine has taken: all were draining, or cut off
from Asterisk for a moment."""
ATTEMPTS = 3
"""Attempts to adopt a claimed call that fail unexpectedly, before its caller is hung up."""
ATTEMPT_SECONDS = 1.0
"""Pause after each."""
RETRY_SECONDS = 0.2
TRIES_TOLD = 10
"""The log has every tenth attempt that failed: callers are in silence."""
_HASH_BITS = 53
"""Bits of a hash that a float holds."""


class AdoptionDoors(Protocol):
    """The part of an adoption that the engine does."""

    async def fence(self, instance: str) -> None:
        """Make sure that a dead instance can do nothing to its calls if it wakes. Comes once,
        before the first is claimed. Raises `CordboardError`; it is tried again then."""

    async def adopt(self, claimed: Claimed, story: Story, *, has_room: bool) -> None:
        """Take over a call, and put its record from now on. Without room, only give the caller a
        decent end. Raises `CordboardError` if there is no caller any more; the record is removed
        then."""

    async def give_up(self, claimed: Claimed) -> None:
        """Hang up the caller of a call that cannot be adopted; the record is removed then. Raises
        `CordboardError` if there is no such caller any more."""


class Adoption:
    """One per engine."""

    def __init__(
        self,
        calls: Bucket,
        records: CallRecords,
        events: EventSink,
        roster: Roster,
        lease: Lease,
        own: Callable[[], EngineLease],
        doors: AdoptionDoors,
        *,
        internal_error: Callable[[str], None] = lambda where: None,
    ) -> None:
        """`own` gives what the others see of this engine, up to date."""
        self._calls = calls
        self._records = records
        self._events = events
        self._roster = roster
        self._lease = lease
        self._own = own
        self._doors = doors
        self._internal_error = internal_error
        self._reserved = 0
        """Calls that are being adopted, and are not among the live ones yet."""
        self._taking: set[str] = set()
        """Calls that are this engine's to take, at its turn."""
        self._claimed: set[str] = set()
        """Those of them that this engine has claimed."""
        self._tasks: set[asyncio.Task[None]] = set()

    def gone(self, instance: str) -> None:
        """Take over the calls of a dead instance. Returns at once."""
        task = asyncio.get_running_loop().create_task(self._guarded(instance))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def find_orphans(self) -> None:
        """Have the owners of all calls examined, at the start: they may have died when no engine
        was there. Returns when it is done."""
        await self._roster.known()
        for record in await _insistent(self._list):
            if record.owner not in self._roster.others:
                self._roster.suspect(record.owner)

    async def close(self) -> bool:
        """Take over no more. Return False if calls are left that this engine has claimed and not
        adopted: others find them only if its lease expires."""
        left = bool(self._claimed)
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        return not left

    async def _guarded(self, instance: str) -> None:
        try:
            await self._take_over(instance)
        except Exception as error:  # task border
            log.exception("adoption_failed", instance=instance, error=repr(error))
            self._internal_error("adoption")

    async def _take_over(self, instance: str) -> None:
        if not await _insistent(lambda: self._roster.revoke(instance)):
            return
        fence, pause = _Once(lambda: self._doors.fence(instance)), LATE_SECONDS
        async with asyncio.TaskGroup() as takes:
            first = True
            while self._begin(await self._left_by(instance), fence, takes) or first:
                await asyncio.sleep(pause)
                first, pause = False, AGAIN_SECONDS

    async def _left_by(self, instance: str) -> list[CallRecord]:
        return [each for each in await _insistent(self._list) if each.owner == instance]

    def _begin(self, left: list[CallRecord], fence: _Once, takes: asyncio.TaskGroup) -> bool:
        """Begin to take over those calls that are ours to take. Return False if none is left: one
        that no engine may take now has to be looked at again."""
        own, others = self._own(), self._roster.others.values()
        turns = plan(left, [own, *others])
        new = [
            each
            for each in left
            if own.instance in turns[each.call_id] and each.call_id not in self._taking
        ]
        if new:
            log.warning("adoption_begins", instance=new[0].owner, calls=len(new))
        for record in new:
            self._taking.add(record.call_id)
            take = takes.create_task(self._take(record, turns[record.call_id], fence))
            take.add_done_callback(partial(self._not_taking, record.call_id))
        return bool(left)

    def _not_taking(self, call_id: str, _: asyncio.Task[None]) -> None:
        self._taking.discard(call_id)

    async def _take(self, record: CallRecord, order: tuple[str, ...], fence: _Once) -> None:
        """Take over one call when it is our turn, if it is still there."""
        instance, turn = record.owner, order.index(self._own().instance)
        await asyncio.sleep(turn * TURN_SECONDS)
        has_room = self._own().free_slots > self._reserved
        if not has_room:  # another engine may have some
            await asyncio.sleep(min(len(order) - turn, MOST_TURNS) * TURN_SECONDS)
        self._reserved += 1
        try:
            await fence.done()
            if not await self._is_alive() or self._own().draining:
                return
            claimed = await _insistent(lambda: self._records.claim(record.call_id, instance))
            if claimed is None:
                return
            self._claimed.add(record.call_id)
            await self._adopt(claimed, has_room=has_room)
        except CordboardError as error:
            log.warning("call_not_adopted", call_id=record.call_id, error=str(error))
            self._records.remove(record.call_id)
        except Exception as error:  # task border: the other calls are adopted
            log.exception("call_not_adopted", call_id=record.call_id, error=repr(error))
            self._internal_error("adoption")
        finally:
            self._reserved -= 1
            self._claimed.discard(record.call_id)

    async def _adopt(self, claimed: Claimed, *, has_room: bool) -> None:
        """Take over a call that is this engine's now. No other looks after its caller, so one that
        cannot be adopted is hung up. Raises `CordboardError` if there is no caller any more."""
        call_id = claimed.record.call_id
        for _ in range(ATTEMPTS):
            try:
                story = await _insistent(lambda: self._events.read(call_id))
                await self._doors.adopt(claimed, story, has_room=has_room)
            except CordboardError:
                raise
            except Exception as error:  # border of an attempt: another one may succeed
                log.exception("call_not_adopted", call_id=call_id, error=repr(error))
                self._internal_error("adoption")
                await asyncio.sleep(ATTEMPT_SECONDS)
            else:
                return
        await self._doors.give_up(claimed)
        self._records.remove(call_id)

    async def _is_alive(self) -> bool:
        """False if others have taken this engine for dead: what it claims now would have no owner.
        Waits while that is in doubt."""
        while self._lease.state == "in_doubt":  # noqa: ASYNC110 - it depends on the time
            await asyncio.sleep(RETRY_SECONDS)
        return self._lease.state == "held"

    async def _list(self) -> list[CallRecord]:
        return [found for entry in (await listing(self._calls)).values() if (found := _read(entry))]


def plan(
    records: Iterable[CallRecord], engines: Sequence[EngineLease]
) -> Mapping[str, tuple[str, ...]]:
    """Return the engines that may take each call, in the order of their turns, by the call's id.
    The same on every engine that knows the same."""
    room = {engine.instance: engine.free_slots for engine in engines}
    turns: dict[str, tuple[str, ...]] = {}
    for record in sorted(records, key=lambda record: record.call_id):
        able = [
            engine
            for engine in engines
            if not engine.draining
            and not engine.revoked_by
            and engine.asterisk == record.asterisk
            and set(record.labels) <= set(engine.labels)
        ]
        able.sort(key=lambda engine: (-_score(engine, record.call_id), engine.instance))
        with_room = [engine for engine in able if room[engine.instance] > 0]
        without = [engine for engine in able if room[engine.instance] <= 0]
        order = tuple(engine.instance for engine in (*with_room, *without))
        if order:
            room[order[0]] -= 1
        turns[record.call_id] = order
    return turns


def _score(engine: EngineLease, call_id: str) -> float:
    """Return the weighted rendezvous score: the highest takes the call, each engine as often as it
    has room. (Schindelhauer and Schomaker, Weighted Distributed Hash Tables, 2005.)"""
    digest = blake2b(f"{engine.instance} {call_id}".encode(), digest_size=8).digest()
    chance = ((int.from_bytes(digest, "big") >> (64 - _HASH_BITS)) + 0.5) / 2**_HASH_BITS
    return max(engine.free_slots, 1) / -math.log(chance)


class _Once:
    """Work that several wait for, and that is repeated until it succeeds."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._lock = asyncio.Lock()
        self._done = False

    async def done(self) -> None:
        async with self._lock:
            while not self._done:
                try:
                    await self._work()
                    self._done = True
                except CordboardError as error:
                    log.error("fence_failed", error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)


Result = TypeVar("Result")


async def _insistent(work: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat work until the bus answers."""
    for tries in itertools.count(1):
        try:
            return await work()
        except BusAway as error:
            if tries % TRIES_TOLD == 0:
                log.warning("adoption_waits", error=str(error), tries=tries)
            await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError


def _read(entry: Entry) -> CallRecord | None:
    if entry.value is None:
        return None
    try:
        return decode_record(entry.value)
    except WireUnreadable as error:
        log.warning("call_record_unreadable", key=entry.key, error=str(error))
        return None
