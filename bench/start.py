"""Start-up time of `cordboard run`, and its memory when idle.

Each round starts the demo's configuration as a new process, with the files in the page cache (one
round before is not counted), and waits until `GET /ready` returns 200; the MCP server may follow.
Memory is read one second after everything is up: resident set size, shared pages counted in full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.engine_process import demo_config, running_engine
from bench.report import Report, Summary, Target

ROUNDS = 5
SETTLE = 1.0
MB = 1e6
Progress = Callable[[str], None]


async def measure(progress: Progress) -> Report:
    config = demo_config()
    seconds, engines, trees = [], [], []
    for number in range(ROUNDS + 1):
        async with running_engine(config) as engine:
            if number == 0:
                progress(f"warm-up: ready after {engine.ready_after:.2f} s (not counted)")
                continue
            seconds.append(engine.ready_after)
            await engine.ready(tools=True)
            await asyncio.sleep(SETTLE)
            own = resident_mb(engine.pid)
            whole = sum(map(resident_mb, _tree(engine.pid)))
            engines.append(own)
            trees.append(whole)
            progress(f"ready after {engine.ready_after:.2f} s, {own:.0f} MB, tree {whole:.0f} MB")
    return _report(seconds, engines, trees)


def resident_mb(pid: int) -> float:
    """Resident set size, `VmRSS` of proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / MB


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from _tree(int(child))


def _report(seconds: list[float], engines: list[float], trees: list[float]) -> Report:
    report = Report("start")
    ready, own, whole = Summary.of(seconds), Summary.of(engines), Summary.of(trees)
    rows = [
        [name, str(s.count), f"{s.median:.2f}", f"{s.least:.2f}", f"{s.most:.2f}"]
        for name, s in (
            ("exec to /ready, s", ready),
            ("idle memory of the engine, MB", own),
            ("the same with its MCP server, MB", whole),
        )
    ]
    report.table("Start", ["measured", "n", "median", "min", "max"], rows)
    report.targets = [
        Target("ready, median", ready.median, 3, "s"),
        Target("idle memory of the engine", own.median, 500, "MB"),
    ]
    report.figures = {"ready_s": seconds, "engine_mb": engines, "tree_mb": trees}
    return report
