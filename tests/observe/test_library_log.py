"""What libraries may write into our log."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from cordboard.observe.library_log import MAX_LINES, WINDOW_SECONDS, FloodGate
from cordboard.observe.logging import configure


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    level, handlers = root.level, [*root.handlers]
    text = io.StringIO()
    configure(json=True, level="DEBUG", stream=text)
    yield text
    root.setLevel(level)
    root.handlers[:] = handlers
    structlog.reset_defaults()


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_a_server_sent_is_not_quoted(stream: io.StringIO) -> None:
    try:
        raise ValueError("input_value={'token': 'abc'}")
    except ValueError:
        logging.getLogger("mcp.client.sse").exception("Error parsing\n{'token': 'abc'}")
    (event,) = events(stream)
    assert (event["event"], event["error"]) == ("Error parsing", "ValueError")
    assert event["library"] == "mcp.client.sse"
    assert "abc" not in stream.getvalue()


def test_messages_and_addresses_are_not_logged_even_at_debug(stream: io.StringIO) -> None:
    logging.getLogger("mcp.client.streamable_http").debug("SSE message: {'token': 'abc'}")
    logging.getLogger("httpx2").info("HTTP Request: POST http://crm/abc")
    logging.getLogger("httpcore2.http11").debug("headers [('set-cookie', 'abc')]")
    assert stream.getvalue() == ""


async def test_the_websocket_library_tells_no_password_and_no_key_even_at_debug(
    stream: io.StringIO,
) -> None:
    async def answer(connection: ServerConnection) -> None:
        await connection.send('{"type":"ChannelDtmfReceived","digit":"7"}')

    password = base64.b64encode(b"cordboard:s3cret").decode()
    async with serve(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        headers = {"Authorization": f"Basic {password}"}
        async with connect(f"ws://127.0.0.1:{port}", additional_headers=headers) as connection:
            await connection.recv()
        client = ClientProtocol(parse_uri(f"ws://127.0.0.1:{port}"))
        request = client.connect()
        request.headers["Authorization"] = f"Basic {password}"
        client.send_request(request)
    assert password not in stream.getvalue()
    assert "ChannelDtmfReceived" not in stream.getvalue()


def test_half_a_secret_is_not_left_over(stream: io.StringIO) -> None:
    logging.getLogger("mcp.client").warning("what " * 39 + "secret-of-the-caller")
    (event,) = events(stream)
    assert event["event"] == "what " * 38 + "what"


def test_other_tracebacks_stay_whole(stream: io.StringIO) -> None:
    try:
        raise ValueError("ours")
    except ValueError:
        logging.getLogger("client").exception("not of the SDK")
    (event,) = events(stream)
    assert "ValueError: ours" in event["exception"]


def test_a_flood_is_counted() -> None:
    now = 0.0
    gate = FloodGate(lambda: now)
    record = logging.LogRecord("mcp.client", logging.WARNING, "x.py", 1, "again", (), None)
    ours = logging.LogRecord("cordboard.mcp", logging.WARNING, "x.py", 1, "again", (), None)
    assert sum(gate.filter(record) for _ in range(500)) == MAX_LINES
    assert all(gate.filter(ours) for _ in range(500))
    now = WINDOW_SECONDS
    with structlog.testing.capture_logs() as told:
        assert gate.filter(record)
    assert [(e["event"], e["lines"]) for e in told] == [("library_log_suppressed", 500 - MAX_LINES)]
