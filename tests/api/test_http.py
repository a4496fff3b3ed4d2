"""The HTTP face over a real socket: what a load balancer, Prometheus and a browser get."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp

from cordboard.api.app import ComponentState, create_app
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard.errors import ListenError

from .conftest import ShownEngine, ask, ask_app

TOKEN = "correct-horse-battery"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}


def made(engine: ShownEngine, *, token: str | None = TOKEN, **more: Any) -> ASGIApp:
    """The application, on loopback unless told otherwise."""
    secret = SecretStr(token) if token is not None else None
    return create_app(engine, **{"loopback_only": True, "token": lambda: secret, **more})


@pytest.fixture
async def port(engine: ShownEngine) -> AsyncIterator[int]:
    server = HttpServer(Health(host="127.0.0.1", port=0), made(engine))
    await server.start()
    yield server.port
    await server.close()


async def test_live_answers_even_when_nothing_is_ready(port: int, engine: ShownEngine) -> None:
    engine.components = {"agents": ComponentState(False, "loading models")}
    answer = await ask(port, "/live")
    assert (answer.status, answer.json) == (200, {"live": True})


async def test_ready_when_everything_required_is_ready(port: int, engine: ShownEngine) -> None:
    engine.components["mcp"] = ComponentState(False, "aviation_atis is down", required=False)
    answer = await ask(port, "/ready", headers=AUTHORISED)
    assert answer.status == 200
    assert answer.json["ready"] is True
    assert answer.json["components"]["mcp"] == {
        "ready": False,
        "required": False,
        "detail": "aviation_atis is down",
    }


async def test_not_ready_says_which_component_and_why(port: int, engine: ShownEngine) -> None:
    engine.components["ari"] = ComponentState(False, "no connection to Asterisk")
    answer = await ask(port, "/ready", headers=AUTHORISED)
    assert answer.status == 503
    assert answer.json["ready"] is False
    assert answer.json["components"]["ari"]["detail"] == "no connection to Asterisk"
    assert answer.json["components"]["media"]["ready"] is True


async def test_health_is_json_and_metrics_are_prometheus_text(port: int) -> None:
    health = await ask(port, "/health", headers=AUTHORISED)
    assert health.headers["content-type"] == "application/json"
    assert health.json == {
        "version": "1.2.3",
        "active_calls": [{"call_id": "one", "context": "demo"}],
    }
    metrics = await ask(port, "/metrics")
    assert metrics.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert metrics.body == b"ai_agent_active_calls 0.0\n"


async def test_a_path_that_is_no_text_does_not_hide_the_state(engine: ShownEngine) -> None:
    """Names of files may be any bytes, which Python reads as half surrogates."""
    folder = os.fsdecode(b"/var/caf\xe9")
    engine.components["ledger"] = ComponentState(False, f"{folder} is full", required=False)
    answer = await ask_app(made(engine), "/ready", headers=AUTHORISED)
    assert answer.status == 200
    assert answer.json["components"]["ledger"]["detail"] == f"{folder} is full"


async def test_without_the_token_health_and_ready_show_numbers_and_states_only(
    engine: ShownEngine,
) -> None:
    engine.components = {
        "agents": ComponentState(False, "live: no key: set LIVE_KEY"),
        "media": ComponentState(False, "the port is shut", public=True),
    }
    app = made(engine)
    states = {
        "agents": {"ready": False, "required": True, "detail": "shown with the admin token"},
        "media": {"ready": False, "required": True, "detail": "the port is shut"},
    }
    health = await ask_app(app, "/health")
    assert health.json == {"version": "1.2.3", "active_calls": 1, "components": states}
    ready = await ask_app(app, "/ready")
    assert (ready.status, ready.json) == (503, {"ready": False, "components": states})


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_a_wrong_token_is_refused_rather_than_answered_in_short(
    engine: ShownEngine, path: str
) -> None:
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    assert (await ask_app(made(engine), path, headers=wrong)).status == 401
    answer = await ask_app(made(engine, token=None), path, headers=wrong)
    assert (answer.status, "admin.token" in answer.json["error"]) == (403, True)


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/nowhere"])
async def test_off_loopback_everything_but_live_needs_the_token(
    engine: ShownEngine, path: str
) -> None:
    app = made(engine, loopback_only=False)
    refused = await ask_app(app, path)
    assert (refused.status, "Authorization: Bearer" in refused.json["error"]) == (401, True)
    assert refused.headers["www-authenticate"] == 'Bearer realm="cordboard"'
    assert (await ask_app(app, path, headers={"Authorization": "Bearer x"})).status == 401
    allowed = await ask_app(app, path, headers=AUTHORISED)
    assert allowed.status == (404 if path == "/nowhere" else 200)
    assert (await ask_app(app, "/live")).status == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
async def test_off_loopback_without_a_configured_token_the_answer_says_what_to_set(
    engine: ShownEngine, path: str
) -> None:
    app = made(engine, loopback_only=False, token=None)
    answer = await ask_app(app, path)
    assert (answer.status, "admin.token" in answer.json["error"]) == (403, True)
    assert (await ask_app(app, "/live")).status == 200


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


@pytest.mark.parametrize("loopback_only", [True, False])
@pytest.mark.parametrize("path", ["/health", "/live", "/nowhere"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:15000", "127.0.0.1.evil.example:80", "localhost.x", "", "x:y:z"],
)
async def test_a_name_that_merely_points_here_is_refused(
    engine: ShownEngine, loopback_only: bool, path: str, host: str
) -> None:
    app = made(engine, loopback_only=loopback_only, allowed_hosts=["pbx.example"])
    answer = await ask_app(app, path, host=host, headers=AUTHORISED)
    assert (answer.status, "health.allowed_hosts" in answer.json["error"]) == (421, True)
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("loopback_only", [True, False])
@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "127.0.0.1:1", "[::1]:1", "10.0.0.5", "[::1", "Pbx.Example:1"],
)
async def test_addresses_localhost_and_listed_names_are_served(
    engine: ShownEngine, loopback_only: bool, host: str
) -> None:
    app = made(engine, loopback_only=loopback_only, allowed_hosts=["pbx.Example"])
    for path in ("/live", "/health"):
        assert (await ask_app(app, path, host=host, headers=AUTHORISED)).status == 200


async def test_a_failing_view_is_a_plain_500(
    engine: ShownEngine, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, Any]:
        raise KeyError("hunter2")

    monkeypatch.setattr(engine, "health", fail)
    answer = await ask(port, "/health", headers=AUTHORISED)
    assert (answer.status, answer.json) == (500, {"error": "Internal Server Error"})
    assert (await ask(port, "/live")).status == 200


async def test_close_leaves_no_task_no_port_and_no_idle_connection(engine: ShownEngine) -> None:
    before = asyncio.all_tasks()
    server = HttpServer(Health(port=0), made(engine))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.wait_for(reader.readuntil(b'{"live":true}'), 60)
    await asyncio.wait_for(server.close(), 60)
    await server.close()
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    await writer.wait_closed()
    assert asyncio.all_tasks() == before
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_the_same_port_can_be_opened_again_at_once(engine: ShownEngine) -> None:
    app = made(engine)
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
        server = HttpServer(Health(port=port), made(engine))
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
        server = HttpServer(Health(port=0), made(engine))
        await server.start()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(received.wait(), 60)
        assert (await ask(server.port, "/live")).status == 200
        await server.close()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
