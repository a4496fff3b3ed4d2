"""The handle of a `bench.providers.service`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from bench.engine_process import ROOT

LONGEST_LINE = 256 << 20
"""Of its answers: the times of all frames."""


class ServiceProcess:
    """A running one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.port = 0
        self.certificate = ""
        """The file of its certificate; empty without TLS."""

    async def do(self, what: str, **more: Any) -> Any:
        """Send a command and return its answer. Raises `TimeoutError`."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps({"do": what} | more) + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        if not line:
            raise OSError("the service of the benchmark ended by itself")
        return orjson.loads(line)


@asynccontextmanager
async def serving(wire: str, *, tls: bool = False) -> AsyncIterator[ServiceProcess]:
    """Start one and end it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.providers.service", wire, *(["tls"] if tls else [])),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=LONGEST_LINE,
    )
    try:
        service = ServiceProcess(process)
        ready = await service.answer()
        service.port, service.certificate = ready["port"], ready["certificate"]
        yield service
    finally:
        assert process.stdin is not None
        process.stdin.close()  # the end of its input stops it
        try:
            async with asyncio.timeout(60):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
