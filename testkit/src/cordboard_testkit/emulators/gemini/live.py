"""An emulated Gemini Live: TLS with a throw-away certificate, strict about its input.

    async with GeminiLiveEmulator(script) as emulator:
        emulator.url              # https://127.0.0.1:…, for `base_url` or the vendor's SDK
        emulator.certificate      # .client_context, or .path for SSL_CERT_FILE

It keeps the state of sessions under handles, as the service does: a client that resumes with a
handle loses events after the handle was issued. One script is one call, over all its connections;
with `many_calls`, each new session follows the script from its beginning.
"""

from __future__ import annotations

import asyncio
import http
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from cordboard_testkit.emulators.gemini.live_session import LiveSession
from cordboard_testkit.emulators.gemini.live_state import CallState
from cordboard_testkit.emulators.gemini.live_wire import (
    MODELS,
    Refused,
    check_setup,
    closes_exchange,
    read,
)
from cordboard_testkit.emulators.script import Prompter, Script
from cordboard_testkit.emulators.speech import Beeper, Speaker
from cordboard_testkit.emulators.throw_away_certificate import ThrowAwayCertificate

VERSIONS = ("v1", "v1beta", "v1alpha")
KEY = "AIza-emulated"
"""The key that is accepted."""
_MODEL_PATH = re.compile(r"/v1beta/models/(?P<name>[^/]+)")
_PATH = re.compile(
    r"/ws/google\.ai\.generativelanguage\.(?P<version>v1\w*)\.GenerativeService\."
    r"BidiGenerateContent"
)


@dataclass(frozen=True, slots=True)
class Received:
    """One message of a client."""

    at: float
    """`time.monotonic`."""
    connection: int
    message: Any


@dataclass(frozen=True, slots=True)
class Kept:
    """The state behind a handle."""

    state: CallState
    pending: dict[str, bool]


