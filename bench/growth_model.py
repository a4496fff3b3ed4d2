"""Figures of one engine, each with its source, and what many engines ask of the bus. Pure.

`Plan` is a size of cluster. `traffic` is arithmetic: what all engines write, read and watch, under
the two ways to name the entries on the bus (`Scope`). `bench.growth_simulation` has what needs
chance and time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["cluster", "asterisk"]
"""What an engine watches and lists: those leases and calls of its own Asterisk only, as it is
built, or all of the cluster."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that the model builds on."""

    value: float
    unit: str
    source: str
    """Where it is from, with the date; `assumed` if nobody has measured it."""


_LOAD = "benchmark `load`, 2026-11-22"
_BUS = "nats-server 2.15, one server, a busy machine of two cores, 2026-11-24"
_KILLS = "engines killed beside a real Asterisk and NATS, 2026-11-24"
_LEDGER = "the example ledger (a real call of 46 s), 2026-11-21"
_FIT = "70 us with one batch a second, 130 us with three, 2026-11-24"
_CODE = "the engine's code, 2026-11-24"

CALLS = Figure(100, "calls of a full engine", _LOAD)
ENGINE = Figure(0.0019, "cores of the engine a call (AudioSocket)", _LOAD)
ASTERISK = Figure(0.0046, "cores of Asterisk a call (AudioSocket)", _LOAD)
LEASE = Figure(2.0, "s, life of a lease", _CODE)
RENEWAL = Figure(0.5, "s between renewals", _CODE)
ROOM = Figure(0.5, "s between two looks at the free places", _CODE)
LISTING = Figure(5.0, "s, longest listing of all calls; then it begins again", _CODE)
RECORD_WRITES = Figure(3, "writes of a record a call: offered, talking, removed", _CODE)
LINES = Figure(60 / 45.7, "lines of the ledger a second of a call", _LEDGER)
BYTES = Figure(10_031 / 45.7, "bytes of the ledger a second of a call", _LEDGER)
BATCHES = Figure(17 / 45.7, "batches of 200 ms a second of a call", _LEDGER)
LEASE_BYTES = Figure(285, "bytes of a lease", _BUS)
RECORD_BYTES = Figure(436, "bytes of a call record", _BUS)
BATCH_BYTES = Figure(130, "bytes of a batch beside its lines", "assumed")
WRITE = Figure(10e-6, "s of the server's processor a write, 8 to 11 us", _BUS)
READ = Figure(25e-6, "s of the server's processor a read of one entry", _BUS)
DELIVERY = Figure(2e-6, "s of the server's processor an entry delivered", _BUS)
CHANGE = Figure(18e-6, "s of an engine's processor an entry heard or listed", _BUS)
ENGINE_CALL = Figure(40e-6, "s of an engine's processor a second for a call on the bus", _FIT)
ENGINE_BATCH = Figure(30e-6, "s of an engine's processor a batch", _FIT)
DIALPLAN = Figure(0.14e-3, "s of the dialplan an engine", "6.2 ms with one, 7.3 ms with nine")
INDEX = Figure(93 / 100_000, "s to write a call into the history (SQLite)", "benchmark `history`")
REVOKE = Figure(0.0031, "s to remove a dead engine's user in Asterisk", "30 kills, 2026-11-24")
ARI = Figure(0.007, "s of commands to Asterisk an adopted call, one after the other", _KILLS)
MEDIA = Figure(0.020, "s until the first frame of the new media", _KILLS)
AGENT = Figure(0.077, "s from the answer to the agent's first sound", "benchmark `latency`")
DURATION = Figure(180, "s, mean length of a call", "assumed")
ROWS = Figure(12, "rows of the history a call, its marks among them", "assumed")
REPLICAS = Figure(3, "copies of each entry", "assumed")
FILL = Figure(0.8, "share of the places in use", "assumed")
FELLOWS = Figure(10, "engines at one Asterisk", "assumed")
LOST = Figure(0.1, "share of the engines that die at once", "assumed")


def figures() -> dict[str, Figure]:
    """Return all figures by name."""
    return {name: each for name, each in globals().items() if isinstance(each, Figure)}


def engine_share(batches: float) -> float:
    """Return seconds of an engine's processor a second for one call that sends so many batches a
    second: a line through the two measured points."""
    return ENGINE_CALL.value + batches * ENGINE_BATCH.value


