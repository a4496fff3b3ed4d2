"""Our stdio transport under the official SDK: `Client(StdioTransport(...))`.

The SDK's own transport reads lines in quadratic time, dies of one bad byte, does not notice a death
while a grandchild holds the pipe, and leaves processes behind (mcp 2.3.0, measured). This one:

- splits lines with a cap (`cordboard.mcp.lines`) and fails the request whose reply was too long;
- decodes tolerantly; lines that are not JSON-RPC messages are counted and logged, never fatal;
- ends the connection as soon as the process dies, so that pending calls fail at once;
- parses long answers off the event loop, and slows a flood down before it costs a core;
- always drains stderr (`cordboard.mcp.stdio.stderr`) and leaves no process of the server behind.

Used by `cordboard.mcp.supervision.server` only: enter and leave it in one task. Single use.
"""

from __future__ import annotations

import asyncio
import math
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import anyio
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from cordboard.errors import McpError
from cordboard.mcp.cancellation import see_through
from cordboard.mcp.encoding import encoded
from cordboard.mcp.large_result import LARGE_BYTES, read_large
from cordboard.mcp.lines import (
    KEPT_BYTES,
    MAX_LINE_BYTES,
    Line,
    LineEvent,
    LineSplitter,
    OverlongBegan,
)
from cordboard.mcp.printable import printable
from cordboard.mcp.stdio.process import READ_BYTES, Launch, ServerProcess, exit_text
from cordboard.mcp.stdio.spawn_turns import SpawnTurns
from cordboard.mcp.stdio.stderr import StderrTail

Incoming = SessionMessage | Exception

STUCK_SECONDS = 30.0
"""Seconds without reading its input after which a server counts as dead. Until then messages queue
up without limit: a full queue would make callers wait longer than their timeout (the SDK waits 5 s
more to notify a server of a cancelled call; mcp 2.3.0, jsonrpc_dispatcher.py)."""
FLUSH_SECONDS = 0.2
DYING_SECONDS = 0.5
"""Seconds within which a process that closed its output by dying is seen to be dead."""
DRAIN_SECONDS = 0.05
"""Seconds after a death during which its last output may still arrive."""
LOGGED_GARBAGE = 5
NEEDLESS_LINES = 1_000
"""Lines per second that answer nothing (notifications, requests, garbage) before reading slows
down. Each costs up to 0.1 ms of the event loop."""
NEEDLESS_BYTES = 400
"""A needless line counts once more per this many bytes: parsing them costs as much."""
NEEDLESS_LARGE_BYTES = 100
"""Bytes per further count of a long needless line, which is parsed piece by piece
(`cordboard.tools.large_json`) at a higher cost per byte."""
STDOUT_BYTES = 64 * 1024 * 1024
"""Bytes of stdout read per second at most."""
STDERR_BYTES = 32 * 1024 * 1024
"""Bytes of stderr read per second at most."""
SLICE_BYTES = 16 * 1024
"""Bytes that are split into lines in one go: at worst 8,000 lines, which takes 3 ms."""
SLICE_SECONDS = 0.002
"""Seconds of processing lines before the event loop gets its turn."""

