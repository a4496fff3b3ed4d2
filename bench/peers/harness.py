"""The harness that every engine is measured with: pacing, processor time, delays. Stdlib only.

One task hands out the frames of all calls on an absolute schedule: call i gets its frame at one of
ten moments within the 20 ms. Half of the callers speak without a pause (so that no recogniser
finishes an utterance), half are silent on a line with a little noise.

    taken    handed to the transport's door → the engine's recogniser has it
    lateness the moment at which the frame was due → the same: stalls of the event loop included
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
import wave
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

FRAME = 0.02
MOMENTS = 10
LATE = 0.02
"""A frame later than its successor's due time is late."""
SETTLE = 0.4
LEFT_OVER = 0.3


@dataclass(slots=True)
class Stamps:
    """Collects the times (due, handed over, taken) of one call's frames."""

    taken: list[tuple[float, float, float]] = field(default_factory=list)


class Call(Protocol):
    """One call of the engine under test."""

    stamps: Stamps

    async def hand_over(self, frame: bytes, due: float) -> None:
        """Give the frame to the transport's door."""
        ...


Opener = Callable[[int, bool], AbstractAsyncContextManager[Sequence[Call]]]
"""`open(calls, vad)`: opens that many calls, ready to take frames."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", default="1,10,50,100")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--vad", choices=("off", "on", "both"), default="both")
    parser.add_argument("--audio", type=Path, required=True)
    parser.add_argument("--both-ways", action="store_true", help="ours: the agent echoes")
    return parser.parse_args()


def frames_of(path: Path) -> tuple[list[bytes], int]:
    """A WAV file in pieces of 20 ms, and its rate."""
    with wave.open(str(path)) as file:
        rate, pcm = file.getframerate(), file.readframes(file.getnframes())
    size = round(rate * FRAME) * 2
    return [pcm[at : at + size] for at in range(0, len(pcm) - size + 1, size)], rate


async def run(
    name: str, opener: Opener, rate: int, more: Callable[[], dict[str, float]] = dict
) -> None:
    """Measure every requested configuration; prints one line of JSON for each, extended by
    `more`."""
    asked = arguments()
    speech, _ = frames_of(asked.audio / f"speech-{rate}.wav")
    quiet, _ = frames_of(asked.audio / f"quiet-{rate}.wav")
    for vad in {"off": [False], "on": [True], "both": [False, True]}[asked.vad]:
        for count in map(int, asked.calls.split(",")):
            async with opener(count, vad) as calls:
                await asyncio.sleep(SETTLE)
                row = await measured(calls, (speech, quiet), asked.seconds)
                row |= more()
            print(json.dumps({"engine": name, "vad": vad, "calls": count, **row}), flush=True)
            gc.collect()


async def measured(
    calls: Sequence[Call], sounds: tuple[list[bytes], list[bytes]], seconds: float
) -> dict[str, float]:
    """Feed all calls for a while and measure it."""
    for call in calls:
        call.stamps.taken.clear()
    gc.collect()
    ticks = round(seconds / FRAME)
    began, spent = time.perf_counter(), time.process_time()
    await _feed(calls, sounds, ticks)
    spent, wall = time.process_time() - spent, time.perf_counter() - began
    await asyncio.sleep(LEFT_OVER)
    stamps = [stamp for call in calls for stamp in call.stamps.taken]
    taken = sorted(at - handed for _, handed, at in stamps)
    late = sorted(at - due for due, _, at in stamps)
    frames = ticks * len(calls)
    return {
        "frames": frames,
        "us_per_frame": spent / frames * 1e6,
        "cores": spent / wall,
        "lost": frames - len(stamps),
        "late": sum(seconds > LATE for seconds in late),
        **{f"taken_{name}_ms": percentile(taken, part) * 1e3 for name, part in PARTS.items()},
        **{f"lateness_{name}_ms": percentile(late, part) * 1e3 for name, part in PARTS.items()},
        "rss_mb": resident_mb(),
    }


PARTS = {"p50": 0.5, "p99": 0.99, "max": 1.0}


def percentile(ordered: Sequence[float], part: float) -> float:
    """Of sorted values; nan for none."""
    return ordered[round(part * (len(ordered) - 1))] if ordered else float("nan")


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


async def _feed(calls: Sequence[Call], sounds: tuple[list[bytes], list[bytes]], ticks: int) -> None:
    slots = [
        [
            (call, sounds[number % 2])
            for number, call in enumerate(calls)
            if number % MOMENTS == slot
        ]
        for slot in range(MOMENTS)
    ]
    start = time.perf_counter() + 0.01
    for tick in range(ticks):
        for slot, members in enumerate(slots):
            if not members:
                continue
            due = start + tick * FRAME + slot * FRAME / MOMENTS
            await _until(due)
            for call, frames in members:
                await call.hand_over(frames[tick % len(frames)], due)


async def _until(due: float) -> None:
    """Wait for the moment, and let the engine run even when it has passed."""
    await asyncio.sleep(max(0.0, due - time.perf_counter()))
