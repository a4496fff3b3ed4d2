"""One engine in its cluster: connects the calls and the Asterisk of an engine with the bus.

Imported only where the configuration has `cluster`; `docs/cluster.md` describes the whole.

    every line of a ledger                       ──> events on the bus
    a call begins, talks, ends                   ──> its record on the bus
    free places, living engines                  ──> Asterisk, for the dialplan
    an engine has died                           ──> its callers are moved here and offered again
    our lease or our ARI user has been revoked   ──> every call is dropped, `replaced` is set
    others reach Asterisk for long, and we do not ──> the same, so that they adopt our callers
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import structlog

from cordboard.api.app import ComponentState
from cordboard.calls.call import Call
from cordboard.calls.events import Adopted, Connected, Ended, LedgerEvent, ToolCalled
from cordboard.calls.offer import ResumedCall
from cordboard.cluster.adoption import AGAIN_SECONDS, TRIES_TOLD, TURN_SECONDS, plan
from cordboard.cluster.bus import listing
from cordboard.cluster.call_records import Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.lease import LeaseState
from cordboard.cluster.mcp_servers import ClusterServers
from cordboard.cluster.member import Member, MemberEvents, Standing
from cordboard.cluster.orders import Order
from cordboard.cluster.sealed_bus import seal_of
from cordboard.cluster.wire import CallRecord, HandOverAnswer, HandOverStep, decode_record
from cordboard.config.schema import Config
from cordboard.errors import (
    AsteriskError,
    BusAway,
    CallerEngaged,
    LineError,
    LineGone,
    WireUnreadable,
)
from cordboard.firewall.counts import Counts
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.runtime.call_giver import CallGiver
from cordboard.runtime.call_taker import CallTaker
from cordboard.runtime.doors import Sharing
from cordboard.runtime.shared_limits import SharedLimits
from cordboard.telephony.asterisk.placement import LABEL
from cordboard.telephony.asterisk.shared import KeptCall
from cordboard.telephony.asterisk.source import AsteriskSource

log = structlog.get_logger()

ELSEWHERE = ("fenced", "handed_over")
"""Reasons for the end of a call that another engine goes on with, or may."""
ROOM_SECONDS = 0.5
"""Pause between two looks at the free places: load changes without an event."""
RETRY_SECONDS = 0.2
PARTED_SECONDS = 2.0
"""Pause between two looks whether a caller who talks with another person is alone again."""
LATE_SECONDS = 1.0
"""Time after which callers are looked for again whom the dialplan sent to a dead engine."""
CUT_OFF_SECONDS = 5.0
"""Time for which others must have reached Asterisk, and this engine not, before it leaves its calls
to them. The connection has been found dead before, and two attempts at a new one have been due."""
EXCESS = 0.2
"""Part of `calls.max_calls` by which calls of dead engines may exceed it: a worse sound for all is
better than callers in silence."""
_TYPE_ADOPTED = f'"type":"{Adopted.type}"'.encode()
_TYPE_ASKED = f'"type":"{ToolCalled.type}"'.encode()
_HEAD = 64
"""Bytes of a line that have its type."""
SETTLE_SECONDS = 0.1
MOVES = 5
"""Quick attempts to move a caller whom Asterisk does not move; later ones come less often."""


class Membership:
    """One per engine (implements `cluster.adoption.AdoptionDoors`). Use once: `start`, `close`."""

    def __init__(
        self,
        config: Config,
        calls: Callable[[], Mapping[str, Call]],
        standing: Callable[[], Standing],
        ordered: Callable[[Order], None],
        internal_error: Callable[[str], None],
        pool: ServerPool,
        breaker_reports: Callable[[str, int], None] = lambda server, engines: None,
    ) -> None:
        """`config` has a section `cluster`. `calls` are the live ones by id. `ordered`: see
        `MemberEvents`. `pool`: the MCP servers. `breaker_reports`: see `ClusterServers`.
        Raises `ExtraMissing`."""
        if config.cluster is None:
            raise ValueError("this engine is alone")
        self._labels = config.cluster.labels
        self._most_calls = config.calls.max_calls
        self._calls = calls
        self._own_standing = standing
        self._internal_error = internal_error
        self._ordered = ordered
        self._hands_over = config.cluster.on_stop == "hand_over"
        self._place = urlsplit(config.asterisk.url).netloc if config.asterisk is not None else ""
        reconnect = config.asterisk.reconnect_max_ms / 1000 if config.asterisk is not None else 0.0
        self._cut_off_seconds = max(CUT_OFF_SECONDS, 2 * reconnect)
        self._cut_off_since: float | None = None
        """Loop time since which others reach Asterisk and this engine does not."""
        self.member = Member(
            config.cluster,
            self._standing,
            config.calls.directory,
            encryption=config.privacy.encryption,
            asterisk=self._place,
            events=MemberEvents(
                gone=self._gone,
                others=self._publish_engines,
                lease=self._lease_changed,
                taken=self._taken,
                ordered=self._order,
                internal_error=internal_error,
                hand_over=self._hand_over_step,
                moving=lambda: self._giver.moving,
            ),
            doors=self if config.asterisk is not None else None,
        )
        self._node, self._most_together = config.cluster.node, config.cluster.max_calls
        self.limits: SharedLimits | None = None
        """The limits of all engines together, from `share_limits` on."""
        self.servers = pool.sharing = ClusterServers(
            self.member.bus.connection,
            self.member.bus.servers,
            pool,
            self.member.instance,
            cluster=config.cluster.name,
            times=self.member.lease.times,
            seal=seal_of(config.privacy.encryption),
            internal_error=internal_error,
            reports=breaker_reports,
        )
        self.replaced = asyncio.Event()
        """Set when others have taken this engine for dead: it must end."""
        self._source: AsteriskSource | None = None
        self._was_ready = False
        """True if Asterisk has been reached since the start."""
        self._records: dict[str, CallRecord | None] = {}
        """Records of the live calls; None: the call is not on the bus, or not ours any more."""
        self._adopted: dict[str, tuple[Claimed, Story]] = {}
        """Calls that are offered again and have not begun yet."""
        self._giver = CallGiver(lambda: self.member, calls, self, internal_error)
        self._taker = CallTaker(
            lambda: self.member,
            lambda: self._source,
            calls,
            standing,
            self._adopted,
            internal_error,
        )
        self._ends = False
        """True once this engine stops in order: it takes no calls again."""
        self._published: Standing | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def share_limits(self, counts: Counts, has_caps: Callable[[], bool], campaigns: Path) -> None:
        """Share limits with the other engines, from the start on; see `SharedLimits`."""
        self.limits = SharedLimits(
            self.member,
            self._node,
            self._place,
            counts,
            lambda: len(self._calls()),
            has_caps,
            campaigns,
        )

    def is_full(self) -> bool:
        """Return True if all engines together may take no further call."""
        most, limits = self._most_together, self.limits
        return most is not None and limits is not None and limits.counts.calls_filled(most)

    async def start(self) -> None:
        """Join, without waiting for the bus. Raises `ClusterError` and `OSError`."""
        await self.member.start()
        self._spawn(self._watch_room())
        self._spawn(self.servers.run())

    async def close(self) -> None:
        """Leave, after the last call and the stop of the source. Idempotent."""
        await self._giver.close()
        await self._taker.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.servers.close()
        await self.member.stop(missed=self._source is not None and self._source.leaves_something)

    # For the doors

    @property
    def sharing(self) -> Sharing:
        """How this engine shares its Asterisk."""
        lease = self.member.lease
        return Sharing(
            self.member.instance, lambda: lease.state != "held", on_fenced=self.replaced.set
        )

    def attach(self, source: AsteriskSource) -> None:
        """Use this source of calls from now on."""
        self._source = source
        self._published = None
        self._publish_room()
        self._publish_engines()

    # From the calls

    def copy_line(self, call_id: str, line: bytes) -> None:
        """Send a line of a ledger to the bus, later."""
        if call_id not in self._records:
            call = self._calls().get(call_id)
            if call is None:
                return  # a conversation in writing, or a trial
            self._begin(call)
        self.member.events.take(call_id, line)
        if _TYPE_ASKED in line[:_HEAD]:  # the next engine must know, or it may be done twice
            self.member.events.hurry()

    def listen(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """Take an event of a ledger, after its line."""
        if isinstance(event, Connected):
            self._put(call_id, state="talking")
        elif isinstance(event, Ended):
            self._giver.ended(call_id)
            record = self._records.pop(call_id, None)
            if record is None:
                return
            stays = event.reason == "asterisk_lost" and self._cut_off_since is not None
            if event.reason in ELSEWHERE or stays:
                self.member.records.forget(call_id)
                self.member.events.forget(call_id)
            else:
                self.member.events.close(call_id)
                self.member.records.remove(call_id)
            if stays:  # their caller is in silence now, and the others reach them
                self._leave_calls()

    def _begin(self, call: Call) -> None:
        """Put a call on the bus, if another engine could take it over."""
        call_id, offer = call.call_id, call.offer
        source = self._source
        kept = source.shared.record(offer) if source is not None else None
        if kept is None:
            self._records[call_id] = None
            return
        label = offer.variables.get(LABEL, "")
        record = CallRecord(
            call_id,
            self.member.instance,
            asterisk=self._place,
            caller_channel=kept.channel_id,
            context=call.context_name,
            provider=call.provider_name,
            caller_number=offer.caller_number,
            caller_name=offer.caller_name,
            called_number=offer.called_number,
            variables=offer.variables,
            started_at=call.started_at.isoformat(timespec="milliseconds"),
            labels=(label,) if label else (),
        )
        adopted = self._adopted.pop(call_id, None)
        if adopted is None:
            self.member.events.open(call_id, lambda: call.ledger_path)
        else:
            claimed, story = adopted
            former = claimed.record
            record = replace(record, started_at=former.started_at, state=former.state)
            so_far = Story(call.copied_lines, story.revision, story.epoch)
            self.member.events.open(call_id, lambda: call.ledger_path, so_far, claimed.epoch)
        self._records[call_id] = record
        self.member.records.put(record)
        self._publish_room()

    def _put(self, call_id: str, **changes: Any) -> None:
        record = self._records.get(call_id)
        if record is not None:
            record = self._records[call_id] = replace(record, **changes)
            self.member.records.put(record)

    # Calls that living engines hand over

    def hand_over_before_end(self, seconds: float) -> None:
        """Hand over the live calls, because the engine ends then; see `cluster.on_stop`. Returns at
        once."""
        self._ends = True
        if self._hands_over:
            self._giver.begin(seconds)

    def record_of(self, call_id: str) -> CallRecord | None:
        """See `call_giver.Books`."""
        return self._records.get(call_id)

    def hand_to(self, call_id: str, instance: str) -> None:
        """See `call_giver.Books`."""
        record = self._records.get(call_id)
        if record is not None and record.handing_over_to != instance:
            self._put(call_id, handing_over_to=instance)

    @property
    def reaches_callers(self) -> bool:
        """See `call_giver.Books`."""
        return self._source is not None and self._source.ready

    async def is_with(self, call_id: str, instance: str) -> bool:
        """See `call_giver.Books`."""
        record = self._records.get(call_id)
        if record is None:
            return False
        shared = self._opened.shared
        return instance in await self._insistent(lambda: shared.holders(record.caller_channel))

    def let_go(self, call_id: str) -> None:
        """See `call_giver.Books`."""
        self._opened.drop(call_id)

    def _order(self, order: Order) -> None:
        self._ordered(order)
        if order == "hand_over":
            self._giver.begin()
        self._stay_if_not_draining()

    def _stay_if_not_draining(self) -> None:
        """Hand over no more calls once this engine takes calls again, by whichever order."""
        if not self._ends and not self._standing().draining:
            self._giver.cancel()

    def _hand_over_step(self, step: HandOverStep) -> HandOverAnswer:
        if step.step == "take":
            return self._taker.take(step)
        if step.step == "ready":
            return self._giver.ready(step)
        self._giver.failed(step)
        return HandOverAnswer(step.step == "failed", f"unknown step: {step.step}")

    # From the bus

    def _lease_changed(self, state: LeaseState) -> None:
        if state == "lost":
            if self._source is not None:
                self._source.fence()
            self.replaced.set()

    def _taken(self, call_id: str) -> None:
        if call_id in self._records:
            self._records[call_id] = None
        if self._source is not None:
            self._source.drop(call_id)

    def _publish_engines(self) -> None:
        """Let the dialplan know who is alive at our Asterisk."""
        if self._source is not None:
            others = self.member.roster.others.values()
            names = [each.instance for each in others if each.asterisk == self._place]
            self._source.shared.publish_engines([self.member.instance, *names])

    def _publish_room(self) -> None:
        """Let the dialplan and the other engines know how many calls we take."""
        now = self._standing()
        if now == self._published:
            return
        self._published = now
        self.member.lease.renew_soon()
        if self.limits is not None:
            self.limits.counts.calls_moved()
        if self._source is not None:
            free = 0 if now.draining else now.free_slots
            self._source.shared.publish_room(free, self._labels)

    async def _watch_room(self) -> NoReturn:
        while True:
            self._publish_room()
            self._leave_if_cut_off()
            self._stay_if_not_draining()
            await asyncio.sleep(ROOM_SECONDS)

    def _standing(self) -> Standing:
        sees = self._source is None or self._source.ready or not self._was_ready
        return replace(self._own_standing(), sees_asterisk=sees)

    def _leave_if_cut_off(self) -> None:
        """Leave the calls to the others if they reach Asterisk, and this engine does not: it could
        not even hang up."""
        now = asyncio.get_running_loop().time()
        lease, others = self.member.lease, self.member.roster.others.values()
        self._was_ready |= self._source is not None and self._source.ready
        others_see = lease.state == "held" and any(each.asterisk == self._place for each in others)
        if self._standing().sees_asterisk or not others_see:
            self._cut_off_since = None
        elif self._cut_off_since is None:
            self._cut_off_since = now
        elif now - self._cut_off_since > self._cut_off_seconds and self._calls():
            self._leave_calls()

    def _leave_calls(self) -> None:
        log.error("cut_off_from_asterisk", calls=len(self._calls()))
        self.member.lease.drop()

    # The calls of an engine that has died

    def _gone(self, instance: str) -> None:
        # Its room stays written until it is fenced: it may be alive after all, and would not write
        # it again. The list of the living has it no more.
        self._taker.gone(instance)
        if self._source is not None:
            self._spawn(self._take_waiting(instance))

    async def fence(self, instance: str) -> None:
        """See `AdoptionDoors`. Raises `AsteriskError`, and `LineError` before Asterisk has been
        reached."""
        await self._opened.shared.fence(instance)

    async def adopt(self, claimed: Claimed, story: Story, *, has_room: bool) -> None:
        """See `AdoptionDoors`. Without room the call goes on all the same, up to `EXCESS`; beyond
        that it ends with an apology. Raises `LineError`."""
        record = claimed.record
        if self._records.get(record.call_id) is not None:
            # It was to go to the engine that has died, and its caller has not left.
            self._put(record.call_id, handing_over_to="")
            return
        while not self._taker.is_rid_of(record.call_id):  # noqa: ASYNC110 - its end has no event
            await asyncio.sleep(RETRY_SECONDS)
        here = len(self._calls()) + len(self._adopted)  # and those that are on their way
        goes_on = has_room or here < self._most_calls * (1 + EXCESS)
        resumed = ResumedCall(
            story.lines,
            claimed.former,
            claimed.epoch,
            record.context,
            record.provider,
            has_room=goes_on,
        )
        self._adopted[record.call_id] = claimed, story
        try:
            await self._move(claimed, resumed)
        except BaseException:
            self._adopted.pop(record.call_id, None)
            raise

    async def give_up(self, claimed: Claimed) -> None:
        """See `AdoptionDoors`. Raises `LineGone` and `CallerEngaged`: they are left alone then."""
        kept = await self._insistent(lambda: self._kept(claimed))
        log.error("caller_given_up", call_id=kept.call_id)
        await self._insistent(lambda: self._opened.shared.hang_up(kept))

    def refused(self, call_id: str) -> None:
        """Forget a call that was adopted and is not answered here: the dialplan has the caller."""
        if self._adopted.pop(call_id, None) is not None:
            self.member.records.remove(call_id)

    async def is_adopted(self, call_id: str, moves: int) -> bool:
        """Return True if a call of a killed engine goes on, or has gone on, in another one. Waits
        until that is known. `moves`: how often it had changed its engine when it was lost."""
        while True:
            await asyncio.sleep(self.member.lease.times.lease)
            with contextlib.suppress(BusAway):
                record = await self.member.records.find(call_id)
                if record is None:
                    lines = (await self.member.events.read(call_id)).lines
                    return sum(_TYPE_ADOPTED in line[:_HEAD] for line in lines) > moves
                if record.owner in (self.member.instance, *self.member.roster.others):
                    return True

    async def _move(self, claimed: Claimed, resumed: ResumedCall) -> None:
        """Have the caller moved here and offered, as soon as that is possible. Raises
        `LineGone`."""
        tries = 0
        while True:
            source = self._opened
            await source.wait_ready(RETRY_SECONDS)
            try:
                kept = await self._kept(claimed)
                await source.adopt(kept, complete=lambda offer: replace(offer, resumed=resumed))
                return
            except LineGone:
                raise
            except CallerEngaged as error:
                log.info("adoption_waits", call_id=claimed.record.call_id, error=str(error))
                await asyncio.sleep(PARTED_SECONDS)
            except (AsteriskError, LineError) as error:
                tries += source.ready
                if tries == MOVES:
                    call_id = claimed.record.call_id
                    log.warning("caller_not_moved", call_id=call_id, error=str(error))
                # The caller is in silence, but not gone: only they end it.
                await asyncio.sleep(RETRY_SECONDS if tries < MOVES else PARTED_SECONDS)

    async def _kept(self, claimed: Claimed) -> KeptCall:
        """Return where the caller is. Raises `AsteriskError`."""
        record, living = claimed.record, self.member.roster.others
        holders = await self._opened.shared.holders(record.caller_channel)
        # An engine that died while it took the call over owned the record, but had no caller yet.
        dead = sorted(holders - living.keys())
        instance = claimed.former if claimed.former in dead or not dead else dead[0]
        return KeptCall(
            record.call_id,
            instance,
            record.caller_channel,
            record.caller_number,
            record.caller_name,
            record.called_number,
            record.variables,
        )

    async def _take_waiting(self, instance: str) -> None:
        """Take the callers of a dead engine who have no call on the bus: they still ring, or its
        record had not been written yet. All engines do so in turn: the first one may not reach
        Asterisk."""
        nobody = CallRecord(instance, instance, asterisk=self._place)
        while True:
            own, others = self.member.describe(), self.member.roster.others.values()
            order = plan([nobody], [own, *others])[instance]
            if own.instance in order:
                break
            if order:
                return
            await asyncio.sleep(AGAIN_SECONDS)  # none may take them now
        await asyncio.sleep(order.index(own.instance) * TURN_SECONDS)
        if not await self._insistent(lambda: self.member.roster.revoke(instance)):
            return
        await self._insistent(lambda: self.fence(instance))
        await self._insistent(lambda: self._waiting(instance))
        await asyncio.sleep(LATE_SECONDS)
        if await self._insistent(lambda: self._waiting(instance)):
            self._opened.shared.clear(instance)

    async def _waiting(self, instance: str) -> bool:
        """Take those there are now. Return True if that engine has no caller of a call any more:
        one may still talk with a person there, and each adoption clears up behind its own. Raises
        `BusAway` and `AsteriskError`."""
        entries = (await listing(self.member.calls, SETTLE_SECONDS)).values()
        try:
            records = [decode_record(each.value) for each in entries if each.value is not None]
        except WireUnreadable as error:
            # Their callers cannot be told from those who still ring.
            log.error("waiting_callers_left", instance=instance, error=str(error))
            return False
        known = {record.caller_channel for record in records}
        shared = self._opened.shared
        count = await shared.take_waiting(instance, known)
        if count:
            log.warning("waiting_callers_taken", instance=instance, callers=count)
        return known.isdisjoint(await shared.channels_of(instance))

    async def _insistent(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Repeat work until bus and Asterisk answer."""
        for tries in itertools.count(1):
            try:
                return await work()
            except (BusAway, AsteriskError) as error:
                if tries % TRIES_TOLD == 0:
                    log.warning("cluster_waits", error=str(error), tries=tries)
                await asyncio.sleep(RETRY_SECONDS)
        raise AssertionError

    @property
    def _opened(self) -> AsteriskSource:
        """The source. Raises `LineError` before it is opened."""
        if self._source is None:
            raise LineError("Asterisk is not connected yet")
        return self._source

    # For `/ready` and `/health`

    def state(self) -> ComponentState:
        """State of the membership. Not required: calls go on without the bus."""
        lease, problem = self.member.lease.state, self.member.bus.connection.problem
        if lease == "lost":
            return ComponentState(False, "other engines have taken over the calls of this one")
        if lease == "in_doubt":
            return ComponentState(False, problem or "the lease is in doubt", required=False)
        if self.limits is not None and (twin := self.limits.counts.twin):
            problem = f"cluster.node {self._node!r} is also the name of the engine {twin}"
            return ComponentState(
                False, f"{problem}: shared limits count one of them only", required=False
            )
        return ComponentState(True, required=False)

    def health(self) -> Mapping[str, Any]:
        """Return the membership's part of `/health`."""
        member = self.member
        return {
            "instance": member.instance,
            "lease": member.lease.state,
            "bus": {
                "connected": member.bus.connection.connected,
                "server": member.bus.connection.server,
                "problem": member.bus.connection.problem,
            },
            "engines": len(member.roster.others) + 1,
            "unsent": {
                "calls": member.events.unsent_calls,
                "bytes": member.events.waiting_bytes,
                "records": member.records.unwritten,
            },
            **({} if self.limits is None else {"limits": self.limits.health()}),
        }

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # task border: the calls go on
            log.exception("cluster_work_failed", error=repr(error))
            self._internal_error("cluster")
