"""Websockets of a voice that are kept between sentences, shared by all calls.

A connection speaks one text at a time. A text that is given up is taken back; the connection is
used again when the service has confirmed that. So the calls share a few connections, and a sentence
need not wait for a handshake.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

from cordboard.agents.pipeline.pcm_stream import SoundStream
from cordboard.errors import FailureKind, VoiceError
from cordboard.net.service_websocket import ServiceConnection

MOST_IDLE = 8
IDLE_SECONDS = 50.0
"""Seconds for which an unused connection is kept."""


class SpeakingConnection(ABC):
    """One connection. Implements `service_websocket.Receiver`, but for what is received."""

    def __init__(self, connection: ServiceConnection, rate: int) -> None:
        """`rate`: sample rate of the service's sound."""
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self.rate = rate
        self.idle_since = self._loop.time()
        self._pieces: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._spoken = False
        """All sound of the text has arrived."""
        self._clearing = False
        """The text was given up; the service has not confirmed that yet."""
        self._problem: VoiceError | None = None

    @property
    def lives(self) -> bool:
        return self._problem is None and self._connection.alive

    @property
    def usable(self) -> bool:
        """True if it can take the next text."""
        return self.lives and not self._clearing

    async def speak(self, text: str) -> AsyncGenerator[bytes, None]:
        """Yield the sound of a text as it arrives. Raises `VoiceError`."""
        self._pieces.clear()
        self._spoken = False
        self._request(text)
        try:
            while True:
                while self._pieces:
                    yield self._pieces.popleft()
                if self._spoken:
                    return
                if self._problem is not None:
                    raise self._problem
                self._news.clear()
                await self._news.wait()
        finally:
            self.idle_since = self._loop.time()
            if not self._spoken and self.lives:
                self._clearing = True
                self._take_back()

    @abstractmethod
    def _request(self, text: str) -> None:
        """Have the service speak the text."""

    @abstractmethod
    def _take_back(self) -> None:
        """Have the service stop; `_clearing` ends with its confirmation."""

    async def close(self) -> None:
        await self._connection.close()

    def abort(self) -> None:
        self._connection.abort()

    def _heard(self, sound: bytes) -> None:
        """Pass on a piece of sound, unless its text was given up."""
        if not self._clearing:
            self._pieces.append(sound)
            self._news.set()

    def _fail(self, reason: str, kind: FailureKind) -> None:
        if self._problem is None:
            self._problem = VoiceError(reason, kind)
            self._connection.abort()
        self._news.set()


Speaking = TypeVar("Speaking", bound=SpeakingConnection)


class KeptConnections(Generic[Speaking]):
    """The connections of one voice."""

    def __init__(self, connect: Callable[[int], Awaitable[Speaking]]) -> None:
        """`connect` opens one for a sample rate. Raises `VoiceError`."""
        self._connect = connect
        self._idle: list[Speaking] = []
        self._look: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def spoken(
        self,
        rate: int,
        speak: Callable[[Speaking], AsyncGenerator[bytes, None]],
        sound: SoundStream,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the sound that `speak` gets from a connection of this sample rate, converted by
        `sound`. Raises `VoiceError`."""
        speaking = await self._take(rate)
        pieces = speak(speaking)
        try:
            async for piece in pieces:
                yield sound.feed(piece)
            yield sound.flush()
        finally:
            await pieces.aclose()
            self._give_back(speaking)

    async def close(self) -> None:
        """Close the idle connections now, and the speaking ones when they have finished."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(speaking.close() for speaking in idle), *self._closing)

    async def _take(self, rate: int) -> Speaking:
        """Return the most recently used connection, so that unneeded ones can expire, or a new
        one."""
        for speaking in reversed(self._idle):
            if speaking.rate == rate and speaking.usable:
                self._idle.remove(speaking)
                return speaking
        return await self._connect(rate)

    def _give_back(self, speaking: Speaking) -> None:
        if not speaking.lives:
            speaking.abort()
        elif self._closed or len(self._idle) >= MOST_IDLE:
            self._drop(speaking)
        else:
            self._idle.append(speaking)
            if self._look is None:
                self._look = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop_old)

    def _drop(self, speaking: Speaking) -> None:
        task = asyncio.get_running_loop().create_task(speaking.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _drop_old(self) -> None:
        self._look = None
        loop = asyncio.get_running_loop()
        kept: list[Speaking] = []
        for speaking in self._idle:
            if speaking.lives and loop.time() - speaking.idle_since < IDLE_SECONDS:
                kept.append(speaking)
            else:
                self._drop(speaking)
        self._idle = kept
        if kept:
            self._look = loop.call_later(IDLE_SECONDS, self._drop_old)
