"""Remote MCP servers for the tests, over real sockets on loopback.

`RawServer` speaks HTTP/1.1 by hand, so that it can do wrong what no library would let it. `Faulty`
is an MCP server on top of it (streamable HTTP of 2026-07-28 and before, and the SSE of 2024), whose
tools misbehave as their names say. `honest` serves the official SDK's own server.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types.version import LATEST_MODERN_VERSION

from cordboard.mcp.remote.http_channel import MAX_BODY_BYTES

LEGACY = "2025-11-25"
MODERN = LATEST_MODERN_VERSION
MIB = 1024 * 1024


class Hangup(Exception):
    """The server breaks the connection off."""


@dataclass
class Request:
    """One HTTP request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Wire:
    """The way back to the client."""

    writer: asyncio.StreamWriter
    chunked: bool = False
    done: bool = False

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int, headers: dict[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} Words",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def answer(
        self, status: int, body: bytes = b"", kind: str = "text/plain", **headers: str
    ) -> None:
        length = {"content-length": str(len(body)), "content-type": kind}
        await self.head(status, length | {k.replace("_", "-"): v for k, v in headers.items()})
        await self.raw(body)

    async def json(self, status: int, value: Any, **headers: str) -> None:
        await self.answer(status, json.dumps(value).encode(), "application/json", **headers)

    async def begin(self, kind: str = "text/event-stream", **headers: str) -> None:
        self.chunked = True
        more = {k.replace("_", "-"): v for k, v in headers.items()}
        await self.head(200, {"transfer-encoding": "chunked", "content-type": kind} | more)

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(
        self, value: Any, event: str = "message", number: str = "", retry: int = 0
    ) -> None:
        data = value if isinstance(value, str) else json.dumps(value)
        fields = [f"event: {event}", f"data: {data}"]
        fields += [f"id: {number}"] if number else []
        fields += [f"retry: {retry}"] if retry else []
        await self.chunk("\n".join([*fields, "", ""]).encode())

    async def end(self) -> None:
        if self.chunked:
            await self.raw(b"0\r\n\r\n")
            self.chunked = False


Handler = Callable[[Request, Wire], Awaitable[None]]


