"""The connection to NATS, made again for ever.

The client of `nats-py` is used for one connection at a time and without its own reconnecting: after
a loss every request fails at once, nothing waits in its buffer to be sent later (a renewal that
arrives ten seconds late is a lie), and subscriptions begin anew. A connection on which nothing
answers, not even a ping, is given up within a second, so that a renewal still reaches another
server before the lease ends.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
import structlog

from cordboard.cluster.nats_credentials import read_credentials
from cordboard.config.sections.cluster import Nats, NatsTls
from cordboard.errors import BusAway, ClusterError, ExtraMissing, RevisionLost

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

log = structlog.get_logger()

ASK_SECONDS = 0.6
"""Time for an answer; JetStream on the same network takes a millisecond (p99)."""
PING_SECONDS = 0.3
CONNECT_SECONDS = 1
RETRY_SECONDS = 0.2
PING_INTERVAL = 1
USELESS_SECONDS = 10.0
"""Time in which JetStream has answered nothing, after which another server is tried: this one may
be cut off from the others, and answer pings all the same. A new leader takes 6 to 8 s."""
LOST_PINGS = 2
READ_AGAIN_SECONDS = 10.0
"""Shortest time between two readings of the files for TLS and signing in, which may be renewed
while the engine runs: what is in them expires."""
_CLOSE_SECONDS = 1.0
_WRONG_REVISION = (10071, 10164)
"""JetStream's error codes for a wrong `Nats-Expected-Last-Subject-Sequence`."""
_STRANGE = "an answer that is not JetStream's"
NOT_FOUND = (10037, 10059)
"""JetStream's error codes for no such message, and no such stream."""
NO_RESPONDERS = "503"
"""`Status` of an answer by the server itself: no client serves the subject."""


