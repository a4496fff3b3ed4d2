"""The websockets of the admin port: accepted ones, their limits, and the rights behind them.

The checks before a socket is accepted are those of every request (`cordboard.admin.application`).
Here is what comes after: a socket lives on while its session or key has exactly the rights that it
had when it was accepted. That is looked up after each change of the accounts, and every
`CHECK_SECONDS` for changes that another process makes (`cordboard users`) and for time that runs
out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol, TypeAlias

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from cordboard.accounts.rights import Rights
from cordboard.errors import RequestRefused, StoreUnavailable

MOST = 256
"""Sockets of one port."""
MOST_OF_ONE = 32
"""Sockets of one session or key, so that one caller cannot take all."""
CHECK_SECONDS = 30.0
"""Time between two looks at the rights."""
FRAMES = 1_000
FRAMES_A_SECOND = 200
"""Frames that a client may send at once, as after a stalled line, and in the long run. The sound of
a call is 50 a second."""
SEND_SECONDS = 20.0
"""Timeout of a frame that the client does not read."""
CLOSE_SECONDS = 1.0
"""Grace period of a closing socket: for its handler to end, and for its last frame."""

GOING_AWAY = 1001
INTERNAL = 1011
TRY_AGAIN = 1013
SIGNED_OUT = 4401
FORBIDDEN = 4403
TOO_SLOW = 4408
TOO_OFTEN = 4429
"""Close codes, of RFC 6455 and for applications: 4000 and the HTTP status."""

_Present: TypeAlias = Mapping[str, Rights | None]
Run: TypeAlias = Callable[[Callable[[set[str]], _Present], set[str]], Awaitable[_Present]]

log = structlog.get_logger()


class SocketClosed(Exception):
    """The client has closed the socket, or is gone."""

    def __init__(self, code: int = 1006) -> None:
        """`code`: close code of the client; 1006 if it sent none (uvicorn says 1005)."""
        self.clean = code in (1000, 1001)
        """True if the client said goodbye: it closed the socket or its page."""
        super().__init__(code)


class Socket:
    """One accepted websocket. Its handler goes on receiving until `SocketClosed`, because a client
    that goes is noticed by receiving alone."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._handler: asyncio.Future[object] | None = None
        self._ending: tuple[int, str] | None = None
        self._frames_left, self._counted_at = float(FRAMES), 0.0

    async def accept(self, protocol: str) -> None:
        """Complete the handshake. Raises `SocketClosed`."""
        try:
            await self._websocket.accept(protocol)
        except OSError:  # uvicorn's `ClientDisconnected`
            raise SocketClosed from None

    async def receive(self) -> str | bytes:
        """Return the next frame of the client. Raises `SocketClosed`, also for one that sends too
        many."""
        message = await self._websocket.receive()
        if message["type"] != "websocket.receive":
            raise SocketClosed(message.get("code", 1006))
        now = asyncio.get_running_loop().time()
        left = self._frames_left + (now - self._counted_at) * FRAMES_A_SECOND - 1
        self._frames_left, self._counted_at = min(left, FRAMES), now
        if left < 0:
            self.end(TOO_OFTEN, f"more than {FRAMES_A_SECOND} frames a second")
            raise SocketClosed
        text: str | None = message.get("text")
        return text if text is not None else bytes(message["bytes"])

    async def send(self, frame: str | bytes) -> None:
        """Send a text or binary frame; waits while the client reads too slowly. Raises
        `SocketClosed`, also when that takes `SEND_SECONDS`."""
        kind = "text" if isinstance(frame, str) else "bytes"
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._websocket.send({"type": "websocket.send", kind: frame})
        except (TimeoutError, WebSocketDisconnect):
            raise SocketClosed from None

    def end(self, code: int, reason: str) -> None:
        """Cancel the handler and close the socket with this code. The first call counts."""
        if self._ending is None:
            self._ending = code, reason
            if self._handler is not None:
                self._handler.cancel()

    async def serve(self, work: Awaitable[object]) -> tuple[int, str]:
        """Run the handler; return the close code and reason. Raises the handler's own error."""
        self._handler = asyncio.ensure_future(work)
        try:
            await self._handler
        except SocketClosed:
            pass
        except RequestRefused as refused:
            return 4000 + refused.status, str(refused)
        except asyncio.CancelledError:
            if self._ending is None:  # the server cancels us, not `end` the handler
                raise
        return self._ending or (1000, "")

    async def close(self, code: int, reason: str) -> None:
        """Send the closing frame, if the client reads and is still there."""
        with contextlib.suppress(TimeoutError, WebSocketDisconnect, RuntimeError):
            # RuntimeError: starlette's and uvicorn's, of a connection that is closed already
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._websocket.close(code, reason.encode()[:100].decode(errors="ignore"))


