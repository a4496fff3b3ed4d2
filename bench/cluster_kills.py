"""Kills at random moments of one of three engines with calls. The part `kills` of the benchmark
`cluster`: who is adopted, by how many, how soon, and whether anything is ordered twice."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from bench.cluster_town import Caller, Engine, Town, town
from bench.options import Options
from bench.report import Report, Summary, Target
from cordboard.calls.events import Adopted, FirewallRefused
from cordboard.cluster.bus import listing
from cordboard.cluster.nats_bus import NatsBus
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.wire import decode_record
from cordboard.errors import CallOver

KILLS = 50
CALLS = 2
"""Calls of each engine at the moment of a kill, at least."""
SEED = 19
_EARLIEST, _LATEST = 0.1, 2.0
"""Seconds after the last greeting until a kill, at random: the agents order from 0.3 to 3 s on."""
_PATIENT = 8.0
"""Seconds in which an adopted caller must have heard the next engine."""

Progress = Callable[[str], None]


@dataclass(slots=True)
class Kills:
    """The outcome of all kills."""

    kills: int = 0
    lost_engine: int = 0
    """Calls of killed engines."""
    waits: list[float] = field(default_factory=list)
    """Seconds from the kill to the next engine's sound, of each adopted call."""
    adopters: Counter[int] = field(default_factory=Counter)
    """Engines that adopted a call after one kill → calls."""
    wrong_owner: int = 0
    """Adopted calls whose record names another engine than the one that has the caller."""
    orders: Counter[str] = field(default_factory=Counter)
    """Orders that the world got, by call."""
    refused: int = 0
    """Orders that a next agent repeated, and the firewall refused."""


async def measure(progress: Progress, options: Options, report: Report) -> None:
    """`options.calls`: so many kills. Raises `KitError`."""
    wanted, chance, found = options.calls or KILLS, random.Random(SEED), Kills()
    async with town() as place:
        for node in "abc":
            await place.start(node)
        await place.together()
        callers: list[Caller] = []
        for number in range(wanted):
            callers = await _one_kill(place, callers, chance, found)
            latest = f"{found.waits[-1]:.2f} s" if found.waits else "nobody adopted"
            progress(f"kill {number + 1} of {wanted}: {latest}, {len(found.waits)} adopted so far")
        for caller in callers:
            caller.line.hangup()
        found.orders.update(place.orders())
    _fill(report, found)


async def _one_kill(
    place: Town, callers: list[Caller], chance: random.Random, found: Kills
) -> list[Caller]:
    """Kill an engine and watch its callers; return the callers of the others."""
    while min(_calls_of(callers, engine) for engine in place.engines.values()) < CALLS:
        callers.append(await place.call())
    victim = chance.choice(sorted(place.engines.values(), key=lambda engine: engine.node))
    await asyncio.sleep(chance.uniform(_EARLIEST, _LATEST))
    lost = [caller for caller in callers if caller.engine is victim and not caller.line.end]
    killed = time.monotonic()
    await victim.kill()
    await place.start(victim.node)
    waits = await asyncio.gather(*(_wait(caller, killed) for caller in lost))
    adopted = [wait for wait in waits if wait is not None]
    found.kills += 1
    found.lost_engine += len(lost)
    found.waits += adopted
    survivors = [engine for engine in place.engines.values() if engine.node != victim.node]
    owners = await _owners(place)
    for caller in lost:
        takers = [each for each in survivors if _adopted_from(each, caller, victim)]
        found.adopters[len(takers)] += 1
        if len(takers) == 1 and owners.get(caller.call_id, "") != takers[0].instance:
            found.wrong_owner += 1
        found.refused += sum(_refused(each, caller) for each in takers)
        caller.line.hangup()
    await place.together()
    return [caller for caller in callers if caller not in lost]


def _calls_of(callers: list[Caller], engine: Engine) -> int:
    return sum(caller.engine is engine for caller in callers)


async def _wait(caller: Caller, killed: float) -> float | None:
    """Return seconds until the caller heard the next engine; None if they did not."""
    try:
        # A frame that was on its way at the kill is no new voice.
        return await caller.line.hear_speech(_PATIENT, after=killed + 0.2) - killed
    except (CallOver, TimeoutError):
        return None


async def _owners(place: Town) -> dict[str, str]:
    """Return the owner of each call, as the bus has it."""
    connection = NatsConnection(place.nats.settings, "benchmark")
    running = asyncio.create_task(connection.run())
    try:
        await connection.link()
        entries = (await listing(NatsBus(connection, "cordboard").all_calls)).values()
    finally:
        running.cancel()
        await asyncio.wait([running])
    records = [decode_record(entry.value) for entry in entries if entry.value is not None]
    return {record.call_id: record.owner for record in records}


def _lines(engine: Engine, caller: Caller) -> list[dict[str, object]]:
    path = engine.calls.get(caller.call_id)
    if path is None:
        return []
    content = path.read_bytes()
    return [orjson.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]


def _adopted_from(engine: Engine, caller: Caller, victim: Engine) -> bool:
    return any(
        line["type"] == Adopted.type and line["engine"] == victim.instance
        for line in _lines(engine, caller)
    )


def _refused(engine: Engine, caller: Caller) -> int:
    return sum(
        line["type"] == FirewallRefused.type and line["rule"] == "repeated"
        for line in _lines(engine, caller)
    )


def _fill(report: Report, found: Kills) -> None:
    by_two = sum(calls for takers, calls in found.adopters.items() if takers > 1)
    twice = sum(count > 1 for count in found.orders.values())
    share = 100 * len(found.waits) / found.lost_engine
    report.targets += [
        Target("kills: callers who went on with another engine", share, 99, "%", at_least=True),
        Target("kills: calls adopted by two engines", by_two + found.wrong_owner, 0, "calls"),
        Target("kills: calls with a destructive tool done twice", twice, 0, "calls"),
    ]
    row = [str(found.kills), str(found.lost_engine), str(len(found.waits))]
    if found.waits:
        waits = Summary.of(found.waits)
        report.targets.append(
            Target("kills: from the kill to the next engine's voice, p95", waits.p95, 3, "s")
        )
        row += [f"{each:.2f}" for each in (waits.median, waits.p95, waits.most)]
    row += [str(by_two), str(len(found.orders)), str(twice), str(found.refused)]
    heads = ["kills", "calls that lost their engine", "adopted", "median s", "p95 s", "longest s"]
    heads += ["by two", "calls that ordered", "ordered twice", "repetitions refused"]
    if found.waits:
        report.table("One of three engines is killed at a random moment", heads, [row])
    report.figures["kills"] = {
        "waits_s": found.waits,
        "adopters": {str(count): calls for count, calls in found.adopters.items()},
        "wrong_owner": found.wrong_owner,
        "orders": len(found.orders),
    }
