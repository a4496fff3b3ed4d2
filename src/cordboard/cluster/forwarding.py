"""Requests of one engine's administration that another engine carries out, over core NATS.

    <cluster>.admin.<owner>.<session>     the request, then the sender's frames
    <cluster>.admin.<sender>.<session>    the owner's frames

The owner answers the request with `{"problem": ""}`, and by its frames with what its handler says:
an HTTP answer in pieces, or a websocket. Each engine has one subscription, and each exchange its
own subject; without an exchange nothing is sent. Both sides say `alive` every second, and give up
after `LOST_SECONDS` of silence. A sender is at most `WINDOW` frames ahead of what the other side
has taken, so that a slow page slows the sound down at its source, as it does without a cluster.

With a seal (`sealed_bus.admin_seal_of`) all of it is encrypted, and what is not is refused. A
request is carried out once: it names its time, and is remembered for as long as that is accepted.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NoReturn, TypeAlias

import orjson
import structlog

from cordboard.cluster.nats_connection import NatsConnection, NatsLink
from cordboard.cluster.sealed_bus import BusSeal
from cordboard.cluster.wire import (
    AdminFrame,
    AdminRequest,
    decode_frame,
    decode_request,
    encode_frame,
    encode_request,
    token,
)
from cordboard.errors import BusAway, NodeGone, WireUnreadable

log = structlog.get_logger()

ALIVE_SECONDS = 1.0
LOST_SECONDS = 5.0
"""Silence of the other side after which it counts as gone."""
OPEN_SECONDS = 2.0
"""Time in which an engine takes a request, or does not."""
RETRY_SECONDS = 0.2
WINDOW = 64
"""Frames that may be on their way. Sound is 20 frames a second."""
MOST_SESSIONS = 256
"""Exchanges that others have begun with this engine."""
MOST_PART = 200_000
"""Bytes of content in one message."""
CLOCK_SECONDS = 300.0
"""Most by which the clock of a sender may differ."""
_NO_RESPONDERS = "503"
_CONTENT = frozenset({"body", "text", "bytes"})
"""Types of frames that count for the window."""


class Exchange:
    """One request, and the frames that follow it in both directions."""

    def __init__(self, session: str, put: Callable[[bytes], Awaitable[None]]) -> None:
        """`put` sends a message to the other side. Raises `BusAway`."""
        self.session = session
        self._put = put
        self._sent = self._received = 0
        self._open_frames = 0
        """Frames of content that the other side has not taken."""
        self._room = asyncio.Event()
        self._room.set()
        self._taken = 0
        self._frames: asyncio.Queue[AdminFrame | None] = asyncio.Queue()
        self._lost = ""
        self._parts: list[bytes] = []
        self.heard_at = asyncio.get_running_loop().time()

    async def send(
        self,
        kind: str,
        content: bytes = b"",
        *,
        code: int = 0,
        reason: str = "",
        headers: Mapping[str, str] | None = None,
        more: bool = False,
    ) -> None:
        """Send a frame; waits while the other side is behind. Raises `NodeGone`."""
        while True:
            part, content = content[:MOST_PART], content[MOST_PART:]
            if kind in _CONTENT:
                await self._room.wait()
                self._open_frames += 1
                if self._open_frames >= WINDOW:
                    self._room.clear()
            if self._lost:
                raise NodeGone(self._lost)
            self._sent += 1
            frame = AdminFrame(
                self._sent, kind, code, reason, headers or {}, bool(content), more, part
            )
            try:
                await self._put(encode_frame(frame))
            except BusAway as error:
                self.lose(str(error))
                raise NodeGone(str(error)) from None
            if not content:
                return

    async def receive(self) -> AdminFrame:
        """Return the next frame, whole. Raises `NodeGone` when the other side is gone."""
        while True:
            frame = await self._frames.get()
            if frame is None:
                self._frames.put_nowait(None)  # for the next `receive`
                raise NodeGone(self._lost)
            if frame.type in _CONTENT:
                self._taken += 1
                if self._taken >= WINDOW // 2:
                    count, self._taken = self._taken, 0
                    await self.send("taken", code=count)
            self._parts.append(frame.content)
            if not frame.part:
                content, self._parts = b"".join(self._parts), []
                return replace(frame, content=content)

    def take(self, frame: AdminFrame) -> None:
        """Take a frame of the other side."""
        self.heard_at = asyncio.get_running_loop().time()
        self._received += 1
        if frame.number != self._received:
            self.lose("messages between the engines were lost")
        elif frame.type == "taken":
            self._open_frames -= frame.code
            self._room.set()
        elif frame.type != "alive":
            self._frames.put_nowait(frame)

    def lose(self, reason: str) -> None:
        """Give up. Idempotent."""
        if not self._lost:
            self._lost = reason
            self._room.set()
            self._frames.put_nowait(None)


Serve: TypeAlias = Callable[[AdminRequest, Exchange], Awaitable[None]]


class Forwarding:
    """One per engine. Start `run` as a task."""

    def __init__(
        self,
        connection: NatsConnection,
        cluster: str,
        instance: str,
        *,
        seal: BusSeal | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._prefix = f"{cluster}.admin"
        self._instance = instance
        self._seal = seal
        self._clock = clock
        self.serve: Serve | None = None
        """Carries out a request of another engine. None: this engine has no administration, and
        neither asks nor answers. To be set before `run`."""
        self._exchanges: dict[str, Exchange] = {}
        self._served: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, float] = {}
        """Sessions of requests, with the time until which they are remembered; oldest first."""
        self._busy = asyncio.Event()
        """Set while there are exchanges."""

    async def run(self) -> NoReturn:
        """Take requests and frames until cancelled."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                link = await self._connection.link()
                try:
                    await self._listen(link)
                except BusAway as error:
                    log.debug("forwarding_interrupted", error=str(error))
                self._lose_all("the bus is away")
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._lose_all("the engine leaves the cluster")
            beating.cancel()
            for task in self._served.values():
                task.cancel()

    async def begin(self, instance: str, request: AdminRequest) -> Exchange:
        """Have another engine carry out a request. `request.session` may be empty. Raises `BusAway`
        and `NodeGone`."""
        session = secrets.token_hex(12)
        request = replace(
            request,
            session=session,
            sender=self._instance,
            sent_ms=round(self._clock() * 1000),
        )
        subject = f"{self._prefix}.{token(instance)}.{session}"
        exchange = self._begin(session, instance)
        try:
            answer = await self._connection.ask(
                subject, self._sealed(subject, encode_request(request)), seconds=OPEN_SECONDS
            )
            if (answer.headers or {}).get("Status") == _NO_RESPONDERS:
                raise NodeGone(f"{instance} does not answer: it is gone, or admin.ui is off there")
            if problem := _problem_in(answer.data):
                raise NodeGone(f"{instance} refuses it: {problem}")
        except BaseException:
            self.end(exchange)
            raise
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Forget an exchange, whose end both sides know. Idempotent."""
        self._exchanges.pop(exchange.session, None)
        if not self._exchanges:
            self._busy.clear()

    def _begin(self, session: str, other: str) -> Exchange:
        subject = f"{self._prefix}.{other}.{session}"

        async def put(data: bytes) -> None:
            link = await self._connection.link() if self._connection.connected else None
            if link is None:
                raise BusAway("not connected")
            await link.put(subject, self._sealed(subject, data))

        exchange = self._exchanges[session] = Exchange(session, put)
        self._busy.set()
        return exchange

    async def _listen(self, link: NatsLink) -> None:
        """Take messages until the connection is lost. Raises `BusAway`."""
        if self.serve is None:  # a sender learns at once that there is none
            await link.lost.wait()
            return
        async with link.inbox(f"{self._prefix}.{self._instance}.*") as (_, arrived):
            while (message := await arrived.get()) is not None:
                problem = self._take(message.subject, message.data)
                if message.reply:
                    await link.send(message.reply, {"v": 1, "problem": problem}, "")

    def _take(self, subject: str, data: bytes) -> str:
        """Take one message; return a problem for the sender of a request."""
        session = subject.rpartition(".")[2]
        exchange = self._exchanges.get(session)
        try:
            content = self._opened(subject, data)
            if exchange is not None:
                exchange.take(decode_frame(content))
                return ""
            if session in self._known:
                return "it was sent before"  # or a late frame of an exchange that is over
            request = decode_request(content)
            return self._take_request(session, request)
        except WireUnreadable as error:
            if exchange is not None:
                exchange.lose(str(error))
            return str(error)

    def _take_request(self, session: str, request: AdminRequest) -> str:
        now = self._clock()
        if request.session != session:
            return "the request is for another subject"
        if abs(now - request.sent_ms / 1000) > CLOCK_SECONDS:
            return f"the clocks of the machines differ by more than {CLOCK_SECONDS:.0f} s"
        if len(self._served) >= MOST_SESSIONS:
            return "too many requests at once"
        while self._known and next(iter(self._known.values())) < now:
            del self._known[next(iter(self._known))]
        self._known[session] = now + 2 * CLOCK_SECONDS
        exchange = self._begin(session, request.sender)
        task = asyncio.create_task(self._carry_out(request, exchange), name="forwarded")
        self._served[session] = task
        task.add_done_callback(lambda _: self._served.pop(session, None))
        return ""

    async def _carry_out(self, request: AdminRequest, exchange: Exchange) -> None:
        serve = self.serve
        if serve is None:
            return
        try:
            await serve(request, exchange)
            await exchange.send("end")
        except NodeGone as error:
            log.debug("forwarded_request_left", session=request.session, error=str(error))
        finally:
            self.end(exchange)

    async def _beat(self) -> NoReturn:
        """Say `alive`, and find out who is not."""
        loop = asyncio.get_running_loop()
        while True:
            await self._busy.wait()
            for exchange in [*self._exchanges.values()]:
                if loop.time() - exchange.heard_at > LOST_SECONDS:
                    exchange.lose(f"no sign of life for {LOST_SECONDS:.0f} s")
                    continue
                try:
                    await exchange.send("alive")
                except NodeGone as error:
                    log.debug("exchange_lost", session=exchange.session, error=str(error))
            await asyncio.sleep(ALIVE_SECONDS)

    def _lose_all(self, reason: str) -> None:
        for exchange in [*self._exchanges.values()]:
            exchange.lose(reason)

    def _sealed(self, subject: str, data: bytes) -> bytes:
        return data if self._seal is None else self._seal.seal(f"admin {subject}", data)

    def _opened(self, subject: str, data: bytes) -> bytes:
        """Raises `WireUnreadable`."""
        if self._seal is None:
            return data
        content = self._seal.open_sealed(f"admin {subject}", data)
        if not content:
            raise WireUnreadable("not encrypted with this cluster's secret (or master key)")
        return content


def _problem_in(data: bytes) -> str:
    """Return the problem in an answer; empty if the request was taken."""
    try:
        return str(orjson.loads(data)["problem"])
    except (ValueError, KeyError, TypeError):
        return "an answer that cannot be read"
