"""The subject of `frames`, a process of its own: `python -m bench.frames_server engine|echo ...`.

`engine FILE` is the engine with that configuration; `echo` sends every audio frame straight back,
the least that an AudioSocket server in Python can do. Both run on the event loop of `cordboard run`
and print `{"port": ...}` when they accept calls. For each line on standard input they answer with
the event loop's lags (seconds late, of a timer every 10 ms) since the line before; at its end they
stop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import cast

import orjson

from cordboard.cli.options import run_async
from cordboard.config.load import load
from cordboard.observe.logging import configure
from cordboard.runtime.engine import Engine

TIMER = 0.01
HEADER = 3
AUDIO = 0x10


class Echo(asyncio.Protocol):
    """One connection: AudioSocket frames (kind, length, payload) in, the audio ones out."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by birth

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= HEADER:
            end = HEADER + int.from_bytes(buffer[1:HEADER], "big")
            if len(buffer) < end:
                return
            if buffer[0] == AUDIO and self._transport is not None:
                self._transport.write(bytes(buffer[:end]))
            del buffer[:end]


class LagTimer:
    """Delays of a 10 ms timer, in seconds.

    It reads the clock itself: uvloop's own time stands still within a round and counts in ms.
    """

    def __init__(self) -> None:
        self.lags: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._schedule()

    def _schedule(self) -> None:
        self._due = time.monotonic() + TIMER
        self._timer = self._loop.call_later(TIMER, self._measure)

    def _measure(self) -> None:
        self.lags.append(max(0.0, time.monotonic() - self._due))
        self._schedule()

    def stop(self) -> None:
        self._timer.cancel()


def say(answer: object) -> None:
    """Print one line of JSON for the measuring process."""
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


async def _answer(port: int) -> None:
    """Print the port, then the lags, until standard input ends."""
    timer = LagTimer()
    say({"port": port})
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        say(timer.lags)
        timer.lags.clear()
    timer.stop()


async def _echo() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    async with server:
        await _answer(server.sockets[0].getsockname()[1])


async def _engine(file: Path) -> None:
    engine = Engine(load(file, os.environ).config)
    await engine.start()
    try:
        await _answer(engine.audiosocket_port)
    finally:
        await engine.stop(grace=0)


if __name__ == "__main__":
    configure(json=False, level="ERROR", secrets=())
    run_async(_echo() if sys.argv[1] == "echo" else _engine(Path(sys.argv[2])))
