"""A stranger on the machine, or on the network, who tries to get into other people's calls.

The stranger reads every HTTP path that needs no token, and connects to the AudioSocket port as fast
as possible: with every UUID found there, with UUIDs of its own, and on some connections with no
data, to occupy the places. `python -m cordboard_testkit.stranger HOST PORT HTTP_PORT A_SECOND` runs
one as a process of its own, with `A_SECOND` attempts a second (0: as many as possible); it prints a
line when it has started and, at the end of its input, its results as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import orjson

from cordboard.telephony.asterisk.audiosocket import HEADER_SIZE, Audio, Parser, encode_uuid

PATHS = (
    "/", "/live", "/ready", "/health", "/metrics", "/mcp", "/mcp/status", "/tools", "/tools/usage",
    "/calls", "/chat", "/config", "/openapi.json",
)  # fmt: skip
"""The HTTP paths that need no token."""
TRY_AGAIN = (5, 10)
"""Tries of found UUIDs per invented one, in both orders."""
SILENT = 16
"""Number of simultaneous connections that send nothing."""
PATIENCE = 0.5
"""Seconds to listen on a connection."""
_UUID = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


@dataclass(slots=True)
class Spoils:
    """The results of a stranger."""

    attempts: int = 0
    """Connections that sent a UUID."""
    silent: int = 0
    """Connections that sent nothing."""
    closed: int = 0
    """Connections that were closed without audio."""
    refused: int = 0
    """Connections that failed."""
    heard: list[str] = field(default_factory=list)
    """UUIDs that got audio back: another caller's call, or one of the stranger's own."""
    found: list[str] = field(default_factory=list)
    """UUIDs found in the engine's answers."""


class Stranger:
    """Attacks while the context manager is open."""

    def __init__(
        self, host: str, port: int, http_port: int, *, together: int = 32, a_second: float = 0
    ) -> None:
        """`together`: simultaneous connections. `a_second`: attempts; 0 = as many as possible."""
        self.spoils = Spoils()
        self._host, self._port, self._http_port = host, port, http_port
        self._together = together
        self._pause = together / a_second if a_second else 0.0
        self._found: dict[UUID, None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._names = self._all_names()

    async def __aenter__(self) -> Stranger:
        work = [self._connect_often() for _ in range(self._together)]
        work += [self._keep_places() for _ in range(SILENT)]
        work += [self._read_often(path) for path in PATHS]
        self._tasks = [asyncio.create_task(each) for each in work]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.spoils.found = [str(uuid) for uuid in self._found]
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _all_names(self) -> Iterator[UUID]:
        """Yield found UUIDs again and again, with invented ones between."""
        for number in itertools.count():
            if self._found and number % TRY_AGAIN[1] < TRY_AGAIN[0]:
                yield random.choice(tuple(self._found))  # noqa: S311 - no secret
            else:
                yield uuid4()

    async def _read_often(self, path: str) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    body = await self._get(path)
                for match in _UUID.findall(body):
                    self._found[UUID(match.decode())] = None
            await asyncio.sleep(0.01)

    async def _get(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._http_port)
        try:
            writer.write(f"GET {path} HTTP/1.0\r\nHost: {self._host}\r\n\r\n".encode())
            return await reader.read()
        finally:
            writer.close()

    async def _connect_often(self) -> None:
        while True:
            uuid = next(self._names)
            if await self._hears_something(encode_uuid(uuid)):
                self.spoils.heard.append(str(uuid))
            await asyncio.sleep(self._pause)

    async def _keep_places(self) -> None:
        while True:
            self.spoils.silent += 1
            if await self._hears_something(b""):
                self.spoils.heard.append("")

    async def _hears_something(self, first: bytes) -> bool:
        """Connect, send this, and listen until there is audio or the connection ends."""
        try:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            self.spoils.refused += 1
            await asyncio.sleep(0.01)
            return False
        try:
            writer.write(first)
            if first:
                self.spoils.attempts += 1
            async with asyncio.timeout(PATIENCE):
                parser = Parser("client")
                while data := await reader.read(HEADER_SIZE + 640):
                    if any(isinstance(event, Audio) for event in parser.feed(data)):
                        return True
        except (OSError, TimeoutError):
            pass
        finally:
            writer.close()
        self.spoils.closed += 1
        return False


async def _attack(host: str, port: int, http_port: int, a_second: float) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    async with Stranger(host, port, http_port, a_second=a_second) as stranger:
        sys.stdout.buffer.write(b"at work\n")
        sys.stdout.buffer.flush()
        await orders.read()
    sys.stdout.buffer.write(orjson.dumps(dataclasses.asdict(stranger.spoils)) + b"\n")


if __name__ == "__main__":
    asyncio.run(_attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
