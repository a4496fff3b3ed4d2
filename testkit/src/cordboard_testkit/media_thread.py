"""One thread that moves the audio of all simulated callers, so that the engine cannot skew it.

Measurements are worth nothing when the caller's own packets leave late because the event loop of
the engine under test, in the same process, is busy. Every stream (RTP, AudioSocket) therefore lives
in this thread: woken by its socket, and ticked on an absolute 20 ms schedule.

Its users (`MediaUser`) have one each, unless several share one. The event loop talks to the thread
through `add` and `remove` only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import structlog

log = structlog.get_logger()

_NICENESS = -10  # this thread before others, where the system permits it
_IDLE_WAIT = 3600.0


class MediaStream(Protocol):
    """A stream that the media thread serves. All methods run in the thread; none may block."""

    due: float
    """`time.monotonic()` of the next tick."""

    def fileno(self) -> int: ...

    def receive(self) -> None:
        """Read all packets of the socket."""
        ...

    def tick(self) -> None:
        """Send the due packets and set `due` to the next time."""
        ...

    def finish(self) -> None:
        """Close the socket; called once, after the stream left the thread."""
        ...


class MediaThread:
    """The thread and its list of streams. `async with`, or `start` and `stop`."""

    def __init__(self) -> None:
        self._streams: dict[int, MediaStream] = {}
        self._commands: deque[tuple[str, MediaStream | None]] = deque()
        self._thread = threading.Thread(target=self._run, name="caller-media", daemon=True)
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; called from the event loop that will stop it."""
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        self._thread.start()

    async def stop(self) -> None:
        """Finish every stream and end the thread."""
        if self._stopped is None:
            return
        self._command("stop", None)
        await self._stopped.wait()
        self._thread.join()
        self._wake_in.close()
        self._wake_out.close()
        self._stopped = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def add(self, stream: MediaStream) -> None:
        """Serve a stream from now on."""
        self._command("add", stream)

    def remove(self, stream: MediaStream) -> None:
        """Stop serving it and finish it. A no-op once the thread has stopped."""
        if self._stopped is not None:
            self._command("remove", stream)

    def _command(self, name: str, stream: MediaStream | None) -> None:
        if self._stopped is None:
            raise RuntimeError("the media thread is not running")
        self._commands.append((name, stream))
        with contextlib.suppress(BlockingIOError):
            self._wake_out.send(b"\0")

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        with select.epoll() as poller:
            poller.register(self._wake_in, select.EPOLLIN)
            while self._obey(poller):
                self._serve(poller)
            for number in list(self._streams):
                self._drop(poller, number)
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)

    def _obey(self, poller: select.epoll) -> bool:
        """Carry out the waiting commands; False = stop."""
        while self._commands:
            name, stream = self._commands.popleft()
            if stream is None:
                return False
            number = stream.fileno()
            if name == "add":
                self._streams[number] = stream
                poller.register(number, select.EPOLLIN)
            elif self._streams.get(number) is stream:
                self._drop(poller, number)
        return True

    def _serve(self, poller: select.epoll) -> None:
        """Wait for the next event or due time, and handle it."""
        now = time.monotonic()
        wait = min((s.due for s in self._streams.values()), default=now + _IDLE_WAIT) - now
        # epoll counts in whole milliseconds and rounds up: the rest below one is slept.
        ready = poller.poll(max(0, int(wait * 1000)) / 1000)
        if not ready and 0 < wait < 0.001:
            time.sleep(wait)
        for number, _ in ready:
            stream = self._streams.get(number)
            if stream is not None:
                self._guard(poller, number, stream.receive)
            else:
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(4096)
        now = time.monotonic()
        for number, stream in list(self._streams.items()):
            while stream.due <= now and number in self._streams:
                self._guard(poller, number, stream.tick)

    def _guard(self, poller: select.epoll, number: int, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            log.exception("caller_stream_failed")
            self._drop(poller, number)

    def _drop(self, poller: select.epoll, number: int) -> None:
        stream = self._streams.pop(number)
        with contextlib.suppress(OSError):
            poller.unregister(number)
        stream.finish()


class MediaUser(ABC):
    """A simulated party with sound: its media thread is its own, or one that several share.
    `async with`, or `start` and `close`."""

    def __init__(self, media: MediaThread | None) -> None:
        """`media`: the shared thread; None: an own one, which starts and stops with the party."""
        self._media = media or MediaThread()
        self._owns_media = media is None

    @abstractmethod
    async def start(self) -> None:
        """Begin."""

    @abstractmethod
    async def close(self) -> None:
        """End everything and free it. Idempotent."""

    def _start_media(self) -> None:
        if self._owns_media:
            self._media.start()

    async def _stop_media(self) -> None:
        if self._owns_media:
            await self._media.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
