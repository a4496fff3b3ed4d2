"""The connection to Asterisk's REST interface (ARI): one websocket for events and requests.

`AriClient` keeps the websocket up (`run`), hands each event to a callback by a direct call, and
carries requests (`request`). It knows nothing of calls: `source` does. Messages: `ari_messages`.

It connects as our one Stasis application; user and password go in a header, never in the URL. After
a lost connection it reconnects, first almost at once, then after pauses that double up to
`asterisk.reconnect_max_ms`, each shortened at random so that several engines do not come back in
step. Channels stay in Stasis meanwhile and their audio keeps flowing (measured on 22.10.1).
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from cordboard.config.schema import Asterisk
from cordboard.errors import AsteriskError
from cordboard.net.backoff import Backoff
from cordboard.telephony.asterisk.ari_messages import (
    Event,
    Json,
    Response,
    decode,
    encode_request,
)

log = structlog.get_logger()

REQUEST_SECONDS = 5.0
OPEN_SECONDS = 5.0
PING_SECONDS = 5.0
"""Interval of the pings, and timeout of each answer: a dead host shows in 10 s."""
FIRST_PAUSE_SECONDS = 0.1
REFUSALS = (401, 403)
"""Statuses with which Asterisk refuses a user that it does not know, or that may only read."""
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Enough for `GET channels` of a big exchange; one channel takes about 600 bytes."""


@dataclass(slots=True)
class AriState:
    """State of the connection, for `/ready` and `/health`."""

    connected: bool = False
    registered: bool = False
    """True while Asterisk hands the calls of our Stasis application to us."""
    since: float | None = None
    """Wall-clock time (`time.time`) of the last change of `connected`."""
    last_error: str = ""
    """The last error; empty while all is well."""

    @property
    def ready(self) -> bool:
        return self.connected and self.registered


