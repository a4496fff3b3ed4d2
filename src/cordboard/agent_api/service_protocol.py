"""The door of the realtime agents: one service's wire, without sockets, clocks or tasks.

A `ServiceProtocol` is one call's side of one service's protocol: a state machine that is told what
arrives and what the call wants, and tells its `ProtocolHost` (the shell, `realtime.agent`) what to
send and what has happened. It lives as long as the call; each new connection begins with `begin`.

    address → (connection opens) → begin → … → host.ready → hear, receive, …  → lost → address → …

Everything runs on the event loop by direct calls and returns within microseconds. Whatever arrives,
in whatever order, a protocol never raises: what makes no sense is told by `host.ignored` or, when
nothing can go on, `host.failed`. The shell numbers the turns, keeps the conversation so far, speaks
for the engine, reconnects, and gives up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.errors import FailureKind
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolReply


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a connection that is not the first has to catch up with."""

    history: tuple[Said, ...]
    """The conversation so far; for services that have not kept it."""
    owes_answer: bool
    """The caller is waiting for an answer that the lost connection owed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What a lost or refused connection means."""

    kind: FailureKind
    reason: str
    """For the log and the ledger; without secrets."""
    again: bool
    """Whether connecting again may help."""


@dataclass(frozen=True, slots=True)
class CutItem:
    """One piece of an answer that was cut before all of it was heard."""

    item: str
    """As the protocol named it with its sound."""
    heard_ms: int
    """How much of it the caller has heard, from its first sample."""


class ProtocolHost(Protocol):
    """What a protocol may do and tell. Implemented by the shell."""

    def now(self) -> float:
        """Loop time in seconds."""
        ...

    # To the service.

    def send_text(self, message: bytes) -> None:
        """Send one text message (UTF-8). Dropped when the connection is gone."""
        ...

    def send_binary(self, data: bytes) -> None: ...

    # About the connection.

    def ready(self) -> None:
        """The service has accepted the session: from now on sound and results are taken."""
        ...

    def reconnect(self, reason: str) -> None:
        """This connection is about to end: replace it by another one, now."""
        ...

    def failed(self, kind: FailureKind, reason: str) -> None:
        """The service cannot go on, and connecting again is no use."""
        ...

    def ended(self, reason: str) -> None:
        """The service considers the conversation over."""
        ...

    def ignored(self, why: str, detail: str = "") -> None:
        """A message had no effect: `malformed`, `unknown`, `late`, `duplicate`, `out_of_order`,
        `warning`. Counted by this word; `detail` is for the log, without callers' words."""
        ...

    # About the caller.

    def caller_started(self, at: float | None = None) -> None:
        """The caller began to speak, at that loop time if it is known. If the agent is being heard,
        it is cut: `ServiceProtocol.interrupted` may be called before this returns."""
        ...

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        """The caller's turn is over. Returns its number."""
        ...

    def caller_text(self, text: str, turn: int | None = None) -> None:
        """What the caller said in that turn (default: the last one). A turn that was never said to
        have begun and stopped begins and ends with this."""
        ...

    # About the answer.

    def agent_words(self, text: str) -> None:
        """More words of the answer, as the service writes them (spaces included)."""
        ...

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        """More sound of the answer, in `AgentSession.format`; `item` names the piece it is of."""
        ...

    def agent_speech(self, speech: Speech | None) -> None:
        """The words and the sound that follow are this sentence, which `ServiceProtocol.speak`
        took; None: they are the model's own again. `answer_done` ends a sentence, too. May be
        repeated."""
        ...

    def unsaid(self, speech: Speech) -> None:
        """The service will not say what `ServiceProtocol.speak` took: another voice does."""
        ...

    def answer_done(self) -> None:
        """All of the answer is handed over, as far as the service knows. While a tool is at work it
        is not: the shell knows."""
        ...

    def interrupted(self) -> None:
        """The service has cut its answer because the caller speaks."""
        ...

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        """The model wants a tool run. `ServiceProtocol.answer_tool` follows, its `ask_id` is
        `call_id`, unless it is cancelled."""
        ...

    def tool_cancelled(self, call_id: str) -> None:
        """The model no longer wants that answer."""
        ...

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        """The service tells, or implies, what was used since the last time; units as in
        `agent_api.agent.Usage`."""
        ...


class ServiceProtocol(Protocol):
    """One service's protocol, for one call."""

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        """The formats it takes and gives, the most liked first."""
        ...

    @property
    def payload(self) -> PayloadLimits:
        """How much of a tool's result the service can take."""
        ...

    async def address(self) -> Address:
        """Where to connect to now. May ask the service for it. Raises `AgentError`."""
        ...

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        """A connection is open, and the session known: introduce ourselves. `resumed` is None for
        the call's first connection. `host.ready` follows when the service has accepted it. The
        greeting is the protocol's to have said, word for word, unless `speaks_greeting` is
        False."""
        ...

    @property
    def speaks_greeting(self) -> bool:
        """Whether the service says the greeting; else the engine's voice does, and `begin` tells
        the service what was said."""
        ...

    def receive_text(self, message: bytes) -> None:
        """Take one text message of the service. Never raises."""
        ...

    def receive_binary(self, data: bytes) -> None:
        """Take one binary message of the service. Never raises."""
        ...

    def hear(self, sound: bytes) -> None:
        """Send one 20 ms frame of the caller's sound. Called only while the session is ready."""
        ...

    def answer_tool(self, reply: ToolReply) -> None:
        """Give the service the answer to a call that it waits for. Called only while the session is
        ready; what a connection that was lost may not have got, `begin` gives again."""
        ...

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """The caller has cut the answer: tell the service what was heard, oldest piece first. The
        pieces that were heard whole are not among them."""
        ...

    def speak(self, speech: Speech) -> bool:
        """Have the service say exactly these words as soon as it is silent; False when it cannot,
        now or ever. `host.agent_speech` follows when it does: by the service's own tag where it
        has one, else by the words."""
        ...

    def inform(self, text: str) -> bool:
        """Tell the model this and have it tell the caller; False when it cannot now."""
        ...

    def listen_aside(self, on: bool) -> bool:
        """Whether the service can go on writing down what the caller says without answering it (and
        does so from now on, or no longer)."""
        ...

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        """What it means that the connection was refused with this HTTP status, or lost with this
        close code (None: without a word)."""
        ...

    @property
    def keep_alive_s(self) -> float:
        """Seconds without a message to the service after which `keep_alive` is wanted; 0 = never.
        Sound counts as messages."""
        ...

    def keep_alive(self) -> None: ...

    def goodbye(self) -> None:
        """The call is over: say so, if the service wants it said before the connection closes."""
        ...
