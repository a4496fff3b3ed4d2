"""A bus for processes: buckets, a journal and requests, with what a network does to them.

A request that was sent is carried out, also if its process is killed or stopped meanwhile. One that
is on the way when the process is cut off may be carried out when it is connected again, or be lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

from tests.cluster.fake_bus import FakeServer

from cordboard.cluster.bus import BucketListener, Entry, Message
from cordboard.errors import BusAway, RevisionLost

from .processes import Process, later

ANSWER_SECONDS = 0.0006
"""One way."""
ASK_SECONDS = 0.6
LOSS_SECONDS = 0.9
"""Time after which a connection on which nothing answers is given up."""


class Bus:
    """The servers."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.leases, self.calls, self.servers = FakeServer(), FakeServer(), FakeServer()
        self.journal: dict[str, list[Message]] = {}
        self.subjects: dict[str, Inbox] = {}
        self.asked: dict[str, tuple[asyncio.Future[Any], Connection]] = {}
        """Requests that are not answered yet, by the address of the answer."""
        self.messages = 0


class Inbox:
    """A subscription of one connection."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()


class Link:
    """One connection of a process, until it is lost."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.lost = asyncio.Event()
        self.queues: set[asyncio.Queue[Any]] = set()
        self.useless_since = None

    @asynccontextmanager
    async def inbox(self, subject: str = "") -> AsyncIterator[tuple[str, asyncio.Queue[Any]]]:
        inbox, subjects = Inbox(self), self.connection.bus.subjects
        self.queues.add(inbox.arrived)
        later(ANSWER_SECONDS, subjects.__setitem__, subject, inbox)
        try:
            yield subject, inbox.arrived
        finally:
            self.queues.discard(inbox.arrived)
            if subjects.get(subject) is inbox:
                del subjects[subject]

    async def answer(self, subject: str, data: bytes, reply: str = "") -> None:
        future, asker = self.connection.bus.asked.pop(subject)
        answer = SimpleNamespace(data=data, headers=None)
        self.connection.send(lambda: asker.receive(settle, future, answer))


def settle(future: asyncio.Future[Any], found: Any) -> None:
    if not future.done():
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)


class Connection:
    """The connection of one process (in place of `NatsConnection`)."""

    server = "simulated"

    def __init__(self, bus: Bus, process: Process) -> None:
        self.bus = bus
        self.process = process
        self.changed: Callable[[bool], None] = lambda connected: None
        self.cut = False
        self.loses_answers = False
        """True: requests are done, but seem to fail."""
        self.way_seconds = ANSWER_SECONDS
        self._last_arrival: dict[str, float] = {}
        self.link_now: Link | None = None
        self._linked = asyncio.Event()
        self._on_the_way: list[Callable[[], None]] = []
        """Towards the bus."""
        self._arriving: list[tuple[Any, ...]] = []
        self.watches: set[Watch] = set()
        self._cuts = 0

    @property
    def connected(self) -> bool:
        return self.link_now is not None

    @property
    def problem(self) -> str:
        return "" if self.connected else "not connected"

    async def prepare(self) -> None:
        pass

    async def run(self) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def link(self) -> Link:
        await self._linked.wait()
        assert self.link_now is not None
        return self.link_now

    def connect(self) -> None:
        """Have a connection. Called in the process."""
        if self.link_now is None and not self.cut:
            self.link_now = Link(self)
            self._linked.set()
            self.changed(True)

    def lose(self) -> None:
        """Give the connection up. Called in the process."""
        link, self.link_now = self.link_now, None
        self._linked.clear()
        if link is not None:
            link.lost.set()
            for queue in link.queues:
                queue.put_nowait(None)
            self.changed(False)

    def cut_off(self) -> None:
        self.cut = True
        self._cuts += 1
        later(LOSS_SECONDS, self._gone, self._cuts)

    def _gone(self, cuts: int) -> None:
        if self.cut and cuts == self._cuts:
            self._arriving.clear()
            for watch in self.watches:
                watch.is_open = False
            self.process.do(self.lose)

    def mend(self) -> None:
        self.cut = False
        late, self._on_the_way = self._on_the_way, []
        for work in late:
            if self.link_now is not None or self.bus.chance.random() < 0.5:
                work()
        arriving, self._arriving = self._arriving, []
        for callback, *args in arriving:
            self.process.do(callback, *args)
        later(self.bus.chance.uniform(0.0, 1.2), self.process.do, self.connect)

    def die(self) -> None:
        """The process is gone, and its sockets are, with what was in them."""
        self._on_the_way.clear()
        self.bus.subjects = {
            subject: inbox
            for subject, inbox in self.bus.subjects.items()
            if inbox.link.connection is not self
        }

    def send(self, work: Callable[[], None]) -> None:
        """Have something done by the bus."""
        later(self._way("there"), self._arrive, work)

    def _way(self, direction: str) -> float:
        """Return the seconds until what is sent now arrives: not before what was sent earlier."""
        now = asyncio.get_running_loop().time()
        at = max(now + self.way_seconds, self._last_arrival.get(direction, 0.0))
        self._last_arrival[direction] = at
        return at - now

    def _arrive(self, work: Callable[[], None]) -> None:
        if self.cut:
            self._on_the_way.append(work)
        else:
            work()

    def receive(self, callback: Callable[..., None], *args: Any) -> None:
        """Have something of the bus arrive in the process."""
        later(self._way("back"), self._deliver, callback, *args)

    def _deliver(self, callback: Callable[..., None], *args: Any) -> None:
        if self.cut:
            self._arriving.append((callback, *args))
        else:
            self.process.do(callback, *args)

    async def do(self, work: Callable[[], Any]) -> Any:
        """Return the answer to a request. Raises `BusAway` and `RevisionLost`."""
        if self.link_now is None:
            await asyncio.sleep(0.01)
            raise BusAway("not connected")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def carry_out() -> None:
            try:
                found = work()
            except RevisionLost as error:
                found = error
            if not self.loses_answers:
                self.receive(settle, future, found)

        self.send(carry_out)
        return await self._answer(future)

    async def ask(self, subject: str, data: bytes, *_: Any) -> Any:
        """Return another process's answer. Raises `BusAway`."""
        if self.link_now is None:
            raise BusAway("not connected")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def pass_on() -> None:
            inbox = self.bus.subjects.get(subject)
            if inbox is None:
                none = SimpleNamespace(data=b"", headers={"Status": "503"})
                self.receive(settle, future, none)
                return
            self.bus.messages += 1
            reply = f"reply.{self.bus.messages}"
            self.bus.asked[reply] = future, self
            message = SimpleNamespace(data=data, reply=reply, headers=None, subject=subject)
            inbox.link.connection.receive(inbox.arrived.put_nowait, message)

        self.send(pass_on)
        return await self._answer(future)

    async def _answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return await future
        except TimeoutError:
            raise BusAway("no answer") from None


