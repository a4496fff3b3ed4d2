"""The harness alone, on our event loop: the callers' frames are dropped."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.peers import harness
from cordboard.cli.options import run_async

RATE = 8000


class NoCall:
    def __init__(self) -> None:
        self.stamps = harness.Stamps()

    async def hand_over(self, frame: bytes, due: float) -> None:
        handed = time.perf_counter()
        self.stamps.taken.append((due, handed, time.perf_counter()))


@asynccontextmanager
async def opened(count: int, vad: bool) -> AsyncIterator[Sequence[harness.Call]]:
    yield [NoCall() for _ in range(count)]


if __name__ == "__main__":
    run_async(harness.run("floor", opened, RATE))
