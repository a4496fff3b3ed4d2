"""The administration as a client sees it, over an administration that does what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.types import ASGIApp
from structlog.testing import capture_logs

from cordboard.api.administration import ServerOperations
from cordboard.api.administration_view import Deferred
from cordboard.api.app import create_app
from cordboard.api.gate import HttpLimits
from cordboard.api.server import HttpServer
from cordboard.config.schema import Health
from cordboard.errors import ConfigProblem, McpUnavailable
from cordboard.mcp.supervision.status import ServerState
from cordboard.mcp.trial import TestReport
from cordboard_testkit.fake_administration import (
    ATIS,
    FakeAdministration,
    Reloaded,
)

from .conftest import Answer, ShownEngine, ask, ask_app

TOKEN = "correct-horse-battery"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}
POST: dict[str, Any] = {"method": "POST", "headers": AUTHORISED}
READING = ["/mcp/status", "/mcp/tools"]
CHANGING = [
    "/mcp/test/atis",
    "/mcp/servers/atis/start",
    "/mcp/servers/atis/stop",
    "/mcp/servers/atis/restart",
    "/reload",
]
Serve = Callable[..., ASGIApp]


@pytest.fixture
def fake() -> FakeAdministration:
    return FakeAdministration()


@pytest.fixture
def serve(engine: ShownEngine, fake: FakeAdministration) -> Serve:
    """Makes the application, as on loopback and with the token unless told otherwise."""

    def make(
        *,
        loopback_only: bool = True,
        token: str | None = TOKEN,
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - frozen
    ) -> ASGIApp:
        secret = SecretStr(token) if token is not None else None
        return create_app(
            engine,
            loopback_only=loopback_only,
            administration=ServerOperations(fake),
            token=lambda: secret,
            limits=limits,
        )

    return make


@pytest.fixture
def app(serve: Serve) -> ASGIApp:
    return serve()


@pytest.fixture
async def port(app: ASGIApp) -> AsyncIterator[int]:
    server = HttpServer(Health(port=0), app)
    await server.start()
    yield server.port
    await server.close()


async def post(app: ASGIApp, path: str, **more: Any) -> Answer:
    return await ask_app(app, path, method="POST", **{"headers": AUTHORISED, **more})


# Who may.


@pytest.mark.parametrize("path", CHANGING)
@pytest.mark.parametrize("loopback_only", [True, False])
async def test_changing_needs_the_token(
    serve: Serve, fake: FakeAdministration, path: str, loopback_only: bool
) -> None:
    app = serve(loopback_only=loopback_only)
    missing = await post(app, path, headers={})
    wrong = await post(app, path, headers={"Authorization": f"Bearer {TOKEN}x"})
    basic = await post(app, path, headers={"Authorization": "Basic YTpi"})
    assert [missing.status, wrong.status, basic.status] == [401, 401, 401]
    assert missing.headers["www-authenticate"] == 'Bearer realm="cordboard"'
    assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
    assert fake.asked == []
    assert (await post(app, path)).status == 200
    assert len(fake.asked) == 1


@pytest.mark.parametrize("path", CHANGING)
@pytest.mark.parametrize("token", [None, ""])
async def test_without_a_configured_token_nothing_changes_and_the_answer_says_what_to_set(
    serve: Serve, fake: FakeAdministration, path: str, token: str | None
) -> None:
    app = serve(token=token)
    for headers in ({}, {"Authorization": "Bearer "}, AUTHORISED):
        answer = await post(app, path, headers=headers)
        assert answer.status == 403
        assert "admin.token" in answer.json["error"]
    assert fake.asked == []


@pytest.mark.parametrize("path", READING)
async def test_reading_is_free_on_loopback_and_needs_the_token_elsewhere(
    serve: Serve, path: str
) -> None:
    assert (await ask_app(serve(), path)).status == 200
    assert (await ask_app(serve(token=None), path)).status == 200
    outside = serve(loopback_only=False)
    assert (await ask_app(outside, path)).status == 401
    assert (await ask_app(outside, path, headers=AUTHORISED)).status == 200
    assert (await ask_app(serve(loopback_only=False, token=None), path)).status == 403


@pytest.mark.parametrize("path", READING)
async def test_a_web_page_that_points_its_name_here_reads_nothing(app: ASGIApp, path: str) -> None:
    assert (await ask_app(app, path, host="evil.example", headers=AUTHORISED)).status == 421


async def test_the_port_without_an_administration_has_no_such_paths(engine: ShownEngine) -> None:
    app = create_app(engine, loopback_only=True)
    assert (await ask_app(app, "/mcp/status")).status == 404
    assert (await post(app, "/reload")).status == 404


async def test_who_was_refused_and_what_was_done_is_in_the_log_without_the_token(
    app: ASGIApp,
) -> None:
    with capture_logs() as log:
        for _ in range(5):  # one line, lest somebody without a token fill the log
            await post(app, "/reload", headers={"Authorization": "Bearer guess"})
        await post(app, "/reload")
    assert [entry["event"] for entry in log] == ["admin_request_refused", "admin_request"]
    assert "guess" not in repr(log)
    assert TOKEN not in repr(log)


# What a request may look like.


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain;charset=utf-8",
        "TEXT/PLAIN",
    ],
)
async def test_what_a_form_on_a_web_page_can_send_is_refused(
    app: ASGIApp, fake: FakeAdministration, kind: str
) -> None:
    headers = {**AUTHORISED, "Content-Type": kind}
    answer = await post(app, "/reload", headers=headers, body=b"a=b")
    assert (answer.status, fake.asked) == (415, [])
    assert "error" in answer.json


@pytest.mark.parametrize("body", [b"{}", b" {}\n"])
async def test_an_empty_object_is_as_good_as_no_body(app: ASGIApp, body: bytes) -> None:
    headers = {**AUTHORISED, "Content-Type": "application/json"}
    assert (await post(app, "/reload", headers=headers, body=body)).status == 200


async def test_parameters_are_not_silently_ignored(app: ASGIApp, fake: FakeAdministration) -> None:
    answer = await post(app, "/reload", body=b'{"file": "other.yaml"}')
    assert (answer.status, fake.asked) == (400, [])


async def test_a_body_is_bounded_whether_its_length_is_told_or_not(
    port: int, fake: FakeAdministration
) -> None:
    told = await ask(port, "/reload", method="POST", headers=AUTHORISED, body=b" " * 5_000)
    chunked = {**AUTHORISED, "Transfer-Encoding": "chunked"}
    body = b"1000\r\n" + b" " * 4096 + b"\r\n1\r\n \r\n0\r\n\r\n"
    untold = await ask(port, "/reload", method="POST", headers=chunked, body=body)
    assert (told.status, untold.status, fake.asked) == (413, 413, [])


async def test_a_body_that_never_comes_is_not_waited_for(
    serve: Serve, fake: FakeAdministration
) -> None:
    server = HttpServer(Health(port=0), serve(limits=HttpLimits(body_seconds=0.05)))
    await server.start()
    headers = {**AUTHORISED, "Content-Length": "2"}
    answer = await ask(server.port, "/reload", method="POST", headers=headers)
    await server.close()
    assert (answer.status, fake.asked) == (408, [])


@pytest.mark.parametrize("path", CHANGING)
async def test_get_changes_nothing(app: ASGIApp, fake: FakeAdministration, path: str) -> None:
    answer = await ask_app(app, path, headers=AUTHORISED)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json == {"error": "Method Not Allowed"}
    assert fake.asked == []


@pytest.mark.parametrize("path", READING)
async def test_what_is_read_cannot_be_posted_to(app: ASGIApp, path: str) -> None:
    assert (await post(app, path)).status == 405


@pytest.mark.parametrize(
    "path", ["/mcp", "/mcp/test/", "/mcp/servers/atis", "/mcp/servers/atis/kill", "/mcp/test/a/b"]
)
async def test_other_paths_are_not_found(app: ASGIApp, path: str) -> None:
    answer = await post(app, path)
    assert (answer.status, answer.json) == (404, {"error": "Not Found"})


async def test_a_preflight_is_never_granted(app: ASGIApp) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = await ask_app(app, "/reload", method="OPTIONS", headers=headers)
    assert answer.status == 405
    assert not any(name.startswith("access-control-") for name in answer.headers)


# What is answered.


async def test_the_status_of_a_server(app: ASGIApp) -> None:
    (server,) = (await ask_app(app, "/mcp/status")).json["servers"]
    assert server.pop("stderr") == [f"line {number}" for number in range(30, 50)]
    assert server == {
        "server": "atis",
        "state": "ready",
        "since": "2026-11-21T15:36:14.250Z",
        "pid": 4711,
        "protocol": "2025-11-25",
        "capabilities": [],
        "tools": ["get_atis", "get_metar"],
        "quarantined": ["get_metar"],
        "restarts": 2,
        "breaker": "open",
        "breaker_reported_by": [],
        "runs_at": "",
        "again_at": None,
        "last_error": "it ended with status 1",
    }


async def test_the_tools_with_what_keeps_them_from_being_offered(
    app: ASGIApp, fake: FakeAdministration
) -> None:
    fake.mcp_listing = [
        {
            "exposed": "mcp_atis_get_atis",
            "origin": "mcp:atis:get_atis",
            "server": "atis",
            "tool": "get_atis",
            "description": "The ATIS of an aerodrome",
            "parameters": {"type": "object"},
            "offered": False,
            "why_not": "its definition has changed",
        }
    ]
    assert (await ask_app(app, "/mcp/tools")).json == {"tools": fake.mcp_listing}


async def test_a_tool_that_cannot_be_shown_hides_no_other(
    app: ASGIApp, fake: FakeAdministration
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    fake.mcp_listing = [
        {"tool": "deep", "parameters": deep},
        {"tool": "broken \ud800", "parameters": {}},
        {"tool": "big", "parameters": {"maximum": 2**70}},
        {"tool": "fine", "parameters": {}},
    ]
    answer = await ask_app(app, "/mcp/tools")
    tools = answer.json["tools"]
    while deep:  # the interpreter itself cannot let go of it at once
        deep = deep.pop("items", {})
    assert tools[0] == {"error": "cannot be shown"}
    assert tools[2]["parameters"] == {"maximum": 2**70}
    assert [tool["tool"] for tool in tools[1:]] == ["broken \ud800", "big", "fine"]


async def test_a_test_that_fails_is_an_answer(app: ASGIApp, fake: FakeAdministration) -> None:
    fake.report = TestReport(False, "it did not answer in time", 312, stderr=("no route to host",))
    answer = await post(app, "/mcp/test/atis")
    assert (answer.status, answer.json) == (
        200,
        {
            "server": "atis",
            "ok": False,
            "error": "it did not answer in time",
            "took_ms": 312,
            "protocol": "",
            "tools": [],
            "stderr": ["no route to host"],
        },
    )


@pytest.mark.parametrize("what", ["start", "stop", "restart"])
async def test_moving_a_server_answers_with_its_state(
    app: ASGIApp, fake: FakeAdministration, what: str
) -> None:
    fake.status = replace(ATIS, state=ServerState.STARTING, pid=None)
    answer = await post(app, f"/mcp/servers/atis/{what}")
    assert (answer.status, answer.json["state"], answer.json["pid"]) == (200, "starting", None)
    assert fake.asked == [f"{what} atis"]


@pytest.mark.parametrize("path", [path for path in CHANGING if "atis" in path])
async def test_a_server_that_is_not_there(app: ASGIApp, path: str) -> None:
    answer = await post(app, path.replace("atis", "no%20such"))
    assert answer.status == 404
    assert answer.json == {"error": "there is no MCP server 'no such'"}


async def test_what_cannot_be_done_is_said(app: ASGIApp, fake: FakeAdministration) -> None:
    fake.failure = McpUnavailable("the server is disabled")
    answer = await post(app, "/mcp/servers/atis/start")
    assert (answer.status, answer.json) == (409, {"error": "the server is disabled"})


async def test_a_mistake_of_ours_is_not_blamed_on_who_asked(
    app: ASGIApp, fake: FakeAdministration
) -> None:
    fake.failure = KeyError("hunter2")
    answer = await post(app, "/mcp/servers/atis/start")
    assert (answer.status, answer.json) == (500, {"error": "Internal Server Error"})


async def test_a_slow_test_holds_nobody_else_and_is_not_done_twice_at_once(
    port: int, fake: FakeAdministration
) -> None:
    fake.hold = asyncio.Event()
    slow = asyncio.create_task(ask(port, "/mcp/test/atis", **POST))
    await asyncio.wait_for(fake.held.wait(), 60)
    assert (await ask(port, "/live")).status == 200
    assert (await ask(port, "/mcp/status")).status == 200
    assert (await ask(port, "/reload", **POST)).status == 200
    again = await ask(port, "/mcp/servers/atis/restart", **POST)
    assert again.status == 409
    assert "already" in again.json["error"]
    fake.hold.set()
    assert (await slow).status == 200
    assert (await ask(port, "/mcp/test/atis", **POST)).status == 200


async def test_a_reload_says_what_changed_and_what_waits(
    app: ASGIApp, fake: FakeAdministration
) -> None:
    fake.reloaded = Reloaded(
        generation=7,
        changed=("contexts.demo.greeting",),
        deferred=(Deferred("mcp.servers.a", "no call is active"),),
        problems=(ConfigProblem("its program is not there", "mcp.servers.b", "f.yaml", 9, False),),
    )
    answer = await post(app, "/reload")
    assert (answer.status, answer.json) == (
        200,
        {
            "applied": True,
            "generation": 7,
            "changed": ["contexts.demo.greeting"],
            "deferred": [{"what": "mcp.servers.a", "until": "no call is active"}],
            "problems": [
                {
                    "file": "f.yaml",
                    "line": 9,
                    "key": "mcp.servers.b",
                    "message": "its program is not there",
                    "fatal": False,
                }
            ],
        },
    )


async def test_a_bad_file_is_422(app: ASGIApp, fake: FakeAdministration) -> None:
    fake.reloaded = Reloaded(applied=False, problems=(ConfigProblem("unknown key", "contxts"),))
    answer = await post(app, "/reload")
    assert (answer.status, answer.json["applied"]) == (422, False)
    assert answer.json["problems"][0]["message"] == "unknown key"
