"""The desk and the toolbox without any server: time, memory, tools side by side, fillers, firewall.

The tool here does nothing, so the time of an ask is the desk's own: a bare `Tool.run` in turns with
it is the floor. `python -m bench.desk_cost` prints the memory of ten thousand tools; it runs in a
process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import orjson
import psutil

from bench.cluster_town import eventually
from bench.report import Report, Summary, Target
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.config.sections.firewall import Firewall as FirewallRules
from cordboard.config.sections.outbound import Outbound
from cordboard.config.tools.entry import TransferDestination
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import TRANSFER, Policy
from cordboard.observe.logging import configure
from cordboard.observe.metrics import Metrics
from cordboard.tools.call_line import NoCaller
from cordboard.tools.catalogue import Catalogue, ToolEntry
from cordboard.tools.desk.desk import Desk, SilentObserver
from cordboard.tools.tool import (
    Filler,
    JsonObject,
    ToolAsk,
    ToolResult,
    ToolRun,
    ToolSpec,
)
from cordboard.tools.toolbox import Toolbox
from cordboard_testkit.nats_server import NatsServer

TOOLS = 10_000
LISTED = 128
"""Tools of one context: the most that OpenAI accepts."""
ASKS = 5_000
LOOK_UPS = 200_000
SIDE_BY_SIDE = 10
CALLS = 50
"""Calls that have a slow tool at once, for the fillers."""
THRESHOLD_MS = 300
ENGINES = 4
"""Those of the cluster in which the firewall is measured."""
TRANSFERS = 50
"""Of each of the others."""
_SETTLE = 2.0
"""Seconds until the others' counts have arrived."""
NO_FILLER = Filler()
DESCRIPTION = "What the caller wants of it, in a few words that a model can understand at once."


@dataclass(slots=True)
class Instant:
    """A tool that answers at once, or after a while."""

    spec: ToolSpec
    seconds: float = 0.0

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        data = {"place": arguments.get("place"), "degrees": 21.5, "wind": {"knots": 12}}
        return ToolResult(message="It is 21.5 degrees in Oslo.", data=data)


def tool(name: str, seconds: float = 0.0, filler: Filler | None = None) -> Instant:
    """A tool with a schema of its own of about 1 kB, as a server would list it."""
    spec = ToolSpec(
        name,
        "python",
        f"Tool {name}: {DESCRIPTION}",
        orjson.loads(_SCHEMA),
        origin=f"python:{name}",
        filler=filler or NO_FILLER,
    )
    return Instant(spec, seconds)


_SCHEMA = orjson.dumps(
    {
        "type": "object",
        "properties": {
            "place": {"type": "string", "minLength": 1, "maxLength": 80},
            **{
                f"field_{number}": {"type": "string", "description": f"{number}: {DESCRIPTION}"}
                for number in range(7)
            },
        },
        "required": ["place"],
        "additionalProperties": False,
    }
)


def box(*tools: Instant) -> Toolbox:
    catalogue = Catalogue(ToolEntry(each) for each in tools)
    return catalogue.toolbox(catalogue)


