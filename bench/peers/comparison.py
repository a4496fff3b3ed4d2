"""Runs every engine with the same audio and puts their figures side by side."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import wave
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench import pictures
from bench.engine_process import ROOT
from bench.frames import without_pauses
from bench.options import Options
from bench.peers.install import install, is_installed
from bench.report import Report, Target
from cordboard.audio.resample import resample, to_floats, to_pcm
from cordboard_testkit.timeline import RATE, Samples

CALLS = "1,10,50,100"
SECONDS = 2.0
QUIET_DBFS = -62.0
LONGEST = 180.0
PEERS = ("pipecat", "livekit")
Progress = Callable[[str], None]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Engine:
    """A process to measure."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    peer: bool = False


ENGINES = (
    Engine("floor", "bench.peers.floor", ("--vad=off",)),
    Engine("cordboard", "bench.peers.ours"),
    Engine("cordboard, both ways", "bench.peers.ours", ("--vad=off", "--both-ways")),
    Engine("livekit", "bench.peers.on_livekit", peer=True),
    Engine("pipecat", "bench.peers.on_pipecat", peer=True),
)


async def compare(progress: Progress, options: Options) -> Report:
    """Raises `OSError` when the peers cannot be installed."""
    if not is_installed():
        progress("installing Pipecat and LiveKit Agents into their own environment (once, 750 MB)")
    python = await asyncio.to_thread(install)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        _write_audio(Path(name))
        for engine in ENGINES:
            if not options.chosen(engine.name.split(",")[0]):
                continue
            program = str(python) if engine.peer else sys.executable
            async for row in _rows(engine, program, Path(name)):
                rows.append(row)
                progress(
                    f"{row['engine']}, {row['calls']} calls, {_vad(row)}: "
                    f"{row['us_per_frame']:.0f} us a frame"
                )
    report = _report(rows)
    if options.pictures is not None and rows:
        _draw(rows, options.pictures)
    return report


async def _rows(engine: Engine, program: str, audio: Path) -> AsyncIterator[Row]:
    """The output of one engine, line by line. A failed engine costs its row, not the run."""
    process = await asyncio.create_subprocess_exec(
        program,
        "-m",
        engine.module,
        f"--calls={CALLS}",
        f"--seconds={SECONDS}",
        f"--audio={audio}",
        *engine.arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONGEST):
            async for line in process.stdout:
                if line.startswith(b"{"):
                    yield orjson.loads(line)
    except TimeoutError:
        yield {"engine": engine.name, "failed": "took too long"}
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _write_audio(folder: Path) -> None:
    """The same two recordings for every engine, at both rates."""
    speech = without_pauses()
    rng = np.random.default_rng(1)
    quiet = rng.standard_normal(len(speech)) * 32768 * 10 ** (QUIET_DBFS / 20)
    for name, sound in (("speech", speech), ("quiet", np.rint(quiet).astype(np.int16))):
        wide = to_pcm(resample(to_floats(sound.tobytes()), RATE, 16_000))
        _write_wav(folder / f"{name}-{RATE}.wav", sound, RATE)
        _write_wav(folder / f"{name}-16000.wav", np.frombuffer(wide, "<i2"), 16_000)


def _write_wav(path: Path, sound: Samples, rate: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(sound.astype("<i2").tobytes())


def _vad(row: Row) -> str:
    return "with VAD" if row["vad"] else "no VAD"


def _report(rows: list[Row]) -> Report:
    report = Report("peers")
    report.notes += [
        f"{row['engine']}: {row['failed']}, what it had measured by then is above"
        for row in rows
        if "failed" in row
    ]
    rows = [row for row in rows if "failed" not in row]
    heads = ["engine", "VAD", "calls", "us/frame", "% of a core", "delay ms p50", "p99", "max"]
    heads += ["late", "lost", "MB"]
    table = [
        [
            row["engine"],
            "yes" if row["vad"] else "no",
            str(row["calls"]),
            f"{row['us_per_frame']:.0f}",
            f"{row['cores'] * 100:.1f}",
            *(f"{row[f'lateness_{part}_ms']:.2f}" for part in ("p50", "p99", "max")),
            f"{100 * row['late'] / row['frames']:.1f} %",
            f"{100 * row['lost'] / row['frames']:.1f} %",
            f"{row['rss_mb']:.0f}",
        ]
        for row in sorted(rows, key=lambda row: (row["vad"], row["calls"]))
    ]
    report.table("A caller's 20 ms frame, transport to recogniser", heads, table)
    _verdicts(report, rows)
    report.targets = _targets(rows)
    report.figures = {"rows": rows}
    return report


def _verdicts(report: Report, rows: list[Row]) -> None:
    parts = ("p50", "p95", "p99", "max")
    table = [
        [str(row["calls"]), *(f"{row[f'verdict_{part}_ms']:.2f}" for part in parts)]
        for row in rows
        if "verdict_p50_ms" in row
    ]
    if table:
        title = "Cordboard: a window's last frame to the voice detector's verdict"
        report.table(title, ["calls", "ms p50", *parts[1:]], table)


def _targets(rows: list[Row]) -> list[Target]:
    found = {(row["engine"], row["vad"], row["calls"]): row for row in rows}
    targets = []
    for vad, limit in ((False, 60.0), (True, 120.0)):
        ours = found.get(("cordboard", vad, 50))
        if ours is None:
            continue
        with_or_without = "with VAD" if vad else "without VAD"
        targets += [
            Target(f"CPU, 50 calls {with_or_without}", ours["us_per_frame"], limit, "us/frame"),
            Target(f"delay p99, 50 calls {with_or_without}", ours["lateness_p99_ms"], 5.0, "ms"),
        ]
        if "verdict_p95_ms" in ours:
            name = "frame to the voice detector's verdict p95, 50 calls"
            targets.append(Target(name, ours["verdict_p95_ms"], 5.0, "ms"))
    for vad in (False, True):
        ours = found.get(("cordboard", vad, 100))
        if ours is not None:
            name = f"late or lost, 100 calls {'with' if vad else 'without'} VAD"
            targets.append(Target(name, ours["late"] + ours["lost"], 0, "frames"))
    ours = found.get(("cordboard", True, 50))
    for peer, times in (("pipecat", 5.0), ("livekit", 1.5)):
        theirs = found.get((peer, True, 50))
        if ours is not None and theirs is not None:
            # An engine that falls behind has done only part of the work: count its delivered
            # frames.
            done = theirs["us_per_frame"] * theirs["frames"] / (theirs["frames"] - theirs["lost"])
            ratio = done / ours["us_per_frame"]
            targets.append(
                Target(f"{peer} / ours, 50 calls with VAD", ratio, times, "times", at_least=True)
            )
    return targets


def _draw(rows: list[Row], folder: Path) -> None:
    """Bars: microseconds a frame at 50 calls, with and without VAD."""
    for vad, name in ((False, "without"), (True, "with")):
        bars = [
            (row["engine"], row["us_per_frame"])
            for row in rows
            if row.get("calls") == 50 and row.get("vad") == vad
        ]
        if bars:
            title = f"Processor time for one 20 ms frame, 50 calls {name} VAD (µs)"
            path = folder / f"peers-{name}-vad.svg"
            path.write_text(pictures.bars(title, bars, "µs"))
