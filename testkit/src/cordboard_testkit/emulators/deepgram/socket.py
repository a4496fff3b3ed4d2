"""Shared part of the emulated websockets of Deepgram: the key, the query, faults, the record.

Refusals are those of the service: 401 for the key, 400 with `err_code` and `err_msg` for the query,
an `Error` message and the close code 1008 for messages that cannot be parsed, 1011 for a silent
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard_testkit.emulators.script import Fault, Prompter, Script, When

KEY = "test-deepgram-key"
Query = Mapping[str, tuple[str, ...]]
Check = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a client: its JSON, or its number of audio bytes."""

    at: float
    """`time.monotonic`."""
    connection: int
    message: Any


class Refusal(Exception):
    """The service does not accept the query."""


def one_of(*allowed: str) -> Check:
    return lambda value: value in allowed


def flag(value: str) -> bool:
    return value in ("true", "false")


def whole(least: int, most: int) -> Check:
    return lambda value: value.isdigit() and least <= int(value) <= most


def fraction(least: float, most: float) -> Check:
    def check(value: str) -> bool:
        try:
            return least <= float(value) <= most
        except ValueError:
            return False

    return check


def text(value: str) -> bool:
    return bool(value)


def checked(query: Query, known: Mapping[str, Check], several: tuple[str, ...]) -> None:
    """Refuse parameters and values that the service does not know."""
    for name, values in query.items():
        check = known.get(name)
        if check is None:
            raise Refusal(f"unknown query parameter: {name}")
        if len(values) > 1 and name not in several:
            raise Refusal(f"{name} is there more than once")
        for value in values:
            if not check(value):
                raise Refusal(f"invalid value for {name}: {value!r}")


class Ended(Exception):
    """This connection is over: a fault, or the service's own close."""


class Session(ABC):
    """One connection. The service's state machine; it sends by `say` and `sound`."""

    idle_seconds = 10.0
    """Time without a message after which the service closes the connection."""

    def __init__(
        self, service: DeepgramSocketEmulator, connection: ServerConnection, query: Query
    ) -> None:
        self.service = service
        self.query = query
        self.request_id = str(uuid.uuid4())
        self._connection = connection
        self._stalled = False
        self._last = ""

    @abstractmethod
    async def begin(self) -> None:
        """The connection is open."""

    @abstractmethod
    async def take_text(self, told: dict[str, Any]) -> None: ...

    @abstractmethod
    async def take_sound(self, data: bytes) -> None: ...

    @abstractmethod
    def error(self, description: str) -> dict[str, Any]:
        """The service's error message."""

    async def say(self, message: Mapping[str, Any]) -> None:
        await self._send(json.dumps(message))

    async def sound(self, data: bytes) -> None:
        if not self._stalled:
            await self._connection.send(data)

    async def refuse(self, description: str, code: int = 1008) -> None:
        """The client's message is not allowed."""
        self.service.violations.append(description)
        await self.say(self.error(description))
        await self.close(code, "DATA-0000")

    async def close(self, code: int, reason: str = "") -> None:
        self.service.close_codes.append(code)
        await self._connection.close(code, reason)
        raise Ended

    async def fault(self, when: When) -> None:
        """Cause the script's fault for this moment, if any."""
        fault = self.service.prompter.fault(when)
        if fault is not None:
            await self._do(fault)

    async def _do(self, fault: Fault) -> None:
        match fault.do:
            case "close" | "go_away":
                await self.close(int(fault.code or 1011), "fault")
            case "drop" | "refuse":
                self._connection.transport.abort()
                raise Ended
            case "stall":
                self._stalled = True
            case "garbage":
                await self._send('{"type": "Results", "channel": [')
            case "error":
                await self.say(self.error(str(fault.code)))
                await self.close(1011)
            case "duplicate":
                await self._send(self._last)

    async def _send(self, message: str) -> None:
        if not self._stalled:
            self._last = message
            await self._connection.send(message)


