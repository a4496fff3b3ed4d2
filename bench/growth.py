"""Growth: a model of many engines in virtual time, from 300 to a million live calls.

`bench.growth_model` has the measured figures it builds on and the arithmetic,
`bench.growth_simulation` what needs chance: where callers are placed while the dialplan's variables
are late, and how long callers wait when a tenth of the engines dies. Nothing here is a measurement:
docs/growth.md says what is assumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from bench import growth_model as model
from bench import pictures
from bench.growth_model import LIMITS, NONE, Plan, largest, search, traffic
from bench.growth_simulation import Placed, Recovery, in_cells, often, place
from bench.options import Options
from bench.report import Report, Summary, Target

MOST = 1_000_000
SIZES = (300, 1_000, 3_000, 10_000, 100_000, MOST)
CELL = 10_000
"""Calls of one cluster when a large one is divided."""
PLACED_SECONDS = 360.0
LIMIT = 3.0
"""Seconds within which a caller of a dead engine should hear the next one, p95."""
_POINTS = 200
_LOSSES = 20

Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    """`options.calls`: the largest size, 1,000,000 if 0."""
    return await asyncio.to_thread(_measure, progress, options)


def _measure(progress: Progress, options: Options) -> Report:
    most = options.calls or MOST
    sizes = [size for size in SIZES if size <= most]
    report = Report("growth")
    _figures(report)
    _traffic(report, sizes)
    _limits(report)
    progress("placement")
    _placement(report, most, progress)
    progress("recovery")
    recoveries = _recovery(report, sizes, progress)
    _room(report)
    if options.pictures is not None:
        _draw(recoveries, options.pictures)
    return report


def _figures(report: Report) -> None:
    rows = [[f"{each.value:.3g}", each.unit, each.source] for each in model.figures().values()]
    report.table("Figures of the model", ["figure", "of what", "from"], rows)


def _traffic(report: Report, sizes: list[int]) -> None:
    heads = ["live calls", "engines", "Asterisks", "leases/s", "delivered/s", "if all hear all"]
    heads += ["batches/s", "records/s", "MB/s", "GB a day, 3 copies", "rows/s"]
    rows: list[list[str]] = []
    shares: list[list[str]] = []
    for size in sizes:
        plan = Plan(size)
        built, everything = traffic(plan, "asterisk"), traffic(plan, "cluster")
        counts: list[float] = [size, plan.engines, plan.asterisks, built.renewals, built.deliveries]
        counts += [everything.deliveries, built.batches, built.records]
        row = [f"{count:,.0f}" for count in counts]
        row += [f"{built.event_bytes / 1e6:,.2f}", f"{built.kept_bytes / 1e9:,.0f}"]
        rows.append([*row, f"{built.rows:,.0f}"])
        wanted, more = search(plan, "asterisk"), search(plan, "cluster")
        cells = (built.lease_cores, everything.lease_cores, built.event_cores)
        row = [f"{size:,}", *(f"{each:.3g}" for each in cells)]
        row += [f"{100 * each:.1f}" for each in (built.own, built.hearing, everything.hearing)]
        shares.append([*row, f"{wanted.server:,.3g}", f"{more.server:,.3g}"])
    report.table("A second of a cluster", heads, rows)
    heads = ["live calls", "NATS for leases, cores", "if all hear all", "for events, cores"]
    heads += ["engine: own calls, %", "engine: hearing others, %", "if all hear all, %"]
    heads += ["a tenth dies: search, core s", "if all hear all, core s"]
    report.table("What it costs", heads, shares)


def _limits(report: Report) -> None:
    rows = []
    for name, text in LIMITS.items():
        cells = [largest("asterisk", name), largest("cluster", name)]
        rows.append([text, *(f"{each:,}" if each < NONE else "none" for each in cells)])
        report.figures[f"limit_{name}"] = cells
    heads = ["limit", "calls, as built", "calls, if all hear all"]
    report.table("Where one cluster ends", heads, rows)


def _placement(report: Report, most: int, progress: Progress) -> None:
    rows = []
    cases = [(min(CELL, most), fill, late) for fill in (0.8, 0.9, 0.95) for late in (0.02, 0.5, 2)]
    if most > CELL:
        cases.append((most, model.FILL.value, model.ROOM.value))
    for calls, fill, late in cases:
        # In a second of a million calls as many begin as in 100 s of 10,000.
        seconds = PLACED_SECONDS if calls <= CELL else PLACED_SECONDS / 3
        placed = place(calls, fill, late, seconds)
        rows.append(_placed_row(calls, fill, late, placed))
        progress(f"{calls:,} calls, {fill:.0%} full, {late} s late: {placed.offered:,} placed")
        if (fill, late) == (model.FILL.value, model.ROOM.value):
            target = "calls of an engine beside the mean of its Asterisk, standard deviation"
            report.targets.append(Target(f"{calls:,} calls: {target}", placed.spread, 3, "calls"))
            share = 100 * placed.refused / placed.offered
            report.targets.append(Target(f"{calls:,} calls: refused", share, 0, "%"))
    heads = ["live calls", "full", "variables renewed, s", "placed", "spread", "most at once"]
    report.table("Placement", [*heads, "tried in vain, %", "refused, %"], rows)


def _placed_row(calls: int, fill: float, late: float, placed: Placed) -> list[str]:
    shares = (placed.retries, placed.refused)
    return [
        f"{calls:,}",
        f"{fill:.0%}",
        f"{late:g}",
        f"{placed.offered:,}",
        f"{placed.spread:.2f}",
        str(placed.herd),
        *(f"{100 * each / placed.offered:.2f}" for each in shares),
    ]


def _recovery(report: Report, sizes: list[int], progress: Progress) -> dict[str, Recovery]:
    rows: list[list[str]] = []
    found: dict[str, Recovery] = {}
    for size in sizes:
        times = _LOSSES if size <= CELL else 1
        ways = {
            "all hear all": often(Plan(size), "cluster", times),
            "as built": often(Plan(size), "asterisk", times),
        }
        if size > CELL:
            ways["cells"] = in_cells(size, CELL)
        for way, lost in ways.items():
            rows.append([f"{size:,}", way, str(times), *_recovered(lost)])
            found[f"{size:,}, {way}"] = lost
        progress(f"{size:,} calls: {lost.calls:,} lost their engine")
        if size in (CELL, sizes[-1]):
            p95 = Summary.of(lost.waits).p95
            report.targets.append(Target(f"{size:,} calls, {way}: adopted, p95", p95, LIMIT, "s"))
    heads = [
        "live calls",
        "way",
        "losses",
        "lost their engine",
        "adopted",
        "median s",
        "p95 s",
        "longest s",
    ]
    report.table("A tenth of the engines dies at once", [*heads, "without room, %"], rows)
    return found


def _recovered(lost: Recovery) -> list[str]:
    waits = Summary.of(lost.waits)
    times = (waits.median, waits.p95, waits.most)
    cells = ["never"] * 3 if lost.stuck else [f"{each:,.2f}" for each in times]
    without = 100 * (lost.no_room + lost.no_engine) / lost.calls
    adopted = 0 if lost.stuck else waits.count
    return [f"{lost.calls:,}", f"{adopted:,}", *cells, f"{without:.1f}"]


def _room(report: Report) -> None:
    rows = []
    for fellows in (5, 10, 20, 40):
        shares = []
        for fill in (0.6, 0.7, 0.8, 0.85):
            plan = Plan(CELL, fill, fellows)
            lost = often(plan, "asterisk", _LOSSES)
            shares.append(f"{100 * (lost.no_room + lost.no_engine) / lost.calls:.1f}")
        cores = fellows * model.CALLS.value * model.ASTERISK.value
        dialplan = 1000 * fellows * model.DIALPLAN.value
        rows.append([str(fellows), f"{cores:.1f}", f"{dialplan:.1f}", *shares])
    heads = ["engines at one Asterisk", "its cores when all are full", "dialplan, ms"]
    heads += ["60 % full", "70 %", "80 %", "85 %"]
    title = f"Callers without room when a tenth dies, % (10,000 calls, {_LOSSES} losses each)"
    report.table(title, heads, rows)


def _draw(recoveries: dict[str, Recovery], folder: Path) -> None:
    large = list(recoveries)[-1].rpartition(", ")[0]
    names = ["300, as built", "3,000, all hear all", "3,000, as built", "10,000, as built"]
    names += ["100,000, as built", f"{large}, cells"]
    series = {}
    for name in names:
        if name in recoveries and not recoveries[name].stuck:
            ordered = sorted(recoveries[name].waits)
            step = max(1, len(ordered) // _POINTS)
            series[name] = [1000 * each for each in ordered[::step]]
    folder.mkdir(parents=True, exist_ok=True)
    title = "A tenth of the engines dies: share of callers who hear the next one within (ms)"
    (folder / "growth-recovery.svg").write_text(pictures.steps(title, series, "ms", 1000 * LIMIT))
