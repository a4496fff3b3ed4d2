"""The membership of one engine in its cluster: the only thing here that the engine talks to.

member = Member(config.cluster, standing, notes_of=calls.directory, ...)
await member.start()         does not wait for the bus
member.records, .events      what the calls write to
member.roster, .lease        who else is there, and whether others may take us for dead
await member.stop()          after the last call
"""

from __future__ import annotations

import asyncio
import datetime
import errno
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from cordboard.cluster.adoption import Adoption, AdoptionDoors
from cordboard.cluster.bus import Bucket
from cordboard.cluster.call_records import CallRecords
from cordboard.cluster.events import EventSink
from cordboard.cluster.forwarding import Forwarding
from cordboard.cluster.hand_over import HandOverTalk
from cordboard.cluster.lease import Lease, LeaseState, LeaseTimes
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection, require_nats
from cordboard.cluster.orders import Obeyed, Order, Orders
from cordboard.cluster.roster import Roster
from cordboard.cluster.sealed_bus import SealedBucket, SealedJournal, admin_seal_of, seal_of
from cordboard.cluster.unsent import UnsentNotes, abandoned
from cordboard.cluster.wire import EngineLease, HandOverAnswer, HandOverStep
from cordboard.config.sections.cluster import Cluster
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import BusAway
from cordboard.version import __version__

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
"""Pause before a part that has failed unexpectedly begins again."""
STOP_SECONDS = 2.0
"""Time for which a stop waits for the bus to take what is left; the next start sends the rest."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of this engine, as the others see it."""

    free_slots: int
    """Calls that it would take now, if it does not drain."""
    live_calls: int
    draining: bool
    sees_asterisk: bool = True
    """False while the connection to Asterisk is lost."""