class Watch:
    """A listener of one process."""

    def __init__(self, connection: Connection, listener: BucketListener) -> None:
        self.connection = connection
        self.listener = listener
        self.is_open = False
        """True while the bus sends changes."""

    def tell(self, entry: Entry) -> None:
        if self.is_open:
            self.connection.receive(self.listener.changed, entry)


class Bucket:
    """One process's view of the entries."""

    def __init__(self, server: FakeServer, connection: Connection) -> None:
        self._server = server
        self._connection = connection

    async def get(self, key: str) -> Entry | None:
        found: Entry | None = await self._connection.do(lambda: self._server.entries.get(key))
        return found

    async def put(self, key: str, value: bytes, *, last: int, ttl: int | None = None) -> int:
        def work() -> int:
            self._check(key, last)
            revision = self._server.next_revision()
            self._server.store(Entry(key, value, revision), ttl)
            return revision

        revision: int = await self._connection.do(work)
        return revision

    async def remove(self, key: str, *, last: int) -> None:
        def work() -> None:
            self._check(key, last)
            self._server.store(Entry(key, None, self._server.next_revision()))

        await self._connection.do(work)

    async def watch(self, listener: BucketListener) -> NoReturn:
        watch = Watch(self._connection, listener)
        self._connection.watches.add(watch)
        self._server.clients.append(watch)  # type: ignore[arg-type]

        def open_() -> dict[str, Entry]:
            watch.is_open = True
            entries = dict(self._server.entries)
            self._connection.receive(listener.listed, entries)
            return entries

        try:
            while True:
                link = await self._connection.link()
                try:
                    await self._connection.do(open_)
                except BusAway:
                    await asyncio.sleep(0.2)
                    continue
                await link.lost.wait()
        finally:
            self._connection.watches.discard(watch)
            self._server.clients.remove(watch)  # type: ignore[arg-type]
            watch.is_open = False

    def _check(self, key: str, last: int) -> None:
        entry = self._server.entries.get(key)
        if (entry.revision if entry is not None else 0) != last:
            raise RevisionLost(key)


class Journal:
    """One process's view of the events."""

    def __init__(self, bus: Bus, connection: Connection) -> None:
        self._bus = bus
        self._connection = connection

    async def append(self, name: str, data: bytes, *, last: int) -> int:
        def work() -> int:
            stored = self._bus.journal.setdefault(name, [])
            if (stored[-1].revision if stored else 0) != last:
                raise RevisionLost(name)
            self._bus.messages += 1
            stored.append(Message(data, self._bus.messages))
            return self._bus.messages

        revision: int = await self._connection.do(work)
        return revision

    async def last(self, name: str) -> Message | None:
        found: Message | None = await self._connection.do(
            lambda: (self._bus.journal.get(name) or [None])[-1]
        )
        return found

    async def read(self, name: str) -> list[Message]:
        found: list[Message] = await self._connection.do(
            lambda: list(self._bus.journal.get(name, []))
        )
        return found


class ProcessBus:
    """All of the bus for one process (in place of `NatsBus`)."""

    def __init__(self, connection: Connection, *_: Any, **__: Any) -> None:
        bus = connection.bus
        self.connection = connection
        self.leases, self.calls = Bucket(bus.leases, connection), Bucket(bus.calls, connection)
        self.servers = Bucket(bus.servers, connection)
        self.events = Journal(bus, connection)

    async def run(self) -> NoReturn:
        self.connection.connect()
        await self.connection.run()