class RightsNow(Protocol):
    """The part of the accounts that is looked at again."""

    def rights_now(self, holder: str) -> Rights | None:
        """Return the present rights of a session or key; None if it is over. Blocks."""


class Connection(Protocol):
    """A socket, or another answer that lasts."""

    def end(self, code: int, reason: str) -> None:
        """Close it."""


class OpenSockets:
    """The lasting connections of one port, with the rights that they were accepted with."""

    def __init__(
        self,
        accounts: RightsNow,
        run: Run,
        internal_error: Callable[[str], None],
        *,
        most: int = MOST,
        most_of_one: int = MOST_OF_ONE,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """`run` does blocking work in a thread, `internal_error(where)` counts an unexpected
        error."""
        self._accounts = accounts
        self._run = run
        self._internal_error = internal_error
        self._most = most
        self._most_of_one = most_of_one
        self._check_seconds = check_seconds
        self._open: dict[Connection, tuple[str, Rights]] = {}
        self._foreign: set[Connection] = set()
        self._closed = False
        self._emptied = asyncio.Event()
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def entry(
        self, connection: Connection, holder: str, rights: Rights, *, foreign: bool = False
    ) -> Iterator[None]:
        """Keep a connection among the open ones. `foreign`: another engine looks after its rights.
        Raises `RequestRefused` 503 if there is no room for one more, of all or of this holder
        (`Caller.holder`)."""
        of_one = sum(each == holder for each, _ in self._open.values())
        if self._closed or len(self._open) >= self._most or of_one >= self._most_of_one:
            headers = {"Retry-After": "5"}
            raise RequestRefused(503, "busy", "too many sockets at once", headers=headers)
        self._open[connection] = holder, rights
        if foreign:
            self._foreign.add(connection)
        self._emptied.clear()
        self._loop = asyncio.get_running_loop()
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_again(), name="admin-socket-rights")
        try:
            yield
        finally:
            del self._open[connection]
            self._foreign.discard(connection)
            if not self._open:
                self._watch.cancel()
                self._watch = None
                self._emptied.set()

    def accounts_changed(self) -> None:
        """Look at the rights soon. From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    async def close(self) -> None:
        """End all connections, and refuse new ones. Takes at most `CLOSE_SECONDS`."""
        self._closed = True
        self._end_all(GOING_AWAY, "the engine stops")
        if self._open:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), CLOSE_SECONDS)

    async def _look_again(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._check_seconds):
                    await self._changed.wait()
            self._changed.clear()
            holders = {
                holder for each, (holder, _) in self._open.items() if each not in self._foreign
            }
            try:
                now = await self._run(self._rights_of, holders)
            except StoreUnavailable as error:
                log.warning("admin_socket_rights_unknown", error=str(error))
                self._end_all(TRY_AGAIN, "the accounts cannot be read")
                continue
            except Exception as error:  # task border: without known rights all sockets end
                log.exception("admin_socket_rights_failed", error=repr(error))
                self._internal_error("socket_rights")
                self._end_all(TRY_AGAIN, "the rights cannot be looked at")
                continue
            for connection, (holder, rights) in [*self._open.items()]:
                if holder not in holders:  # it came meanwhile, or is foreign
                    continue
                present = now.get(holder)
                if present is None:
                    connection.end(SIGNED_OUT, "the session or key is over")
                elif present != rights:
                    connection.end(FORBIDDEN, "your rights have changed")

    def _end_all(self, code: int, reason: str) -> None:
        for connection in [*self._open]:
            connection.end(code, reason)

    def _rights_of(self, holders: set[str]) -> _Present:
        return {holder: self._accounts.rights_now(holder) for holder in holders}