class AriClient:
    """The websocket to one Asterisk."""

    def __init__(
        self,
        config: Asterisk,
        on_event: Callable[[Event], None],
        on_connected: Callable[[], Awaitable[None]],
        on_disconnected: Callable[[], None],
        *,
        request_seconds: float = REQUEST_SECONDS,
        ping_seconds: float = PING_SECONDS,
        before_connect: Callable[[], Awaitable[None]] | None = None,
        on_refused: Callable[[], None] = lambda: None,
        on_internal_error: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_connected` runs after each connect and may send requests, `before_connect` before
        each; an `AsteriskError` of it counts as a failed connect. The other callbacks are
        synchronous. `on_refused` is called when Asterisk refuses the user on an open connection.
        `on_internal_error(where)` is called for errors in the engine's own code."""
        self._before_connect = before_connect
        self._on_refused = on_refused
        self._on_internal_error = on_internal_error
        self._config = config
        self._on_event = on_event
        self._on_connected = on_connected
        self._on_disconnected = on_disconnected
        self._request_seconds = request_seconds
        self._ping_seconds = ping_seconds
        self._websocket: ClientConnection | None = None
        self._pending: dict[str, asyncio.Future[Response]] = {}
        self._ids = itertools.count(1)
        self._welcomed = False
        self.refused = False
        """True if Asterisk refused the user at the last attempt to connect."""
        self._silenced = ""
        """Reason why nothing is sent any more; empty: things are."""
        self.state = AriState()

    @property
    def app(self) -> str:
        """Name of our Stasis application."""
        return self._config.app

    @property
    def url(self) -> str:
        """URL of the websocket, without any secret."""
        parts = urlsplit(self._config.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        path = parts.path.rstrip("/")
        return f"{scheme}://{parts.netloc}{path}/ari/events?app={quote(self._config.app)}"

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        failures = 0
        while True:
            self._welcomed = False
            try:
                await self._connection()
            except Exception as error:  # task border: without it no call would ever come again
                self.state.last_error = f"internal error: {type(error).__name__}, see the log"
                log.exception("ari_failed", error=str(error))
                self._on_internal_error("ari")
            finally:
                self._down()
            if self._silenced:
                return
            if self._welcomed:
                failures = 0
            pause = self._pause(failures)
            failures += 1
            log.warning("ari_disconnected", error=self.state.last_error, retry_s=round(pause, 2))
            await asyncio.sleep(pause)

    def _pause(self, failures: int) -> float:
        longest = self._config.reconnect_max_ms / 1000
        return Backoff(FIRST_PAUSE_SECONDS, longest, jitter=0.5).pause(failures)

    async def request(self, method: str, path: str, body: Json = None, **query: str) -> Json:
        """Do one REST request and return its decoded body (None for 204).

        `path` is relative to `/ari/`; the caller has quoted every id in it. Raises AsteriskError
        with the HTTP status of a refusal, or with status 0 when there is no connection, it breaks,
        or the request times out (it is then unknown whether the request was done).
        """
        websocket = self._websocket
        if websocket is None or self._silenced:
            raise AsteriskError(f"{method} {path}: {self._silenced or 'not connected to Asterisk'}")
        request_id = str(next(self._ids))
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        try:
            async with asyncio.timeout(self._request_seconds):
                await websocket.send(encode_request(request_id, method, path, query, body))
                response = await answer
        except TimeoutError:
            seconds = self._request_seconds
            raise AsteriskError(f"{method} {path}: no answer within {seconds:g} s") from None
        except ConnectionClosed:
            raise AsteriskError(f"{method} {path}: the connection to Asterisk broke") from None
        finally:
            del self._pending[request_id]
        if response.status in REFUSALS:
            self._on_refused()
        if response.status >= 400:
            message = f"{method} {path}: {response.status} {response.error}".rstrip()
            raise AsteriskError(message, response.status)
        return response.body

    def silence(self, reason: str) -> None:
        """Send nothing from now on, fail all requests with `reason` (status 0), and disconnect for
        good; `run` returns."""
        self._silenced = self.state.last_error = reason
        if self._websocket is not None:
            self._websocket.transport.abort()

    @asynccontextmanager
    async def once(self) -> AsyncIterator[None]:
        """Keep one connection for a few requests, in place of `run`: `on_connected` is not called,
        and nothing is tried again. Raises AsteriskError, with the HTTP status of a refusal."""
        async with self._opened() as websocket:
            self._up(websocket)
            reading = asyncio.create_task(self._read(websocket), name="ari-once")
            try:
                yield
            finally:
                reading.cancel()
                await asyncio.wait((reading,))
                self._down()

    async def _connection(self) -> None:
        """Connect, and serve the connection until it ends."""
        try:
            if self._before_connect is not None:
                await self._before_connect()
            async with self._opened() as websocket:
                self._up(websocket)
                await self._serve(websocket)
        except AsteriskError as error:
            self.state.last_error = str(error)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[ClientConnection]:
        """Open the websocket. Raises AsteriskError when that fails."""
        try:
            async with connect(
                self.url,
                additional_headers={"Authorization": self._authorization()},
                open_timeout=OPEN_SECONDS,
                ping_interval=self._ping_seconds,
                ping_timeout=self._ping_seconds,
                close_timeout=1.0,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                proxy=None,
            ) as websocket:
                yield websocket
        except InvalidStatus as error:
            status = error.response.status_code
            self.refused = status in REFUSALS
            raise AsteriskError(self._refusal(status), status) from error
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
            reason = str(error) or "no answer"
            message = f"cannot reach Asterisk at {self._config.url}: {reason}"
            raise AsteriskError(message) from error

    async def _serve(self, websocket: ClientConnection) -> None:
        """Read until the connection ends, then cancel `on_connected` if it still runs."""
        welcome = asyncio.create_task(self._welcome(), name="ari-welcome")
        try:
            await self._read(websocket)
        finally:
            welcome.cancel()
            await asyncio.wait((welcome,))

    async def _read(self, websocket: ClientConnection) -> None:
        """Take messages until the connection ends; then its open requests have failed."""
        try:
            async for text in websocket:
                self._received(text)
            self.state.last_error = self.state.last_error or "Asterisk closed the connection"
        except ConnectionClosed as error:
            broke = f"the connection to Asterisk broke: {error}"
            self.state.last_error = self._silenced or broke
        finally:
            self._down()

    async def _welcome(self) -> None:
        """Make sure that the application is ours, then run `on_connected`."""
        app = self._config.app
        try:
            await self.request("GET", f"applications/{quote(app)}")
            self.state.registered = True
            self.state.last_error = ""
            log.info("ari_connected", url=self._config.url, app=app)
            await self._on_connected()
            self._welcomed = True
        except AsteriskError as error:
            # Without the path, which may name a call: anybody on the machine can read this text.
            self.state.last_error = "Asterisk did not answer while catching up, see the log"
            log.error("ari_setup_failed", error=str(error))
            if self._websocket is not None:
                await self._websocket.close()  # and try again from the start
        except Exception as error:  # task border: calls still come, without what went before
            log.exception("ari_setup_failed", error=repr(error))
            self._on_internal_error("ari")

    def _received(self, text: str | bytes) -> None:
        message = decode(text)
        if isinstance(message, Response):
            answer = self._pending.get(message.request_id)
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif isinstance(message, Event):
            if message.type == "ApplicationReplaced":
                # Another client has taken over our application: fighting for it would tear calls
                # apart, so it is only reported.
                self.state.registered = False
                self.state.last_error = f"another client took over the app {self._config.app!r}"
                log.error("ari_application_replaced", app=self._config.app)
            self._on_event(message)
        else:
            log.warning("ari_malformed_message", problem=message.problem)

    def _up(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self.refused = False
        self.state.connected, self.state.since = True, time.time()

    def _down(self) -> None:
        if self._websocket is None:
            return
        self._websocket = None
        self.state.connected = self.state.registered = False
        self.state.since = time.time()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(AsteriskError("the connection to Asterisk broke"))
                answer.exception()  # retrieved, even if the requester is gone by now
        self._on_disconnected()

    def _authorization(self) -> str:
        pair = f"{self._config.username}:{self._config.password.get_secret_value()}"
        return "Basic " + base64.b64encode(pair.encode()).decode()

    def _refusal(self, status: int) -> str:
        if status in (401, 403):
            return (
                f"Asterisk refuses ARI user {self._config.username!r} ({status}): check "
                "asterisk.username and asterisk.password against ari.conf"
            )
        if status == 404:
            return f"no ARI at {self._config.url} (404): is it enabled in ari.conf and http.conf?"
        return f"Asterisk refuses the websocket at {self._config.url}: {status}"


@asynccontextmanager
async def brief_connection(config: Asterisk, purpose: str) -> AsyncIterator[AriClient]:
    """Connect for a few requests, beside the engine's own connection.

    ARI takes requests on the websocket of an application only, so one with a random name exists
    meanwhile. The engine's own name would take its calls away. Raises AsteriskError, with the HTTP
    status of a refusal.
    """
    name = f"{config.app}-{purpose}-{uuid.uuid4().hex[:8]}"
    apart = config.model_copy(update={"app": name})
    ari = AriClient(apart, lambda _: None, _nothing, lambda: None)
    async with ari.once():
        yield ari


async def _nothing() -> None:
    """Do nothing after a connect."""
