"""A network that may be cut: a TCP relay between engines and a server.

What is sent meanwhile waits, as TCP would send it again. New connections are accepted and silent.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

import psutil


class Relay:
    """Passes bytes to `host:port`, for each engine until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._cut: set[int] = set()
        self._mended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def cut(self, pid: int) -> None:
        """Let nothing of this process through, in either direction."""
        self._cut.add(pid)

    def mend(self) -> None:
        """Let everything through again."""
        self._cut.clear()
        self._mended.set()
        self._mended = asyncio.Event()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            pid = await asyncio.to_thread(_owner, writer.get_extra_info("peername")[1])
            await self._passes(pid)
            there, back = await asyncio.open_connection(*self._target)
            writers.append(back)
            await asyncio.gather(self._pump(reader, back, pid), self._pump(there, writer, pid))
        except OSError:
            return
        finally:
            for each in writers:
                each.close()
            for each in writers:
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self._passes(pid)
                writer.write(data)
                await writer.drain()
        await self._passes(pid)
        writer.close()

    async def _passes(self, pid: int) -> None:
        while pid in self._cut:
            await self._mended.wait()


def _owner(port: int) -> int:
    """The process at the other end of a connection from this local port; 0 if it has ended."""
    for found in psutil.net_connections("tcp4"):
        if found.laddr and found.laddr.port == port and found.pid is not None:
            return found.pid
    return 0
