"""The counts of the firewall's caps, of all engines of a cluster together.

    firewall.Counts ──counted, moved──▶ this ──at most twice a second──▶ bus
                    ◀─────complete────       ◀──the others' counts──────

Each node has entries of its own, which no other node writes: one for each hour (and part of the
callers), and one for the present moment. Amounts of an hour only grow. So a restarted engine takes
the greater of what its disk and the bus know, and nothing is counted twice; what a dead node has
counted stays in force. Live calls count while their instance lives: its adopters count them then.

Decisions never wait. An engine knows its own counts exactly, those of others as of their last
message, and which of its own they have not confirmed. Each message says which messages of the
others its engine has read. Until all living engines have confirmed them, an engine adds at most its
share of what was left (`Used.filled`): all together pass a cap by less than one call each, however
late or in whatever order messages arrive. While the bus is away nothing is confirmed, so that each
engine is left with its last share. `tests/cluster/test_shared_counts.py` tries random orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

import structlog

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.count_sums import CountSums
from cordboard.cluster.limit_wire import (
    Counted,
    MinuteCounts,
    NowCounts,
    decode_counted,
    decode_key,
    decode_now,
    encode_counted,
    encode_key,
    encode_now,
)
from cordboard.errors import BusAway, RevisionLost, WireUnreadable
from cordboard.firewall.counts import Amounts, Counts, Key, Used, Window

log = structlog.get_logger()

WRITE_SECONDS = 0.5
"""Shortest time between two rounds of writing."""
KEPT_SECONDS = 26 * 3_600
"""Time for which the bus keeps an entry: a day, and two hours for other zones and clocks."""
NOW_SECONDS = 60
"""Life of the message about the present, which is repeated three times in it."""
GRACE_SECONDS = 5.0
"""Time for which an engine at another Asterisk counts as living after its message has expired."""
STRANGERS = 4
"""Engines that are assumed before the bus has answered for the first time."""
MOST_ROWS = 5_000
"""Rows of one entry; callers beyond them are known to their own engine only."""
KEY = "key"
_NOW = "now"


@dataclass(slots=True)
class _Unseen:
    """Counts of this engine under a key that others may not know."""

    waiting: Amounts = field(default_factory=Amounts)
    """Not sent, or sent while an earlier message was not confirmed."""
    sent: Amounts = field(default_factory=Amounts)
    """In a message that is not confirmed."""
    live_sent: int = 0
    live_seen: int = 0
    """Live calls that all others know of."""


@dataclass(slots=True)
class _OwnEntry:
    """Keys of one entry of this engine."""

    hour: str
    keys: dict[Key, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    """The newest message of another node."""

    now: NowCounts | None = None
    gone_at: float | None = None
    """Loop time from which an engine at another Asterisk counts as gone: its message has expired;
    after the bus was away, all have."""


class SharedCounts:
    """One per engine (implements `firewall.counts.SharedCounts`). Start `run` as a task."""

    def __init__(
        self,
        bucket: Bucket,
        counts: Counts,
        node: str,
        instance: str,
        living: Callable[[], Iterable[str]],
        place: str = "",
        live_calls: Callable[[], int] = lambda: 0,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """`place` stands for the Asterisk of this engine; `living()` returns the other living
        instances there. `live_calls()` returns the calls of this engine of any kind. `wanted()`
        returns False if there is no cap: then only live calls are sent."""
        self._bucket = bucket
        self._counts = counts
        self._node = node
        self._instance = instance
        self._living = living
        self._place = place
        self._live_calls = live_calls
        self._wanted = wanted
        self._nodes: dict[str, _Node] = {}
        self._sums = CountSums()
        self._alive: dict[str, NowCounts] = {}
        """Last result of `_others`; see `_alive_of`."""
        self._alive_of: Set[str] | None = None
        """The living instances at the same Asterisk that it was for; None: it is to be made."""
        self._alive_until = 0.0
        """Loop time."""
        self._former: list[Counted] = []
        """Entries of an earlier engine of this node."""
        self._own: dict[str, _OwnEntry] = {}
        """Entries of this engine."""
        self._minutes: dict[Key, int] = {}
        """Keys with calls in the newest two minutes → the minute of the last one."""
        self._revisions: dict[str, int] = {}
        self._unseen: dict[Key, _Unseen] = {}
        self._calls_sent = self._calls_seen = 0
        self._dirty: set[str] = set()
        """Entries of this node that are to be written."""
        self._number = 0
        self._unconfirmed: int | None = None
        """Number of the message that the others have not confirmed."""
        self._seen_sent: Mapping[str, int] = {}
        """Numbers of read messages, as the others know them."""
        self._changed = asyncio.Event()
        self._listed = asyncio.Event()
        self._agreed = asyncio.Event()
        self._met = False
        """True once the counts of the others were read."""
        self._away = False
        self._key_is_lost = False
        """True if the bus has lost the key of the cluster, or has got another one since."""
        self._unreadable: set[str] = set()
        self._twins: dict[str, float] = {}
        """Other instances that count under this node's name → loop time until which they live."""
        counts.share(self)

    # For the firewall.

    @property
    def engines(self) -> int:
        """Living engines that count together, this one included; before the bus has answered, an
        assumed number."""
        return 1 + len(self._others()) if self._met else STRANGERS

    @property
    def away(self) -> bool:
        """See `firewall.counts.SharedCounts`."""
        return self._away or not self._met

    async def key(self) -> bytes:
        """Return the cluster's key for digests of numbers, once it is known."""
        await self._agreed.wait()
        return self._counts.salt

    @property
    def twin(self) -> str:
        """Another living instance that counts under this node's name, at any Asterisk; empty if
        there is none. Each overwrites what the other one has counted."""
        now = asyncio.get_running_loop().time()
        return next((each for each, until in self._twins.items() if now < until), "")

    def is_living(self, instance: str) -> bool | None:
        """Return whether another instance lives, at any Asterisk; None if that is not known."""
        if not self._met:
            return None
        return instance == self.twin or instance in self._others()

    def complete(self, key: Key, own: Used, window: Window) -> Used:
        """See `firewall.counts.SharedCounts`."""
        others = self._others()
        day, in_hour = self._sums.within(key, window)
        in_minute, live = own.calls_in_minute, own.live
        for node in self._nodes.values():
            row = node.now.rows.get(key) if node.now is not None else None
            if row is not None:
                in_minute += window.in_minute(row.minute, row.this_minute, row.last_minute)
        for now in others.values():
            row = now.rows.get(key)
            if row is not None:
                live += row.live
        return Used(
            own.calls_in_hour + in_hour, own.calls + day.calls, own.minutes + day.seconds / 60,
            own.cost + day.cost, in_minute, live,
            1 + len(others) if self._met else STRANGERS, self._unseen_of(key, own),
        )  # fmt: skip

    def counted(self, key: Key, hour: str, more: Amounts) -> None:
        """See `firewall.counts.SharedCounts`."""
        self._unseen_at(key).waiting.add(more)
        self._touch(key, hour)

    def moved(self, key: Key) -> None:
        """See `firewall.counts.SharedCounts`."""
        self._unseen_at(key)
        usage = self._counts.usage_of(key)
        if usage is not None:
            self._minutes[key] = usage.minute
        self._changed.set()

    def forgotten(self, key: Key) -> None:
        """See `firewall.counts.SharedCounts`."""
        self._unseen.pop(key, None)
        self._minutes.pop(key, None)
        for name, entry in self._own.items():
            if key in entry.keys:
                del entry.keys[key]
                self._dirty.add(name)
                self._changed.set()

    def renamed(self, again: Callable[[Key], Key]) -> None:
        """See `firewall.counts.SharedCounts`."""
        self._unseen = {again(key): unseen for key, unseen in self._unseen.items()}
        self._minutes = {again(key): minute for key, minute in self._minutes.items()}
        self._own.clear()  # until all is taken up
        self._dirty.clear()

    def calls_filled(self, most: int) -> bool:
        """Return True if this engine may take no further call, so that all together never have
        more than `most`: it leaves free what the others may be taking at this moment."""
        others = sum(now.calls for now in self._others().values())
        own = self._live_calls()
        unseen = max(0, own - self._calls_seen)
        left = most - others - own + unseen
        return (unseen + 1) * self.engines > left

    def calls_moved(self) -> None:
        """The number of live calls of any kind has changed."""
        if self._live_calls() != self._calls_sent:
            self._changed.set()

    # From and to the bus.

    async def run(self) -> None:
        """Share until cancelled."""
        while True:
            salt = await self._agreed_key()
            if self._counts.agree(salt):
                break
            await asyncio.sleep(WRITE_SECONDS)  # until the disk is read
        self._agreed.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bucket.watch(self))
            await self._listed.wait()
            self._take_up()
            self._met = True
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(NOW_SECONDS / 3):
                        await self._changed.wait()
                self._changed.clear()
                try:
                    await self._write()
                    self._say(away=False)
                except BusAway as error:
                    log.debug("counts_not_written", error=str(error))
                    self._say(away=True)
                    self._changed.set()
                await asyncio.sleep(WRITE_SECONDS)

    def listed(self, entries: Mapping[str, Entry]) -> None:
        """See `BucketListener`."""
        for name in self._sums.names() - entries.keys():
            self._sums.replace(name, None)
        for node in self._nodes.keys() - {
            name.partition("_")[0] for name in entries if name.endswith(f"_{_NOW}")
        }:
            self._take_now(node, None)
        if self._met:  # the bus may have begun anew, without its data
            self._key_is_lost = self._is_lost(entries.get(KEY))
            self._dirty |= self._own.keys() - entries.keys()
            self._changed.set()
        # In the order of writing: a message follows the counts that it speaks of.
        for entry in sorted(entries.values(), key=lambda each: each.revision):
            self.changed(entry)
        self._listed.set()

    def changed(self, entry: Entry) -> None:
        """See `BucketListener`."""
        if entry.key == KEY:
            return
        node, _, part = entry.key.partition("_")
        own = node == self._node
        if own:
            self._revisions[entry.key] = max(entry.revision, self._revisions.get(entry.key, 0))
        try:
            if part == _NOW:
                now = None if entry.value is None else decode_now(entry.value)
                if not own:
                    self._take_now(node, now)
                elif (
                    now is not None
                    and self._number
                    and entry.revision >= self._revisions[entry.key]
                ):
                    self._see_twin(now.instance)
                return
            counted = None if entry.value is None else decode_counted(entry.value)
            if counted is not None and counted.node != node:
                raise WireUnreadable("counted: of another node")
        except WireUnreadable as error:
            if entry.key not in self._unreadable:
                self._unreadable.add(entry.key)
                log.warning("counts_unreadable", entry=entry.key, error=str(error))
            if part == _NOW and not own and node in self._nodes:
                self._take_now(node, None)  # of a later program: it confirms nothing any more
            return
        if not own:
            self._sums.replace(entry.key, counted)
        elif counted is not None and not self._met:
            self._former.append(counted)

    async def _agreed_key(self) -> bytes:
        """Return the key of the cluster; the first engine's own becomes it."""
        while True:
            try:
                entry = await self._bucket.get(KEY)
                if entry is not None and entry.value is not None:
                    return decode_key(entry.value)
                last = entry.revision if entry is not None else 0
                await self._bucket.put(KEY, encode_key(self._counts.salt), last=last)
            except WireUnreadable as error:
                log.error("counts_key_unreadable", error=str(error))
                await asyncio.sleep(10 * WRITE_SECONDS)
            except BusAway:
                await asyncio.sleep(WRITE_SECONDS)
            except RevisionLost:
                continue

    def _is_lost(self, entry: Entry | None) -> bool:
        """Return True if that entry is not the key that this engine uses."""
        if entry is None or entry.value is None:
            return True
        try:
            return decode_key(entry.value) != self._counts.salt
        except WireUnreadable:  # of a later program
            return False

    async def _bring_key(self) -> None:
        """Write the key again: engines that start must not agree on another one. If one of them was
        faster, all use its key: counts of callers under the former one stay out."""
        salt = await self._agreed_key()
        if salt != self._counts.salt:
            log.warning("counts_key_changed")
            self._counts.agree(salt)
            self._take_up()
        self._key_is_lost = False

    def _take_up(self) -> None:
        """Go on from the counts of this node's earlier engine, and share all that there are."""
        for counted in self._former:
            for key, amounts in counted.rows.items():
                self._raise(key, counted.hour, amounts)
        self._former.clear()
        for key, hour in self._counts.rows():
            self._touch(key, hour)
        self._changed.set()

    def _raise(self, key: Key, hour: str, known: Amounts) -> None:
        """Count what the bus knows of an earlier engine, and what was counted since the start."""
        more, usage = Amounts(), self._counts.usage_of(key)
        unseen = self._unseen.get(key)
        if unseen is not None and usage is not None and hour == max(usage.hours, default=""):
            more = unseen.waiting
        least = Amounts(
            known.calls + more.calls, known.seconds + more.seconds, known.cost + more.cost
        )
        self._counts.raise_to(key, hour, least)

    def _take_now(self, node: str, now: NowCounts | None) -> None:
        known = self._nodes.setdefault(node, _Node())
        if now is None:
            if known.gone_at is None:
                known.gone_at = asyncio.get_running_loop().time() + GRACE_SECONDS
                self._alive_of = None
            return
        if now.node != node:
            raise WireUnreadable("now: of another node")
        known.gone_at, known.now = None, now
        self._alive_of = None
        self._confirm()
        if now.waits_for > self._seen_sent.get(now.instance, 0):
            self._changed.set()

    def _see_twin(self, instance: str) -> None:
        """Note who has written this node's message. Before the first one of this engine it may have
        been an earlier engine of the node, which is gone."""
        now = asyncio.get_running_loop().time()
        if instance == self._instance:
            return
        if self._twins.get(instance, 0.0) <= now:
            log.error("node_name_used_twice", node=self._node, instance=instance)
        self._twins = {each: until for each, until in self._twins.items() if now < until}
        self._twins[instance] = now + NOW_SECONDS

    def _others(self) -> Mapping[str, NowCounts]:
        """Return the messages of the other living engines, by instance."""
        living, time = set(self._living()), asyncio.get_running_loop().time()
        if living == self._alive_of and time < self._alive_until:
            return self._alive
        self._alive, self._alive_of, self._alive_until = {}, living, math.inf
        for node in self._nodes.values():
            if node.now is None:
                continue
            if node.now.place == self._place:
                lives = node.now.instance in living
            else:
                lives = node.gone_at is None or time < node.gone_at
                if lives and node.gone_at is not None:
                    self._alive_until = min(self._alive_until, node.gone_at)
            if lives:
                self._alive[node.now.instance] = node.now
        return self._alive

    def _forget_nodes(self) -> None:
        """Forget the messages of nodes that are gone: names of nodes may be new at each start."""
        others, time = self._others(), asyncio.get_running_loop().time()
        for name, node in [*self._nodes.items()]:
            living = node.now is not None and node.now.instance in others
            if not living and node.gone_at is not None and time > node.gone_at + NOW_SECONDS:
                del self._nodes[name]

    def _confirm(self) -> None:
        """Note which counts all living engines know."""
        if self._unconfirmed is None:
            return
        seen = [now.seen.get(self._instance, 0) for now in self._others().values()]
        if min(seen, default=self._unconfirmed) < self._unconfirmed:
            return
        self._unconfirmed = None
        self._calls_seen = self._calls_sent
        for key, unseen in [*self._unseen.items()]:
            unseen.sent, unseen.live_seen = Amounts(), unseen.live_sent
            if unseen.waiting != Amounts():
                self._changed.set()
            elif not unseen.live_seen and not self._live(key):
                del self._unseen[key]
            elif unseen.live_seen != self._live(key):
                self._changed.set()

    async def _write(self) -> None:
        """Write what has changed, then the message that tells of it. Raises `BusAway`."""
        if self._unconfirmed is None and self._has_news():
            self._unconfirmed = self._number + 1
            for unseen in self._unseen.values():
                unseen.sent, unseen.waiting = unseen.waiting, Amounts()
        if self._key_is_lost:
            await self._bring_key()
        for name in [*self._dirty] if self._wanted() else ():
            self._dirty.discard(name)
            if name not in self._own:  # forgotten while another one was written
                continue
            try:
                await self._put(name, encode_counted(self._counted(name)))
            except BusAway:
                self._dirty.add(name)
                raise
        self._forget_nodes()
        self._number += 1
        self._note_live()
        now = self._now()
        await self._put(f"{self._node}_{_NOW}", encode_now(now), NOW_SECONDS)
        self._seen_sent = now.seen
        self._confirm()

    def _note_live(self) -> None:
        """Note which live calls the message has that is sent now. Others never know more of them
        than the least that was sent since the confirmed message."""
        asks, calls = self._number == self._unconfirmed, self._live_calls()
        self._calls_sent = calls if asks else min(calls, self._calls_sent)
        self._calls_seen = min(calls, self._calls_seen)
        for key, unseen in self._unseen.items():
            live = self._live(key)
            unseen.live_sent = live if asks else min(live, unseen.live_sent)
            unseen.live_seen = min(live, unseen.live_seen)

    def _has_news(self) -> bool:
        """True if something was counted that is in no message yet."""
        return self._live_calls() != self._calls_seen or any(
            unseen.waiting != Amounts() or unseen.live_seen != self._live(key)
            for key, unseen in self._unseen.items()
        )

    async def _put(self, name: str, value: bytes, ttl: int = KEPT_SECONDS) -> None:
        """Write an entry of this node. Raises `BusAway`."""
        while True:
            last = self._revisions.get(name, 0)
            try:
                revision = await self._bucket.put(name, value, last=last, ttl=ttl)
            except RevisionLost:
                entry = await self._bucket.get(name)
                self._revisions[name] = entry.revision if entry is not None else 0
            else:
                self._revisions[name] = max(revision, self._revisions.get(name, 0))
                return

    def _counted(self, name: str) -> Counted:
        entry = self._own[name]
        rows: dict[Key, Amounts] = {}
        for key in entry.keys:
            usage = self._counts.usage_of(key)
            if usage is not None and entry.hour in usage.hours:
                rows[key] = usage.hours[entry.hour]
        if len(rows) > MOST_ROWS:
            log.warning("counts_left_out", rows=len(rows) - MOST_ROWS)
            rows = dict([*rows.items()][-MOST_ROWS:])
        return Counted(self._node, entry.hour, rows)

    def _now(self) -> NowCounts:
        rows: dict[Key, MinuteCounts] = {}
        for key in self._recent() if self._wanted() else ():
            usage = self._counts.usage_of(key)
            if usage is not None:
                rows[key] = MinuteCounts(
                    usage.live, usage.minute, usage.this_minute, usage.last_minute
                )
        seen = {
            node.now.instance: node.now.number
            for node in self._nodes.values()
            if node.now is not None
        }
        return NowCounts(
            self._node,
            self._instance,
            self._place,
            self._number,
            self._unconfirmed or 0,
            seen,
            self._live_calls(),
            rows,
        )

    def _recent(self) -> list[Key]:
        """Return the keys with live calls, and those with calls in the newest two minutes."""
        newest = max(self._minutes.values(), default=0)
        self._minutes = {key: at for key, at in self._minutes.items() if at >= newest - 1}
        return [*{**dict.fromkeys(self._counts.keys_of_live()), **self._minutes}][:MOST_ROWS]

    def _touch(self, key: Key, hour: str) -> None:
        name = self._name(key, hour)
        entry = self._own.get(name)
        if entry is None:
            self._forget_before(hour)
            entry = self._own[name] = _OwnEntry(hour)
        entry.keys[key] = None
        self._dirty.add(name)
        self._changed.set()

    def _forget_before(self, hour: str) -> None:
        """Forget the entries of a day ago: nothing changes in them."""
        kept = datetime.timedelta(seconds=KEPT_SECONDS)
        oldest = f"{datetime.datetime.fromisoformat(hour) - kept:%Y-%m-%dT%H:%M}"
        for name in [name for name, entry in self._own.items() if entry.hour < oldest]:
            del self._own[name]
            self._revisions.pop(name, None)
            self._dirty.discard(name)

    def _name(self, key: Key, hour: str) -> str:
        """Return the entry of a key: the callers of an hour are in 16 parts."""
        part = key[2][:1] if key[1] == "caller" else "x"
        digits = "".join(filter(str.isdecimal, hour))
        return f"{self._node}_{digits}_{part}"

    def _live(self, key: Key) -> int:
        usage = self._counts.usage_of(key)
        return usage.live if usage is not None else 0

    def _unseen_at(self, key: Key) -> _Unseen:
        found = self._unseen.get(key)
        if found is None:
            found = self._unseen[key] = _Unseen()
        return found

    def _unseen_of(self, key: Key, own: Used) -> Used:
        """Return the part of the own usage that others may not know."""
        unseen = self._unseen.get(key)
        if unseen is None:
            return Used(live=own.live)
        calls = unseen.waiting.calls + unseen.sent.calls
        seconds = unseen.waiting.seconds + unseen.sent.seconds
        cost = unseen.waiting.cost + unseen.sent.cost
        return Used(
            min(calls, own.calls_in_hour),
            min(calls, own.calls),
            min(seconds / 60, own.minutes),
            min(cost, own.cost),
            min(calls, own.calls_in_minute),
            max(0, own.live - unseen.live_seen),
        )

    def _say(self, *, away: bool) -> None:
        if away != self._away:
            self._away = away
            log.warning("counts_shared" if not away else "counts_not_shared")
