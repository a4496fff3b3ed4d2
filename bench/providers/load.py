"""Fifty calls at once to one service in another process: processor time and delay.

    at rest    connected, the 20 ms clock runs, nothing passes
    hear       each call sends a frame every 20 ms
    both ways  and the service sends 20 ms of sound every 20 ms

Processor time is that of this process, divided by calls and 20 ms. Delay *down*: from just before
the service writes a piece of audio until the call has it; *up*: from just before a call
hands over its frame until the service has read it. Both processes read one clock.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from bench.providers.lines import AdapterLine, BareLine, BareSender, Line, OwnSocketLine
from bench.providers.service_process import ServiceProcess, serving
from bench.providers.wires import FRAME_MS, WIRES, Wire
from cordboard.audio.pacer import Pacer

Way: TypeAlias = Literal["adapter", "own socket", "bare websockets"]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows in which processor time is counted."""

    seconds: float = 1.0
    at_rest: int = 2
    hear: int = 3
    both: int = 8
    settle: float = 0.5
    """Seconds before the first window of each kind."""


ARRIVE = 5.0
"""Timeout in seconds for everything in transit."""


@dataclass(slots=True)
class Load:
    """One measurement of one kind of line to one service."""

    service: str
    way: Way
    tls: bool
    calls: int
    at_rest_us: float = 0.0
    """Processor time of a call in 20 ms, in microseconds: the median of some windows."""
    hear_us: float = 0.0
    both_us: float = 0.0
    up: list[float] = field(default_factory=list)
    """Seconds; both from the time of *both ways*."""
    down: list[float] = field(default_factory=list)
    late_ticks: int = 0
    """Of the 20 ms clock: the load generator itself was late by a frame or more."""


class Frames:
    """Implements `audio.pacer.Outlet` for all lines."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self.on = False

    def tick(self, count: int) -> None:
        if self.on:
            for _ in range(count):
                for line in self._lines:
                    line.hear()


@asynccontextmanager
async def opened(
    wire: Wire, way: Way, service: ServiceProcess, calls: int
) -> AsyncIterator[list[Line]]:
    """Open `calls` lines, connected and accepted."""
    url = f"http{'s' if service.certificate else ''}://127.0.0.1:{service.port}"
    tls = ssl.create_default_context(cafile=service.certificate or None)
    sender = BareSender()
    lines: list[Line] = []
    try:
        for call in range(calls):
            line: Line
            if way == "adapter":
                line = AdapterLine(wire, url, call, tls)
            elif way == "own socket":
                line = OwnSocketLine(wire, url, call, tls)
            else:
                line = BareLine(wire, url, call, tls, sender)
            await line.open()
            lines.append(line)
        yield lines
    finally:
        await asyncio.gather(*(line.close() for line in lines))
        await sender.close()


async def measure(
    name: str, way: Way, calls: int, *, tls: bool = False, windows: Windows = Windows()
) -> Load:
    """Raises `ValueError` when a frame was lost."""
    wire = WIRES[name]
    load = Load(name, way, tls, calls)
    async with serving(name, tls=tls) as service, opened(wire, way, service, calls) as lines:
        frames = Frames(lines)
        pacer = Pacer(asyncio.get_running_loop())
        pacer.register(frames)
        with _settled_heap():
            load.at_rest_us = await _cost(calls, windows, windows.at_rest)
            frames.on = True
            load.hear_us = await _cost(calls, windows, windows.hear)
            await service.do("sound", on=True)
            await asyncio.sleep(windows.settle)
            first = [(len(line.heard), len(line.sounded)) for line in lines]
            load.both_us = await _cost(calls, windows, windows.both)
        await service.do("sound", on=False)
        frames.on = False
        load.late_ticks = pacer.late_ticks + pacer.skipped_ticks
        pacer.unregister(frames)
        _delays(load, lines, first, await _arrived(service, lines))
        _sound(lines)
    return load


class _settled_heap:  # noqa: N801 - reads as a function
    """Exclude the current objects from garbage collections, as in the engine."""

    def __enter__(self) -> None:
        gc.collect()
        gc.freeze()

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()


async def _cost(calls: int, windows: Windows, count: int) -> float:
    """Microseconds of a call in 20 ms: the median of several windows, because the machine may have
    been busy with other work in one."""
    await asyncio.sleep(windows.settle)
    costs = []
    for _ in range(count):
        spent, began = time.process_time(), time.monotonic()
        await asyncio.sleep(windows.seconds)
        spent, took = time.process_time() - spent, time.monotonic() - began
        costs.append(spent / (calls * took * 1000 / FRAME_MS) * 1e6)
    return statistics.median(costs)


Times: TypeAlias = Sequence[Mapping[str, Sequence[float]]]


async def _arrived(service: ServiceProcess, lines: Sequence[Line]) -> Times:
    """The service's times, once nothing is in transit, or the timeout is over."""
    deadline = time.monotonic() + ARRIVE
    while True:
        times: Times = await service.do("times")
        missing = [
            len(line.heard) - len(its["arrived"]) + len(its["sent"]) - len(line.sounded)
            for line, its in zip(lines, times, strict=True)
        ]
        # Resamplers hold back one each way.
        if max(missing) <= 2 and sum(missing) in (0, len(lines), 2 * len(lines)):
            return times
        if time.monotonic() > deadline:
            return times
        await asyncio.sleep(0.1)


def _delays(
    load: Load,
    lines: Sequence[Line],
    first: Sequence[tuple[int, int]],
    times: Times,
) -> None:
    """The nth that was sent is the nth that came; a resampler may hold back the very first."""
    for line, (heard, sounded), at_service in zip(lines, first, times, strict=True):
        load.up += _apart(line.heard, at_service["arrived"], heard)
        load.down += _apart(at_service["sent"], line.sounded, sounded)


def _apart(sent: Sequence[float], come: Sequence[float], since: int) -> list[float]:
    held = len(sent) - len(come)
    if not 0 <= held <= 1:
        raise ValueError(f"{len(sent)} frames were sent and {len(come)} have come")
    apart = [there - here for here, there in zip(sent[held:], come, strict=True)]
    if min(apart) < 0:
        raise ValueError("a frame came before it was sent: the order is not what it should be")
    return apart[since:]


def _sound(lines: Sequence[Line]) -> None:
    """Check the measurement. Raises `ValueError`."""
    for line in lines:
        if isinstance(line, AdapterLine) and line.troubles:
            raise ValueError(f"a call was in trouble: {line.troubles[0]}")
