from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from cordboard.calls.binding import bind
from cordboard.calls.call import Call
from cordboard.calls.ledger import LedgerWriter
from cordboard.calls.services import CallServices
from cordboard.config.schema import Config
from cordboard.generation.generation import Generation
from cordboard.mcp.supervision.pool import ServerPool
from cordboard.observe import span_sender
from cordboard.observe.metrics import Metrics
from cordboard.observe.tracing import NO_TRACING, Tracing
from cordboard_testkit.fake_agent import FakeAgent, Script
from cordboard_testkit.fake_line import FakeLine

SETTLE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def patient_sender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the sender of spans time on a busy machine, unless a test is about its limits."""
    if "mute" in request.fixturenames:
        return
    monkeypatch.setattr(span_sender, "SHUTDOWN_SECONDS", SETTLE_SECONDS)
    monkeypatch.setattr(span_sender, "_LAST_REQUEST_SECONDS", SETTLE_SECONDS)
    defaults = span_sender.SpanSender.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "request_seconds", SETTLE_SECONDS)


class Collector:
    """An OTLP collector over HTTP that keeps what it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        """What the next requests are answered; then 200."""
        self.arrived = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with collector.arrived:
                    status = collector.statuses.pop(0) if collector.statuses else 200
                    collector.headers.append({k.lower(): v for k, v in self.headers.items()})
                    collector.paths.append(self.path)
                    if status == 200:
                        collector.bodies.append(body)
                    collector.arrived.notify_all()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, start: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(start)]

    def wait(self, requests: int) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.paths) >= requests, SETTLE_SECONDS)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    yield server
    server.close()


def said(span: Span) -> dict[str, Any]:
    """A span's attributes as plain values."""
    return {
        entry.key: getattr(entry.value, entry.value.WhichOneof("value"))
        for entry in span.attributes
    }


class WatchedMetrics(Metrics):
    """Says when a server has begun another life."""

    def __init__(self) -> None:
        super().__init__()
        self.restarted = asyncio.Event()
        count = self.servers.mcp_server_restarted

        def restarted(server: str) -> None:
            count(server)
            self.restarted.set()

        self.servers.mcp_server_restarted = restarted


class Room:
    """A generation with running servers, in which calls can be made."""

    def __init__(self, config: Config, directory: Path, tracing: Tracing) -> None:
        self.metrics = WatchedMetrics()
        self.pool = ServerPool(self.metrics.servers)
        self.generation = Generation(config, self.pool)
        self._config = config
        self._tracing = tracing
        self._directory = directory

    async def call(self, script: Script) -> list[str]:
        """One call, hung up by the caller when the script is over; returns its ledger's lines."""
        writer, line = LedgerWriter(), FakeLine()
        over = asyncio.Event()

        async def follow(agent: FakeAgent) -> None:
            try:
                await script(agent)
            finally:
                over.set()

        offer = line.offer()
        services = CallServices(writer, self.metrics, self._directory, tracing=self._tracing)
        agent = FakeAgent(follow)
        call = Call(offer, bind(offer, self._config), self.generation, agent, services)
        self.metrics.calls.started()
        running = asyncio.create_task(call.run())
        async with asyncio.timeout(SETTLE_SECONDS):
            await over.wait()
        assert line.media is not None
        line.media.break_off("caller_hangup")
        await running
        await asyncio.to_thread(writer.close)
        assert agent.problem is None
        (path,) = self._directory.glob(f"*/{call.call_id}.jsonl")
        return path.read_text().splitlines()


@asynccontextmanager
async def room(
    directory: Path, servers: dict[str, Any], tools: list[str], tracing: Tracing = NO_TRACING
) -> AsyncIterator[Room]:
    """A room whose servers have settled; it is torn down with the block."""
    never = 3_600_000
    silence = {"filler_after_ms": 0, "caller_after_ms": never, "agent_after_ms": never}
    config = Config.model_validate(
        {
            "contexts": {"demo": {"tools": tools, "silence": silence}},
            "mcp": {"servers": servers},
        }
    )
    place = Room(config, directory, tracing)
    tracing.start()
    place.generation.start()
    try:
        assert await place.generation.fleet.wait_settled(SETTLE_SECONDS)
        yield place
    finally:
        await place.generation.close()
        await place.pool.close()
