"""A cluster of real engines at a real Asterisk and NATS server.

Groups for `--only`: kills, cost, placement, upgrade. Each has a stage of its own and runs alone.
`--calls`: so many kills, calls by each way in, or callers at a time of an upgrade.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bench.options import Options
from bench.report import Report

PARTS = {
    "kills": "bench.cluster_kills",
    "cost": "bench.cluster_cost",
    "placement": "bench.cluster_placement",
    "upgrade": "bench.cluster_upgrade",
}
"""Modules with `async measure(progress, options, report)`, by the name of their group."""

Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `AsteriskMissing`, `KitError`."""
    report = Report("cluster")
    for name, module in PARTS.items():
        if options.chosen(name):
            progress(name)
            await importlib.import_module(module).measure(progress, options, report)
    return report
