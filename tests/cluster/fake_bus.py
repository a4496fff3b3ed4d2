"""A bus in memory, on the clock of the event loop: it may be away, slow to answer, or lose answers.

Revisions, expiry and watches are as `test_nats_bus.py` shows them of the real one."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from cordboard.cluster.bus import BucketListener, Entry, Message
from cordboard.errors import BusAway, RevisionLost


class FakeServer:
    """What all clients share."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0
        self.clients: list[FakeBucket] = []
        self._expiry: dict[str, asyncio.TimerHandle] = {}
        self.frozen = False
        """True: time goes on for the entries, but nothing expires before it is over."""

    def store(self, entry: Entry, ttl: int | None = None) -> None:
        self.entries[entry.key] = entry
        if (timer := self._expiry.pop(entry.key, None)) is not None:
            timer.cancel()
        if ttl is not None:
            loop = asyncio.get_running_loop()
            self._expiry[entry.key] = loop.call_later(ttl, self._expire, entry.key)
        for client in self.clients:
            client.tell(entry)

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def _expire(self, key: str) -> None:
        if self.frozen:
            self._expiry[key] = asyncio.get_running_loop().call_later(0.01, self._expire, key)
            return
        self.store(Entry(key, None, self.next_revision(), expired=True))


class FakeBucket:
    """One client's view of it. A `cordboard.cluster.bus.Bucket`."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.away = False
        self.loses_answers = False
        """True: requests are carried out, but seem to fail."""
        self.writes = 0
        self._listeners: list[BucketListener] = []
        self._missed = False
        server.clients.append(self)

    async def get(self, key: str) -> Entry | None:
        await self._answer()
        return self._server.entries.get(key)

    async def put(self, key: str, value: bytes, *, last: int, ttl: int | None = None) -> int:
        await self._check(key, last)
        self.writes += 1
        revision = self._server.next_revision()
        self._server.store(Entry(key, value, revision), ttl)
        await self._lose()
        return revision

    async def remove(self, key: str, *, last: int) -> None:
        await self._check(key, last)
        self._server.store(Entry(key, None, self._server.next_revision()))
        await self._lose()

    async def watch(self, listener: BucketListener) -> NoReturn:
        self._listeners.append(listener)
        listener.listed(dict(self._server.entries))
        await asyncio.Event().wait()
        raise AssertionError

    def tell(self, entry: Entry) -> None:
        if self.away:
            self._missed = True
            return
        for listener in self._listeners:
            listener.changed(entry)

    def come_back(self) -> None:
        self.away = False
        for listener in self._listeners:
            listener.listed(dict(self._server.entries))

    async def _check(self, key: str, last: int) -> None:
        await self._answer()
        entry = self._server.entries.get(key)
        if (entry.revision if entry is not None else 0) != last:
            raise RevisionLost(key)

    async def _answer(self) -> None:
        await asyncio.sleep(0.001)
        if self.away:
            await asyncio.sleep(0.6)
            raise BusAway("no answer")

    async def _lose(self) -> None:
        if self.loses_answers:
            await asyncio.sleep(0.6)
            raise BusAway("no answer")


class FakeJournal:
    """A `cordboard.cluster.bus.Journal` in memory."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Message]] = {}
        self.away = False
        self.loses_answers = False
        self.behind = 0
        """Number of the newest messages that `read` does not have yet."""
        self._revision = 0

    async def append(self, name: str, data: bytes, *, last: int) -> int:
        await self._answer()
        stored = self.messages.setdefault(name, [])
        if (stored[-1].revision if stored else 0) != last:
            raise RevisionLost(name)
        self._revision += 1
        stored.append(Message(data, self._revision))
        if self.loses_answers:
            raise BusAway("no answer")
        return self._revision

    async def last(self, name: str) -> Message | None:
        await self._answer()
        return (self.messages.get(name) or [None])[-1]

    async def read(self, name: str) -> list[Message]:
        await self._answer()
        messages = self.messages.get(name, [])
        return messages[: len(messages) - self.behind]

    async def _answer(self) -> None:
        await asyncio.sleep(0.001)
        if self.away:
            raise BusAway("no answer")