class RawServer:
    """HTTP/1.1 on loopback; each request goes to `handle`."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self.tls: ssl.SSLContext | None = None
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self.port = 0
        self.open: set[asyncio.StreamWriter] = set()
        """The connections that are open now."""
        self.connections = 0
        self.requests: list[Request] = []

    async def start(self) -> None:
        """Listen; on the same port as before, if it was stopped."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Die: nothing is finished, and every connection breaks."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for writer in tuple(self.open):
            writer.transport.abort()
        tasks = [task for task in self._serving if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.open.add(writer)
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, reader, Wire(writer)):
                    break
        except Hangup:
            writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            self.open.discard(writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, request: Request, reader: asyncio.StreamReader, wire: Wire) -> bool:
        """Handle a request; False when the client has gone meanwhile."""
        handling = asyncio.ensure_future(self._handle(request, wire))
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({handling, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not handling.done():
                return False
            handling.result()
            await wire.end()
            return True
        finally:
            handling.cancel()
            gone.cancel()
            await asyncio.gather(handling, gone, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


Tool = Callable[[Any, Request, Wire], Awaitable[None]]


@dataclass
class Faulty:
    """An MCP server that misbehaves as asked."""

    protocol: str = LEGACY
    stream: bool = False
    """Whether answers come as events."""
    sessions: set[str] = field(default_factory=set)
    told: list[str] = field(default_factory=list)
    """Methods of the notifications that arrived."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """A call of `mute`, `drip` or `die` has arrived."""
    release: asyncio.Event = field(default_factory=asyncio.Event)
    listening: list[Wire] = field(default_factory=list)
    refuse: int = 0
    """An HTTP status for every request, if not 0."""
    authorization: str | None = None
    """The only Authorization header that is accepted."""

    def __post_init__(self) -> None:
        self.http = RawServer(self.handle)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}/mcp"

    async def handle(self, request: Request, wire: Wire) -> None:
        if self.refuse:
            await wire.answer(self.refuse, b"<html>no</html>", "text/html")
            return
        expected = self.authorization
        if expected is not None and request.headers.get("authorization") != expected:
            await wire.answer(401)
            return
        if request.path.startswith("/elsewhere/"):  # where a redirect within the origin leads
            await self.result(request, wire, "there")
            return
        if request.path == "/messages":
            await self.sse_post(request, wire)
            return
        if request.method == "GET":
            await self.listen(request, wire)
            return
        if request.method == "DELETE":
            self.sessions.discard(request.headers.get("mcp-session-id", ""))
            await wire.answer(200)
            return
        await self.post(request, wire)

    async def post(self, request: Request, wire: Wire) -> None:
        message = request.message
        method = message["method"]
        if method == "server/discover" and self.protocol == MODERN:
            await wire.json(200, _reply(message, _discovered()))
            return
        if method == "initialize" and self.protocol != MODERN:
            session = f"session-{len(self.http.requests)}"
            self.sessions.add(session)
            reply = _reply(message, _initialized(self.protocol))
            await wire.json(200, reply, mcp_session_id=session)
            return
        if method in ("server/discover", "initialize"):
            await wire.json(400, _error(message, -32601, "Method not found"))
            return
        if self.protocol != MODERN and request.headers.get("mcp-session-id") not in self.sessions:
            await wire.json(404, _error(message, -32600, "Session not found"))
            return
        if "id" not in message:
            self.hear(message)
            await wire.answer(202)
            return
        if method == "tools/list":
            await self.send(message, wire, {"tools": _tools(), **_modern_result()})
            return
        await getattr(self, message["params"]["name"])(request, wire)

    def hear(self, message: dict[str, Any]) -> None:
        self.told.append(message["method"])
        if message["method"] == "notifications/cancelled":
            self.cancelled.set()

    async def send(self, message: dict[str, Any], wire: Wire, result: Any) -> None:
        if not self.stream:
            await wire.json(200, _reply(message, result))
            return
        await wire.begin()
        await wire.event(_reply(message, result))

    async def result(self, request: Request, wire: Wire, text: str) -> None:
        await self.send(request.message, wire, _text(text))

    # --- the stream of what is said unasked, and the transport of 2024

    async def listen(self, request: Request, wire: Wire) -> None:
        if "last-event-id" in request.headers and self.protocol == LEGACY:
            number = request.headers["last-event-id"].removeprefix("answer-")
            await wire.begin()
            await wire.event(_reply({"id": int(number)}, _text("taken up again")))
            return
        session = request.headers.get("mcp-session-id")
        if request.path == "/mcp" and session not in self.sessions:
            await wire.answer(404)
            return
        await wire.begin()
        if request.path != "/mcp":
            await wire.event("/messages", event="endpoint")
        self.listening.append(wire)
        await asyncio.Event().wait()

    async def sse_post(self, request: Request, wire: Wire) -> None:
        message = request.message
        await wire.answer(202)
        stream = self.listening[-1]
        if message["method"] == "initialize":
            await stream.event(_reply(message, _initialized("2024-11-05")))
            return
        if "id" not in message:
            self.hear(message)
            return
        if message["method"] == "tools/list":
            await stream.event(_reply(message, {"tools": _tools()}))
            return
        tool = message["params"]["name"]
        if tool == "cut":
            stream.writer.transport.abort()
        elif tool == "garbage":
            await stream.event(f'{{"jsonrpc": "2.0", "id": {message["id"]}, "secret page')
        elif tool == "nothing_useful":
            await stream.event("secret page")
            await stream.event(_reply({"id": 4711}, _text("for nobody")))
            await stream.event(_reply(message, _text("at last")))
        elif tool == "big":
            await stream.event(_reply(message, _text("y" * message["params"]["arguments"]["n"])))
        elif tool == "echo":
            await stream.event(_reply(message, _text(message["params"]["arguments"]["text"])))

    # --- tools

    async def echo(self, request: Request, wire: Wire) -> None:
        await self.result(request, wire, request.message["params"]["arguments"]["text"])

    async def big(self, request: Request, wire: Wire) -> None:
        await self.result(request, wire, "y" * request.message["params"]["arguments"]["n"])

    async def die(self, request: Request, wire: Wire) -> None:
        self.arrived.set()
        await asyncio.Event().wait()

    async def hangup(self, request: Request, wire: Wire) -> None:
        raise Hangup

    async def half_body(self, request: Request, wire: Wire) -> None:
        await wire.head(200, {"content-type": "application/json", "content-length": "1000"})
        await wire.raw(b'{"jsonrpc": "2.0", ')
        raise Hangup

    async def stream_ends(self, request: Request, wire: Wire) -> None:
        await wire.begin()
        progress = {"progressToken": request.message["id"], "progress": 1}
        await wire.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})

    async def stream_breaks(self, request: Request, wire: Wire) -> None:
        await self.stream_ends(request, wire)
        raise Hangup

    async def resumable(self, request: Request, wire: Wire) -> None:
        await wire.begin()
        await wire.event("", number=f"answer-{request.message['id']}", retry=50)

    async def announced_huge(self, request: Request, wire: Wire) -> None:
        await wire.head(200, {"content-type": "application/json", "content-length": str(50 * MIB)})
        await asyncio.Event().wait()  # not a byte of it: it must be refused by what it announces

    async def streamed_huge(self, request: Request, wire: Wire) -> None:
        await wire.begin("application/json")
        await self._flood(wire)

    async def huge_event(self, request: Request, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"data: ")
        await self._flood(wire)

    async def _flood(self, wire: Wire) -> None:
        for _ in range(MAX_BODY_BYTES // MIB + 1):
            await wire.chunk(b'"' * MIB)
        await asyncio.Event().wait()  # and there is no end to it

    async def compressed(self, request: Request, wire: Wire) -> None:
        await wire.answer(200, b"\x1f\x8b\x08", "application/json", content_encoding="gzip")

    async def redirect_out(self, request: Request, wire: Wire) -> None:
        await wire.answer(307, location=f"http://localhost:{self.http.port}/elsewhere/")

    async def redirect_in(self, request: Request, wire: Wire) -> None:
        await wire.answer(307, location="/elsewhere/")

    async def redirect_303(self, request: Request, wire: Wire) -> None:
        await wire.answer(303, location="/elsewhere/")

    async def redirect_round(self, request: Request, wire: Wire) -> None:
        await wire.answer(307, location="/mcp")

    async def status(self, request: Request, wire: Wire) -> None:
        await wire.answer(
            request.message["params"]["arguments"]["code"], b"<h1>oh</h1>", "text/html"
        )

    async def repeats_login(self, request: Request, wire: Wire) -> None:
        words = f"not with {request.headers['authorization']}"
        await wire.json(400, _error(request.message, -32602, words))

    async def thanks_for_login(self, request: Request, wire: Wire) -> None:
        await self.result(request, wire, f"Thank you for {request.headers['authorization']}.")

    async def status_with_error(self, request: Request, wire: Wire) -> None:
        await wire.json(400, _error(request.message, -32602, "no such place"))

    async def html(self, request: Request, wire: Wire) -> None:
        await wire.answer(200, b"<html>secret page</html>", "text/html; charset=utf-8")

    async def garbage(self, request: Request, wire: Wire) -> None:
        await wire.answer(200, b"\xff\xfe secret page", "application/json")

    async def wrong_shape(self, request: Request, wire: Wire) -> None:
        await wire.json(200, {"jsonrpc": "2.0", "id": request.message["id"], "secret": 1})

    async def wrong_id(self, request: Request, wire: Wire) -> None:
        await wire.json(200, _reply({"id": 4711}, _text("for somebody else")))

    async def garbage_event(self, request: Request, wire: Wire) -> None:
        await wire.begin()
        await wire.event("{secret page")

    async def odd_charset(self, request: Request, wire: Wire) -> None:
        await wire.begin("text/event-stream; charset=zlib_codec")
        await wire.event(_reply(request.message, _text("plain")))

    async def accepted(self, request: Request, wire: Wire) -> None:
        await wire.answer(202)

    async def no_http(self, request: Request, wire: Wire) -> None:
        await wire.raw(b"220 mail.example.com ESMTP\r\n")
        raise Hangup

    async def endless_head(self, request: Request, wire: Wire) -> None:
        await wire.raw(b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * MIB)
        raise Hangup

    async def drip(self, request: Request, wire: Wire) -> None:
        await wire.head(200, {"content-type": "application/json", "content-length": "100000"})
        self.arrived.set()
        while not self.release.is_set():
            await wire.raw(b" ")
            await asyncio.sleep(0.01)

    async def mute(self, request: Request, wire: Wire) -> None:
        self.arrived.set()
        await self.release.wait()
        await self.result(request, wire, "late")

    async def asks_us(self, request: Request, wire: Wire) -> None:
        await wire.begin()
        for number in range(50):
            await wire.event({"jsonrpc": "2.0", "id": f"ask-{number}", "method": "ping"})
        await wire.event(_reply(request.message, _text("asked")))


def _reply(message: dict[str, Any], result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _error(message: dict[str, Any], code: int, words: str) -> dict[str, Any]:
    error = {"code": code, "message": words}
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": error}


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": False, "resultType": "complete"}


def _modern_result() -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _discovered() -> dict[str, Any]:
    return {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "faulty", "version": "1"},
        **_modern_result(),
    }


def _initialized(protocol: str) -> dict[str, Any]:
    return {
        "protocolVersion": protocol,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }


TOOLS = ("echo", "mute", "thanks_for_login")


def _tools() -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]


@asynccontextmanager
async def faulty(**settings: Any) -> AsyncIterator[Faulty]:
    """A faulty server that runs."""
    server = Faulty(**settings)
    await server.http.start()
    try:
        yield server
    finally:
        server.release.set()
        await server.http.stop()


@asynccontextmanager
async def honest(kind: str) -> AsyncIterator[str]:
    """The URL of the official SDK's server: `json`, `stream` or `sse`."""
    server = MCPServer("honest", log_level="ERROR")

    @server.tool()
    async def echo(text: str) -> str:
        return text

    if kind == "sse":
        app = server.sse_app()
    else:
        app = server.streamable_http_app(json_response=kind == "json")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            app, log_config=None, lifespan="on", timeout_graceful_shutdown=1, ws="none"
        )
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve(sockets=[listener]))
        while not serving.started:  # noqa: ASYNC110  (it has no event)
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
        finally:
            serving.should_exit = True
            await task