class GeminiLiveEmulator:
    """The server; a context manager."""

    def __init__(
        self,
        script: Script | None = None,
        *,
        speaker: Speaker | None = None,
        key: str = KEY,
        port: int = 0,
        secure: bool = True,
        pace: float = 8.0,
        many_calls: bool = False,
        versions: tuple[str, ...] = VERSIONS,
        guess: str = "",
    ) -> None:
        """`secure`: by TLS, with `certificate`. `pace`: speed of the outgoing audio, as a multiple
        of real time. The end of a turn waits until the audio has been heard, as with the service.
        `versions`: the versions of the API that have the Live API. `guess`: words that the model
        says of its own while a tool runs that it does not wait for."""
        self._script = script or Script()
        self._prompter = Prompter(self._script)
        self._key = key
        self._port = port
        self._secure = secure
        self._many_calls = many_calls
        self._versions = versions
        self.speaker = speaker or Beeper()
        self.pace = pace
        self.guess = guess
        self.certificate = ThrowAwayCertificate()
        self.received: list[Received] = []
        self.violations: list[str] = []
        """The refusals, with their reasons."""
        self.close_codes: list[int] = []
        """Codes with which the service closed connections."""
        self.connections = 0
        self.url = ""
        self._handles: dict[str, Kept] = {}
        self._state: CallState | None = None
        self._calls = 0
        self._server: Server | None = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self._port,
            ssl=self.certificate.server_context if self._secure else None,
            process_request=self._admit,
            max_size=16 * 1024 * 1024,
            compression=None,
        )
        port = next(iter(self._server.sockets)).getsockname()[1]
        self.url = f"{'https' if self._secure else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close(close_connections=True)
            await self._server.wait_closed()
        self.certificate.close()

    def messages(self, kind: str) -> list[Any]:
        """All messages of a kind (camel case), on all connections, in order."""
        snake = re.sub("([A-Z])", lambda match: "_" + match.group(1).lower(), kind)
        return [
            entry.message.get(kind, entry.message.get(snake))
            for entry in self.received
            if isinstance(entry.message, dict) and entry.message.keys() & {kind, snake}
        ]

    async def until(self, kind: str, count: int = 1) -> None:
        """Wait until `count` messages of a kind have arrived; ten seconds at most."""
        async with asyncio.timeout(10):
            while len(self.messages(kind)) < count:
                self._news.clear()
                await self._news.wait()

    def forget_handles(self) -> None:
        """Make all handles invalid, as if they had expired."""
        self._handles.clear()

    # Interface for the sessions.

    def new_handle(self, state: CallState) -> str:
        """Keep this state as it is now."""
        handle = f"handle-{len(self._handles) + 1}-{id(self) & 0xFFFF:x}"
        self._handles[handle] = Kept(state, dict(state.pending))
        return handle

    def new_call_id(self) -> str:
        self._calls += 1
        return f"function-call-{self._calls}"

    # Connections.

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        path, _, query = request.path.partition("?")
        asked, live = _MODEL_PATH.fullmatch(path), _PATH.fullmatch(path)
        if asked is None and (live is None or live["version"] not in self._versions):
            return self._deny(connection, http.HTTPStatus.NOT_FOUND, "no such method")
        if "key=" in query:
            return self._deny(connection, http.HTTPStatus.BAD_REQUEST, "the key is in the address")
        if request.headers.get("x-goog-api-key") != self._key:
            return self._deny(connection, http.HTTPStatus.UNAUTHORIZED, "API key not valid")
        if asked is not None:
            return self._model(connection, asked["name"])
        self.connections += 1
        self._prompter.connections = self.connections
        fault = self._prompter.fault("connect")
        if fault is not None and fault.do == "refuse":
            status = http.HTTPStatus(int(fault.code or 503))
            return connection.respond(status, status.phrase)
        if fault is not None:
            connection.transport.abort()
        return None

    def _model(self, connection: ServerConnection, name: str) -> Response:
        """`GET /v1beta/models/{model}`: 200 if the model exists."""
        if name not in MODELS:
            return self._deny(connection, http.HTTPStatus.NOT_FOUND, f"no model {name}")
        found = {"name": f"models/{name}", "supportedGenerationMethods": ["bidiGenerateContent"]}
        return connection.respond(http.HTTPStatus.OK, json.dumps(found))

    def _deny(self, connection: ServerConnection, status: http.HTTPStatus, why: str) -> Response:
        self.violations.append(f"{int(status)}: {why}")
        return connection.respond(status, why)

    async def _serve(self, socket: ServerConnection) -> None:
        number = self.connections
        session: LiveSession | None = None
        try:
            async for raw in socket:
                message = self._parse(raw, number)
                parsed = read(message)
                if session is None:
                    if parsed.setup is None:
                        raise Refused(1007, "setup must be the first message and only the first.")
                    check_setup(parsed.setup, _version_of(socket))
                    session = LiveSession(self, socket, self._state_for(parsed), parsed.setup)
                    going_on = await session.accept()
                else:
                    going_on = await session.take(parsed, len(raw))
                if not going_on:
                    break
        except Refused as refused:
            self.violations.append(f"{refused.code}: {refused.reason}")
            await self.close(socket, refused.code, refused.reason)
        except ConnectionClosed:
            pass
        finally:
            if session is not None:
                await session.end()

    def _parse(self, raw: str | bytes, number: int) -> Any:
        try:
            message = json.loads(raw)
        except ValueError:
            raise Refused(1007, "Invalid JSON payload received.") from None
        self.received.append(Received(time.monotonic(), number, message))
        self._news.set()
        return message

    def _state_for(self, parsed: Any) -> CallState:
        resumption = parsed.setup.session_resumption
        handle = resumption.handle if resumption is not None else None
        if handle:
            kept = self._handles.get(handle)
            if kept is None:
                raise Refused(1008, "Invalid session resumption handle.")
            lost = kept.state.pending.keys() - kept.pending.keys()
            kept.state.cut_off = lost if closes_exchange(parsed.setup.model) else set()
            kept.state.pending = dict(kept.pending)
            return kept.state
        continued = parsed.setup.history_config.initial_history_in_client_content
        if self._state is not None and (continued or not self._many_calls):
            self._state.pending, self._state.cut_off = {}, set()
            return self._state
        prompter = Prompter(self._script) if self._many_calls else self._prompter
        prompter.connections = self.connections
        self._state = CallState(prompter)
        return self._state

    async def close(self, socket: ServerConnection, code: int, reason: str) -> None:
        """Close a connection, as the service does."""
        self.close_codes.append(code)
        await socket.close(code, reason[:120])


def _version_of(socket: ServerConnection) -> str:
    """Return the version of the API in a connection's address."""
    request = socket.request
    path = _PATH.fullmatch(request.path.partition("?")[0]) if request is not None else None
    return path["version"] if path is not None else ""
