"""The HTTP face over a real socket: what a load balancer, Prometheus and a browser get."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cordboard.api import server as server_module
from cordboard.api.app import ComponentState, create_app, is_loopback, names_loopback
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard.errors import ListenError

from .conftest import ShownEngine, ask


@pytest.fixture
async def port(engine: ShownEngine) -> AsyncIterator[int]:
    health = Health(host="127.0.0.1", port=0)
    server = HttpServer(health, create_app(engine, loopback_only=True))
    await server.start()
    yield server.port
    await server.close()


async def test_live_answers_even_when_nothing_is_ready(port: int, engine: ShownEngine) -> None:
    engine.components = {"agents": ComponentState(False, "loading models")}
    answer = await ask(port, "/live")
    assert (answer.status, answer.json) == (200, {"live": True})


async def test_ready_when_everything_required_is_ready(port: int, engine: ShownEngine) -> None:
    engine.components["mcp"] = ComponentState(False, "aviation_atis is down", required=False)
    answer = await ask(port, "/ready")
    assert answer.status == 200
    assert answer.json["ready"] is True
    assert answer.json["components"]["mcp"] == {
        "ready": False,
        "required": False,
        "detail": "aviation_atis is down",
    }


async def test_not_ready_says_which_component_and_why(port: int, engine: ShownEngine) -> None:
    engine.components["ari"] = ComponentState(False, "no connection to Asterisk")
    answer = await ask(port, "/ready")
    assert answer.status == 503
    assert answer.json["ready"] is False
    assert answer.json["components"]["ari"]["detail"] == "no connection to Asterisk"
    assert answer.json["components"]["media"]["ready"] is True


async def test_health_is_json_and_metrics_are_prometheus_text(port: int) -> None:
    health = await ask(port, "/health")
    assert health.headers["content-type"] == "application/json"
    assert health.json == {"version": "1.2.3", "calls": {"active": 0}}
    metrics = await ask(port, "/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert metrics.body == b"ai_agent_active_calls 0.0\n"


async def test_head_gives_the_headers_without_a_body(port: int) -> None:
    answer = await ask(port, "/health", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize("path", ["/", "/metrics/", "/ready/x", "/admin"])
async def test_other_paths_are_not_found_in_json(port: int, path: str) -> None:
    answer = await ask(port, path)
    assert (answer.status, answer.json) == (404, {"error": "Not Found"})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_can_be_changed(port: int, method: str) -> None:
    answer = await ask(port, "/health", method=method)
    assert (answer.status, answer.json) == (405, {"error": "Method Not Allowed"})
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/health", "/nowhere"])
async def test_every_answer_has_the_security_headers(port: int, path: str) -> None:
    headers = (await ask(port, path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "server" not in headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:15000", "10.0.0.5", "", "x:y:z"])
async def test_a_name_that_merely_points_to_loopback_is_refused(port: int, host: str) -> None:
    answer = await ask(port, "/health", host=host)
    assert (answer.status, answer.json) == (421, {"error": "Misdirected Request"})
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:15000", "127.0.0.1:1", "[::1]:15000"])
async def test_loopback_by_any_of_its_names_is_served(port: int, host: str) -> None:
    assert (await ask(port, "/live", host=host)).status == 200


def test_what_names_loopback() -> None:
    assert is_loopback("::1")
    assert is_loopback("127.8.9.1")
    assert not is_loopback("0.0.0.0")
    assert not names_loopback("localhost.evil.example")
    assert not names_loopback("127.0.0.1.evil.example:80")


async def test_any_host_name_is_served_when_not_bound_to_loopback(engine: ShownEngine) -> None:
    server = HttpServer(Health(port=0), create_app(engine, loopback_only=False))
    await server.start()
    assert (await ask(server.port, "/live", host="pbx.example")).status == 200
    await server.close()


async def test_a_failing_view_is_a_plain_500(
    engine: ShownEngine, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, Any]:
        raise KeyError("hunter2")

    monkeypatch.setattr(engine, "health", fail)
    answer = await ask(port, "/health")
    assert (answer.status, answer.json) == (500, {"error": "Internal Server Error"})
    assert (await ask(port, "/live")).status == 200


async def test_close_leaves_no_task_no_port_and_no_idle_connection(engine: ShownEngine) -> None:
    before = asyncio.all_tasks()
    server = HttpServer(Health(port=0), create_app(engine, loopback_only=True))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b'{"live":true}'), 10)
    await asyncio.wait_for(server.close(), 10)
    await server.close()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    await writer.wait_closed()
    assert asyncio.all_tasks() == before
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_the_same_port_can_be_opened_again_at_once(engine: ShownEngine) -> None:
    app = create_app(engine, loopback_only=True)
    first = HttpServer(Health(port=0), app)
    await first.start()
    assert (await ask(first.port, "/live")).status == 200
    await first.close()
    second = HttpServer(Health(port=first.port), app)
    await second.start()
    assert (await ask(second.port, "/live")).status == 200
    await second.close()


async def test_a_port_in_use_is_one_clear_error(engine: ShownEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = HttpServer(Health(port=port), create_app(engine, loopback_only=True))
        with pytest.raises(ListenError) as caught:
            await server.start()
        await server.close()
    assert str(caught.value) == (
        f"the HTTP port 127.0.0.1:{port} cannot be opened: Address already in use (health.port)"
    )


async def test_signals_stay_with_the_engine(engine: ShownEngine) -> None:
    received = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, received.set)
    try:
        server = HttpServer(Health(port=0), create_app(engine, loopback_only=True))
        await server.start()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(received.wait(), 10)
        assert (await ask(server.port, "/live")).status == 200
        await server.close()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /live HT", b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\nGET /li"]
)
async def test_a_connection_without_a_whole_request_is_closed(
    engine: ShownEngine, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """64 of them would keep everybody else out."""
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.1)
    server = HttpServer(Health(port=0), create_app(engine, loopback_only=True))
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        await asyncio.wait_for(reader.read(), 10)  # to its end
        writer.close()
    finally:
        await server.close()
