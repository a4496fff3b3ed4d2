"""One engine follows the configuration of its cluster.

    head changes ──> our turn? ──> text from the bus ──> `ConfigDoors.apply` ──> report
    a canary begins or ends ──> `ConfigDoors.begin_canary`, `end_canary`
    enough calls of a canary ──> a look at the outcomes of all engines ──> withdrawn if worse

A new version rolls: the engines take it one after the other, in the order of their instances. An
engine waits until each one before it reports that it has the version in force and is ready. If one
of them cannot take it, or does not within `ROLL_SECONDS`, the others stay as they are and say why;
they go on as soon as that one has it. An engine that dies is not waited for longer than its
report lives.

Without the bus everything stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn, Protocol, TypeAlias

import structlog

from cordboard.cluster.bus import Bucket, Entry
from cordboard.cluster.canary_statistic import Outcomes, is_due, judge
from cordboard.cluster.config_versions import (
    COUNTS,
    ENGINE,
    HEAD,
    SHADOW,
    ConfigVersions,
    counts_in,
    head_of,
    reports_in,
)
from cordboard.cluster.config_wire import (
    CanaryCounts,
    CanaryOrder,
    ConfigHead,
    EngineReport,
    ShadowOrder,
    ShadowReport,
    encode_counts,
    encode_report,
    encode_shadow,
)
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.sealed_bus import SealedBucket, seal_of
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import BusAway, ClusterError, NotThere, RevisionLost, WireUnreadable

log = structlog.get_logger()

ROLL_SECONDS = 60.0
"""Time that an engine has to take a version, before those behind it say that the roll has
stopped."""
REPORT_SECONDS = 3.0
"""Time between two reports of an engine."""
REPORT_TTL = 10
"""Life of a report: the roll waits so long for an engine that has died."""
COUNT_SECONDS = 2.0
"""Time between two counts, at least, and between two looks at those of all engines."""
COUNT_TTL = 30 * 86_400
"""Life of counts after the last one; a canary may run for weeks."""
AGAIN_SECONDS = 30.0
"""Time until a version that could not be applied is tried again: a missing file may be there."""
SHADOW_TTL = 86_400
"""Life of what a draft has compared, after the last turn."""
BREATH_SECONDS = 0.5
GATHER_SECONDS = 2 * REPORT_SECONDS
"""Time for which an engine takes no version after the bus was away for longer than reports live:
those of the others come first."""
_MOST_WORDS = 2_000
"""Characters of a problem in a report: of many problems the first ones."""

Turn: TypeAlias = Literal["go", "wait", "stopped"]


class ConfigDoors(Protocol):
    """The engine, as the follower needs it."""

    async def apply(self, number: int, text: str) -> str:
        """Put a version into force; return why it cannot be, empty if it is."""

    def not_ready(self) -> str:
        """Return why the engine is not ready for calls; empty if it is."""

    async def begin_canary(self, order: CanaryOrder, text: str) -> str:
        """Give a share of the new calls to a version, in place of any other; return why that
        cannot be, empty if it is done."""

    def end_canary(self) -> None:
        """Give all new calls to the version in force; the others end where they are."""

    def outcomes(self) -> tuple[Outcomes, Outcomes]:
        """Return the outcomes of the calls of the version in force and of the canary, since it
        began here."""

    async def begin_shadow(self, order: ShadowOrder, text: str) -> None:
        """Let a draft listen to live calls, in place of any other."""

    def end_shadow(self) -> None:
        """End the listening of a draft."""

    def shadow_report(self) -> ShadowReport | None:
        """Return what was compared; None if no draft was to listen."""

    def returned(self, order: CanaryOrder, why: str) -> None:
        """This engine has withdrawn a canary because it was worse."""


def turn(
    own: str, wanted: int, reports: Mapping[str, EngineReport], waited: Callable[[str], float]
) -> tuple[Turn, str]:
    """Return if it is an engine's turn to take a version, and why not. `waited`: seconds for which
    it has waited for an instance."""
    for instance in sorted(reports):
        if instance >= own:
            break
        report = reports[instance]
        if report.number == wanted and report.state == "in_force":
            continue
        if report.wanted == wanted and report.state == "refused":
            return "stopped", f"{instance} cannot take version {wanted}: {report.problem}"
        if waited(instance) > ROLL_SECONDS:
            why = f": {report.problem}" if report.problem else ""
            return "stopped", f"{instance} has not taken version {wanted} yet{why}"
        return "wait", f"waits for {instance}"
    return "go", ""


class ConfigFollower:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        instance: str,
        state: Bucket,
        versions: ConfigVersions,
        doors: ConfigDoors,
        number: int = 0,
        digest: str = "",
    ) -> None:
        """`number` and `digest`: those of the version that the engine has started with; 0: its own
        file."""
        self.report = EngineReport(instance, number)
        """The state of this engine, also while the bus is away."""
        self.head = ConfigHead()
        """As far as it is known."""
        self._head_entry: Entry | None = None
        """Entry of `head`."""
        self._digest = digest
        """Of the text in force."""
        self._state = state
        self._versions = versions
        self._doors = doors
        self._entries: dict[str, Entry] = {}
        """Those that have a value."""
        self._gathers_until = 0.0
        """Loop time until which the others may not have reported yet."""
        self._changed = asyncio.Event()
        self._own_report = OwnEntry(state, ENGINE + instance, REPORT_TTL)
        self._own_counts = OwnEntry(state, COUNTS + instance, COUNT_TTL)
        self._awaited = ("", 0, 0.0)
        """The instance that is waited for, with which version, and since when."""
        self._tried_at = 0.0
        self._counted_at = self._looked_at = 0.0
        self._counted: CanaryCounts | None = None
        self._canary: CanaryOrder | None = None
        """The canary that runs here, or could not begin here."""
        self._begun_at = 0.0
        self._own_shadow = OwnEntry(state, SHADOW + instance, SHADOW_TTL)
        self._shadow: ShadowOrder | None = None

    @property
    def problem(self) -> str:
        """Why the configuration is not as it should be; empty if it is."""
        if self.report.problem:
            return self.report.problem
        if self.report.canary_problem:
            return f"the canary does not run: {self.report.canary_problem}"
        newest = self.head.versions[0] if self.head.versions else None
        if newest is not None and newest.state == "withdrawn":
            return f"version {newest.number} was withdrawn: {newest.why}"
        return ""

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._state.watch(self))
            tasks.create_task(self._beat())
            while True:
                self._changed.clear()
                try:
                    await self._step()
                except (BusAway, RevisionLost) as error:
                    log.debug("config_follower_waits", error=str(error))
                    await asyncio.sleep(BREATH_SECONDS)
                try:
                    async with asyncio.timeout(BREATH_SECONDS):
                        await self._changed.wait()
                except TimeoutError:
                    pass

    # From the watch.

    def listed(self, entries: Mapping[str, Entry]) -> None:
        self._entries = {key: each for key, each in entries.items() if each.value is not None}
        if self._own_report.written and ENGINE + self.report.instance not in self._entries:
            self._gathers_until = self._now() + GATHER_SECONDS
        self._changed.set()

    def changed(self, entry: Entry) -> None:
        if entry.value is None:
            self._entries.pop(entry.key, None)
        else:
            self._entries[entry.key] = entry
        if entry.key != ENGINE + self.report.instance:
            self._changed.set()

    # Steps.

    async def _step(self) -> None:
        """Do what is to be done now. Raises `BusAway` and `RevisionLost`."""
        if self._entries.get(HEAD) != self._head_entry:
            # A list may be that of a server that is behind the others; this one is not.
            self._head_entry = await self._state.get(HEAD)
        try:
            self.head, _ = head_of(self._head_entry)
        except WireUnreadable as error:  # of a later program: stay as we are
            await self._tell(problem=str(error))
            return
        await self._tell()
        if self._lacks_version():
            await self._take()
        elif self.report.number:
            await self._confirm()
        else:
            await self._tell(state="in_force", wanted=0, problem="")
        await self._follow_canary()
        await self._follow_shadow()

    def _lacks_version(self) -> bool:
        """Return True if another version than this engine's should be in force: by its text, too.
        A bus that has lost its data begins again with number 1."""
        if self.head.in_force != self.report.number:
            return self.head.in_force != 0
        version = self.head.version(self.head.in_force)
        return version is not None and self._digest not in ("", version.digest)

    async def _take(self) -> None:
        wanted = self.head.in_force
        refused = self.report.state == "refused" and self.report.wanted == wanted
        if refused and self._now() - self._tried_at < AGAIN_SECONDS:
            return
        may, why = turn(
            self.report.instance, wanted, reports_in(self._entries), self._waited(wanted)
        )
        if may == "go" and self._now() < self._gathers_until:
            may = "wait"
        if may != "go":
            problem = f"the roll has stopped: {why}" if may == "stopped" else ""
            await self._tell(wanted=wanted, state="waiting", problem=problem)
            return
        version = self.head.version(wanted)
        if version is None:
            return
        await self._tell(wanted=wanted, state="applying", problem="")
        self._tried_at = self._now()
        try:
            text = await self._versions.text(version.digest)
        except (NotThere, WireUnreadable) as error:
            await self._tell(state="refused", problem=str(error))
            return
        problem = await self._doors.apply(wanted, text)
        if problem:
            log.error("cluster_config_refused", number=wanted, problem=problem)
            await self._tell(state="refused", problem=problem[:_MOST_WORDS])
            return
        self.report, self._digest = replace(self.report, number=wanted), version.digest
        log.info("cluster_config_in_force", number=wanted, digest=version.digest)
        await self._confirm()

    async def _confirm(self) -> None:
        """Report that the version is in force, once the engine is ready with it."""
        report, number = self.report, self.report.number
        if report.state == "in_force" and report.wanted == number and not report.problem:
            return
        if not_ready := self._doors.not_ready():
            problem = f"version {number} is in force, but the engine is not ready: {not_ready}"
            await self._tell(wanted=number, state="applying", problem=problem)
        else:
            await self._tell(wanted=number, state="in_force", problem="")

    def _waited(self, wanted: int) -> Callable[[str], float]:
        def waited(instance: str) -> float:
            if self._awaited[:2] != (instance, wanted):
                self._awaited = instance, wanted, self._now()
            return self._now() - self._awaited[2]

        return waited

    # The canary.

    async def _follow_canary(self) -> None:
        order = self.head.canary
        if self._canary is not None and not _same(self._canary, order):
            self._canary = self._counted = None
            self._doors.end_canary()
            await self._tell(canary=0, canary_problem="")
        if order is None or self.report.number != self.head.in_force:
            return
        if self.report.canary_problem and self._now() - self._begun_at >= AGAIN_SECONDS:
            self._canary = None
        if self._canary is None:
            await self._begin_canary(order)
        await self._count(order)
        await self._look(order)

    async def _begin_canary(self, order: CanaryOrder) -> None:
        version = self.head.version(order.number)
        if version is None:
            return
        try:
            problem = await self._doors.begin_canary(
                order, await self._versions.text(version.digest)
            )
        except (NotThere, WireUnreadable) as error:
            problem = str(error)
        self._canary, self._begun_at = order, self._now()
        log.info("canary_begins", number=order.number, share=order.share, problem=problem)
        await self._tell(
            canary=0 if problem else order.number, canary_problem=problem[:_MOST_WORDS]
        )

    async def _count(self, order: CanaryOrder) -> None:
        counts = CanaryCounts(self.report.instance, order.number, *self._doors.outcomes())
        if counts == self._counted or self._now() - self._counted_at < COUNT_SECONDS:
            return
        self._counted_at = self._now()
        await self._own_counts.put(encode_counts(counts))
        self._counted = counts

    async def _look(self, order: CanaryOrder) -> None:
        """Judge the canary, if it is time. Every engine tries to, and the first one succeeds."""
        if self._now() - self._looked_at < COUNT_SECONDS:
            return
        self._looked_at = self._now()
        counts = counts_in(self._entries, order.number)
        before = sum((each.before for each in counts), Outcomes())
        after = sum((each.after for each in counts), Outcomes())
        if not is_due(order.looks, before, after):
            return
        verdict = judge(before, after)
        try:
            if verdict.worse:
                await self._versions.withdraw(verdict.words, order)
                log.error("canary_withdrawn", number=order.number, why=verdict.words)
                self._doors.returned(order, verdict.words)
            else:
                await self._versions.note_look(order, verdict.words)
                log.info("canary_judged", number=order.number, verdict=verdict.words)
        except (BusAway, RevisionLost):
            raise
        except ClusterError as error:  # another engine or a person was faster
            log.debug("canary_changed", error=str(error))

    # The shadow.

    async def _follow_shadow(self) -> None:
        order = self.head.shadow
        if order != self._shadow:
            self._doors.end_shadow()
            self._shadow = None
            if order is not None:
                await self._doors.begin_shadow(order, await self._text_of(order.digest))
                self._shadow = order
        report = self._doors.shadow_report()
        if report is not None:
            value = encode_shadow(replace(report, instance=self.report.instance))
            if value != self._own_shadow.written:
                await self._own_shadow.put(value, not_before=COUNT_SECONDS)

    async def _text_of(self, digest: str) -> str:
        """Return a text; an empty one, which no engine can use, if it is not there any more. Raises
        `BusAway`."""
        try:
            return await self._versions.text(digest)
        except (NotThere, WireUnreadable):
            return ""

    # The report.

    async def _tell(self, **changes: object) -> None:
        """Change the report, and send it if it has changed or is due. Raises `BusAway`."""
        self.report = replace(self.report, **changes)  # type: ignore[arg-type]
        await self._own_report.put(encode_report(self.report), every=REPORT_SECONDS)

    async def _beat(self) -> NoReturn:
        """Keep the report alive also while a version is applied, which may take long."""
        while True:
            await asyncio.sleep(REPORT_SECONDS / 2)
            with contextlib.suppress(BusAway, RevisionLost):  # the next step writes it again
                await self._own_report.put(encode_report(self.report), every=REPORT_SECONDS)

    async def leave(self) -> None:
        """Take the report back, in an orderly stop, after `run` was cancelled. Raises `BusAway` and
        `RevisionLost`."""
        await self._own_report.remove()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def buckets_of(bus: NatsBus, encryption: Encryption) -> tuple[Bucket, Bucket]:
    """Return the buckets of the state and of the texts, encrypted if the calls are."""
    seal = seal_of(encryption)
    if seal is None:
        return bus.config_state, bus.config_texts
    return SealedBucket(bus.config_state, seal), SealedBucket(bus.config_texts, seal)


def _same(one: CanaryOrder, other: CanaryOrder | None) -> bool:
    """Return True if both give the same calls to the same version."""
    return other is not None and replace(other, looks=one.looks, verdict=one.verdict) == one


@dataclass(slots=True)
class OwnEntry:
    """An entry that only this engine writes."""

    bucket: Bucket
    key: str
    ttl: int
    _revision: int | None = None
    """None: unknown."""
    _written: bytes = b""
    _at: float = 0.0
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def written(self) -> bytes:
        return self._written

    async def put(self, value: bytes, every: float = 0.0, *, not_before: float = 0.0) -> None:
        """Write it, unless it has that value and is younger than `every` seconds, or any and is
        younger than `not_before`. Raises `BusAway` and `RevisionLost`."""
        async with self._one_at_a_time:
            now = asyncio.get_running_loop().time()
            if value == self._written and now - self._at < every:
                return
            if self._written and now - self._at < not_before:
                return
            if self._revision is None:
                entry = await self.bucket.get(self.key)
                self._revision = entry.revision if entry is not None else 0
            revision, self._revision = self._revision, None  # until the answer is there
            self._revision = await self.bucket.put(self.key, value, last=revision, ttl=self.ttl)
            self._written, self._at = value, now

    async def remove(self) -> None:
        """Remove it, in an orderly stop. Raises `BusAway` and `RevisionLost`."""
        if self._revision:
            await self.bucket.remove(self.key, last=self._revision)
