"""The MCP servers of an engine in its cluster: one that runs once for all, and breakers of others.

With `run: cluster`, one life of a server is one lease on the bus (`mcp_board`): the engine that has
it runs the process, the others relay their calls to it (`mcp_relay`). Supervision is the same in
both cases; when a life ends, the next one finds its place anew:

    the lease is free ──> take it, start the process, serve the others
    another engine has it, and its server is ready ──> relay to it
    else ──> wait; calls fail at once, or wait for a start within their timeout

Two processes never run at once while the event loop of the holder gets its turns: a holder that
could not renew its lease stops its process before the lease ends, and kills it if that takes too
long. An engine that is stopped (`SIGSTOP`) keeps its process until it wakes; that process gets no
calls meanwhile.

The others hear of a breaker that opens. Each engine whose own breaker of that server is closed
then asks the server for its tools once, and opens its breaker if there is no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import structlog

from cordboard.cluster.bus import Bucket
from cordboard.cluster.lease import LeaseTimes, boot_time
from cordboard.cluster.mcp_board import Board, ServerLease, report_key
from cordboard.cluster.mcp_relay import Relay, RelayLine, ServerDesk
from cordboard.cluster.nats_connection import NatsConnection
from cordboard.cluster.sealed_bus import BusSeal
from cordboard.cluster.wire import BreakerReport, ServerHolder, encode_report
from cordboard.errors import BusAway, McpUnavailable, RevisionLost
from cordboard.mcp.cancellation import see_through
from cordboard.mcp.definitions.definition import ListedTool, fingerprint_of
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.mcp.supervision.server import SupervisedServer
from cordboard.mcp.supervision.status import ServerState

if TYPE_CHECKING:  # the SDK is loaded later: `cordboard.mcp.sdk`
    from types import TracebackType

    from cordboard.mcp.connection import Streams
    from cordboard.mcp.stdio.transport import StdioTransport

log = structlog.get_logger()

RETRY_SECONDS = 0.2
CHECK_SECONDS = 3.0
"""Time for a server to answer when the breaker of another engine has opened."""
REPORT_SECONDS = 10
"""Life of a report of an open breaker; it is renewed `REPORTS` times in it."""
REPORTS = 3


class ClusterServers:
    """One per engine (implements `cordboard.mcp.supervision.sharing.ServerSharing`). Start `run` as
    a task, and `close` it before the connection."""

    def __init__(
        self,
        connection: NatsConnection,
        bucket: Bucket,
        pool: ServerPool,
        instance: str,
        *,
        cluster: str = "cordboard",
        times: LeaseTimes,
        seal: BusSeal | None = None,
        internal_error: Callable[[str], None] = lambda where: None,
        reports: Callable[[str, int], None] = lambda server, engines: None,
        clock: Callable[[], float] = boot_time,
    ) -> None:
        """`seal` encrypts what is relayed; None: nothing does. `reports(server, engines)` is called
        when another number of engines has an open breaker of a server."""
        self.connection = connection
        self.bucket = bucket
        self.instance = instance
        self.cluster = cluster
        self.times = times
        self.seal = seal
        self.clock = clock
        self.board = Board(bucket, self._wake, self._reported)
        self.leading: dict[str, _Here] = {}
        """The servers that run here for the cluster."""
        self._pool = pool
        self._internal_error = internal_error
        self._told = reports
        self._woken: dict[str, str] = {}
        """Life of each server for which one that was given up here was tried again."""
        self._reports: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self.board.run()

    async def close(self) -> None:
        """End the servers that run here for the cluster, or elsewhere for us, while the bus is
        still there. Idempotent."""
        placed = [each.server for each in self._pool.entries if each.server.config.run == "cluster"]
        await asyncio.gather(*(server.close() for server in placed))
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ServerSharing

    def transport(
        self, server: SupervisedServer, run_here: Callable[[], StdioTransport]
    ) -> PlacedTransport:
        return PlacedTransport(self, server, run_here)

    def changed(self, server: SupervisedServer, *, breaker_open: bool) -> None:
        here = self.leading.get(server.id)
        if here is not None:
            here.lease.renew_soon()
        if server.config.transport == "stdio" and server.config.run == "node":
            return  # the process of this engine says nothing about the others'
        report = self._reports.get(server.id)
        if breaker_open and report is None:
            self._reports[server.id] = self.spawn(self._report(server.id))
        elif not breaker_open and report is not None:
            del self._reports[server.id]
            report.cancel()

    def reported_by(self, server_id: str) -> tuple[str, ...]:
        return tuple(who for who in self.board.reported_by(server_id) if who != self.instance)

    # For the transports

    async def place(self, server_id: str, here: _Here) -> ServerHolder | None:
        """Wait until the server can be used: return the engine that runs it, or None once `here`
        has the lease."""
        while True:
            await self.connection.link()
            change = self.board.next_change()
            holder = self.board.holder(server_id)
            if holder is None and self.board.known:
                with contextlib.suppress(BusAway):
                    if await here.lease.acquire():
                        return None
            elif holder is not None and holder.ready and self._lives(holder):
                return holder
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS if holder is None else None):
                    await change.wait()

    def line(self, server_id: str) -> RelayLine:
        return RelayLine(self.connection, self.cluster, server_id, self.seal)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def failed(self, error: BaseException) -> None:
        """Log and count a bug."""
        log.error("mcp_sharing_failed", exc_info=error)
        self._internal_error("mcp_sharing")

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task border."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    def _lives(self, holder: ServerHolder) -> bool:
        """False for an entry of ours that was not removed, and has not expired yet."""
        here = self.leading.get(holder.server)
        return holder.instance != self.instance or (here is not None and here.life == holder.life)

    # From the board

    def _wake(self) -> None:
        """Try servers again that were given up here, and that another engine runs now."""
        for shared in self._pool.entries:
            holder = self.board.holder(shared.id)
            if holder is None or not holder.ready or holder.instance == self.instance:
                continue
            server = shared.server
            if server.config.run == "node" or server.state is not ServerState.FAILED:
                continue
            if self._woken.get(server.id) != holder.life:
                self._woken[server.id] = holder.life
                server.start()

    def _reported(self, server_id: str, instance: str, is_open: bool) -> None:
        server = self._pool.server(server_id)
        if instance == self.instance or server is None:
            return
        self._told(server_id, len(self.reported_by(server_id)))
        if not is_open:
            return
        log.warning("mcp_breaker_reported", server=server_id, instance=instance)
        self.spawn(server.check(CHECK_SECONDS))

    async def _report(self, server_id: str) -> None:
        """Tell the others that our breaker is open, until cancelled."""
        key = report_key(server_id, self.instance)
        value = encode_report(BreakerReport(server_id, self.instance))
        try:
            while True:
                with contextlib.suppress(BusAway, RevisionLost):
                    last = await self._revision(key)
                    await self.bucket.put(key, value, last=last, ttl=REPORT_SECONDS)
                await asyncio.sleep(REPORT_SECONDS / REPORTS)
        finally:
            with contextlib.suppress(BusAway, RevisionLost):
                await self.bucket.remove(key, last=await self._revision(key))

    async def _revision(self, key: str) -> int:
        entry = await self.bucket.get(key)
        return 0 if entry is None else entry.revision


class _Here:
    """One life of a server, as far as this engine may run it."""

    def __init__(self, sharing: ClusterServers, server: SupervisedServer) -> None:
        self.life = secrets.token_hex(6)
        self.lease = ServerLease(sharing.bucket, self._describe, sharing.times, sharing.clock)
        line, holds = sharing.line(server.id), self.lease.holds
        self.desk = ServerDesk(line, self.life, server, holds, sharing.failed)
        self._instance = sharing.instance
        self._server = server
        self._hashed: tuple[Any, str] = ((), "")

    def _describe(self) -> ServerHolder:
        server = self._server
        ready = self.desk.serving.is_set() and server.state is ServerState.READY
        return ServerHolder(server.id, self._instance, self.life, ready, self._tools())

    def _tools(self) -> str:
        listing = self._server.listing
        if self._hashed[0] is not listing:
            prints = [tool.fingerprint for tool in listing if isinstance(tool, ListedTool)]
            self._hashed = listing, fingerprint_of({"tools": prints})
        return self._hashed[1]


class PlacedTransport:
    """One life of a server that runs once in the cluster: its process here, or a relay. A
    `cordboard.mcp.connection.Transport`, and a `Relay` of it."""

    def __init__(
        self,
        sharing: ClusterServers,
        server: SupervisedServer,
        run_here: Callable[[], StdioTransport],
    ) -> None:
        self._sharing = sharing
        self._server = server
        self._run_here = run_here
        self._here = _Here(sharing, server)
        self._process: StdioTransport | None = None
        self._relay: Relay | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ending = ""
        self.relayed_to = ""
        """The engine that runs the server for this one; empty: this one, or not known yet."""
        self.closed = asyncio.Event()
        """Set when the server can no longer answer."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def ending(self) -> str:
        """The end of the connection, in words."""
        if self._ending or self._process is None:
            return self._ending or "was not placed"
        return self._process.ending

    async def __aenter__(self) -> Streams:
        """Wait for a place. Raises `McpError` if the server cannot be started here."""
        server_id = self._server.id
        holder = await self._sharing.place(server_id, self._here)
        if holder is not None:
            return self._follow(holder)
        log.info("mcp_server_placed", server=server_id, instance=self._sharing.instance)
        self._sharing.leading[server_id] = self._here
        self._tasks = [self._sharing.spawn(self._keep())]
        self._process = self._run_here()
        try:
            streams = await self._process.__aenter__()
            if self.closed.is_set():  # displaced before there was a process to kill
                self._process.kill()
                await self._process.__aexit__(None, None, None)
                raise McpUnavailable(self._ending)
        except BaseException:
            await see_through(self._leave())
            raise
        self._tasks += [
            self._sharing.spawn(self._here.desk.run()),
            self._sharing.spawn(self._announce()),
            self._sharing.spawn(self._until_process_ends(self._process)),
        ]
        return streams

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process or the relay; completes even if the owner is cancelled meanwhile."""
        if self._process is not None:
            await self._process.__aexit__(exc_type, exc_value, traceback)
        await see_through(self._leave())

    def _follow(self, holder: ServerHolder) -> Streams:
        sharing = self._sharing
        log.info("mcp_server_relayed", server=holder.server, instance=holder.instance)
        self.relayed_to = holder.instance
        line = sharing.line(holder.server)
        self._relay = Relay(line, holder.life, self._hidden, sharing.failed)
        self._tasks = [sharing.spawn(self._watch(holder, self._relay))]
        return self._relay.open(sharing.instance)

    def _hidden(self) -> Iterable[str]:
        return self._server.messages.hidden

    async def _watch(self, known: ServerHolder, relay: Relay) -> None:
        """Follow the holder's entry to the end of that life."""
        board = self._sharing.board
        while True:
            change = board.next_change()
            holder = board.holder(known.server)
            if holder is None or holder.life != known.life or not holder.ready:
                self._ending = f"ended at the engine {known.instance}"
                self.closed.set()
                return
            if holder.tools != known.tools:
                known = holder
                relay.tools_changed()
            await change.wait()

    async def _keep(self) -> None:
        """Keep the lease; stop the process before the lease ends."""
        reason = await self._here.lease.keep()
        log.warning("mcp_server_displaced", server=self._server.id, reason=reason)
        self._ending = f"was stopped: {reason}"
        self.closed.set()
        await asyncio.sleep(self._here.lease.margin / 2)
        if self._process is not None:
            self._process.kill()

    async def _announce(self) -> None:
        """Let the others know as soon as they can use the server."""
        await self._here.desk.serving.wait()
        self._here.lease.renew_soon()

    async def _until_process_ends(self, process: StdioTransport) -> None:
        await process.closed.wait()
        self.closed.set()

    async def _leave(self) -> None:
        """Nothing runs here any more: let another engine have the server."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._relay is not None:
            await self._relay.close()
            return
        if self._sharing.leading.get(self._server.id) is self._here:
            del self._sharing.leading[self._server.id]
        try:
            await self._here.lease.release()
        except BusAway as error:
            log.debug("mcp_lease_not_released", server=self._server.id, error=str(error))