async def measure(report: Report) -> None:
    """Add everything to the report."""
    costs = await _costs()
    logged = await _costs_with_log()
    summary = Summary.of(costs)
    at_once = await _side_by_side()
    late = await _fillers()
    guarded, sent = await _firewall(Counts())
    async with counts_of_a_cluster() as shared:
        _, sent_shared = await _firewall(shared)
    memory = await _memory()
    names = [f"tool_{number}" for number in range(TOOLS)]
    catalogue = Catalogue(ToolEntry(tool(name)) for name in names)
    listed = names[:: TOOLS // LISTED][:LISTED]
    made = Summary.of([_timed(lambda: catalogue.toolbox(listed)) for _ in range(300)])
    few, many = catalogue.toolbox(names[:10]), catalogue.toolbox(names)
    ratio = _look_up(many, names[-1]) / _look_up(few, names[9])
    rows = [
        ["desk over a bare run, us", summary.count, summary.median * 1e6, summary.p99 * 1e6],
        ["the same with its log line, us", len(logged), *_two(logged, 1e6)],
        [f"toolbox of {LISTED} from {TOOLS}, us", made.count, made.median * 1e6, made.p99 * 1e6],
        ["three tools of 1 s at once, ms", len(at_once), *_two(at_once, 1e3)],
        ["filler behind its threshold, ms", len(late), *_two(late, 1e3)],
        ["firewall on a tool call, us", len(guarded), *_two(guarded, 1e6)],
        ["firewall on a transfer, us", len(sent), *_two(sent, 1e6)],
        [f"the same, one of {ENGINES} engines, us", len(sent_shared), *_two(sent_shared, 1e6)],
    ]
    shown = [[str(row[0]), str(row[1]), f"{row[2]:.2f}", f"{row[3]:.2f}"] for row in rows]
    report.table("Desk and toolbox alone", ["what", "n", "p50", "p99"], shown)
    report.targets += [
        Target("desk over a bare run, p50", summary.median * 1e3, 0.1, "ms"),
        Target("desk over a bare run, p99", summary.p99 * 1e3, 0.5, "ms"),
        Target("firewall on a tool call, p99", Summary.of(guarded).p99 * 1e3, 0.1, "ms"),
        Target("firewall on a transfer, p99", Summary.of(sent).p99 * 1e3, 0.1, "ms"),
        Target(
            f"firewall on a transfer, one of {ENGINES} engines, p99",
            Summary.of(sent_shared).p99 * 1e3,
            0.1,
            "ms",
        ),
        Target(f"look-up among {TOOLS} tools over one among 10", ratio, 1.5, "times"),
        Target(f"toolbox from {TOOLS} tools, p99", made.p99 * 1e3, 1.0, "ms"),
        Target(f"memory of a tool with {len(_SCHEMA)} bytes of schema", memory / 1024, 4.0, "kB"),
        Target("three tools of 1 s at once, worst", max(at_once), 1.1, "s"),
        Target("filler behind its threshold, worst", max(late) * 1e3, 50.0, "ms"),
    ]
    report.figures |= {"over_bare_s": costs, "at_once_s": at_once, "filler_late_s": late}
    report.figures |= {"firewall_s": guarded, "firewall_transfer_s": sent}
    report.figures |= {"firewall_shared_transfer_s": sent_shared}


def _two(values: list[float], scale: float) -> tuple[float, float]:
    summary = Summary.of(values)
    return summary.median * scale, summary.p99 * scale


async def _costs() -> list[float]:
    """Seconds by which each ask is slower than the bare run before it."""
    one = tool("weather")
    desk = Desk(box(one), NoCaller("bench", "demo"))
    arguments: JsonObject = {"place": "Oslo", "field_1": "the weather of tomorrow"}
    run = _BareRun()
    costs = []
    for turn in range(ASKS + 200):
        began = time.perf_counter()
        await one.run(arguments, run)
        between = time.perf_counter()
        reply = await desk.run(ToolAsk(f"{turn}.1", "weather", arguments, turn))
        ended = time.perf_counter()
        if not reply.ok:
            raise RuntimeError(reply.message)
        if turn >= 200:
            costs.append((ended - between) - (between - began))
        if turn % 50 == 0:
            await asyncio.sleep(0)
    return costs


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")


async def _costs_with_log() -> list[float]:
    """The same with log lines, as in an engine; they are discarded."""
    with _nowhere() as nowhere:
        configure(json=True, level="INFO", stream=nowhere)
        try:
            return await _costs()
        finally:
            configure(json=False, level="ERROR")


class _BareRun:
    """Implements `ToolRun`, and does nothing itself."""

    line = NoCaller("bench", "demo")
    unrecorded: tuple[str, ...] = ()
    ask_id = "bare"
    idempotency_key = "bench:bare"

    def progress(self, note: str = "") -> None:
        pass

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        return ToolResult()


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _look_up(toolbox: Toolbox, name: str) -> float:
    """Seconds of one lookup, the best of five."""

    def many() -> None:
        find = toolbox.find
        for _ in range(LOOK_UPS):
            find(name)

    return min(_timed(many) for _ in range(5)) / LOOK_UPS


async def _side_by_side() -> list[float]:
    """Seconds until the last of three simultaneous tools of 1 s has answered."""
    desk = Desk(box(*(tool(name, 1.0) for name in "abc")), NoCaller("bench", "demo"))
    took = []
    for turn in range(SIDE_BY_SIDE):
        began = time.perf_counter()
        asks = [ToolAsk(f"{turn}.{name}", name, {"place": "Oslo"}, turn) for name in "abc"]
        await asyncio.gather(*map(desk.run, asks))
        took.append(time.perf_counter() - began)
    return took


class Stopwatch(SilentObserver):
    """Records the times of fillers."""

    def __init__(self) -> None:
        self.began = 0.0
        self.delays: list[float] = []

    def filler(self, ask: ToolAsk, text: str) -> None:
        self.delays.append(time.perf_counter() - self.began - THRESHOLD_MS / 1000)


async def _fillers() -> list[float]:
    """Delay of each filler after its threshold, with many calls at once."""
    slow = tool("slow", 1.0, Filler(THRESHOLD_MS, ("One moment.",)))
    watches = [Stopwatch() for _ in range(CALLS)]
    toolbox = box(slow)

    async def one(watch: Stopwatch) -> None:
        desk = Desk(toolbox, NoCaller("bench", "demo"), watch)
        watch.began = time.perf_counter()
        await desk.run(ToolAsk("1", "slow", {"place": "Oslo"}, 1))

    await asyncio.gather(*map(one, watches))
    return [late for watch in watches for late in watch.delays]


async def _firewall(counts: Counts) -> tuple[list[float], list[float]]:
    """Seconds that the firewall adds to a tool call, and to a transfer.

    The tool is privileged and has two arguments with places, one of them a number; its answer is
    noted, too. Every number is new, so that none was read before. For the transfer, which is judged
    as a tool call and at the line, caps count in all scopes.
    """
    with tempfile.TemporaryDirectory() as folder:
        writer = LedgerWriter()
        ledger = Ledger(writer, Path(folder) / "bench.jsonl", 0.0)
        guard = _guard(counts, ledger)
        tools, transfers = [], []
        for turn in range(ASKS + 200):
            number = f"+4722{turn:06}"
            called = ToolResult(data={"number": number})
            guard.answered(ToolAsk("0", "call_back", {}), _CALL_BACK, called)
            ask = ToolAsk(f"{turn}", "call_back", {"number": number, "name": "Kari"}, turn)
            began = time.perf_counter()
            decision = guard.check(ask, _CALL_BACK)
            guard.answered(ask, _CALL_BACK, called)
            between = time.perf_counter()
            sends = guard.check(ToolAsk(f"{turn}.t", TRANSFER, {"destination": "sales"}), _TRANSFER)
            leg = guard.transfer("sales", "agent")
            ended = time.perf_counter()
            guard.usage.ended(leg)
            for each in (decision, sends):
                if not each.allowed:
                    raise RuntimeError(each.why)
            if turn >= 200:
                tools.append(between - began)
                transfers.append(ended - between)
            await asyncio.sleep(0)
        writer.close()
    return tools, transfers


def _guard(counts: Counts, ledger: Ledger) -> CallFirewall:
    policy = Policy(FirewallRules.model_validate(_RULES), {"sales": _SALES})
    variables = {"caller_number": "+4791234567", "NAME": "Kari"}
    return CallFirewall(policy, counts, ledger, Metrics(), "demo", variables, dict, Outbound())


@asynccontextmanager
async def counts_of_a_cluster() -> AsyncIterator[Counts]:
    """The counts of one of `ENGINES` engines that share them by a real NATS server; each of the
    others has counted transfers of the same caller and context. Raises `KitError`."""
    from cordboard.cluster.nats_bus import NatsBus
    from cordboard.cluster.nats_connection import NatsConnection
    from cordboard.cluster.shared_counts import SharedCounts
    from cordboard.config.sections.cluster import Nats

    names = [f"engine{number}" for number in range(ENGINES)]
    with NatsServer() as nats, tempfile.TemporaryDirectory() as folder:
        writer, all_counts, tasks = LedgerWriter(), [], []

        async def agreed() -> bool:
            return all(each.engines == ENGINES and not each.away for _, each in all_counts)

        for name in names:
            connection = NatsConnection(Nats(servers=[nats.url]), name)
            bus, counts = NatsBus(connection, "bench"), Counts()
            others = [f"{other}-1" for other in names if other != name]
            shared = SharedCounts(bus.counts, counts, name, f"{name}-1", others.copy)
            tasks += [asyncio.create_task(bus.run()), asyncio.create_task(shared.run())]
            all_counts.append((counts, shared))
        try:
            await eventually(agreed, "the engines share their counts")
            for counts, _ in all_counts[1:]:
                guard = _guard(counts, Ledger(writer, Path(folder) / "others.jsonl", 0.0))
                for _ in range(TRANSFERS):
                    guard.usage.ended(guard.transfer("sales", "agent"))
            await asyncio.sleep(_SETTLE)
            yield all_counts[0][0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            writer.close()


_CALL_BACK = ToolSpec("call_back", "python", DESCRIPTION, {"type": "object"})
_TRANSFER = ToolSpec(TRANSFER, "builtin", DESCRIPTION, {"type": "object"})
_SALES = TransferDestination(target="+4722334455")
_CAPS = {"calls_per_hour": 100_000, "calls_per_day": 100_000, "minutes_per_day": 1e6}
_RULES = {
    "country": "NO",
    "trusted_tools": ["call_back"],
    "tools": {
        "call_back": {
            "arguments": {
                "number": {"from": ["tools.call_back.number"], "number": True},
                "name": {"from": ["caller_number", "variables.NAME"]},
            }
        }
    },
    "destinations": {"sales": {"tainted": "refuse"}},
    "outgoing": {"per_caller": _CAPS, "per_context": _CAPS, "total": _CAPS},
}


async def _memory() -> float:
    """Resident bytes per tool of ten thousand additional tools, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.desk_cost", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return float(output)


def _memory_here() -> float:
    """The first catalogue leaves gaps that the second one fills: the cost of one more tool."""
    process = psutil.Process()
    first = Catalogue(ToolEntry(tool(f"first_{number}")) for number in range(TOOLS))
    gc.collect()
    before = process.memory_info().rss
    second = Catalogue(ToolEntry(tool(f"second_{number}")) for number in range(TOOLS))
    gc.collect()
    return (process.memory_info().rss - before) / (len(first) + len(second)) * 2


if __name__ == "__main__":
    print(_memory_here())
