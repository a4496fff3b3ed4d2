"""What encryption and redaction cost beside a hundred calls.

    callers ──AudioSocket──▶ engine (a process): ledgers and recordings, as plain files
    callers ──AudioSocket──▶ engine (a process): the same, redacted and encrypted

The same calls speak to both in turns, several rounds of each, so that a slow minute of the machine
meets both. The calls are conversations of 5 s a turn without models (`bench.load.server`), each
turn with a telephone number in question and answer; all are recorded. The cost is the difference of
the processor time of whole processes, all threads counted.
"""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.load import Server, serving, spent
from bench.options import Options
from bench.report import Report, Summary, Target
from cordboard import private_files
from cordboard.calls.history import ledgers
from cordboard.config.load import load
from cordboard.errors import KitError
from cordboard.privacy.sealed_file import MAGIC
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.timeline import FRAME_SECONDS, RATE

CALLS = 100
SECONDS = 20
ROUNDS = 6
SETTLE = 3.0
WAYS = ("plain", "private")
CONTEXT = "desk"
NUMBER = b"22 33 44 56"
"""In the words of every turn."""
FILE = "engine.yaml"
MOST_BYTES = 64 * 1024 * 1024
KINDS = ("card", "iban", "email", "phone", "keys", "de_tax_id", "uk_nhs", "fr_nir")
Progress = Callable[[str], None]


async def measure(progress: Progress, options: Options) -> Report:
    """Raises `KitError`."""
    calls, seconds = options.calls or CALLS, options.seconds or SECONDS
    cores: dict[str, list[float]] = {way: [] for way in WAYS}
    loops: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            places = {way: await stack.enter_async_context(_engine(folder / way)) for way in WAYS}
            for number in range(ROUNDS):
                for way in WAYS if number % 2 else reversed(WAYS):
                    whole, loop = await _round(*places[way], calls, seconds)
                    cores[way].append(whole)
                    loops[way].append(loop)
                    progress(f"round {number + 1} of {ROUNDS}, {way}: {whole:.1%} of a core")
        await asyncio.to_thread(_check, folder)
    return _report(cores, loops, calls)


@asynccontextmanager
async def _engine(folder: Path) -> AsyncIterator[tuple[Server, int]]:
    """An engine, private if its folder is named so; yields it with its AudioSocket port."""
    port = free_port()
    file = folder / FILE
    private_files.make_folder(folder)
    file.write_bytes(orjson.dumps(_configuration(folder, port)))
    async with serving(file, "turns") as server:
        yield server, port


def _configuration(folder: Path, port: int) -> dict[str, Any]:
    context = {"provider": "local", "tools": [], "recording": {"enabled": True}}
    privacy = {
        "redact": {"kinds": KINDS, "patterns": {"customer": "KD-######"}},
        "encryption": {
            "enabled": True,
            "master_key": base64.b64encode(os.urandom(32)).decode(),
            "keys_directory": str(folder / "keys"),
        },
    }
    return {
        "health": {"port": 0},
        "audiosocket": {"port": port, "context": CONTEXT, "calls_per_minute": 60_000},
        "calls": {"directory": str(folder / "ledger"), "max_calls": 1_000},
        "mcp": {"enabled": False},
        "providers": {"local": {"type": "pipeline"}},
        "contexts": {CONTEXT: context},
        "privacy": privacy if folder.name == "private" else {},
    }


async def _round(server: Server, port: int, calls: int, seconds: float) -> tuple[float, float]:
    """Place the calls; return the processor seconds per second of the engine and of its event
    loop."""
    sound = np.random.default_rng(1).normal(0, 3_000, 12 * RATE).astype(np.int16)
    sound = np.tile(sound, 1 + int(seconds + 2 * SETTLE) // 12)
    async with AsyncExitStack() as stack:
        media = await stack.enter_async_context(MediaThread())
        first = time.monotonic() + 0.5
        for number in range(calls):
            begins_at = first + number / calls * FRAME_SECONDS
            caller = SimulatedCaller("127.0.0.1", port, media=media, begins_at=begins_at)
            await stack.enter_async_context(caller)
            caller.say(sound)
        await asyncio.sleep(0.5 + SETTLE)
        await server.ask("start")
        before, began = spent(server.pid), time.monotonic()
        await asyncio.sleep(seconds)
        after, took = spent(server.pid), time.monotonic() - began
        counted = await server.ask("stop")
    if counted["calls"] != calls:
        raise KitError(f"{counted['calls']} calls of {calls} were there")
    await asyncio.sleep(SETTLE)  # their ends are written
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


def _check(folder: Path) -> None:
    """Raise `KitError` unless one engine wrote plain files, and the other redacted and encrypted
    ones."""
    for way in WAYS:
        vault = load(folder / way / FILE, os.environ).config.privacy.encryption.vault
        sealed, words = set(), b""
        for path in ledgers(folder / way / "ledger"):
            files = path, path.with_suffix(".wav")
            sealed |= {each.read_bytes().startswith(MAGIC) for each in files}
            words += vault.read(path, MOST_BYTES)
        private = way == "private"
        if sealed != {private} or (b"[phone]" in words) != private or (NUMBER in words) == private:
            raise KitError(f"the files of the engine {way!r} are not as they should be")


def _report(cores: dict[str, list[float]], loops: dict[str, list[float]], calls: int) -> Report:
    report = Report("privacy")
    rows = []
    for way in WAYS:
        whole, loop = Summary.of(cores[way]), Summary.of(loops[way])
        cells = (whole.median, whole.least, whole.most, loop.median)
        rows.append([way, str(whole.count), *(f"{100 * value:.2f}" for value in cells)])
    heads = ["files", "rounds", "% of a core, median", "min", "max", "of it loop"]
    report.table(f"The engine with {calls} recorded calls", heads, rows)
    more = Summary.of(cores["private"]).median - Summary.of(cores["plain"]).median
    name = f"encryption and redaction, {calls} calls"
    report.targets.append(Target(name, 100 * more, 3, "% of a core"))
    report.figures = {"cores": cores, "loop_cores": loops}
    return report