@dataclass(frozen=True, slots=True)
class MemberEvents:
    """Callbacks of a membership."""

    gone: Callable[[str], None] = lambda instance: None
    """An instance has died."""
    lease: Callable[[LeaseState], None] = lambda state: None
    """The state of this engine's lease is another one. `lost`: drop the calls, hang up none."""
    taken: Callable[[str], None] = lambda call_id: None
    """Another engine owns this call now: drop it, do not hang it up. May come twice."""
    internal_error: Callable[[str], None] = lambda where: None
    ordered: Callable[[Order], None] = lambda order: None
    """An operator wants this engine to take no new calls, to hand over the live ones, or to take
    calls again. To be done at once."""
    others: Callable[[], None] = lambda: None
    """The leases of the other engines have changed."""
    hand_over: Callable[[HandOverStep], HandOverAnswer] = lambda step: HandOverAnswer(False)
    """Another engine hands a call over, or takes one of ours. To be answered at once."""
    moving: Callable[[], int] = lambda: 0
    """Number of calls that are being handed over."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """The state of a membership, for `/health`, metrics and people."""

    instance: str
    problem: str
    """Why the bus cannot be used; empty if it can."""
    lease: LeaseState
    engines: int
    """Living engines at the same Asterisk, this one included."""
    unwritten_records: int
    """Calls whose newest record is not on the bus."""
    unsent_calls: int
    """Calls with lines that are not on the bus."""
    waiting_bytes: int
    """Bytes of these lines in memory."""


def new_instance(node: str) -> str:
    """Return a name for one start of an engine."""
    return f"{node}-{secrets.token_hex(3)}"


class Member:
    """One per engine. Use once: `start`, then `stop`."""

    def __init__(
        self,
        settings: Cluster,
        standing: Callable[[], Standing],
        directory: Path,
        *,
        encryption: Encryption,
        asterisk: str = "",
        events: MemberEvents | None = None,
        doors: AdoptionDoors | None = None,
    ) -> None:
        """`directory` is the one of the calls. `encryption` is that of their files; the bus has
        their contents encrypted, too. `asterisk`: `host:port` of the Asterisk that it controls.
        `doors` take over the calls of dead engines; None: others do. Raises `ExtraMissing`."""
        require_nats()
        told = events or MemberEvents()
        self.instance = new_instance(settings.node)
        self._settings = settings
        self._standing = standing
        self._directory = directory
        self._asterisk = asterisk
        self._internal_error = told.internal_error
        self._began = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._notes = UnsentNotes(directory, self.instance)
        self._left: list[UnsentNotes] = []
        connection = NatsConnection(settings.nats, self.instance)
        connection.changed = lambda connected: self.lease.renew_soon()
        self.bus = NatsBus(connection, settings.name, settings.nats.replicas, asterisk=asterisk)
        seal = seal_of(encryption)
        calls = SealedBucket(self.bus.calls, seal) if seal is not None else self.bus.calls
        journal = SealedJournal(self.bus.events, seal) if seal is not None else self.bus.events
        self._taken = told.taken
        self.parts: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Further work from the start to the stop; what fails begins again. Add before `start`."""
        self.seal = seal
        """Encrypts what goes to the bus; None: plain."""
        self.calls: Bucket = calls
        """The records of the calls at the same Asterisk."""
        self.records = CallRecords(
            calls, self.instance, taken=self._lose, owned=lambda *call: self.events.owned(*call)
        )
        self.events = EventSink(journal, self._notes, fenced=self._lose, vault=encryption.vault)
        times = LeaseTimes(settings.lease_ms // 1000, settings.renew_ms / 1000)
        self.lease = Lease(self.bus.leases, self.instance, self.describe, times, changed=told.lease)
        self._gone, self._ordered, self._moving = told.gone, told.ordered, told.moving
        self.talk = HandOverTalk(connection, settings.name, self.instance, told.hand_over)
        """With the engines that take calls of this one, or hand theirs over."""
        self.roster = Roster(self.bus.leases, self.lease, self._lost_engine, changed=told.others)
        self.forwarding = Forwarding(
            connection, settings.name, self.instance, seal=admin_seal_of(settings, encryption)
        )
        """Requests between the administrations of the engines."""
        self._adoption = None if doors is None else self._make_adoption(doors)
        self._bus_task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Join. Returns before the bus has answered. Raises `ClusterError` if the files for TLS or
        signing in cannot be read, and `OSError` if nothing can be noted on disk, unless that is
        only full: the engine takes calls then, and their events are sent."""
        await self.bus.connection.prepare()
        await asyncio.to_thread(self._lock_notes)
        self._left = await asyncio.to_thread(lambda: list(abandoned(self._directory)))
        self._bus_task = self._begin(self.bus.run)
        work = (
            self.lease.run,
            self.roster.run,
            self.records.run,
            self.events.run,
            self.forwarding.run,
            self._recover,
            self.talk.run,
            Orders(self.bus.connection, self._settings.name, self._settings.node, self._obey).run,
            *(() if self._adoption is None else (self._adoption.find_orphans,)),
            *self.parts,
        )
        self._tasks = [self._begin(each) for each in work]
        log.info("cluster_joined", instance=self.instance)

    async def stop(self, *, missed: bool = False) -> None:
        """Leave, after the last call: the others do not miss this engine. With `missed` they take
        it for dead once its lease has expired, because some of its callers may be left. Idempotent.
        """
        if self._bus_task is None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.events.idle()
        except TimeoutError:
            log.warning("events_left", calls=self.events.unsent_calls)
        leaves_none = self._adoption is None or await self._adoption.close()
        await _end(self._tasks)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.records.flush()
                if leaves_none and not missed:  # else the others adopt what is left
                    await self.lease.give_up()
        except (BusAway, TimeoutError) as error:
            log.warning("cluster_not_left", error=str(error))
        await _end([self._bus_task])
        self._bus_task = None
        for notes in (self._notes, *self._left):
            await asyncio.to_thread(notes.close)

    @property
    def state(self) -> MemberState:
        return MemberState(
            self.instance,
            self.bus.connection.problem,
            self.lease.state,
            1 + len(self.roster.others),
            self.records.unwritten,
            self.events.unsent_calls,
            self.events.waiting_bytes,
        )

    def describe(self) -> EngineLease:
        """Return what the others see of this engine."""
        now, settings = self._standing(), self._settings
        return EngineLease(
            self.instance,
            settings.node,
            __version__,
            settings.labels,
            settings.region,
            0 if now.draining else now.free_slots,
            now.live_calls,
            now.draining,
            self._asterisk if now.sees_asterisk else "",
            self._began,
        )

    def _lock_notes(self) -> None:
        try:
            self._notes.lock()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            log.error("unsent_calls_not_noted", error=str(error))

    def _obey(self, order: Order) -> Obeyed:
        self._ordered(order)
        now = self._standing()
        return Obeyed(self.instance, now.draining, now.live_calls, self._moving())

    def _make_adoption(self, doors: AdoptionDoors) -> Adoption:
        return Adoption(
            self.calls,
            self.records,
            self.events,
            self.roster,
            self.lease,
            lambda: replace(self.describe(), asterisk=self._asterisk),
            doors,
            internal_error=self._internal_error,
        )

    def adopt_again(self, instance: str) -> None:
        """Take over what has become a dead instance's since its calls were adopted. Nothing is done
        while it lives. Returns at once."""
        if self._adoption is not None and instance not in self.roster.others:
            self._adoption.gone(instance)

    def _lost_engine(self, instance: str) -> None:
        self._gone(instance)
        if self._adoption is not None:
            self._adoption.gone(instance)

    def _lose(self, call_id: str) -> None:
        self.records.forget(call_id)
        self.events.forget(call_id)
        self._taken(call_id)

    async def _recover(self) -> None:
        await self.events.recover(self._left, self._is_over)

    async def _is_over(self, call_id: str) -> bool:
        return await self.records.find(call_id) is None

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
                return
            except Exception as error:  # task border: the part begins again
                log.exception("cluster_part_failed", error=repr(error))
                self._internal_error("cluster")
                await asyncio.sleep(AGAIN_SECONDS)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
