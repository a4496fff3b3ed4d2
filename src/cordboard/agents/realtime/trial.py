"""Open and close a session to verify that the service accepts the settings (`check --online`).

    await try_session(protocol, "openai_realtime", tls, 10.0)

It sends the first messages of a call, without a greeting, tools or sound; the model gets no
request. This verifies voices and all other settings, which no list of the services contains.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

from cordboard.agent_api.agent import AgentSession
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.reconnecting import loss_of
from cordboard.errors import AgentError, FailureKind
from cordboard.net.service_websocket import NotConnected, ServiceConnection
from cordboard.tools.tool import JsonObject

_PROMPT = "You are a telephone agent."


async def try_session(
    protocol: ServiceProtocol, peer: str, tls: ssl.SSLContext, seconds: float
) -> None:
    """Return when the service has accepted the session. Raises `AgentError`, without secrets in it,
    if it does not within `seconds`."""
    trial = _Trial(protocol)
    try:
        async with asyncio.timeout(seconds):
            trial.connection = await _connected(protocol, peer, tls, seconds)
            protocol.begin(trial.session(), trial, None)
            trial.connection.take(trial)
            await trial.accepted
    except TimeoutError:
        raise AgentError("the session was not accepted in time", "connect") from None
    finally:
        if trial.connection is not None:
            protocol.goodbye()
            await trial.connection.close()


async def _connected(
    protocol: ServiceProtocol, peer: str, tls: ssl.SSLContext, seconds: float
) -> ServiceConnection:
    connection = ServiceConnection(await protocol.address(), peer)
    try:
        await connection.open(tls, seconds)
    except NotConnected as error:
        lost = loss_of(error, protocol)
        raise AgentError(lost.reason, lost.kind) from None
    return connection


class _Trial:
    """Implements `ProtocolHost` and `Receiver`; reports only whether the session is accepted."""

    def __init__(self, protocol: ServiceProtocol) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self.accepted: asyncio.Future[None] = self._loop.create_future()
        self.connection: ServiceConnection | None = None

    def session(self) -> AgentSession:
        return AgentSession(
            call_id="check",
            context_name="check",
            prompt=_PROMPT,
            greeting="",
            toolbox=(),
            format=self._protocol.formats[0],
            emit=lambda _: None,
            speaking=lambda: False,
        )

    def _refused(self, kind: FailureKind, reason: str) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(AgentError(reason, kind))
            self.accepted.exception()  # retrieved: no task may be waiting any more

    # service_websocket.Receiver

    def receive_text(self, message: bytes) -> None:
        self._protocol.receive_text(message)

    def receive_binary(self, data: bytes) -> None:
        self._protocol.receive_binary(data)

    def connection_lost(self, code: int | None, problem: str) -> None:
        lost = self._protocol.lost(None, code, problem)
        self._refused(lost.kind, lost.reason)

    # service_protocol.ProtocolHost

    def now(self) -> float:
        return self._loop.time()

    def send_text(self, message: bytes) -> None:
        if self.connection is not None:
            self.connection.send_text(message)

    def send_binary(self, data: bytes) -> None:
        """Send nothing: a trial has no sound."""

    def ready(self) -> None:
        if not self.accepted.done():
            self.accepted.set_result(None)

    def reconnect(self, reason: str) -> None:
        self._refused("dropped", reason)

    def failed(self, kind: FailureKind, reason: str) -> None:
        self._refused(kind, reason)

    def ended(self, reason: str) -> None:
        self._refused("dropped", reason)

    def ignored(self, why: str, detail: str = "") -> None: ...

    def caller_started(self, at: float | None = None) -> None: ...

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        return 0

    def caller_partial(self, text: str) -> None: ...

    def caller_text(self, text: str, turn: int | None = None) -> None: ...

    def agent_words(self, text: str) -> None: ...

    def agent_sound(self, sound: bytes, item: str = "") -> None: ...

    def waiting_sound(self, sound: bytes) -> None: ...

    def agent_speech(self, speech: Speech | None) -> None:
        """Do nothing: the service was given no sentence."""

    def unsaid(self, speech: Speech) -> None: ...

    def answer_done(self) -> None: ...

    def answer_broke(self) -> None: ...

    def interrupted(self) -> None: ...

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None: ...

    def tool_cancelled(self, call_id: str) -> None: ...

    def used(self, model: str, amounts: Mapping[str, float]) -> None: ...