@dataclass(frozen=True, slots=True)
class Plan:
    """A size of cluster."""

    calls: int
    """Live calls."""
    fill: float = FILL.value
    fellows: int = int(FELLOWS.value)

    @property
    def engines(self) -> int:
        return math.ceil(self.calls / (CALLS.value * self.fill))

    @property
    def asterisks(self) -> int:
        return math.ceil(self.engines / self.fellows)

    @property
    def dead(self) -> int:
        """Engines that die at once."""
        return max(1, round(self.engines * LOST.value))

    def seen(self, scope: Scope) -> float:
        """Engines of which one engine hears, itself among them."""
        return self.engines if scope == "cluster" else min(self.fellows, self.engines)


@dataclass(frozen=True, slots=True)
class Traffic:
    """A second of a cluster in which nothing breaks."""

    renewals: float
    """Leases written."""
    deliveries: float
    """Leases delivered to those who watch them."""
    lease_cores: float
    """Processors of NATS for leases: the stream's leader and the deliveries."""
    hearing: float
    """What hearing of the others costs an engine, as a share of what its calls cost."""
    own: float
    """What records and events of its own calls cost an engine, as such a share."""
    batches: float
    records: float
    """Call records written or removed."""
    event_bytes: float
    event_cores: float
    """Processors of the leader of the events."""
    kept_bytes: float
    """Events of a day, all copies."""
    rows: float
    """Rows of the history."""


def traffic(plan: Plan, scope: Scope) -> Traffic:
    """What a cluster writes and hears in a second."""
    changes = 2 * plan.calls / plan.engines / DURATION.value
    renewal = 1 / RENEWAL.value + (1 - math.exp(-changes * ROOM.value)) / ROOM.value
    renewals = plan.engines * renewal
    heard = plan.seen(scope) * renewal
    deliveries = plan.engines * heard
    batches = plan.calls * BATCHES.value
    event_bytes = plan.calls * BYTES.value + batches * BATCH_BYTES.value
    arrivals = plan.calls / DURATION.value
    return Traffic(
        renewals,
        deliveries,
        renewals * WRITE.value + deliveries * DELIVERY.value,
        heard * CHANGE.value * plan.engines / (plan.calls * ENGINE.value),
        engine_share(BATCHES.value) / ENGINE.value,
        batches,
        arrivals * RECORD_WRITES.value,
        event_bytes,
        batches * WRITE.value,
        event_bytes * 86_400 * REPLICAS.value,
        arrivals * ROWS.value,
    )


@dataclass(frozen=True, slots=True)
class Search:
    """What the survivors ask of the bus before the first call is claimed."""

    server: float
    """Seconds of one processor of NATS."""
    engine: float
    """Seconds of each survivor's processor."""
    longest_listing: float
    """Seconds of one listing, on an idle engine."""


def search(plan: Plan, scope: Scope) -> Search:
    """Each survivor examines each dead engine that it knows, marks it as revoked, and lists the
    calls. A read to examine, a read and one write or read to revoke."""
    known = 1.0 if scope == "cluster" else plan.seen(scope) / plan.engines
    dead, records = plan.dead * known, plan.calls * known
    survivors = plan.engines - plan.dead
    asked = 3 * READ.value + records * DELIVERY.value
    return Search(
        survivors * dead * asked,
        dead * (records * CHANGE.value + 3 * CHANGE.value),
        records * CHANGE.value,
    )


LIMITS: dict[str, str] = {
    "death": "one engine dies: the search for its calls takes a processor of NATS 3 s",
    "storm": "a tenth dies: that search takes 5 s, and every listing begins again, for ever",
    "hearing": "hearing of the others costs an engine 5 % of what its calls cost",
    "leases": "leases fill a processor of NATS",
    "events": "events fill a processor of the leader of their stream",
    "history": "one writer fills the history",
}
"""What ends the growth of a cluster, and when."""
NONE = 10**8
"""Calls that no limit has been looked for beyond."""


def largest(scope: Scope, limit: str) -> int:
    """Return the most calls, in steps of a tenth, before one of `LIMITS` is passed; or `NONE`."""
    calls = 100.0
    while calls < NONE:
        if _passed(Plan(round(calls)), scope)[limit]:
            return round(calls / 1.1)
        calls *= 1.1
    return NONE


def _passed(plan: Plan, scope: Scope) -> dict[str, bool]:
    now, wanted = traffic(plan, scope), search(plan, scope)
    return {
        "death": wanted.server / plan.dead > 3,
        "storm": wanted.server > LISTING.value,
        "hearing": now.hearing > 0.05,
        "leases": now.lease_cores > 1,
        "events": now.event_cores > 1,
        "history": plan.calls / DURATION.value * INDEX.value > 1,
    }
