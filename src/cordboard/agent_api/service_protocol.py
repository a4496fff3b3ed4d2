"""The interface of realtime agents: one service's wire, without sockets, clocks or tasks.

A `ServiceProtocol` is one call's side of one service's protocol: a state machine. It receives the
service's messages and the call's requests, and calls its `ProtocolHost` (the shell,
`realtime.agent`) to send messages and report events. It lives as long as the call; each new
connection begins with `begin`.

    address → (connection opens) → begin → … → host.ready → hear, receive, …  → lost → address → …

Its properties may be read at any time, also before `begin`: `isinstance` does so on Python 3.11.
Everything runs on the event loop by direct calls and returns within microseconds. A protocol never
raises, for any message in any order: it reports messages that make no sense by `host.ignored`, and
a failure that ends the session by `host.failed`. The shell numbers the turns, keeps the
conversation so far, speaks for the engine, reconnects, and gives up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.errors import FailureKind
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import JsonObject, ToolReply


@dataclass(frozen=True, slots=True)
class Resumed:
    """State that a connection after the first one has to restore."""

    history: tuple[Said, ...]
    """The conversation so far; for services that do not keep it."""
    owes_answer: bool
    """The caller waits for an answer that the lost connection owed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Meaning of a lost or refused connection."""

    kind: FailureKind
    reason: str
    """Reason for the log and the ledger: a sentence that names the service; without secrets."""
    again: bool
    """True if connecting again may help."""


@dataclass(frozen=True, slots=True)
class CutItem:
    """One piece of an answer that was cut before the caller heard it completely."""

    item: str
    """Name that the protocol gave with the sound."""
    heard_ms: int
    """Milliseconds that the caller has heard, from its first sample."""


class ProtocolHost(Protocol):
    """Actions and reports available to a protocol. Implemented by the shell."""

    def now(self) -> float:
        """Loop time in seconds."""

    # To the service.

    def send_text(self, message: bytes) -> None:
        """Send one text message (UTF-8). Dropped when the connection is gone."""

    def send_binary(self, data: bytes) -> None: ...

    # About the connection.

    def ready(self) -> None:
        """Report that the service has accepted the session: from now on it takes sound and
        results."""

    def reconnect(self, reason: str) -> None:
        """Report that this connection is about to end: replace it by another one now."""

    def failed(self, kind: FailureKind, reason: str) -> None:
        """Report that the service cannot continue, and that connecting again does not help."""

    def ended(self, reason: str) -> None:
        """Report that the service considers the conversation over."""

    def ignored(self, why: str, detail: str = "") -> None:
        """Report a message without effect. `why` is `malformed`, `unknown`, `late`, `duplicate`,
        `out_of_order` or `warning`, and is counted; `detail` is for the log, without callers'
        words."""

    # About the caller.

    def caller_started(self, at: float | None = None) -> None:
        """Report that the caller began to speak, at that loop time if it is known. An agent that is
        being heard is cut: `ServiceProtocol.interrupted` may be called before this returns."""

    def caller_stopped(self, last_speech_at: float | None = None) -> int:
        """Report the end of the caller's turn. Return its number."""

    def caller_partial(self, text: str) -> None:
        """Report the words of the caller's present turn so far, all of them."""

    def caller_text(self, text: str, turn: int | None = None) -> None:
        """Report the caller's words in that turn (default: the last one). A turn whose start and
        end were not reported starts and ends with this."""

    # About the answer.

    def agent_words(self, text: str) -> None:
        """Add words to the answer, as the service writes them (spaces included)."""

    def agent_sound(self, sound: bytes, item: str = "") -> None:
        """Add sound to the answer, in `AgentSession.format`; `item` names the piece it belongs
        to."""

    def waiting_sound(self, sound: bytes) -> None:
        """Play sound that belongs to no answer, such as the music of a queue: what the service owes
        it still owes. `interrupted` ends it."""

    def agent_speech(self, speech: Speech | None) -> None:
        """Mark the words and the sound that follow as this sentence, which `ServiceProtocol.speak`
        took; None: they are the model's own again. `answer_done` ends a sentence, too. May be
        repeated."""

    def unsaid(self, speech: Speech) -> None:
        """Report that the service will not say the sentence that `ServiceProtocol.speak` took:
        another voice does."""

    def answer_done(self) -> None:
        """Report that all of the answer is handed over, as far as the service knows. The shell
        knows about running tools, which may add to it."""

    def answer_broke(self) -> None:
        """Report that the service has failed within its answer: the words and the sound so far are
        not a whole sentence. Another try, or `answer_done`, follows."""

    def interrupted(self) -> None:
        """Report that the service has cut its answer because the caller speaks."""

    def tool_asked(self, call_id: str, name: str, arguments: JsonObject) -> None:
        """Report that the model wants a tool run. `ServiceProtocol.answer_tool` follows, with
        `call_id` as its `ask_id`, unless the call is cancelled."""

    def tool_cancelled(self, call_id: str) -> None:
        """Report that the model no longer needs that answer."""

    def used(self, model: str, amounts: Mapping[str, float]) -> None:
        """Report the usage since the last report, as the service states or implies it; units as in
        `agent_api.agent.Usage`."""


@runtime_checkable
class ServiceProtocol(Protocol):
    """One service's protocol, for one call."""

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        """The formats the service takes and gives, in order of preference."""

    @property
    def payload(self) -> PayloadLimits:
        """The largest tool result that the service can take."""

    async def address(self) -> Address:
        """Return the address to connect to now. May ask the service for it. Raises `AgentError`."""

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        """Introduce the session on a new connection. `resumed` is None for the call's first
        connection. `host.ready` follows when the service has accepted the session. The protocol has
        the greeting spoken, word for word, unless `speaks_greeting` is False."""

    @property
    def speaks_greeting(self) -> bool:
        """True if the service speaks the greeting. Otherwise the engine's voice does, and `begin`
        passes its words to the service."""

    def receive_text(self, message: bytes) -> None:
        """Take one text message of the service. Never raises."""

    def receive_binary(self, data: bytes) -> None:
        """Take one binary message of the service. Never raises."""

    def hear(self, sound: bytes) -> None:
        """Send one 20 ms frame of the caller's sound. Called only while the session is ready."""

    def answer_tool(self, reply: ToolReply) -> None:
        """Send the answer to a tool call that the service waits for. Called only while the session
        is ready; `begin` repeats answers that a lost connection may not have received."""

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """Report to the service how much of the cut answer the caller heard, oldest piece first.
        Pieces that were heard completely are not among them."""

    def speak(self, speech: Speech) -> bool:
        """Have the service say exactly these words as soon as it is silent; False when it cannot,
        now or ever. `host.agent_speech` follows when it does: by the service's own tag where it has
        one, otherwise by the words."""

    def inform(self, text: str) -> bool:
        """Give the model this information to pass on to the caller; False when it cannot take it
        now."""

    def listen_aside(self, on: bool) -> bool:
        """Switch transcription without answers on or off. True if the service can transcribe the
        caller without answering (and does so from now on, or no longer)."""

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        """Classify a connection that was refused with this HTTP status, or lost with this close
        code (None: it broke). A service that cannot be reached is not reported here. `problem`:
        the service's own words or the error of the connection, without the service's name; may be
        empty."""

    @property
    def keep_alive_s(self) -> float:
        """Seconds without a message to the service after which `keep_alive` is called; 0 = never.
        Sound counts as messages."""

    def keep_alive(self) -> None: ...

    def goodbye(self) -> None:
        """Say goodbye at the end of the call, if the service expects it before the connection
        closes."""
