"""Deepgram Voice Agent (`/v1/agent/converse`), emulated: strict, scripted, on loopback.

    async with DeepgramAgentEmulator(Script((Answer("It is sunny."),))) as emulator:
        ...  # base_url: emulator.url, api_key: emulator.key

It is a state machine of its own, written from deepgram-sdk 7.17 and the service's documentation of
November 2026: Welcome precedes all messages, Settings come once and first, audio only after they
are applied, unknown fields are refused, a function's answer is awaited forever, and 10 s
without a message are an error. Refusals are in `violations`. It sends audio faster than real time,
as the service does, and counts it as being spoken for its duration.

Where the documentation is silent, it behaves as users report, or in the least convenient way: an
answer that the caller cuts has no `AgentAudioDone`; function calls precede the caller's text
(`speculative`), unless they are deferred; every error is followed by a close with 1011; `KeepAlive`
alone does not keep a session.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard_testkit.emulators.deepgram.agent_session import (
    Book,
    ClientSession,
    Habits,
    Received,
)
from cordboard_testkit.emulators.script import Prompter, Script
from cordboard_testkit.emulators.speech import Beeper, Speaker

PATH = "/v1/agent/converse"
KEY_PATH = "/v1/auth/token"
IDLE_S = 10.0
"""Timeout without a message from the client."""


class DeepgramAgentEmulator:
    """The server; a context manager. One script serves one call, over all its connections."""

    def __init__(
        self,
        script: Script,
        *,
        speaker: Speaker | None = None,
        key: str = "deepgram-key",
        port: int = 0,
        speculative: bool = True,
        idle_s: float = IDLE_S,
        injections: Literal["refused", "warned", "ignored"] = "refused",
    ) -> None:
        """`speculative`: request functions before the end of the caller's turn is certain.
        `injections`: reaction to an injected sentence that it will not say; `ignored`: it says
        none."""
        self.key = key
        self._port = port
        self.close_codes: list[int] = []
        """Codes with which the service closed connections."""
        self._prompter = Prompter(script)
        self._habits = Habits(speaker or Beeper(), speculative, idle_s, injections)
        self._book = Book()
        self._server: Server | None = None

    @property
    def connections(self) -> int:
        """Number of connections so far."""
        return self._prompter.connections

    @property
    def received(self) -> list[Received]:
        """All text messages of the clients, in order."""
        return self._book.received

    @property
    def sent(self) -> list[dict[str, Any]]:
        """All text messages to the clients."""
        return self._book.sent

    @property
    def sound_bytes(self) -> int:
        """Bytes of the callers' audio."""
        return self._book.sound_bytes

    @property
    def violations(self) -> list[str]:
        """The refusals, with their reasons."""
        return self._book.violations

    @property
    def url(self) -> str:
        """For `base_url`; the SDK expects the scheme `ws`."""
        if self._server is None:
            raise RuntimeError("the emulator is not running")
        port = next(iter(self._server.sockets)).getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def received_of(self, kind: str) -> list[dict[str, Any]]:
        """The clients' messages of that `type`."""
        return [entry.message for entry in self.received if entry.message.get("type") == kind]

    async def until_received(self, kind: str, count: int = 1) -> None:
        """Wait until `count` messages of that type have arrived."""
        while len(self.received_of(kind)) < count:
            self._book.news.clear()
            await self._book.news.wait()

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve, "127.0.0.1", self._port, process_request=self._admit, ping_interval=None
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        self._prompter.connections += path == PATH
        if path not in (PATH, KEY_PATH):
            return connection.respond(HTTPStatus.NOT_FOUND, "not found")
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "token" or key != self.key:
            self.violations.append("connect: the key is not accepted")
            return connection.respond(HTTPStatus.UNAUTHORIZED, '{"err_code": "INVALID_AUTH"}')
        if path == KEY_PATH:
            return connection.respond(HTTPStatus.OK, '{"api_key_id": "emulated", "scopes": []}')
        fault = self._prompter.fault("connect")
        if fault is None:
            return None
        if fault.do == "stall":
            await asyncio.sleep(3600)
        if fault.do != "refuse":
            connection.transport.abort()
        return connection.respond(HTTPStatus(int(fault.code or 503)), "no")

    async def _serve(self, connection: ServerConnection) -> None:
        client = ClientSession(connection, self._prompter, self._book, self._habits)
        try:
            await client.serve()
        except ConnectionClosed:
            pass
        finally:
            await client.over()
            protocol = connection.protocol
            if protocol.close_sent is not None and not protocol.close_rcvd_then_sent:
                self.close_codes.append(protocol.close_sent.code)