_HEAD_ID = re.compile(
    rb'^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?([0-9]{1,18})"?\s*[,}]'
)
_TAIL_ID = re.compile(rb'"id"\s*:\s*"?([0-9]{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_HEAD_METHOD = re.compile(rb'^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"method"\s*:')

log = structlog.get_logger()


class Allowance:
    """A rate limit per second, of bytes, lines or any other unit.

    A token bucket that holds up to one second's worth: a burst passes, a lasting flood is slowed
    down to the rate. The reader pauses for the time that `spend` returns; the pipe fills, and the
    flooding server blocks in its own `write`.
    """

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._left = per_second
        self._at: float | None = None

    def spend(self, amount: float, now: float) -> float:
        """Take `amount` at `now` (seconds); return the seconds to pause, usually 0."""
        if self._at is not None:
            self._left = min(self._rate, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= amount
        return max(0.0, -self._left / self._rate)


class StdioTransport:
    """One life of a server process as a pair of message streams."""

    def __init__(
        self,
        server: str,
        launch: Launch,
        stderr: StderrTail,
        stop_grace: float = 2.0,
        max_line: int = MAX_LINE_BYTES,
        *,
        turns: SpawnTurns | None = None,
        stuck_seconds: float = STUCK_SECONDS,
    ) -> None:
        """`server` is for the log; `stop_grace` is in seconds."""
        self._stuck_seconds = stuck_seconds
        self._turns = turns or SpawnTurns()
        self._server = server
        self._launch = launch
        self._stderr_tail = stderr
        self._stop_grace = stop_grace
        self._max_line = max_line
        self._splitter = LineSplitter(max_line)
        self._pending: dict[int, str] = {}
        """The requests in flight: id to method."""
        self._settled = 0
        """Number of requests that have been answered."""
        self._needless = Allowance(NEEDLESS_LINES)
        self._flooding = False
        self._overlong_unclaimed = False
        self._garbage = 0
        self._stuck = False
        self._output_ended = False
        """True at the end of the output."""
        self._closed_output = False
        """True if it closed its output without ending."""
        self._process: ServerProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.on_internal_error: Callable[[str], None] = lambda _: None
        """Called with the place of an internal error."""
        self.closed = asyncio.Event()
        """Set when the server can no longer answer: it died or closed its output."""

    @property
    def pid(self) -> int | None:
        """The server's process id (also its process group); None before it runs."""
        return self._process.pid if self._process is not None else None

    @property
    def ending(self) -> str:
        """The end of the server, in words."""
        if self._stuck:
            return "does not read its input"
        if self._closed_output:
            return "closed its output"
        return exit_text(self._process.returncode if self._process is not None else None)

    def kill(self) -> None:
        """Kill the server's processes at once. Its end is noticed like any other."""
        if self._process is not None:
            self._process.signal_group(signal.SIGKILL)

    async def __aenter__(
        self,
    ) -> tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]:
        """Start the server. Raises `McpError` if it cannot be started."""
        if self._process is not None:
            raise McpError("a transport serves one life of a server only")
        async with self._turns.turn():
            process = self._process = await ServerProcess.spawn(self._launch)
        to_session, self._from_server = anyio.create_memory_object_stream[Incoming](0)
        self._to_server, from_session = anyio.create_memory_object_stream[SessionMessage](math.inf)
        reader = asyncio.create_task(self._read(process, to_session))
        self._writer = asyncio.create_task(self._write(process, from_session))
        self._tasks = [
            reader,
            self._writer,
            asyncio.create_task(self._read_stderr(process)),
            asyncio.create_task(self._watch(process, reader)),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        return self._from_server, self._to_server

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the server; completes even if the owner is cancelled meanwhile."""
        await see_through(self._shut_down())

    async def _shut_down(self) -> None:
        process = self._process
        if process is None:
            return
        self._from_server.close()
        self._to_server.close()
        await asyncio.wait({self._writer}, timeout=FLUSH_SECONDS)
        if self._output_ended:
            self._closed_output = not await process.wait_exit(DYING_SECONDS)
        await process.stop(self._stop_grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.closed.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End this life if one of its tasks has failed. A task border."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("mcp_stdio_crashed", server=self._server, exc_info=error)
            self.on_internal_error("mcp_stdio")
            self.closed.set()

    async def _watch(self, process: ServerProcess, reader: asyncio.Task[None]) -> None:
        """On the leader's death: read its last output, then stop reading."""
        await process.exited.wait()
        await asyncio.wait({reader}, timeout=DRAIN_SECONDS)
        reader.cancel()

    async def _read(
        self, process: ServerProcess, session: MemoryObjectSendStream[Incoming]
    ) -> None:
        allowed = Allowance(STDOUT_BYTES)
        loop = asyncio.get_running_loop()
        try:
            async with session:
                while chunk := await process.stdout.read(READ_BYTES):
                    for start in range(0, len(chunk), SLICE_BYTES):
                        await self._work_off(chunk[start : start + SLICE_BYTES], session)
                    if pause := allowed.spend(len(chunk), loop.time()):
                        await asyncio.sleep(pause)
                self._output_ended = True
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._drain(process)
        finally:
            self.closed.set()

    async def _work_off(self, chunk: bytes, session: MemoryObjectSendStream[Incoming]) -> None:
        """Pass on the messages that a chunk completes, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for event in self._splitter.feed(chunk):
            settled = self._settled
            if isinstance(event, Line) and len(event.data) > LARGE_BYTES:
                messages = await self._read_large(event.data)
            else:
                messages = await self._messages(event)
            for message in messages:
                await session.send(message)
            if self._settled == settled:
                size = len(event.data) if isinstance(event, Line) else 0
                weight = 1 + size / (
                    NEEDLESS_BYTES if size <= LARGE_BYTES else NEEDLESS_LARGE_BYTES
                )
                await self._slow_down(self._needless.spend(weight, loop.time()))
            if loop.time() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = loop.time()

    async def _slow_down(self, pause: float) -> None:
        if pause > 0 and not self._flooding:
            self._flooding = True
            log.warning("mcp_flood", server=self._server, limit=NEEDLESS_LINES)
        if pause > 0.05:  # a few lines at a time
            await asyncio.sleep(pause)

    async def _read_large(self, line: bytes) -> list[Incoming]:
        """Parse a long line in a thread: parsing it here would delay every call."""
        tool_calls = {number for number, method in self._pending.items() if method == "tools/call"}
        try:
            message = await asyncio.to_thread(read_large, line, tool_calls)
        except ValueError:
            return self._unreadable(line)
        if message is None:
            return []
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
            self._settle(message.id)
        return [SessionMessage(message)]

    async def _drain(self, process: ServerProcess) -> None:
        """Read and discard output, so that a server which is being stopped never blocks on us."""
        while await process.stdout.read(READ_BYTES):
            pass

    async def _read_stderr(self, process: ServerProcess) -> None:
        allowed = Allowance(STDERR_BYTES)
        loop = asyncio.get_running_loop()
        while chunk := await process.stderr.read(READ_BYTES):
            self._stderr_tail.feed(chunk)
            if pause := allowed.spend(len(chunk), loop.time()):
                await asyncio.sleep(pause)

    async def _write(
        self, process: ServerProcess, session: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        # A broken pipe ends only the writing; `_watch` sees the death that caused it.
        with suppress(OSError):
            await self._write_all(process, session)

    async def _write_all(
        self, process: ServerProcess, session: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        try:
            async with session:
                async for item in session:
                    self._note_outgoing(item.message)
                    process.stdin.write(encoded(item.message) + b"\n")
                    if process.stdin.transport.get_write_buffer_size():
                        async with asyncio.timeout(self._stuck_seconds):
                            await process.stdin.drain()
        except TimeoutError:
            log.warning("mcp_server_reads_nothing", server=self._server)
            self._stuck = True
            self.closed.set()

    def _note_outgoing(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and isinstance(message.id, int):
            self._pending[message.id] = message.method
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            self._pending.pop((message.params or {}).get("requestId", -1), None)

    async def _messages(self, event: LineEvent) -> list[Incoming]:
        if isinstance(event, Line):
            message = self._parse(event.data)
            if message is not None:
                return [message]
            if "tools/list" in self._pending.values():  # a schema nested too deep?
                return await self._read_large(event.data)
            return self._unreadable(event.data)
        if isinstance(event, OverlongBegan):
            return self._overlong_began(event.head)
        return self._overlong_ended(event.tail)

    def _parse(self, line: bytes) -> SessionMessage | None:
        for text in (line, line.decode("utf-8", "replace")):
            with suppress(ValueError):
                message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)):
                    self._settle(message.id)
                return SessionMessage(message)
        return None

    def _unreadable(self, line: bytes) -> list[Incoming]:
        """Count a line that is not a message; if it was meant as an answer, fail that call."""
        self._garbage += 1
        if self._garbage <= LOGGED_GARBAGE:
            head = line[:4_000].decode("utf-8", "replace")  # cut further after masking
            shown = printable(self._stderr_tail.mask(head), 200)
            log.warning("mcp_garbage", server=self._server, line=shown, count=self._garbage)
        match = _HEAD_ID.match(line) or _TAIL_ID.search(line[-KEPT_BYTES:])
        if match and int(match[1]) in self._pending:
            return [self._failed(int(match[1]), "the server's answer cannot be read")]
        return []

    def _settle(self, request_id: object) -> None:
        with suppress(ValueError, KeyError):
            self._pending.pop(int(str(request_id)))
            self._settled += 1

    def _overlong_began(self, head: bytes) -> list[Incoming]:
        log.warning("mcp_line_too_long", server=self._server, limit=self._max_line)
        match = _HEAD_ID.match(head)
        self._overlong_unclaimed = False
        if match and int(match[1]) in self._pending:
            return [self._too_long(int(match[1]))]
        if not head.startswith(b"{") or _HEAD_METHOD.match(head):
            return []  # not a reply
        if len(self._pending) == 1:
            return [self._too_long(next(iter(self._pending)))]
        self._overlong_unclaimed = True
        return []

    def _overlong_ended(self, tail: bytes) -> list[Incoming]:
        if not self._overlong_unclaimed:
            return []
        self._overlong_unclaimed = False
        match = _TAIL_ID.search(tail)
        if match and int(match[1]) in self._pending:
            return [self._too_long(int(match[1]))]
        return [self._too_long(request_id) for request_id in sorted(self._pending)]

    def _too_long(self, request_id: int) -> SessionMessage:
        return self._failed(
            request_id, f"the server's answer is longer than {self._max_line} bytes"
        )

    def _failed(self, request_id: int, words: str) -> SessionMessage:
        self._settle(request_id)
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=words)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
