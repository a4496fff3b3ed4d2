"""Media connections that arrive late, of a simulated Asterisk and of a real one.

    async with LateAsterisk(delays) as asterisk:      # asterisk.url is for the key `asterisk.url`
        call = await asterisk.call("4711")            # a caller in Stasis
        reached = await call.reached_itself()         # True if they hear their own voice
        await call.hang_up()

`LateAsterisk` speaks as much of ARI and AudioSocket as a call with an echoing agent needs, and
answers the questions of `telephony.asterisk.inspection` as Asterisk 22.10.1 does.
`late_connections` sits between a real Asterisk and an engine, and delays each connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard.errors import KitError
from cordboard.telephony.asterisk.audiosocket import Audio, Parser, encode_audio, encode_uuid
from cordboard_testkit.patience import PATIENCE

APP = "cordboard"
FRAME_SECONDS = 0.02
PASSWORD = "late"  # noqa: S105 - of a simulated Asterisk
"""Password of the ARI user `cordboard`, checked with `checks_password`."""
MODULES = tuple(
    f"{name}.so"
    for name in (
        "app_audiosocket app_stasis chan_audiosocket chan_rtp chan_websocket codec_alaw codec_g722 "
        "codec_resample codec_ulaw res_ari res_ari_applications res_ari_asterisk res_ari_bridges "
        "res_ari_channels res_ari_events res_audiosocket res_http_websocket res_rtp_asterisk "
        "res_stasis res_stasis_answer"
    ).split()
)
"""Modules that Asterisk 22.10.1 runs unless it is configured otherwise, as far as calls need
them."""
_NOT_FOUND = {"message": "Provided variable was not found"}


class LateCall:
    """One caller in Stasis. Their voice is unlike that of any other caller."""

    def __init__(self, asterisk: LateAsterisk, number: int, delay: float) -> None:
        self.channel_id = f"late.{number}"
        self.closed = asyncio.Event()
        """The engine has ended the media, or never connected it."""
        self._asterisk = asterisk
        self._delay = delay
        self._silent = number % 2 == 0
        """Connects at once, but sends its UUID late; the others connect late."""
        self._voice = (number % 0x7000 + 1).to_bytes(2, "little") * 160
        self._echoed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def reached_itself(self) -> bool:
        """True if the caller hears their own words, and so is the agent's only caller."""
        waiting = [asyncio.create_task(event.wait()) for event in (self._echoed, self.closed)]
        await asyncio.wait(waiting, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return self._echoed.is_set()

    async def hang_up(self) -> None:
        """Hang up; returns when the engine has released the media."""
        await self._asterisk.tell("ChannelHangupRequest", self.channel_id)
        await self._asterisk.tell("StasisEnd", self.channel_id)
        async with asyncio.timeout(PATIENCE):
            await self.closed.wait()

    def connect(self, host: str, port: int, uuid: UUID) -> None:
        """Asterisk connects, after its delay."""
        self._task = asyncio.create_task(self._connected(host, port, uuid))

    async def _connected(self, host: str, port: int, uuid: UUID) -> None:
        writer = None
        try:
            if not self._silent:
                await asyncio.sleep(self._delay)
            reader, writer = await asyncio.open_connection(host, port)
            if self._silent:
                await asyncio.sleep(self._delay)
            writer.write(encode_uuid(uuid))
            speaking = asyncio.create_task(self._speak(writer))
            try:
                await self._listen(reader)
            finally:
                speaking.cancel()
        except OSError:
            pass
        finally:
            if writer is not None:
                writer.close()
            self.closed.set()

    async def _speak(self, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(encode_audio(self._voice))
            await asyncio.sleep(FRAME_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        parser = Parser("client")
        while data := await reader.read(4096):
            for event in parser.feed(data):
                if isinstance(event, Audio) and self._voice in event.pcm:
                    self._echoed.set()

    async def over(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


class LateAsterisk:
    """An Asterisk for one engine. `delays` is the delay of each connection in seconds."""

    def __init__(
        self, delays: Iterator[float] | None = None, *, checks_password: bool = False
    ) -> None:
        self._delays = delays if delays is not None else itertools.repeat(0.0)
        self._checks_password = checks_password
        self.modules = list(MODULES)
        """The running modules."""
        self.clock_ahead = 0.0
        """Seconds."""
        self.user: dict[str, str] | None = {"password_format": "crypt", "read_only": "no"}
        """The entry of ari.conf, as any ARI user can read it; None: it is not shown."""
        self.applications: list[str] = []
        """The Stasis applications of the connected clients."""
        self._server: Server | None = None
        self._engine: ServerConnection | None = None
        self._connected = asyncio.Event()
        self._calls: dict[str, LateCall] = {}
        self._media: dict[str, dict[str, str]] = {}
        """The ExternalMedia requests, by the beginning of their id."""
        self._count = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve, "127.0.0.1", 0, process_request=self._admit, ping_interval=None
        )
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for call in self._calls.values():
            await call.over()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def call(self, number: str = "100") -> LateCall:
        """Place a call. Waits for the engine to connect."""
        async with asyncio.timeout(PATIENCE):
            await self._connected.wait()
        self._count += 1
        call = LateCall(self, self._count, next(self._delays))
        self._calls[call.channel_id] = call
        await self.tell("StasisStart", call.channel_id, caller={"number": number})
        return call

    async def tell(self, event: str, channel_id: str, **more: Any) -> None:
        """Send an event about a channel."""
        if self._engine is None:
            raise KitError("no engine has connected")
        channel = {
            "id": channel_id,
            "state": "Up",
            "dialplan": {"app_name": "Stasis", "app_data": APP},
            **more,
        }
        message = {"type": event, "application": APP, "channel": channel}
        await self._engine.send(json.dumps(message))

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        pair = base64.b64encode(f"cordboard:{PASSWORD}".encode()).decode()
        if self._checks_password and request.headers.get("Authorization") != f"Basic {pair}":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "Authentication required")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        path = connection.request.path if connection.request is not None else ""
        (app,) = parse_qs(urlsplit(path).query)["app"]
        if app == APP:
            self._engine = connection
        self.applications.append(app)
        try:
            await self._converse(connection)
        finally:
            self.applications.remove(app)

    async def _converse(self, connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in connection:
                request = json.loads(text)
                status, body = await self._answer(request)
                answer = {
                    "type": "RESTResponse",
                    "request_id": request["request_id"],
                    "status_code": status,
                    "message_body": "" if body is None else json.dumps(body),
                }
                await connection.send(json.dumps(answer))
                await self._afterwards(request)

    async def _answer(self, request: dict[str, Any]) -> tuple[int, Any]:
        path = request["uri"]
        if path == f"applications/{APP}":
            return 200, {"name": APP, "channel_ids": [*self._calls]}
        if path in ("channels", "bridges"):
            return 200, []
        if path == "asterisk/info":
            system = {"version": "22.10.1", "entity_id": "00:00:00:00:00:00"}
            return 200, {"system": system, "status": {"startup_time": "today"}}
        if path == "asterisk/ping":
            ahead = datetime.timedelta(seconds=self.clock_ahead)
            now = datetime.datetime.now(datetime.UTC) + ahead
            return 200, {"ping": "pong", "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.%f%z")}
        if path == "asterisk/modules":
            return 200, [{"name": name, "status": "Running"} for name in self.modules]
        if path == "applications":
            return 200, [{"name": name, "channel_ids": []} for name in self.applications]
        if path == "asterisk/config/dynamic/res_ari/user/cordboard":
            if self.user is None:
                return 404, {"message": "Object not found"}
            return 200, [{"attribute": key, "value": value} for key, value in self.user.items()]
        if path.endswith("/variable"):
            return 404, _NOT_FOUND
        if path == "channels/externalMedia":
            return 200, {"id": _query(request)["channelId"], "channelvars": {}}
        return 204, None

    async def _afterwards(self, request: dict[str, Any]) -> None:
        path, query = request["uri"], _query(request)
        if path == "asterisk/info":
            self._connected.set()
        elif path == "channels/externalMedia":
            self._media[query["channelId"].removesuffix("-media")] = query
            await self.tell("StasisStart", query["channelId"])
        elif path.endswith("/continue"):
            self._calls[path.split("/")[1]].closed.set()  # turned away
        elif path.endswith("-bridge/addChannel") and query["channel"] in self._calls:
            media = self._media.pop(path.split("/")[1].removesuffix("-bridge"))
            host, _, port = media["external_host"].rpartition(":")
            self._calls[query["channel"]].connect(host, int(port), UUID(media["data"]))


def _query(request: dict[str, Any]) -> dict[str, str]:
    return {pair["name"]: pair["value"] for pair in request.get("query_strings", ())}


@contextlib.asynccontextmanager
async def late_connections(
    delays: Iterator[float], host: str, port: int, to_host: str
) -> AsyncIterator[None]:
    """Accept connections at `host:port` and forward each to `to_host:port` after its delay in
    seconds."""
    tasks: set[asyncio.Task[None]] = set()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(next(delays))
        try:
            there = await asyncio.open_connection(to_host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(passed_on(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, host, port)
    try:
        yield
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tuple(tasks))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(4096):
            writer.write(data)
    writer.close()
