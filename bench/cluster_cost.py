"""What a cluster costs an engine: the same calls, in turns, at one that is alone and at one of a
cluster. The part `cost` of the benchmark `cluster`.

With `turns` each call is a conversation, whose ledger goes to the bus. With `echo` no line is
written: each frame comes and goes. An engine of a cluster also renews its lease and hears the
others, whether it has calls or not: measured without calls, and taken off where a frame's cost is
asked for.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from bench.cluster_town import Engine, Town, town
from bench.load import spent
from bench.options import Options
from bench.report import Report, Target

AGENTS = ("turns", "echo")
ROUNDS = 5
CALLS = 40
SECONDS = 5
_SETTLE = 1.5
"""Seconds after the last answer until counting begins."""
_FRAMES = 50
"""Frames of a call a second, in each direction."""
WAYS = ("alone", "in a cluster")

Progress = Callable[[str], None]
Costs = dict[tuple[str, str], list[float]]
"""Seconds of the engine's processor a second, of each round, by agent and way."""


async def measure(progress: Progress, options: Options, report: Report) -> None:
    """`options.seconds`: of each measurement. Raises `KitError`."""
    found: Costs = {(agent, way): [] for agent in AGENTS for way in WAYS}
    idle: Costs = {key: [] for key in found}
    async with town() as place:
        engines: dict[tuple[str, str], Engine] = {}
        for agent in AGENTS:
            engines[agent, WAYS[0]] = await place.start(f"solo-{agent}", agent, alone=True)
            engines[agent, WAYS[1]] = await place.start(agent, agent)
        await place.together()
        for number in range(ROUNDS):
            for agent, way in found:
                engine = engines[agent, way]
                seconds = options.seconds or SECONDS
                await asyncio.sleep(_SETTLE)
                idle[agent, way].append(await _cost(engine, seconds))
                async with _calls(place, engine):
                    found[agent, way].append(await _cost(engine, seconds))
                progress(
                    f"round {number + 1} of {ROUNDS}: {agent}, {way}: "
                    f"{1e6 * found[agent, way][-1] / CALLS:.0f} us a second for a call, "
                    f"{1e3 * idle[agent, way][-1]:.1f} ms without calls"
                )
    _fill(report, found, idle)


@asynccontextmanager
async def _calls(place: Town, engine: Engine) -> AsyncIterator[None]:
    """`CALLS` callers of an engine, who have been answered for a while."""
    extension = f"cordboard-{engine.instance}" if engine.instance else engine.node
    callers = [await place.dial(extension) for _ in range(CALLS)]
    await asyncio.gather(*(caller.line.answered() for caller in callers))
    await asyncio.sleep(_SETTLE)
    yield
    for caller in callers:
        caller.line.hangup()
    await asyncio.gather(*(caller.line.ended() for caller in callers))


async def _cost(engine: Engine, seconds: float) -> float:
    """Return seconds of the engine's processor a second, from now on."""
    before, began = spent(engine.process.pid)[0], time.monotonic()
    await asyncio.sleep(seconds)
    return (spent(engine.process.pid)[0] - before) / (time.monotonic() - began)


def _fill(report: Report, found: Costs, idle: Costs) -> None:
    rows = []
    for (agent, way), costs in found.items():
        cells = (statistics.median(costs), min(costs), max(costs))
        without = f"{1e3 * statistics.median(idle[agent, way]):.1f}"
        row = [f"{agent}, {way}", *(f"{1e6 * each / CALLS:.0f}" for each in cells), without]
        rows.append(row)
    heads = ["engine", "us a second for a call, median", "least", "most", "ms without calls"]
    report.table(f"The engine's processor, {CALLS} calls", heads, rows)
    alone, joined = (found["turns", way] for way in WAYS)
    share = 100 * _added(alone, joined) / statistics.median(alone)
    report.targets.append(Target("cost: of a call in a cluster, beside one alone", share, 5, "%"))
    quiet, busy = (
        [
            cost - without
            for cost, without in zip(found["echo", way], idle["echo", way], strict=True)
        ]
        for way in WAYS
    )
    frames = _FRAMES * CALLS
    report.targets.append(
        Target("cost: added to a frame (no more than one engine's own rounds differ)",
               1e6 * _added(quiet, busy) / frames, 1e6 * (max(quiet) - min(quiet)) / frames, "us")
    )  # fmt: skip
    report.figures["cost_s"] = {f"{agent}, {way}": costs for (agent, way), costs in found.items()}
    report.figures["idle_s"] = {f"{agent}, {way}": costs for (agent, way), costs in idle.items()}


def _added(alone: Sequence[float], joined: Sequence[float]) -> float:
    """Return the median difference of the rounds, which lie one beside the other."""
    return statistics.median(b - a for a, b in zip(alone, joined, strict=True))
