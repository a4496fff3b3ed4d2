"""Start-up time of `cordboard run` with twenty MCP servers, five of them broken, and with none.

Both are started as new processes, in turns, each several times; one start before is not counted.
For some seconds after that `GET /ready` is polled: an engine that its servers hold up
would answer late, or would not be ready.

The same servers, except for the one that is not installed, are also started in this process, to
measure how long that blocks an event loop (`bench.mcp_hold`): calls may come in while they start,
and a reload may start them during calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from bench.engine_process import EngineProcess, demo_config, running_engine
from bench.mcp_hold import ticking
from bench.mcp_servers import COMMAND
from bench.report import Report, Summary, Target
from cordboard.config.mcp import Mcp
from cordboard.config.schema import Config
from cordboard.errors import McpError
from cordboard.mcp.fleet import Fleet

ROUNDS = 5
STARTS = 3
GOOD = 15
WATCHED = 5.0
"""Seconds for which the engine is watched after it was ready."""
EVERY = 0.02
STARTING = 2.0
"""Seconds within which the servers that are not slow have started."""
SLOW_START = 3
CONTEXT = "reception"
"""A context of the demo without an MCP tool."""
MISSING = "missing"
BROKEN: Mapping[str, list[str]] = {
    "mute": [*COMMAND, "mute"],
    "exits_at_once": [*COMMAND, "exits"],
    MISSING: ["no-such-mcp-server"],
    "garbage": ["yes", "Loading the model..."],
    "slow_start": ["sh", "-c", f"sleep {SLOW_START}; exec {' '.join(COMMAND)}"],
}
"""In order: never answers; ends with an error; is not installed; writes endless garbage; answers
after some seconds."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Boots:
    """All boots with the same servers, in seconds."""

    what: str
    ready: list[float] = field(default_factory=list)
    slowest_answer: list[float] = field(default_factory=list)
    """Slowest `GET /ready` of each boot, while it was watched."""
    all_good: list[float] = field(default_factory=list)
    """From exec until every working server was ready."""

    @property
    def row(self) -> list[str]:
        ready, answer = Summary.of(self.ready), Summary.of(self.slowest_answer)
        good = f"{Summary.of(self.all_good).median:.1f}" if self.all_good else ""
        cells = (ready.median, ready.least, ready.most)
        return [
            self.what,
            str(ready.count),
            *(f"{value:.2f}" for value in cells),
            f"{answer.median * 1000:.0f} / {answer.most * 1000:.0f}",
            good,
        ]


async def measure_boot(report: Report, progress: Progress) -> None:
    """Add a table, a target and a note on the broken servers to the report."""
    config = demo_config()
    none, twenty = Boots("no MCP server"), Boots("twenty, five broken")
    states: dict[str, str] = {}
    async with running_engine(config, _changes(config, {})) as engine:
        progress(f"boot: warm-up, ready after {engine.ready_after:.2f} s (not counted)")
    for _ in range(ROUNDS):
        async with running_engine(config, _changes(config, {})) as engine:
            none.ready.append(engine.ready_after)
            none.slowest_answer.append(await _watch(engine, None))
        async with running_engine(config, _changes(config, servers())) as engine:
            twenty.ready.append(engine.ready_after)
            twenty.slowest_answer.append(await _watch(engine, twenty))
            states = await _states(engine)
        progress(f"boot: {none.ready[-1]:.2f} s with none, {twenty.ready[-1]:.2f} s with twenty")
    heads = ["MCP servers", "n", "ready, s", "min", "max", "slowest /ready, ms", "15 up, s"]
    report.table("`cordboard run` to ready", heads, [none.row, twenty.row])
    broken = ", ".join(f"{name} is {states[name]}" for name in BROKEN)
    report.notes.append(f"{WATCHED:.0f} s after ready, of the broken ones: {broken}")
    ratio = Summary.of(twenty.ready).median / Summary.of(none.ready).median
    report.targets.append(Target("ready with twenty servers over none", ratio, 1.1, "times"))
    report.figures["boot"] = [
        {
            "servers": boots.what,
            "ready_s": boots.ready,
            "slowest_answer_s": boots.slowest_answer,
            "all_good_s": boots.all_good,
        }
        for boots in (none, twenty)
    ]
    report.figures["boot_states"] = states
    await _measure_start(report, progress)


async def _measure_start(report: Report, progress: Progress) -> None:
    installed = {name: server for name, server in servers().items() if name != MISSING}
    held = []
    for _ in range(STARTS):
        fleet = Fleet(Mcp.model_validate({"lock": "off", "servers": installed}))
        async with ticking() as gaps:
            fleet.start()
            await asyncio.sleep(STARTING)
        await fleet.close()
        held.append(gaps.longest)
        progress(f"boot: nineteen that start hold the event loop for {gaps.longest * 1000:.0f} ms")
    summary = Summary.of(held)
    median, most = (f"{seconds * 1000:.0f} ms" for seconds in (summary.median, summary.most))
    report.notes.append(
        f"nineteen servers that start at once hold an event loop for {median} (median of "
        f"{summary.count}), {most} at worst"
    )
    report.figures["start_held_s"] = held


def servers() -> dict[str, dict[str, Any]]:
    """The twenty, as in a configuration file; the broken ones are in between."""
    good = {f"good_{number}": {"command": list(COMMAND)} for number in range(GOOD)}
    broken = {name: {"command": command} for name, command in BROKEN.items()}
    return dict(sorted((good | broken).items()))


def _changes(config: Config, mcp_servers: Mapping[str, Any]) -> dict[str, Any]:
    context = config.contexts[CONTEXT].model_dump(mode="json", exclude_unset=True, by_alias=True)
    return {
        "default_context": CONTEXT,
        "contexts": {CONTEXT: context},
        "mcp": {"lock": "off", "servers": mcp_servers},
    }


async def _watch(engine: EngineProcess, boots: Boots | None) -> float:
    """Poll `GET /ready` for a while; return the seconds of the slowest answer.

    With `boots`, records there when all working servers were up. Raises `McpError` when the
    engine is no longer ready, or they are not.
    """
    ready_at = time.monotonic()
    good_at = 0.0
    slowest = 0.0
    while time.monotonic() < ready_at + WATCHED:
        began = time.monotonic()
        status, _ = await engine.get("/ready")
        slowest = max(slowest, time.monotonic() - began)
        if status != 200:
            raise McpError("the engine is no longer ready")
        if boots is not None and not good_at:
            states = await _states(engine)
            if all(states[f"good_{number}"] == "ready" for number in range(GOOD)):
                good_at = time.monotonic()
        await asyncio.sleep(EVERY)
    if boots is not None:
        if not good_at:
            raise McpError(f"the sound servers were not up within {WATCHED:.0f} s")
        boots.all_good.append(engine.ready_after + good_at - ready_at)
    return slowest


async def _states(engine: EngineProcess) -> dict[str, str]:
    """The state of every server by its id."""
    _, body = await engine.get("/mcp/status")
    return {server["server"]: server["state"] for server in orjson.loads(body)["servers"]}
