"""Typed lines from standard input, without blocking the event loop."""

from __future__ import annotations

import asyncio
import io
import os
import sys


class TypedLines:
    """Reader of standard input, line by line."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._over = False

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of input."""
        try:
            descriptor = sys.stdin.fileno()
        except (io.UnsupportedOperation, ValueError, AttributeError):
            return self._from_text()
        while b"\n" not in self._rest and not self._over:
            await self._readable(descriptor)
            more = os.read(descriptor, 65_536)
            self._rest += more
            self._over = not more
        if not self._rest:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def _from_text(self) -> str | None:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        return line.rstrip("\r\n") if line else None

    async def _readable(self, descriptor: int) -> None:
        """Wait for a terminal or a pipe; a file is readable at once, and no loop can watch it."""
        ready = asyncio.Event()
        try:
            self._loop.add_reader(descriptor, ready.set)
        except (PermissionError, NotImplementedError):
            return
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(descriptor)
