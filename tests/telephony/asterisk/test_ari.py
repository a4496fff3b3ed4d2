"""The ARI client against a small server that misbehaves on request."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosedError
from websockets.http11 import Request
from websockets.http11 import Response as HttpResponse

from cordboard.config.schema import Asterisk
from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk import ari
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Event
from cordboard_testkit.patience import PATIENCE, until

Answer = Callable[[ServerConnection, dict], object]


class Pbx:
    """Answers requests by `answers`: path → what to do; the application is there by default."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {"applications/cordboard": application()}
        self.requests: asyncio.Queue[dict] = asyncio.Queue()
        self.connections: list[ServerConnection] = []
        self.seen: list[Request] = []
        self.refuse: int | None = None
        self.port = 0
        self._server: Server | None = None

    async def start(self) -> None:
        self._server = await serve(
            self._serve, "127.0.0.1", self.port, process_request=self._door, ping_interval=None
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def _door(self, connection: ServerConnection, request: Request) -> HttpResponse | None:
        self.seen.append(request)
        return None if self.refuse is None else connection.respond(self.refuse, "no")

    async def _serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        with contextlib.suppress(Exception):
            async for text in connection:
                request = json.loads(text)
                self.requests.put_nowait(request)
                answer = self.answers.get(request["uri"], status(404, {"message": "not here"}))
                result = answer(connection, request)
                if asyncio.iscoroutine(result):
                    await result


def status(code: int, body: object = None) -> Answer:
    def answer(connection: ServerConnection, request: dict) -> object:
        text = body if isinstance(body, str) else json.dumps(body) if body is not None else ""
        message = {
            "type": "RESTResponse",
            "request_id": request["request_id"],
            "status_code": code,
            "message_body": text,
        }
        return connection.send(json.dumps(message))

    return answer


def application(*channel_ids: str) -> Answer:
    """Ours, with these channels in it."""
    return status(200, {"name": "cordboard", "channel_ids": list(channel_ids)})


class Engine:
    """A client and what it was told."""

    def __init__(self, pbx: Pbx, **settings: float) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.ups: asyncio.Queue[None] = asyncio.Queue()
        self.downs: asyncio.Queue[None] = asyncio.Queue()
        config = Asterisk(
            url=f"http://127.0.0.1:{pbx.port}",
            username="cordboard",
            password=SecretStr("s3cret"),
            reconnect_max_ms=200,
        )
        self.client = AriClient(
            config,
            self.events.put_nowait,
            self._up,
            lambda: self.downs.put_nowait(None),
            **settings,
        )

    async def _up(self) -> None:
        self.ups.put_nowait(None)


@contextlib.asynccontextmanager
async def dialled(pbx: Pbx, wait: bool = True, **settings: float) -> AsyncIterator[Engine]:
    engine = Engine(pbx, **settings)
    running = asyncio.create_task(engine.client.run())
    try:
        if wait:
            await asyncio.wait_for(engine.ups.get(), PATIENCE)
        yield engine
    finally:
        running.cancel()
        await asyncio.wait((running,))


@pytest.fixture
async def pbx() -> AsyncIterator[Pbx]:
    server = Pbx()
    await server.start()
    yield server
    await server.stop()


async def test_the_password_travels_in_a_header_and_only_our_app_is_asked_for(pbx):
    async with dialled(pbx) as engine:
        [request] = pbx.seen
        expected = base64.b64encode(b"cordboard:s3cret").decode()
        assert request.headers["Authorization"] == f"Basic {expected}"
        assert request.path == "/ari/events?app=cordboard"
        assert engine.client.state.ready
        assert engine.client.state.since is not None


async def test_answers_find_their_questions_in_any_order(pbx):
    held: list[dict] = []

    def hold(connection: ServerConnection, request: dict) -> None:
        held.append(request)

    async def both(connection: ServerConnection, request: dict) -> None:
        await status(200, {"n": 2})(connection, request)
        await status(200, {"n": 1})(connection, held[0])

    pbx.answers |= {"first": hold, "second": both}
    async with dialled(pbx) as engine:
        request = engine.client.request
        assert await asyncio.gather(request("GET", "first"), request("GET", "second")) == [
            {"n": 1},
            {"n": 2},
        ]


async def test_a_request_carries_its_query_and_body(pbx):
    pbx.answers["channels"] = status(204)
    async with dialled(pbx) as engine:
        answer = await engine.client.request("POST", "channels", {"a": 1}, endpoint="PJSIP/1 2")
        assert answer is None
        _about_the_application, sent = [pbx.requests.get_nowait() for _ in range(2)]
        assert sent["method"] == "POST"
        assert sent["query_strings"] == [{"name": "endpoint", "value": "PJSIP/1 2"}]
        assert json.loads(sent["message_body"]) == {"a": 1}


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (404, {"message": "Channel not found"}, "Channel not found"),
        (500, {"error": "Allocation failed"}, "Allocation failed"),
        (500, "<html>", "<html>"),
        (409, None, "409"),
    ],
)
async def test_a_refusal_is_an_error_with_status_and_words(pbx, code, body, words):
    pbx.answers["thing"] = status(code, body)
    async with dialled(pbx) as engine:
        with pytest.raises(AsteriskError, match=words) as refused:
            await engine.client.request("GET", "thing")
        assert refused.value.status == code


async def test_no_answer_in_time_is_an_error_and_a_late_one_is_harmless(pbx):
    late: list[dict] = []
    pbx.answers["slow"] = lambda connection, request: late.append(request)
    pbx.answers["quick"] = status(200, {"ok": True})
    async with dialled(pbx, request_seconds=0.2) as engine:
        with pytest.raises(AsteriskError, match=r"no answer within 0\.2 s") as failed:
            await engine.client.request("GET", "slow")
        assert failed.value.status == 0
        await until(lambda: bool(late))
        engine.client._request_seconds = PATIENCE
        await status(200)(pbx.connections[-1], late[0])
        assert await engine.client.request("GET", "quick") == {"ok": True}


