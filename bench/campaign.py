"""A list of a million people, with broken lines: `cordboard campaign add` as a process of its own.

One line in fifty is broken, and some numbers come twice. Time, and peak memory beside that of a
list of ten thousand: it must not grow with the list.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from bench.engine_process import ROOT
from bench.options import Options
from bench.report import Report, Target
from cordboard.errors import KitError

PEOPLE = 1_000_000
FEW = 10_000
BROKEN = (b"12,,Kari\n", b'+4790000000,,"Kari\n', b"\xff,,\n", b"+12125550100,Mars/Base,Joe\n")
Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `KitError`."""
    people = options.calls or PEOPLE
    report = Report("campaign")
    rows, megabytes, seconds = [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        config = {
            "contexts": {"survey": {"greeting": "Hello.", "variables": ["first_name"]}},
            "outbound": {"enabled": True, "campaigns": str(folder / "campaigns.db")},
            "firewall": {"country": "NO", "countries": ["NO", "SE", "US"]},
        }
        (folder / "engine.yaml").write_bytes(orjson.dumps(config))
        for count in (FEW, people):
            broken = await asyncio.to_thread(_write, folder / "people.csv", count)
            seconds, peak, left_out, told = await asyncio.to_thread(_add, folder, f"list{count}")
            if left_out != told or told < broken:
                raise KitError(f"{left_out} lines were left out, {told} reported, {broken} broken")
            megabytes.append(peak)
            cells = (f"{seconds:.1f}", f"{1e6 * seconds / count:.0f}", f"{peak:.1f}", str(told))
            rows.append([f"{count:,}", *cells])
            progress(f"{count:,} lines: {seconds:.1f} s, {peak:.1f} MB, {told} left out")
    heads = ["lines", "s", "us a line", "peak MB", "left out and reported"]
    report.table("cordboard campaign add", heads, rows)
    few, many = megabytes
    report.targets = [Target(f"more memory for {people:,} than for {FEW:,}", many - few, 10, "MB")]
    report.figures = {"seconds": seconds, "peak_mb": megabytes}
    return report


def _write(path: Path, count: int) -> int:
    """Write a list; return how many lines are broken."""
    chance, broken = random.Random(count), 0
    with path.open("wb") as file:
        file.write(b"number,zone,first_name\n")
        for line in _lines(chance, count):
            broken += line in BROKEN
            file.write(line)
    return broken


def _lines(chance: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        kind = chance.random()
        if kind < 0.02:
            yield chance.choice(BROKEN)
        elif kind < 0.6:
            yield f"+479{chance.randrange(10**7):07d},,Kari\n".encode()
        elif kind < 0.9:
            number = chance.randrange(2 * 10**6, 10**7)
            yield f"+1212{number:07d},America/New_York,Joe\n".encode()
        else:
            yield f"+4670{chance.randrange(10**7):07d},,Åsa\n".encode()


def _add(folder: Path, name: str) -> tuple[float, float, int, int]:
    """Return seconds, peak MB, the number of lines left out, and of lines on standard error."""
    errors = folder / "errors.txt"
    command = [sys.executable, "-m", "cordboard", "campaign", "add", name]
    command += [str(folder / "people.csv"), "--context", "survey"]
    command += ["--config", str(folder / "engine.yaml")]
    began = time.monotonic()
    with (
        errors.open("wb") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, cwd=ROOT) as process,
    ):
        assert process.stdout is not None
        said = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if process.returncode != 1:  # 1: lines were left out
        raise KitError(f"campaign add failed: {errors.read_text(errors='replace')[-500:]}")
    with errors.open("rb") as file:
        told = sum(line.startswith(b"line ") for line in file)
    return seconds, used.ru_maxrss / 1024, int(said.split(" people, ")[1].split()[0]), told