class ApiError(ClusterError):
    """JetStream refused a request. `code` is its `err_code`."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        super().__init__(f"{text} ({code})")


class NatsLink:
    """One connection to one server, until it is lost."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.lost = asyncio.Event()
        self._inbox = client.new_inbox()
        self._tokens = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._probe: asyncio.Task[None] | None = None
        self.useless_since: float | None = None
        """Loop time of the first request that JetStream did not answer since it answered one."""

    async def open(self) -> None:
        await self.client.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = ASK_SECONDS,
    ) -> Msg:
        """Send a request and return its answer. Raises `BusAway`."""
        import nats.errors

        if self.lost.is_set():
            raise BusAway("not connected")
        number = str(next(self._tokens))
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self.client.publish(
                    subject,
                    data,
                    reply=f"{self._inbox}.{number}",
                    headers=dict(headers) if headers is not None else None,
                )
                answer: Msg = await future
                return answer
        except TimeoutError:
            self._doubt()
            raise BusAway(f"no answer within {seconds:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise BusAway(f"not sent: {error}") from None
        finally:
            self._waiting.pop(number, None)

    @property
    def most_bytes(self) -> int:
        """Size limit of a message at this server."""
        return int(self.client.max_payload)

    async def settle(self) -> None:
        """Wait until the server has taken what was sent: a subscription is in force then. Raises
        `BusAway`."""
        import nats.errors

        try:
            async with asyncio.timeout(PING_SECONDS):
                await self.client.flush()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise BusAway(f"no answer to a ping: {error}") from None

    async def send(self, subject: str, body: Any, reply: str) -> None:
        """Send a request whose answers arrive at an address of `inbox`. Raises `BusAway`."""
        await self.answer(subject, orjson.dumps(body), reply)

    async def answer(self, subject: str, data: bytes, reply: str = "") -> None:
        """Send bytes to a subject, e.g. the address that a request names. Raises `BusAway`."""
        import nats.errors

        try:
            await self.client.publish(subject, data, reply=reply)
        except (nats.errors.Error, OSError) as error:
            raise BusAway(f"not sent: {error}") from None

    async def put(self, subject: str, data: bytes) -> None:
        """Send to those who listen now, without an answer. Raises `BusAway`."""
        import nats.errors

        try:
            await self.client.publish(subject, data)
        except (nats.errors.Error, OSError) as error:
            raise BusAway(f"not sent: {error}") from None

    @asynccontextmanager
    async def inbox(
        self, subject: str = ""
    ) -> AsyncIterator[tuple[str, asyncio.Queue[Msg | None]]]:
        """Yield an address, and what arrives there; None when the connection is lost. `subject`:
        the address, in place of a new one. Raises `BusAway`."""
        import nats.errors

        arrived: asyncio.Queue[Msg | None] = asyncio.Queue()

        async def arrives(message: Msg) -> None:
            arrived.put_nowait(message)

        address = subject or self.client.new_inbox()
        try:
            subscription = await self.client.subscribe(address, cb=arrives)
        except nats.errors.Error as error:
            raise BusAway(f"not subscribed: {error}") from None
        ending = asyncio.get_running_loop().create_task(self.lost.wait())
        ending.add_done_callback(lambda _: arrived.put_nowait(None))
        try:
            yield address, arrived
        finally:
            ending.cancel()
            if not self.lost.is_set():
                try:
                    await subscription.unsubscribe()
                except nats.errors.Error as error:
                    log.debug("not_unsubscribed", error=str(error))

    def lose(self) -> None:
        """Give the connection up. Idempotent."""
        self.lost.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BusAway("the connection was lost"))

    async def _answered(self, message: Msg) -> None:
        future = self._waiting.get(message.subject.rpartition(".")[2])
        if future is not None and not future.done():
            future.set_result(message)

    def _doubt(self) -> None:
        """Find out whether the server is there at all."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._ping())

    async def _ping(self) -> None:
        import nats.errors

        try:
            async with asyncio.timeout(PING_SECONDS):
                await self.client.flush()
        except (TimeoutError, nats.errors.Error, OSError):
            log.warning("bus_silent")
            self.lose()


class NatsConnection:
    """One per engine. Start `run` as a task."""

    def __init__(self, settings: Nats, name: str) -> None:
        """`name` is shown among the server's connections."""
        self._settings = settings
        self._name = name
        self.changed: Callable[[bool], None] = lambda connected: None
        """Called with `connected` after each change."""
        self._link: NatsLink | None = None
        self._linked = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self.server = ""
        """Address of the server in use, or used last."""
        self._tls: ssl.SSLContext | None = None
        self._options: Mapping[str, Any] | None = None
        self._read_at = 0.0
        """Loop time of the last reading of these files."""
        self.problem = "not connected yet"
        """Why there is no connection; empty while there is one."""

    @property
    def connected(self) -> bool:
        return self._link is not None and not self._link.lost.is_set()

    @property
    def current(self) -> NatsLink | None:
        """The connection; None if there is none."""
        return self._link if self.connected else None

    async def link(self) -> NatsLink:
        """Wait for a connection."""
        while True:
            await self._linked.wait()
            if self._link is not None:
                return self._link

    async def prepare(self) -> None:
        """Read the files for TLS and signing in. Raises `ClusterError` if that is impossible."""
        self._read_at = asyncio.get_running_loop().time()
        self._tls = await asyncio.to_thread(_tls_context, self._settings.tls)
        self._options = await asyncio.to_thread(_options, self._settings)

    async def run(self) -> NoReturn:
        """Stay connected until cancelled. Raises what `prepare` does."""
        if self._options is None:
            await self.prepare()
        servers = list(self._settings.servers)
        random.shuffle(servers)
        try:
            for server in itertools.cycle(servers):
                link = await self._connect(server)
                if link is None:
                    await asyncio.sleep(RETRY_SECONDS)
                    await self._read_again()
                    continue
                await self._serve(link, server)
        finally:
            if self._link is not None:
                self._leave(self._link)
            if self._closing:
                await asyncio.wait(self._closing, timeout=_CLOSE_SECONDS)
        raise AssertionError

    async def _read_again(self) -> None:
        """Prepare again, if the last time is long ago; keep what was read before if that fails."""
        if asyncio.get_running_loop().time() - self._read_at < READ_AGAIN_SECONDS:
            return
        try:
            await self.prepare()
        except ClusterError as error:
            log.warning("bus_files_not_read", error=str(error))

    async def ask(
        self,
        subject: str,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        seconds: float = ASK_SECONDS,
    ) -> Msg:
        """Send a request and return its answer. Raises `BusAway`, at once if not connected."""
        if self._link is None:
            raise BusAway("not connected")
        return await self._link.ask(subject, data, headers, seconds)

    async def api(self, name: str, body: Any = None, seconds: float = ASK_SECONDS) -> Any:
        """Return JetStream's answer to a request of its API. Raises `BusAway` and `ApiError`."""
        data = b"" if body is None else orjson.dumps(body)
        return await self._answer(f"$JS.API.{name}", data, seconds=seconds)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        last: int,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> int:
        """Store a message after the one with the number `last` of its subject; return its number.
        Raises `BusAway` and `RevisionLost`."""
        headers = {**headers, "Nats-Expected-Last-Subject-Sequence": str(last)}
        try:
            return int((await self._answer(subject, data, headers))["seq"])
        except ApiError as error:
            if error.code in _WRONG_REVISION:
                raise RevisionLost(str(error)) from None
            raise BusAway(str(error)) from None
        except (KeyError, TypeError, ValueError):
            raise BusAway(_STRANGE) from None

    async def _answer(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        seconds: float = ASK_SECONDS,
    ) -> Any:
        """Return what JetStream answers. Raises `BusAway` and `ApiError`."""
        link = self._link
        try:
            found = answer_of(await self.ask(subject, data, headers, seconds))
        except BusAway:
            if link is not None and link.useless_since is None:
                link.useless_since = asyncio.get_running_loop().time()
            raise
        except ApiError:
            if link is not None:
                link.useless_since = None
            raise
        if link is not None:
            link.useless_since = None
        return found

    async def _connect(self, server: str) -> NatsLink | None:
        import nats.errors
        from nats.aio.client import Client

        client = Client()
        link: NatsLink | None = None
        reason, refused = "", False

        async def trouble(error: Exception) -> None:
            nonlocal reason, refused
            reason = str(error) or type(error).__name__
            if "permissions violation" in reason and not refused:  # such requests get no answer
                refused = True
                log.error("bus_refuses", server=server, error=reason)
            else:
                log.debug("bus_trouble", server=server, error=reason)

        async def closed() -> None:
            if link is not None:
                link.lose()

        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await client.connect(
                    servers=[server],
                    name=self._name,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,  # 0 and less: for ever, one more each 2 s
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_SECONDS,
                    ping_interval=PING_INTERVAL,
                    max_outstanding_pings=LOST_PINGS,
                    error_cb=trouble,
                    closed_cb=closed,
                    tls=self._tls,
                    **(self._options or {}),
                )
                link = NatsLink(client)
                await link.open()
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self._problem(f"{server}: {reason or str(error) or type(error).__name__}")
            self._close(client)
            return None
        return link

    async def _serve(self, link: NatsLink, server: str) -> None:
        """Use a connection until it is lost."""
        log.info("bus_connected", server=server)
        self.problem, self.server = "", server
        self._link = link
        self._linked.set()
        self.changed(True)
        while not link.lost.is_set():
            if link.client.is_closed or self._is_useless(link):
                link.lose()
            try:
                async with asyncio.timeout(PING_INTERVAL):
                    await link.lost.wait()
            except TimeoutError:
                continue
        self._leave(link)
        self._problem(f"{server}: the connection was lost")
        self.changed(False)

    def _is_useless(self, link: NatsLink) -> bool:
        since = link.useless_since
        if since is None or len(self._settings.servers) == 1:
            return False
        return asyncio.get_running_loop().time() - since > USELESS_SECONDS

    def _leave(self, link: NatsLink) -> None:
        self._linked.clear()
        self._link = None
        link.lose()
        self._close(link.client)

    def _close(self, client: Client) -> None:
        """Close aside: the client waits until a silent server has taken what was sent."""
        task = asyncio.get_running_loop().create_task(_closed(client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _problem(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("bus_away", problem=problem)
        self.problem = problem


async def _closed(client: Client) -> None:
    import nats.errors

    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
    except (nats.errors.Error, OSError, TimeoutError) as error:
        log.debug("bus_not_closed", error=repr(error))
    _abandon(client)


def _abandon(client: Client) -> None:
    """Drop what is left of a client that a silent server keeps from closing: what waits in it must
    not be sent when the server wakes, and its tasks would wait for ever."""
    writer = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
    for subscription in client._subs.values():
        task: Any = subscription._wait_for_msgs_task
        if task is not None:
            task.cancel()


def answer_of(message: Msg) -> Any:
    """Return the JSON of an answer of JetStream. Raises `BusAway` and `ApiError`."""
    if message.headers and message.headers.get("Status") == "503":
        raise BusAway("no JetStream, or no such stream")
    try:
        found = orjson.loads(message.data)
        error = found.get("error")
    except (orjson.JSONDecodeError, AttributeError):
        raise BusAway(_STRANGE) from None
    if error is None:
        return found
    code, text = int(error.get("err_code", 0)), str(error.get("description", ""))
    if error.get("code") in (500, 503):
        raise BusAway(f"{text} ({code})")
    raise ApiError(code, text)


def require_nats() -> None:
    """Raises `ExtraMissing` unless the extra `cluster` is installed."""
    try:
        import nats.aio.client  # noqa: F401
    except ImportError:
        raise ExtraMissing(
            "cluster needs the extra `cluster`: pip install cordboard[cluster]"
        ) from None


def _options(settings: Nats) -> dict[str, Any]:
    """Return the client's options for signing in. Blocks. Raises `ClusterError`."""
    if settings.password is not None:
        return {"user": settings.user, "password": settings.password.get_secret_value()}
    if settings.token is not None:
        return {"token": settings.token.get_secret_value()}
    if settings.credentials is not None:
        found = read_credentials(settings.credentials)
        return {"user_jwt_cb": found.jwt, "signature_cb": found.sign}
    return {}


def _tls_context(settings: NatsTls | None) -> ssl.SSLContext | None:
    """Return the TLS context. Blocks. Raises `ClusterError`."""
    if settings is None:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.ca)
        if settings.certificate is not None and settings.key is not None:
            context.load_cert_chain(settings.certificate, settings.key)
    except OSError as error:  # ssl.SSLError, too
        raise ClusterError(f"cluster.nats.tls: {error}") from None
    return context
