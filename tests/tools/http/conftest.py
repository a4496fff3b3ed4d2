"""A web service on loopback that does what each test tells it, and how tools reach it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from cordboard.config.tools.http_tool import HttpTool
from cordboard.tools.call_line import NoCaller
from cordboard.tools.http.shared import SharedClient
from cordboard.tools.http.tool import HttpRequestTool
from cordboard.tools.tool import JsonObject, ToolResult


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What the service answers, byte for byte."""

    status: int = 200
    body: bytes = b"{}"
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    delay: float = 0.0
    hang_up: bool = False


class Service:
    """HTTP/1.1 by hand: it can do wrong what no library would let it."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[Answer] = []
        """One for each request; the last one for all further ones."""
        self.connections = 0
        self.tls: ssl.SSLContext | None = None
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will(self, *answers: Answer) -> None:
        self.answers = list(answers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received.append(Received(method, target, headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(answer.delay)
        if answer.hang_up:
            return False
        if answer.raw is not None:
            writer.write(answer.raw)
            await writer.drain()
            return False
        named = {"content-type": answer.kind, "content-length": str(len(answer.body))}
        fields = "".join(f"{n}: {v}\r\n" for n, v in (named | answer.headers).items() if v)
        writer.write(f"HTTP/1.1 {answer.status} Words\r\n{fields}\r\n".encode("latin-1"))
        if method != "HEAD":
            writer.write(answer.body)
        await writer.drain()
        return True


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    found = Service()
    found.will(Answer())
    await found.start()
    yield found
    await found.stop()


@dataclass
class Run:
    """A run of a tool, as a desk would give it."""

    line: NoCaller
    ask_id: str = "1.1"
    idempotency_key: str = "call-1:1.1"
    unrecorded: tuple[str, ...] = ()

    def progress(self, note: str = "") -> None: ...

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        raise AssertionError("an HTTP tool has no steps")


VARIABLES = {"caller_number": "+47 912 34 567", "call_id": "call-1"}


def run(**variables: str) -> Run:
    return Run(NoCaller("call-1", "demo", variables=VARIABLES | variables))


Use = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
async def shared() -> AsyncIterator[SharedClient]:
    found = SharedClient()
    yield found
    await found.close()


@pytest.fixture
def use(service: Service, shared: SharedClient) -> Use:
    """`await use({...config...}, argument=...)`: run a tool against the service."""

    async def used(config: dict[str, Any], **arguments: Any) -> ToolResult:
        whole = {"kind": "http", "url": service.url + "/", "allow_private": True} | config
        tool = HttpRequestTool("probe", HttpTool.model_validate(whole), shared, lambda: 1_000.0)
        return await tool.run(arguments, run())

    return used
