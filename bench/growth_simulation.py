"""Placement of callers and recovery after deaths, in virtual time; the same for the same seed."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

from bench import growth_model as model
from bench.growth_model import Plan, Scope, search

_FULL = round(model.CALLS.value)
_FELLOWS = round(model.FELLOWS.value)


@dataclass(slots=True)
class Placed:
    """The outcome of a simulated placement."""

    offered: int = 0
    refused: int = 0
    """Calls for which no engine at their Asterisk had room."""
    retries: int = 0
    """Engines that were tried although they were full: the variables were late."""
    spread: float = 0.0
    """Standard deviation of the live calls of an engine from the mean of its Asterisk."""
    fullest: int = 0
    """Most live calls of an engine at the end."""
    herd: int = 0
    """Most calls that one engine got within one period of the variables."""


@dataclass(slots=True)
class _Engine:
    period: float
    phase: float
    live: int = 0
    shown: int = 0
    tick: int = -1
    got: int = 0
    got_tick: int = -1

    def at(self, now: float) -> int:
        return int((now + self.phase) / self.period)

    def free(self, now: float) -> int:
        """Return the free places as the dialplan sees them."""
        return _FULL - (self.live if self.at(now) > self.tick else self.shown)

    def change(self, now: float, by: int) -> None:
        tick = self.at(now)
        if tick > self.tick:
            self.shown, self.tick = self.live, tick
        self.live += by

    def receive(self, now: float) -> int:
        """Take a call; return how many came within this period."""
        tick = self.at(now)
        self.got = self.got + 1 if tick == self.got_tick else 1
        self.got_tick = tick
        self.change(now, 1)
        return self.got


def place(calls: int, fill: float, period: float, seconds: float, seed: int = 1) -> Placed:
    """Callers come at random, to an Asterisk at random, which asks its engines in the order of
    their free places as they were shown last. As many Asterisks as `calls` need."""
    chance = random.Random(seed)
    pods = max(1, round(calls / (fill * _FULL * _FELLOWS)))
    engines = [_Engine(period, chance.random() * period) for _ in range(pods * _FELLOWS)]
    mean = model.DURATION.value
    ends: list[tuple[float, int]] = []
    for number, engine in enumerate(engines):
        engine.live = round(fill * _FULL)
        engine.shown = engine.live
        ends += [(chance.expovariate(1 / mean), number) for _ in range(engine.live)]
    heapq.heapify(ends)
    rate = len(ends) / mean
    placed, now = Placed(), 0.0
    while (now := now + chance.expovariate(rate)) < seconds:
        while ends[0][0] < now:
            end, number = heapq.heappop(ends)
            engines[number].change(end, -1)
        _arrive(engines, chance, now, ends, placed)
    squares = 0.0
    for first in range(0, len(engines), _FELLOWS):
        live = [engine.live for engine in engines[first : first + _FELLOWS]]
        middle = sum(live) / len(live)
        squares += sum((each - middle) ** 2 for each in live)
    placed.fullest = max(engine.live for engine in engines)
    placed.spread = (squares / len(engines)) ** 0.5
    return placed


def _arrive(
    engines: list[_Engine],
    chance: random.Random,
    now: float,
    ends: list[tuple[float, int]],
    placed: Placed,
) -> None:
    first = _FELLOWS * int(chance.random() * (len(engines) // _FELLOWS))
    seen = [(-engines[at].free(now), at) for at in range(first, first + _FELLOWS)]
    placed.offered += 1
    for free, at in sorted(seen):
        if free >= 0:
            break  # shown as full: not in the dialplan's choice
        engine = engines[at]
        if engine.live < _FULL:
            placed.herd = max(placed.herd, engine.receive(now))
            heapq.heappush(ends, (now + chance.expovariate(1 / model.DURATION.value), at))
            return
        placed.retries += 1
    placed.refused += 1


@dataclass(slots=True)
class Recovery:
    """The outcome of a simulated loss of engines."""

    calls: int = 0
    """Calls of the dead engines."""
    waits: list[float] = field(default_factory=list)
    """Seconds from the death to the new voice, of each adopted call."""
    no_room: int = 0
    """Calls for which no engine at their Asterisk had room; they get a decent end."""
    no_engine: int = 0
    """Calls at an Asterisk all of whose engines died."""
    stuck: bool = False
    """True if no listing of the calls ends in time, as built: nobody is adopted. `waits` are then
    those of listings that take as long as they need."""


def recover(plan: Plan, scope: Scope, *, seed: int = 1) -> Recovery:
    """A part of the engines dies at once, chosen at random; the others at their Asterisk take over.

    A call passes through three lines: its claim on the bus (one processor of NATS for the whole
    cluster), the commands to its Asterisk (one after the other), then its media and agent, which
    wait for nobody. Searches of the survivors come before all claims.
    """
    chance = random.Random(seed)
    everyone = list(range(plan.engines))
    dead = set(chance.sample(everyone, plan.dead))
    each, more = divmod(plan.calls, plan.engines)
    live = [each + (engine < more) for engine in everyone]
    wanted = search(plan, scope)
    recovery = Recovery(stuck=wanted.server > model.LISTING.value)
    claims: list[tuple[float, int]] = []
    for pod in range(plan.asterisks):
        fellows = everyone[pod :: plan.asterisks]
        heirs = [each for each in fellows if each not in dead]
        room = sum(_FULL - live[each] for each in heirs)
        for victim in (each for each in fellows if each in dead):
            # The lease runs from the last renewal, which the death came some time after.
            noticed = model.LEASE.value - chance.random() * model.RENEWAL.value
            adopted = min(live[victim], room)
            room -= adopted
            recovery.calls += live[victim]
            if heirs:
                recovery.no_room += live[victim] - adopted
            else:
                recovery.no_engine += live[victim]
            claims += [(noticed + wanted.engine, pod)] * adopted
    claims.sort()
    _adopt(claims, model.LEASE.value - model.RENEWAL.value + wanted.server, recovery)
    return recovery


def in_cells(calls: int, cell: int, *, seed: int = 1) -> Recovery:
    """The same in clusters of `cell` calls, each with a bus of its own."""
    return often(Plan(min(cell, calls)), "asterisk", max(1, round(calls / cell)), seed=seed)


def often(plan: Plan, scope: Scope, times: int, *, seed: int = 1) -> Recovery:
    """Return the sum of several losses of different engines, each in a cluster by itself."""
    whole = Recovery()
    for number in range(times):
        one = recover(plan, scope, seed=seed + number)
        whole.calls += one.calls
        whole.waits += one.waits
        whole.no_room += one.no_room
        whole.no_engine += one.no_engine
        whole.stuck |= one.stuck
    return whole


def _adopt(claims: list[tuple[float, int]], bus_free: float, recovery: Recovery) -> None:
    """Let the calls pass through the lines, each of which serves in order of arrival."""
    asterisk_free: dict[int, float] = {}
    for at, pod in claims:
        bus_free = max(at, bus_free) + 2 * model.READ.value + model.WRITE.value
        first = model.REVOKE.value if pod not in asterisk_free else 0.0
        begin = max(bus_free, asterisk_free.get(pod, 0.0)) + first
        asterisk_free[pod] = begin + model.ARI.value
        recovery.waits.append(asterisk_free[pod] + model.MEDIA.value + model.AGENT.value)