async def test_garbage_is_ignored(pbx):
    async with dialled(pbx) as engine:
        [connection] = pbx.connections
        for garbage in ("{", "[]", '{"type": 7}', '{"type":"RESTResponse"}', b"\xff\xfe"):
            await connection.send(garbage)
        await connection.send('{"type":"StasisEnd","channel":{"id":"1.0"}}')
        event = await asyncio.wait_for(engine.events.get(), PATIENCE)
        assert event.type == "StasisEnd"
        assert engine.client.state.ready


async def test_an_event_that_cannot_be_handled_does_not_make_the_engine_deaf(pbx):
    async with dialled(pbx) as engine:
        handle, engine.client._on_event = engine.client._on_event, lambda event: 1 / 0
        await pbx.connections[0].send('{"type":"StasisEnd","channel":{"id":"1.0"}}')
        await asyncio.wait_for(engine.downs.get(), PATIENCE)
        engine.client._on_event = handle
        await asyncio.wait_for(engine.ups.get(), PATIENCE)
        assert engine.client.state.ready


async def test_a_break_fails_the_requests_in_flight_and_is_mended(pbx):
    pbx.answers["never"] = lambda connection, request: connection.transport.abort()
    async with dialled(pbx) as engine:
        with pytest.raises(AsteriskError, match="broke"):
            await engine.client.request("GET", "never")
        await asyncio.wait_for(engine.downs.get(), PATIENCE)
        await asyncio.wait_for(engine.ups.get(), PATIENCE)
        assert engine.client.state.ready
        assert len(pbx.connections) == 2


async def test_without_a_connection_a_request_fails_at_once(pbx):
    engine = Engine(pbx)
    with pytest.raises(AsteriskError, match="not connected"):
        await engine.client.request("GET", "asterisk/ping")


async def test_asterisk_comes_up_after_us(pbx):
    await pbx.stop()
    async with dialled(pbx, wait=False) as engine:
        await until(lambda: "cannot reach" in engine.client.state.last_error)
        await pbx.start()
        await asyncio.wait_for(engine.ups.get(), PATIENCE)
        assert engine.client.state.last_error == ""


@pytest.mark.parametrize(
    ("refusal", "words"), [(401, "asterisk.password"), (404, "ari.conf"), (503, "503")]
)
async def test_a_refused_websocket_is_explained_without_the_secret(pbx, refusal, words):
    pbx.refuse = refusal
    async with dialled(pbx, wait=False) as engine:
        await until(lambda: bool(engine.client.state.last_error))
        assert words in engine.client.state.last_error
        assert "s3cret" not in engine.client.state.last_error
        pbx.refuse = None
        await asyncio.wait_for(engine.ups.get(), PATIENCE)


async def test_asterisk_killed_in_the_handshake_is_one_that_cannot_be_reached(pbx, monkeypatch):
    @contextlib.asynccontextmanager
    async def killed(*_: object, **__: object) -> AsyncIterator[ClientConnection]:
        raise ConnectionClosedError(None, None)
        yield

    monkeypatch.setattr(ari, "connect", killed)
    async with dialled(pbx, wait=False) as engine:
        with capture_logs() as log:
            await until(lambda: bool(log))
        assert "cannot reach Asterisk at http://127.0.0.1" in engine.client.state.last_error
        assert {line["event"] for line in log} == {"ari_disconnected"}


async def test_an_application_that_is_not_registered_is_not_ready_and_tried_again(pbx):
    good = pbx.answers.pop("applications/cordboard")
    async with dialled(pbx, wait=False) as engine:
        await until(lambda: len(pbx.connections) >= 2)
        assert not engine.client.state.ready
        assert "catching up" in engine.client.state.last_error
        pbx.answers["applications/cordboard"] = good
        await asyncio.wait_for(engine.ups.get(), PATIENCE)
        assert engine.client.state.ready


async def test_an_error_of_our_own_while_catching_up_is_told_at_once_and_calls_still_come(pbx):
    errors = []
    async with dialled(pbx, wait=False, on_internal_error=errors.append) as engine:

        async def fails() -> None:
            raise KeyError("channel_ids")

        engine.client._on_connected = fails
        with capture_logs() as log:
            await until(lambda: bool(errors))
            assert engine.client.state.connected
        assert errors == ["ari"]
        (told,) = [line for line in log if line["event"] == "ari_setup_failed"]
        assert told["exc_info"]
        await pbx.connections[0].send('{"type":"StasisStart","channel":{"id":"1.0"}}')
        assert (await asyncio.wait_for(engine.events.get(), PATIENCE)).type == "StasisStart"
        assert engine.downs.empty()


async def test_a_host_that_stops_answering_is_noticed(pbx):
    """Nothing is closed, nothing comes: only the pings tell."""
    async with dialled(pbx, ping_seconds=0.2) as engine:
        connection = pbx.connections[-1]
        connection.transport.pause_reading()
        await asyncio.wait_for(engine.downs.get(), PATIENCE)
        connection.transport.abort()


def pauses(engine: Engine) -> list[float]:
    return [engine.client._pause(failures) for failures in range(30)]


async def test_pauses_grow_up_to_the_configured_one_and_differ(pbx):
    found = pauses(Engine(pbx))
    assert found[0] <= 0.1
    assert all(0.1 <= pause <= 0.2 for pause in found[3:])
    assert pauses(Engine(pbx)) != found
