"""A stranger on the machine, or on the network, who wants into other people's calls.

They read all that the engine tells without a token, and connect to its AudioSocket port as fast as
they can: under every UUID that they find there, under UUIDs of their own, and some without a word,
to keep the places. `python -m cordboard_testkit.stranger HOST PORT HTTP_PORT A_SECOND` is one as a
process of its own, with so many attempts a second (0: as many as can be); it prints a line when it
is at work and, at the end of its input, what they reached as JSON.
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
"""What anybody may ask for."""
TRY_AGAIN = (5, 10)
"""A UUID that was found is tried so often for each one that is made up, in both orders."""
SILENT = 16
"""So many connections at a time say nothing."""
PATIENCE = 0.5
"""Seconds that a connection is listened to."""
_UUID = re.compile(rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


@dataclass(slots=True)
class Spoils:
    """What a stranger has reached."""

    attempts: int = 0
    """Connections that said a UUID."""
    silent: int = 0
    """Connections that said nothing."""
    closed: int = 0
    """Connections that were closed without a sound."""
    refused: int = 0
    """Connections that did not come about."""
    heard: list[str] = field(default_factory=list)
    """UUIDs under which sound came back: somebody's call, or one of their own."""
    found: list[str] = field(default_factory=list)
    """UUIDs that the engine has told."""


class Stranger:
    """Attacks from `async with` on until it is left."""

    def __init__(
        self, host: str, port: int, http_port: int, *, together: int = 32, a_second: float = 0
    ) -> None:
        """`together`: connections at the same time. `a_second`: attempts; 0 = as many as can be."""
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
        """Those that were found again and again, and made-up ones between."""
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
        """Connect, say this, and listen until there is sound or the end."""
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
