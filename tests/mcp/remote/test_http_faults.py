"""The fault table of remote MCP servers: one test for each row, over real sockets.

Wherever a server fails one call, the next one must work over the same connection.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.mcp.conftest import until

from cordboard.config.mcp import McpServer
from cordboard.errors import (
    McpAddressRefused,
    McpError,
    McpLoginFailed,
    McpTimeout,
    McpUnavailable,
)
from cordboard.mcp.connection import Connection, Transport, connect
from cordboard.mcp.negotiation import Negotiation
from cordboard.mcp.remote.http_channel import MAX_BODY_BYTES
from cordboard.mcp.remote.http_transport import HttpTransport, remote_transport
from cordboard.mcp.supervision.server import ServerState, SupervisedServer

from .http_servers import LEGACY, MODERN, Faulty, faulty, honest

PATIENCE = 60.0
"""For what must come at once, on a busy machine."""


def config(url: str, **settings: Any) -> McpServer:
    return McpServer.model_validate({"transport": "http", "url": url, **settings})


@dataclass
class Line:
    """A connection to a faulty server."""

    server: Faulty
    transport: Transport
    connection: Connection

    async def echo(self) -> None:
        """Fails unless a call works."""
        result = await self.connection.call("echo", {"text": "hello"}, PATIENCE)
        assert words(result) == "hello"

    async def call(self, tool: str, timeout: float = PATIENCE, **arguments: Any) -> str:
        return words(await self.connection.call(tool, arguments, timeout))

    async def fails(self, tool: str, **arguments: Any) -> McpError:
        """The error of a call, after which another call works over the same connection."""
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(McpError) as caught:
                await self.connection.call(tool, arguments, 2 * PATIENCE)
        assert not self.transport.closed.is_set()
        await self.echo()
        assert "secret" not in str(caught.value)
        return caught.value


def words(result: Any) -> str:
    text: str = result.content[0].text
    return text


@asynccontextmanager
async def connected(server: Faulty, **settings: Any) -> AsyncIterator[Line]:
    transport = remote_transport("faulty", config(server.url, **settings))
    negotiation = Negotiation(handshake_first=False)
    async with connect(transport, PATIENCE, negotiation) as connection:
        await connection.list_tools(PATIENCE)
        yield Line(server, transport, connection)


@asynccontextmanager
async def owned(protocol: str, stream: bool = False) -> AsyncIterator[Line]:
    """A connection held by a task of its own, as the SDK demands, for fixtures."""
    over = asyncio.Event()
    ready: asyncio.Future[Line] = asyncio.get_running_loop().create_future()

    async def own() -> None:
        async with faulty(protocol=protocol, stream=stream) as server, connected(server) as line:
            ready.set_result(line)
            await over.wait()

    owner = asyncio.create_task(own())
    await asyncio.wait({owner, ready}, return_when=asyncio.FIRST_COMPLETED)
    if owner.done():
        owner.result()
    yield ready.result()
    over.set()
    await owner


@pytest.fixture(params=[(MODERN, False), (MODERN, True), (LEGACY, False), (LEGACY, True)])
async def line(request: pytest.FixtureRequest) -> AsyncIterator[Line]:
    """A connection of each protocol line, with answers as JSON and as events."""
    protocol, stream = request.param
    async with owned(protocol, stream) as found:
        assert found.connection.protocol == protocol
        yield found


@pytest.fixture
async def modern() -> AsyncIterator[Line]:
    async with owned(MODERN) as found:
        yield found


@pytest.fixture
async def legacy() -> AsyncIterator[Line]:
    async with owned(LEGACY) as found:
        yield found


# --- honest servers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "choice", "protocol"),
    [
        ("json", "auto", MODERN),
        ("stream", "auto", MODERN),
        ("json", "legacy", LEGACY),
        ("stream", "legacy", LEGACY),
        ("sse", "legacy", LEGACY),
    ],
)
async def test_the_official_server_answers(kind: str, choice: Any, protocol: str) -> None:
    async with honest(kind) as url:
        transport = "sse" if kind == "sse" else "http"
        wanted = McpServer.model_validate({"transport": transport, "url": url})
        negotiation = Negotiation(choice, handshake_first=False)
        async with connect(remote_transport("honest", wanted), PATIENCE, negotiation) as connection:
            assert connection.protocol == protocol
            assert [tool.name for tool in await connection.list_tools(PATIENCE)] == ["echo"]
            assert words(await connection.call("echo", {"text": "hi"}, PATIENCE)) == "hi"
            big = "y" * 2_000_000  # above the 1 MiB at which the SDK's own client gives up
            assert words(await connection.call("echo", {"text": big}, PATIENCE)) == big


# --- broken connections -----------------------------------------------------------------------


async def test_killed_in_the_middle_of_a_call(line: Line) -> None:
    call = asyncio.create_task(line.call("die"))
    await line.server.arrived.wait()
    await line.server.http.stop()
    with pytest.raises(McpUnavailable, match="broke the connection"):
        await asyncio.wait_for(call, PATIENCE)
    assert not line.transport.closed.is_set()


async def test_connection_refused_fails_each_call_at_once(line: Line) -> None:
    await line.server.http.stop()
    for _ in range(3):
        with pytest.raises(McpUnavailable, match="cannot be reached: connection refused"):
            await asyncio.wait_for(line.call("echo", text="x"), PATIENCE)
    assert "cannot be reached" in line.transport.ending


async def test_after_a_restart_a_server_without_sessions_works_again(modern: Line) -> None:
    await modern.server.http.stop()
    with pytest.raises(McpUnavailable):
        await modern.call("echo", text="x")
    await modern.server.http.start()
    await modern.echo()
    assert not modern.transport.closed.is_set()


async def test_after_a_restart_a_lost_session_ends_the_connection(legacy: Line) -> None:
    await legacy.server.http.stop()
    legacy.server.sessions.clear()
    await legacy.server.http.start()
    with pytest.raises(McpUnavailable, match="no longer knows our session"):
        await legacy.call("echo", text="x")
    await asyncio.wait_for(legacy.transport.closed.wait(), PATIENCE)
    assert legacy.transport.ending == "no longer knows our session"


async def test_the_loss_of_a_session_is_noticed_without_a_call(legacy: Line) -> None:
    """The stream of what the server says unasked is taken up again, and refused."""
    await until(lambda: bool(legacy.server.listening))
    legacy.server.sessions.clear()
    await legacy.server.listening[-1].event("", retry=50)
    legacy.server.listening[-1].writer.transport.abort()
    await asyncio.wait_for(legacy.transport.closed.wait(), PATIENCE)


@pytest.mark.parametrize("tool", ["hangup", "half_body", "no_http", "endless_head"])
async def test_broken_answers_fail_their_own_call_only(line: Line, tool: str) -> None:
    error = await line.fails(tool)
    assert isinstance(error, McpUnavailable)
    assert "broke the connection" in str(error)


@pytest.mark.parametrize("tool", ["stream_ends", "stream_breaks"])
async def test_a_stream_without_an_answer_fails_its_own_call_only(line: Line, tool: str) -> None:
    assert isinstance(await line.fails(tool), McpUnavailable)


async def test_a_numbered_stream_is_taken_up_where_it_broke(legacy: Line) -> None:
    assert await legacy.call("resumable") == "taken up again"
    resumed = [r for r in legacy.server.http.requests if "last-event-id" in r.headers]
    assert [request.method for request in resumed] == ["GET"]


# --- large answers ----------------------------------------------------------------------------


async def test_an_answer_up_to_the_cap_is_taken(line: Line) -> None:
    size = MAX_BODY_BYTES - 1024
    assert len(await line.call("big", n=size)) == size


async def test_an_answer_over_the_cap_is_refused(line: Line) -> None:
    error = await line.fails("big", n=MAX_BODY_BYTES)
    assert str(error) == f"its answer is longer than {MAX_BODY_BYTES} bytes"


@pytest.mark.parametrize("tool", ["announced_huge", "streamed_huge", "huge_event"])
async def test_a_huge_answer_is_refused_before_it_is_there(modern: Line, tool: str) -> None:
    """The server never comes to the end of it."""
    assert "longer than" in str(await modern.fails(tool))


async def test_a_compressed_answer_is_refused(modern: Line) -> None:
    assert "compressed" in str(await modern.fails("compressed"))
    assert modern.server.http.requests[-1].headers["accept-encoding"] == "identity"


# --- wrong answers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("html", "it answered with text/html in place of JSON"),
        ("garbage", "its answer is not JSON"),
        ("wrong_shape", "its answer is not a JSON-RPC message"),
        ("wrong_id", "its answer is to another request"),
        ("garbage_event", "its answer is not a JSON-RPC message"),
        ("accepted", "it accepted the request but gave no answer (HTTP 202)"),
        ("status_with_error", "it answered with error -32602: no such place"),
    ],
)
async def test_a_wrong_answer_fails_its_own_call_with_clear_words(
    line: Line, tool: str, said: str
) -> None:
    assert str(await line.fails(tool)) == said


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (401, McpLoginFailed, "it does not accept our credentials (HTTP 401)"),
        (403, McpLoginFailed, "it denies us access (HTTP 403)"),
        (500, McpError, "it answered with HTTP 500"),
        (503, McpUnavailable, "it is not available (HTTP 503)"),
        (429, McpUnavailable, "it is not available (HTTP 429)"),
    ],
)
async def test_an_http_error_fails_its_own_call_with_clear_words(
    line: Line, code: int, kind: type[McpError], said: str
) -> None:
    error = await line.fails("status", code=code)
    assert type(error) is kind
    assert str(error) == said


async def test_a_charset_cannot_unfold_an_answer(line: Line) -> None:
    assert await line.call("odd_charset") == "plain"


async def test_questions_of_the_server_are_answered_beside_the_call(legacy: Line) -> None:
    assert await legacy.call("asks_us") == "asked"
    await legacy.echo()
    requests = legacy.server.http.requests
    await until(lambda: len([r for r in requests if b'"ask-' in r.body]) == 50)


# --- redirects --------------------------------------------------------------------------------


async def test_a_redirect_within_the_server_is_followed(line: Line) -> None:
    assert await line.call("redirect_in") == "there"


async def test_a_redirect_to_another_origin_is_not_followed(line: Line) -> None:
    error = await line.fails("redirect_out")
    assert isinstance(error, McpAddressRefused)
    assert "not followed" in str(error)
    assert not [r for r in line.server.http.requests if r.path.startswith("/elsewhere")]


async def test_a_redirect_that_loses_the_message_is_not_followed(line: Line) -> None:
    assert "would lose the message (HTTP 303)" in str(await line.fails("redirect_303"))


async def test_redirects_have_an_end(line: Line) -> None:
    assert "too many times" in str(await line.fails("redirect_round"))


# --- slow and silent servers ------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["mute", "drip"])
async def test_what_takes_too_long_is_given_up_and_let_go_of(line: Line, tool: str) -> None:
    """Before 2026-07-28 the server is told; from then on the end of the request tells it."""
    with pytest.raises(McpTimeout):
        await line.call(tool, timeout=1.0)
    assert line.server.arrived.is_set()
    if line.connection.protocol == LEGACY:
        await asyncio.wait_for(line.server.cancelled.wait(), PATIENCE)
    await line.echo()
    busy = 2 if line.connection.protocol == LEGACY else 1  # one listens for what is said unasked
    await until(lambda: len(line.server.http.open) <= busy)


async def test_half_a_character_in_the_arguments_costs_nothing(line: Line) -> None:
    assert await line.call("echo", text="cut \ud83d off") == "cut ? off"


async def test_a_cancelled_call_is_cancelled_at_the_server(legacy: Line) -> None:
    call = asyncio.create_task(legacy.call("mute"))
    await legacy.server.arrived.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(legacy.server.cancelled.wait(), PATIENCE)


async def test_calls_do_not_wait_for_a_silent_one(line: Line) -> None:
    silent = asyncio.create_task(line.call("mute"))
    await line.server.arrived.wait()
    await line.echo()
    assert not silent.done()
    line.server.release.set()
    assert await silent == "late"


# --- the end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [MODERN, LEGACY])
async def test_closing_with_calls_under_way_leaves_nothing(protocol: str) -> None:
    async with faulty(protocol=protocol) as server:
        before = asyncio.all_tasks()
        async with connected(server) as line:
            calls = [asyncio.create_task(line.call("mute")) for _ in range(5)]
            await until(lambda: len(server.http.requests) > 5)
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, McpUnavailable)
        await until(lambda: not server.http.open)
        await until(lambda: asyncio.all_tasks() - before <= set(calls))
        assert server.sessions == set()
    gc.collect()  # an unclosed socket would be a ResourceWarning, and those are errors


async def test_a_server_that_is_not_there_fails_the_connection_in_words() -> None:
    async with faulty() as server:
        pass
    with pytest.raises(McpUnavailable, match="cannot be reached: connection refused"):
        async with connected(server):
            pytest.fail("connected to nothing")


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_server_that_refuses_everything_fails_the_connection_in_words(status: int) -> None:
    async with faulty(refuse=status) as server:
        with pytest.raises(McpError, match=f"HTTP {status}"):
            async with connected(server):
                pytest.fail("connected to a refusal")


async def test_headers_of_the_operator_are_sent_and_never_shown() -> None:
    async with faulty() as server, connected(server, headers={"X-Key": "hunter2"}) as line:
        assert {r.headers["x-key"] for r in server.http.requests} == {"hunter2"}
        assert "hunter2" not in str(await line.fails("status", code=500))


# --- the transport of 2024 --------------------------------------------------------------------


@asynccontextmanager
async def connected_sse(server: Faulty) -> AsyncIterator[Line]:
    wanted = McpServer.model_validate(
        {"transport": "sse", "url": server.url.replace("/mcp", "/sse")}
    )
    transport = remote_transport("faulty", wanted)
    async with connect(transport, PATIENCE, Negotiation("legacy")) as connection:
        yield Line(server, transport, connection)


async def test_sse_answers_come_over_the_stream() -> None:
    async with faulty() as server, connected_sse(server) as line:
        assert line.connection.protocol == "2024-11-05"
        await line.echo()
        size = MAX_BODY_BYTES - 1024
        assert len(await line.call("big", n=size)) == size


async def test_an_sse_event_that_cannot_be_read_costs_no_more_than_its_own_call() -> None:
    async with faulty() as server, connected_sse(server) as line:
        assert str(await line.fails("garbage")) == "its answer is not a JSON-RPC message"
        assert await line.call("nothing_useful") == "at last"


async def test_the_end_of_the_sse_stream_fails_all_calls_at_once_and_ends_the_connection() -> None:
    async with faulty() as server, connected_sse(server) as line:
        waiting = [asyncio.create_task(line.call("mute")) for _ in range(3)]
        await until(lambda: len(server.http.requests) >= 6)
        with pytest.raises(McpUnavailable, match="broke the connection"):
            await asyncio.wait_for(line.call("cut"), PATIENCE)
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, McpUnavailable)
        assert line.transport.closed.is_set()
        with pytest.raises(McpUnavailable):
            await line.call("echo", text="x")


async def test_an_sse_event_over_the_cap_ends_the_connection_in_words() -> None:
    async with faulty() as server, connected_sse(server) as line:
        with pytest.raises(McpError, match="longer than"):
            await line.call("big", n=MAX_BODY_BYTES)
        assert line.transport.closed.is_set()


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254/x", "//evil.example/x", "http://localhost/messages"]
)
async def test_an_sse_server_cannot_have_us_post_elsewhere(endpoint: str) -> None:
    server = Faulty()

    async def send_away(request: Any, wire: Any) -> None:
        await wire.begin()
        await wire.event(endpoint, event="endpoint")
        await asyncio.Event().wait()

    server.http._handle = send_away
    await server.http.start()
    with pytest.raises(McpAddressRefused, match="not followed"):
        async with connected_sse(server):
            pytest.fail("connected")
    await server.http.stop()
    assert [request.method for request in server.http.requests] == ["GET"]


async def test_sse_closing_leaves_nothing() -> None:
    async with faulty() as server:
        before = asyncio.all_tasks()
        async with connected_sse(server) as line:
            call = asyncio.create_task(line.call("mute"))
            await until(lambda: len(server.http.requests) >= 4)
        assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], McpUnavailable)
        await until(lambda: not server.http.open)
        await until(lambda: asyncio.all_tasks() - before <= {call})


# --- under supervision ------------------------------------------------------------------------


async def test_supervision_connects_anew_when_the_session_is_lost() -> None:
    async with faulty(protocol=LEGACY) as server:
        supervised = SupervisedServer("far", config(server.url, restart={"backoff_ms": 20}))
        supervised.start()
        assert await supervised.wait_ready(PATIENCE), supervised.status()
        server.sessions.clear()
        with pytest.raises(McpUnavailable):
            await supervised.call("echo", {"text": "x"}, PATIENCE)
        await until(lambda: supervised.status().restarts == 1)
        assert await supervised.wait_ready(PATIENCE)
        assert words(await supervised.call("echo", {"text": "again"}, PATIENCE)) == "again"
        await supervised.close()
        assert supervised.state is ServerState.STOPPED
        assert server.sessions == set()


async def test_supervision_says_why_a_remote_server_cannot_be_reached() -> None:
    async with faulty() as server:
        pass
    supervised = SupervisedServer("far", config(server.url, restart={"enabled": False}))
    supervised.start()
    await until(lambda: supervised.state is ServerState.FAILED)
    assert "cannot be reached: connection refused" in supervised.status().last_error
    await supervised.close()


def test_the_transport_serves_one_connection_only() -> None:
    transport = remote_transport("far", config("https://tools.example.com/mcp"))
    assert isinstance(transport, HttpTransport)
    assert transport.pid is None
