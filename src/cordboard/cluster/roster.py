"""The other engines at the same Asterisk: who is alive, and who has died.

An engine whose lease has expired, or is missing after an interruption, is under suspicion. It is
taken for dead only when this engine has renewed its own lease without a gap for twice a lease's
life: after the bus was away, every lease has expired, and each engine needs a moment to write it
again. So no engine adopts calls because the bus failed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

import structlog

from cordboard.cluster.bus import IN_FLIGHT_SECONDS, Bucket, Entry
from cordboard.cluster.lease import REVOCATION_SECONDS, Lease, revoker
from cordboard.cluster.wire import EngineLease, decode_lease, encode_lease
from cordboard.errors import BusAway, RevisionLost, WireUnreadable

log = structlog.get_logger()


class Roster:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        bucket: Bucket,
        own: Lease,
        gone: Callable[[str], None],
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`gone` is called once with each instance that has died, but not with one that removed its
        lease itself. `changed` is called when `others` has changed."""
        self._bucket = bucket
        self._own = own
        self._gone = gone
        self._changed = changed
        self._others: dict[str, EngineLease] = {}
        self.renewed_at: dict[str, float] = {}
        """Loop time at which the newest lease of each of `others` arrived."""
        self._suspects: dict[str, None] = {}
        self._reported: set[str] = set()
        self._suspicion = asyncio.Event()
        self._listed = asyncio.Event()

    @property
    def others(self) -> Mapping[str, EngineLease]:
        """The leases of the living, by instance. One of a version that this engine cannot read has
        only its names."""
        return self._others

    async def known(self) -> None:
        """Wait for the first list of all engines."""
        await self._listed.wait()

    async def run(self) -> NoReturn:
        """Follow the leases until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bucket.watch(self))
            await self._judge()
        raise AssertionError

    def suspect(self, instance: str) -> None:
        """Have it examined whether an instance is alive, for example the owner of a call who is not
        among the others."""
        if instance != self._own.instance and instance not in self._reported:
            self._suspects[instance] = None
            self._suspicion.set()

    async def revoke(self, instance: str) -> bool:
        """Declare an instance dead, so that it loses its lease if it wakes. False if it is alive
        after all, or has left. Raises `BusAway`."""
        while True:
            entry = await self._bucket.get(instance)
            if _is_revoked(entry):
                return True
            if entry is not None and (entry.value is not None or not entry.expired):
                return False
            dead = replace(self._remembered(instance), revoked_by=self._own.instance, free_slots=0)
            last = entry.revision if entry is not None else 0
            try:
                await self._bucket.put(
                    instance, encode_lease(dead), last=last, ttl=REVOCATION_SECONDS
                )
            except RevisionLost:
                # Refused for the sake of another write that cannot be read yet.
                await asyncio.sleep(IN_FLIGHT_SECONDS)
            else:
                log.warning("lease_revoked", instance=instance)
                return True

    # BucketListener

    def listed(self, entries: Mapping[str, Entry]) -> None:
        for instance in self._others.keys() - entries.keys():
            self.suspect(instance)
        for entry in entries.values():
            self._take(entry)
        self._listed.set()
        self._changed()

    def changed(self, entry: Entry) -> None:
        self._take(entry)
        self._changed()

    def _take(self, entry: Entry) -> None:
        instance = entry.key
        if instance == self._own.instance:
            if entry.value is None or revoker(entry):
                self._own.renew_soon()
            return
        if entry.value is None:
            if entry.expired:
                self.suspect(instance)
            else:
                self._forget(instance)
            return
        lease = _read(entry)
        if lease.revoked_by:
            self.suspect(instance)
            return
        self._others[instance] = lease
        self.renewed_at[instance] = asyncio.get_running_loop().time()
        self._suspects.pop(instance, None)
        self._reported.discard(instance)

    async def _judge(self) -> None:
        """Examine the suspects, when the bus can be trusted."""
        trusted = 2 * self._own.times.lease
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._own.times.lease):
                    await self._suspicion.wait()
            self._suspect_the_silent(2 * trusted)
            if not self._suspects:
                self._suspicion.clear()
                continue
            if (left := trusted - self._own.steady_seconds) > 0:
                await asyncio.sleep(min(left, self._own.times.renew))
                continue
            try:
                for instance in tuple(self._suspects):
                    await self._examine(instance)
            except BusAway:
                await asyncio.sleep(self._own.times.renew)
            if not self._suspects:
                self._suspicion.clear()

    def _suspect_the_silent(self, seconds: float) -> None:
        """Suspect those whose renewals have not come for so long. Their end comes by itself, but a
        server may have been asked about it that did not know of it yet."""
        now = asyncio.get_running_loop().time()
        for instance, at in self.renewed_at.items():
            if now - at > seconds:
                self.suspect(instance)

    async def _examine(self, instance: str) -> None:
        entry = await self._bucket.get(instance)
        if instance not in self._suspects:  # it has shown itself meanwhile
            return
        if entry is not None and entry.value is None and not entry.expired:
            self._forget(instance)
        elif entry is None or entry.value is None or _is_revoked(entry):
            self._forget(instance)
            if instance not in self._reported:
                self._reported.add(instance)
                log.warning("engine_gone", instance=instance)
                self._gone(instance)
        else:
            self._take(entry)
        self._changed()

    def _forget(self, instance: str) -> None:
        self._others.pop(instance, None)
        self.renewed_at.pop(instance, None)
        self._suspects.pop(instance, None)

    def _remembered(self, instance: str) -> EngineLease:
        return self._others.get(instance) or _named(instance)


def _named(instance: str) -> EngineLease:
    return EngineLease(instance, instance.rpartition("-")[0])


def _is_revoked(entry: Entry | None) -> bool:
    """Return True if an engine was taken for dead. One of a later version is alive until its entry
    expires: those that can read it take over its calls."""
    return entry is not None and entry.value is not None and bool(_read(entry).revoked_by)


def _read(entry: Entry) -> EngineLease:
    assert entry.value is not None  # noqa: S101 - a living one
    try:
        return decode_lease(entry.value)
    except WireUnreadable as error:
        log.warning("lease_unreadable", instance=entry.key, error=str(error))
        return _named(entry.key)