class DeepgramSocketEmulator(ABC):
    """A server on loopback; `async with` it."""

    def __init__(self, script: Script | None = None, *, key: str = KEY, port: int = 0) -> None:
        self._port = port
        self.prompter = Prompter(script or Script())
        self.received: list[Received] = []
        self.violations: list[str] = []
        self.close_codes: list[int] = []
        self.queries: list[Query] = []
        self._key = key
        self._server: Server | None = None

    @abstractmethod
    def check(self, path: str, query: Query) -> None:
        """Raises `Refusal`; `KeyError` for an unknown path."""

    @abstractmethod
    def session(self, path: str, connection: ServerConnection, query: Query) -> Session: ...

    @property
    def connections(self) -> int:
        return self.prompter.connections

    @property
    def url(self) -> str:
        """The base address, for the configuration."""
        port = self._server.sockets[0].getsockname()[1] if self._server is not None else 0
        return f"http://127.0.0.1:{port}"

    def texts(self, kind: str) -> list[Any]:
        """All received messages of a type."""
        messages = [each.message for each in self.received]
        return [each for each in messages if isinstance(each, dict) and each.get("type") == kind]

    @property
    def sound_bytes(self) -> int:
        return sum(each.message for each in self.received if isinstance(each.message, int))

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve, "127.0.0.1", self._port, process_request=self._admit, compression=None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            for connection in list(self._server.connections):
                connection.transport.abort()
            self._server.close()
            await self._server.wait_closed()

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        self.prompter.connections += 1
        if (fault := self.prompter.fault("connect")) is not None:
            if fault.do == "refuse":
                status = HTTPStatus(int(fault.code or 503))
                return _no(connection, status, "REFUSED", "refused by the script")
            if fault.do == "stall":
                await asyncio.sleep(3600)
            connection.transport.abort()
        if request.headers.get("Authorization") not in (f"Token {self._key}", self._bearer):
            self.violations.append("wrong key")
            return _no(connection, HTTPStatus.UNAUTHORIZED, "INVALID_AUTH", "Invalid credentials.")
        parts = urlsplit(request.path)
        query = _query(parts.query)
        try:
            self.check(parts.path, query)
        except KeyError:
            self.violations.append(f"no such path: {parts.path}")
            return _no(connection, HTTPStatus.NOT_FOUND, "NOT_FOUND", "no such path")
        except Refusal as refusal:
            self.violations.append(str(refusal))
            return _no(connection, HTTPStatus.BAD_REQUEST, "Bad Request", str(refusal))
        return None

    @property
    def _bearer(self) -> str:
        return f"Bearer {self._key}"

    async def _serve(self, connection: ServerConnection) -> None:
        number = self.connections
        request = connection.request
        parts = urlsplit(request.path if request is not None else "")
        query = _query(parts.query)
        self.queries.append(query)
        session = self.session(parts.path, connection, query)
        with contextlib.suppress(Ended, ConnectionClosed):
            await session.fault("setup")
            await session.begin()
            while True:
                try:
                    async with asyncio.timeout(session.idle_seconds):
                        data = await connection.recv()
                except TimeoutError:
                    await session.close(1011, "NET-0001")
                    continue
                await self._take(session, number, data)

    async def _take(self, session: Session, number: int, data: str | bytes) -> None:
        now = time.monotonic()
        if isinstance(data, bytes):
            self.received.append(Received(now, number, len(data)))
            await session.take_sound(data)
            return
        try:
            told = json.loads(data)
        except ValueError:
            told = None
        self.received.append(Received(now, number, told))
        if not isinstance(told, dict):
            await session.refuse("a text message is not a JSON object")
            return
        await session.fault("message")
        await session.take_text(told)


def _no(connection: ServerConnection, status: HTTPStatus, code: str, words: str) -> Response:
    body = json.dumps({"err_code": code, "err_msg": words, "request_id": str(uuid.uuid4())})
    response = connection.respond(status, body)
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    return response


def _query(query: str) -> Query:
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}
