"""`python -m bench [name ...] [--json FILE]`: run the named benchmarks, or all.

Exit status 0 when every measurement worked. A missed target is printed as NOT met and does not
change the status. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
import structlog
from rich.console import Console

from bench.options import Options
from bench.report import Report
from cordboard.cli.options import run_async
from cordboard.errors import CordboardError
from cordboard.observe.logging import configure

BENCHMARKS = {
    "latency": "the caller's wait, heard at a SIP phone through a real Asterisk",
    "browser": "the same wait at a page's loudspeaker, against the same call by AudioSocket",
    "understanding": "word errors, and whether the aerodrome asked for is the one looked up",
    "start": "from exec to ready, and the memory of an idle engine",
    "frames": "what a 20 ms frame of a call costs",
    "desk": "what the desk adds to an MCP tool call",
    "mcp": "supervised MCP servers: beside the bare SDK, large results, deaths, twenty at boot",
    "providers": "what the realtime adapters cost and add, beside bare sockets and vendors' SDKs",
    "peers": "what a frame costs beside Pipecat and LiveKit Agents",
    "load": "a hundred whole calls through a real Asterisk, and five hundred short ones",
    "transfers": "callers handed to a human: briefing, talk, way back, music on hold",
    "crowd": "many callers of the offline agent who ask within the same six seconds",
    "doors": "a stranger at the AudioSocket port while calls come in, some of them late",
    "history": "the index of 100,000 calls: pages, words, counts, and making it anew beside calls",
    "growth": "many engines in a model: placement, the bus, deaths; up to a million calls",
    "cluster": "three real engines: kills, the cost of a cluster, the way in, a rolling upgrade",
    "campaign": "a list of a million people with broken lines: time and memory",
    "privacy": "encryption and redaction beside a hundred recorded calls",
    "admin": "the admin port beside a hundred calls: viewers, a person; start, checks, peaks",
    "goals": "requests for tools to a language model on this machine (1.1 GB, not in `all`)",
    "answers": "what answers an outbound call: people, machines, tones, by sound and words",
    "turns": "turn-taking and barge-in, by scripted callers with a human's recorded voice",
}

WIDTH = 140
"""Columns of the output when it goes into a file or a pipe."""


def main() -> int:
    listing = "\n".join(f"  {name:14} {what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="what to run; default: all", metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    parser.add_argument("--pictures", type=Path, help="draw plots (SVG) into this folder")
    parser.add_argument(
        "--half",
        choices=("tune", "held-out"),
        default="held-out",
        help="turns: which half of the callers (default: the one that nothing is tuned on)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GROUP",
        help="a benchmark that has parts: these only",
    )
    parser.add_argument(
        "--together", type=int, default=0, help="turns: callers at the same time, at most"
    )
    parser.add_argument(
        "--calls",
        type=int,
        default=0,
        help="so many calls: doors, in each part (1000 and 200); history (100,000); "
        "admin, privacy (100); transfers (20); lines of campaign (1,000,000)",
    )
    parser.add_argument(
        "--seconds", type=int, default=0, help="of each crowd: admin (60), privacy (20)"
    )
    chosen = parser.parse_args()
    unknown = [name for name in chosen.name if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    configure(json=False, level="ERROR", secrets=())
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = WIDTH
    options = Options(
        chosen.half,
        tuple(chosen.only),
        chosen.pictures,
        chosen.together,
        chosen.calls,
        chosen.seconds,
    )
    began = datetime.now(UTC)
    reports: dict[str, object] = {}
    failed = False
    for name in chosen.name or [name for name in BENCHMARKS if name != "goals"]:
        done = _run(name, options, console)
        failed |= done is None
        reports[name] = done
    if chosen.json is not None:
        document = {
            "began": began.isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "results": reports,
        }
        chosen.json.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        console.print(f"results written to {chosen.json}")
    return 1 if failed else 0


def _run(name: str, options: Options, console: Console) -> dict[str, object] | None:
    """Run one and print it; None when the measurement failed."""
    load, began = os.getloadavg()[0], time.monotonic()
    console.rule(f"{name}: {BENCHMARKS[name]}", align="left")
    console.print(f"[dim]load average before: {load:.2f} on {os.cpu_count()} cores[/]")
    if load > 1.5:
        console.print("[yellow]other work is running: figures may be worse than they are[/]")

    def progress(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:7.1f} s  {text}[/]")

    measure = importlib.import_module(f"bench.{name}").measure
    if "options" in inspect.signature(measure).parameters:
        measure = functools.partial(measure, options=options)
    try:
        report: Report = run_async(measure(progress))
    except (CordboardError, OSError, TimeoutError, ValueError) as problem:
        structlog.get_logger().error("benchmark_failed", benchmark=name, exc_info=problem)
        console.print(f"[red]could not be measured:[/] {type(problem).__name__}: {problem}")
        return None
    report.show(console)
    seconds = time.monotonic() - began
    console.print(f"[dim]{name} took {seconds:.0f} s[/]\n")
    return {"load_before": load, "seconds": round(seconds, 1), **report.as_json()}


if __name__ == "__main__":
    raise SystemExit(main())
