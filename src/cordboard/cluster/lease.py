"""The lease of this engine: its sign of life, which expires unless it is renewed.

    held ── no renewal for `seconds`, or the process slept so long ──> in_doubt
    in_doubt ── the next renewal ──> held
    either ── another engine has revoked it, or `drop` ──> lost, for good

`in_doubt`: the bus is away, or this process was stopped. Others may be about to take it for dead,
or cannot see the bus either: live calls go on, and the engine must not end one because of what it
sees elsewhere. `lost`: others own its calls.

An expired lease alone is not lost. An engine that takes another one for dead first writes that into
its lease (`Roster.revoke`), and an expired lease may be renewed: the bus lets one of both happen.

Ages are those of CLOCK_BOOTTIME, which also counts the time in which the machine slept. They begin
when a renewal is sent, so this engine doubts no later than the bus forgets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import structlog

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.wire import EngineLease, decode_lease, encode_lease
from cordboard.errors import BusAway, RevisionLost, WireTooNew, WireUnreadable

log = structlog.get_logger()

LeaseState: TypeAlias = Literal["held", "in_doubt", "lost"]
REVOCATION_SECONDS = 86_400
"""Time for which the bus keeps a revoked lease. An engine that has slept half of it does not look
any more: its lease counts as lost."""


def boot_time() -> float:
    """Return seconds since the machine was started, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds."""

    lease: int = 2
    """Life of a lease. Whole seconds, as NATS counts them."""
    renew: float = 0.5


class Lease:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        bucket: Bucket,
        instance: str,
        describe: Callable[[], EngineLease],
        times: LeaseTimes = LeaseTimes(),
        *,
        changed: Callable[[LeaseState], None] = lambda state: None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`describe` gives what the others see of this engine, at each renewal. `changed` is called
        when the state is noticed to be another one; `state` itself is always up to date."""
        self.instance = instance
        self.times = times
        self._bucket = bucket
        self._describe = describe
        self._changed = changed
        self._clock = clock
        self._revision = 0
        self._unsure = True
        """True if the entry may not be as we know it."""
        self._renewed_at: float | None = None
        self._steady_since = 0.0
        self._lost_to = ""
        self._told: LeaseState = "in_doubt"
        self._soon = asyncio.Event()

    @property
    def state(self) -> LeaseState:
        if self._lost_to:
            return "lost"
        age = self._age()
        return "held" if age is not None and age < self.times.lease else "in_doubt"

    @property
    def lost_to(self) -> str:
        """Instance that has revoked this lease; empty if none has."""
        return self._lost_to

    @property
    def steady_seconds(self) -> float:
        """Seconds for which the bus has accepted every renewal in time; 0 unless `held`. While it
        is short, other engines may be silent only because the bus was away."""
        if self.state != "held" or self._renewed_at is None:
            return 0.0
        return self._renewed_at - self._steady_since

    async def run(self) -> None:
        """Keep the lease, until it is lost or this task is cancelled."""
        while not self._lost_to:
            self._soon.clear()
            began = self._clock()
            await self._renew()
            self._tell()
            pause = self.times.renew - (self._clock() - began)
            try:
                async with asyncio.timeout(max(0.0, pause)):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._tell()

    def renew_soon(self) -> None:
        """Renew at once: what `describe` gives has changed, or the bus is back."""
        self._soon.set()

    def drop(self) -> None:
        """Lose the lease, so that others take over the calls of this engine: it cannot serve them.
        The state changes at once, and the others notice when the entry has expired."""
        self._lose(self.instance)
        self._tell()
        self._soon.set()

    async def give_up(self) -> None:
        """Remove the lease, in an orderly stop, after `run` was cancelled. Raises `BusAway`."""
        try:
            if self._unsure:
                await self._look()
            if self._lost_to:  # the mark of it stays
                return
            await self._bucket.remove(self.instance, last=self._revision)
        except RevisionLost:
            log.warning("lease_not_removed", instance=self.instance)
        self._renewed_at = None

    async def _renew(self) -> None:
        try:
            if self._unsure:
                await self._look()
            if self._lost_to:
                return
            sent = self._clock()
            self._unsure = True  # until the answer is there
            self._revision = await self._bucket.put(
                self.instance,
                encode_lease(self._describe()),
                last=self._revision,
                ttl=self.times.lease,
            )
            self._unsure = False
        except RevisionLost:
            self._soon.set()  # look, and try again
        except BusAway as error:
            log.debug("lease_not_renewed", error=str(error))
        else:
            if self.state != "held":
                self._steady_since = sent
            self._renewed_at = sent

    async def _look(self) -> None:
        """Find out what the entry is like now."""
        age = self._age()
        if age is not None and age > REVOCATION_SECONDS / 2:
            self._lose("the time")
            return
        entry = await self._bucket.get(self.instance)
        self._revision = entry.revision if entry is not None else 0
        if revoked_by := revoker(entry):
            self._lose(revoked_by)

    def _lose(self, to: str) -> None:
        self._lost_to = to
        log.error("lease_lost", instance=self.instance, to=to)

    def _age(self) -> float | None:
        return None if self._renewed_at is None else self._clock() - self._renewed_at

    def _tell(self) -> None:
        state = self.state
        if state != self._told:
            self._told = state
            log.warning("lease_state", instance=self.instance, state=state)
            self._changed(state)


def revoker(entry: Entry | None) -> str:
    """Return the instance that has revoked our lease in an entry; empty if none has."""
    if entry is None or entry.value is None:
        return ""
    try:
        return decode_lease(entry.value).revoked_by
    except WireTooNew:  # what we cannot read in our own entry, a later program has written
        return "a later version"
    except WireUnreadable as error:  # it is written again
        log.warning("lease_unreadable", instance=entry.key, error=str(error))
        return ""
