"""From INVITE to 200 by the cluster's dialplan, beside `Stasis` of one engine directly, in turns.
The part `placement` of the benchmark `cluster`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.cluster_town import NUMBER, Town, town
from bench.options import Options
from bench.report import Report, Summary, Target

CALLS = 150
"""By each way."""
WAYS = ("Stasis of one engine", "the cluster's dialplan, three engines")
_ROUND = 20
"""Calls by one way, one after the other, before the other way has its turn."""

Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options, report: Report) -> None:
    """`options.calls`: so many by each way. Raises `KitError`."""
    wanted = options.calls or CALLS
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    async with town() as place:
        for node in "abc":
            await place.start(node)
        await place.together()
        extensions = [f"cordboard-{place.engines['a'].instance}", NUMBER]
        for extension in extensions:
            await _answer(place, extension)  # the first call of each way is slower
        while min(map(len, found.values())) < wanted:
            for way, extension in zip(WAYS, extensions, strict=True):
                for _ in range(min(_ROUND, wanted)):
                    found[way].append(await _answer(place, extension))
                progress(f"{way}: {len(found[way])} calls")
    _fill(report, found)


async def _answer(place: Town, extension: str) -> float:
    """Call, and hang up; return the seconds from INVITE to 200."""
    began = time.monotonic()
    caller = await place.dial(extension)
    answered = await caller.line.answered()
    caller.line.hangup()
    await asyncio.sleep(0.05)  # the end of one call is not measured with the next
    return answered - began


def _fill(report: Report, found: dict[str, list[float]]) -> None:
    rows, tails = [], []
    for way, waits in found.items():
        summary = Summary.of(waits)
        tails.append(1000 * summary.p99)
        cells = (summary.median, summary.p95, summary.p99, summary.most)
        rows.append([way, str(summary.count), *(f"{1000 * each:.1f}" for each in cells)])
    heads = ["way in", "calls", "median ms", "p95 ms", "p99 ms", "slowest ms"]
    report.table("From INVITE to 200", heads, rows)
    report.targets.append(
        Target("placement: added by the dialplan, p99", tails[1] - tails[0], 20, "ms")
    )
    report.figures["placement_s"] = found
