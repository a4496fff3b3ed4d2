"""What goes wrong, and when: drawn from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from .engine import Engine
from .processes import Process, later
from .world import NODES, World

FAULTS = (
    ("kill", 4),
    ("freeze", 4),
    ("cut_bus", 3),
    ("cut_bus_all", 1),
    ("lose_answers", 1),
    ("slow_bus", 1),
    ("cut_asterisk", 3),
    ("cut_ari", 2),
    ("hang_up", 1),
    ("call", 1),
    ("hand_over", 3),
    ("quit", 2),
    ("undrain", 1),
    ("stall_asterisk", 1),
    ("restart_asterisk", 0.3),
)
SETTLED_SECONDS = 8.0
HEALED_SECONDS = 75.0
FINISHED_SECONDS = 15.0


@dataclass(frozen=True)
class Act:
    at: float
    """Seconds since the start."""
    what: str
    node: str = ""
    seconds: float = 0.0
    after: str = ""
    """Event in the log of an engine, from `at` on, after which it happens; empty: at once."""
    delay: float = 0.0


MOMENTS = (
    "engine_gone",
    "lease_revoked",
    "adoption_begins",
    "call_adopted",
    "hand_over_begins",
    "fenced",
    "begins",
    "asked",
    "call_stays",
    "call_not_taken",
    "waiting_callers_taken",
    "lease_state",
    "lease_lost",
    "ari_connected",
    "ari_disconnected",
    "call_not_adopted",
    "ends",
)


def drawn(chance: random.Random) -> list[Act]:
    """Draw what happens."""
    acts = [Act(chance.uniform(5.5, 8.0), "call") for _ in range(chance.randint(2, 7))]
    at = SETTLED_SECONDS + chance.uniform(0.5, 3.0)
    names, weights = zip(*FAULTS, strict=True)
    targeted = chance.choice((0.2, 0.4, 0.9))  # part of the faults that wait for an event
    for _ in range(chance.choice((2, 2, 3, 3, 4, 5, 6))):
        (what,) = chance.choices(names, weights)
        seconds = chance.choice((chance.uniform(0.2, 3.0), chance.uniform(2.0, 8.0), 15.0, 30.0))
        after = (
            chance.choice(MOMENTS)
            if chance.random() < targeted and at > SETTLED_SECONDS + 3
            else ""
        )
        delay = chance.choice(
            (0.0, chance.uniform(0, 0.02), chance.uniform(0, 1), chance.uniform(0, 4))
        )
        node = chance.choice((*NODES, "") if after else NODES)
        acts.append(Act(at, what, node, seconds, after, delay))
        at += chance.choice(
            (
                0.0,
                chance.uniform(0.0, 0.06),
                chance.uniform(0.0, 1.0),
                chance.uniform(1.7, 3.6),
                chance.uniform(0.0, 12.0),
            )
        )
    last = at
    for what in ("call", "hang_up"):
        count = chance.randint(0, 3)
        acts += [Act(chance.uniform(SETTLED_SECONDS, last + 6), what) for _ in range(count)]
    return sorted(acts, key=lambda act: act.at)


async def happen(world: World, acts: list[Act]) -> None:
    """Have everything happen, and heal."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for node in NODES:
        world.start(node)
    restarting = asyncio.create_task(world.restart_nodes())
    end = began
    for act in acts:
        await asyncio.sleep(max(0.0, began + act.at - loop.time()))
        if act.after:
            world.triggers.setdefault(act.after, []).append(partial(soon, world, act))
        else:
            do(world, act)
        end = max(end, loop.time() + act.seconds)
    await asyncio.sleep(end - loop.time() + world.chance.uniform(0.0, 8.0))
    world.note("heals")
    world.triggers.clear()
    world.heal()
    await asyncio.sleep(HEALED_SECONDS)
    restarting.cancel()


def soon(world: World, act: Act, process: Process) -> None:
    """Have something happen in a moment, to an engine that has just logged something."""
    node = act.node or process.name[0]
    later(act.delay, do_if_ill, world, replace(act, node=node))


def do_if_ill(world: World, act: Act) -> None:
    if not world.healed:
        do(world, act)


def do(world: World, act: Act) -> None:
    """Have something happen now."""
    if act.what in OF_ALL:
        OF_ALL[act.what](world, act)
    elif (engine := world.engine(act.node)) is not None:
        world.note(f"{engine.name}: {act.what} {act.seconds:.2f} s")
        OF_ENGINES[act.what](world, engine, act)


def _call(world: World, _: Act) -> None:
    channel = world.asterisk.call(f"caller-{len(world.asterisk.callers)}")
    world.note(f"{channel.id} calls: {channel.app or channel.ended}")


def _hang_up(world: World, _: Act) -> None:
    live = [each for each in world.asterisk.callers.values() if not each.ended]
    if live:
        channel = world.chance.choice(live)
        world.note(f"{channel.id} hangs up")
        world.asterisk.hang_up(channel, "caller")


def _restart_asterisk(world: World, _: Act) -> None:
    world.note("Asterisk restarts")
    world.asterisk.restart(2.0)


def _stall_asterisk(world: World, act: Act) -> None:
    seconds = min(act.seconds, 6.0)
    world.note(f"Asterisk stands still for {seconds:.2f} s")
    world.asterisk.stalled_until = asyncio.get_running_loop().time() + seconds


def _cut_bus_all(world: World, act: Act) -> None:
    world.note(f"the bus is away for {act.seconds:.2f} s")
    for engine in world.living:
        world.cut_bus(engine, act.seconds)


OF_ALL: dict[str, Callable[[World, Act], None]] = {
    "call": _call,
    "hang_up": _hang_up,
    "restart_asterisk": _restart_asterisk,
    "stall_asterisk": _stall_asterisk,
    "cut_bus_all": _cut_bus_all,
    "late_record": lambda world, act: world.leave_record("dead-000001", "caller-0"),
}
OF_ENGINES: dict[str, Callable[[World, Engine, Act], None]] = {
    "kill": lambda world, engine, act: world.kill(engine),
    "freeze": lambda world, engine, act: world.freeze(engine, act.seconds),
    "cut_bus": lambda world, engine, act: world.cut_bus(engine, act.seconds),
    "cut_asterisk": lambda world, engine, act: world.cut_asterisk(engine, act.seconds),
    "lose_answers": lambda world, engine, act: world.lose_answers(engine, act.seconds),
    "slow_bus": lambda world, engine, act: world.slow_bus(engine, act.seconds),
    "cut_ari": lambda world, engine, act: world.cut_asterisk(engine, act.seconds, sound=False),
    "quit": lambda world, engine, act: engine.process.do(engine.ordered_to_stop.set),
    "hand_over": lambda world, engine, act: engine.process.do(engine.order, "hand_over"),
    "undrain": lambda world, engine, act: engine.process.do(engine.order, "undrain"),
}


async def finish(world: World) -> None:
    """Have all callers hang up, and wait until that is over."""
    for channel in list(world.asterisk.callers.values()):
        world.asterisk.hang_up(channel, "caller")
    await asyncio.sleep(FINISHED_SECONDS)


async def stop_all(world: World) -> None:
    """Have all engines stop in order."""
    for engine in world.living:
        engine.process.do(engine.ordered_to_stop.set)
    await asyncio.sleep(FINISHED_SECONDS)
