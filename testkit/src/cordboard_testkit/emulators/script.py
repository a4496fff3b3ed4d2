"""The script of an emulated service; one format for all of them.

    Script(
        answers=(
            Answer("It is sunny."),                                   # the first turn of the caller
            Answer(asks=(Use("get_atis", {"icao": "ENGM"}),), then="The report is: {results}"),
        ),
        faults=(Fault("result", "close", code=1011),),
    )

A script is consumed in order, one `Answer` for each turn of the caller; after the last one the
service says `otherwise`. It ignores the caller's words: recognition is not
emulated, but `Answer.heard` is the text that the service claims to have understood. A script that
`improvises` gets each turn of the caller instead, and makes the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

When: TypeAlias = Literal[
    "connect", "setup", "greeting", "turn", "sound", "ask", "result", "answer", "message", "request"
]
"""The moment of a fault: before the connection is accepted; instead of accepting the session; at
the first sound of the greeting; when a turn of the caller has ended; in the middle of the sound of
an answer; right after a tool call; right after a tool's result has arrived, before the answer to
it; at the beginning of an answer; at any message after the first `after`; when the client requests
an answer."""
Do: TypeAlias = Literal[
    "refuse",
    "close",
    "drop",
    "stall",
    "garbage",
    "error",
    "duplicate",
    "go_away",
    "cancel_tool",
    "write",
    "misread",
]
"""The effect of a fault: HTTP `code` instead of the connection; close with `code`; the socket is
reset; the service goes silent and continues to read; it sends garbage; it sends its protocol's
error `code` (OpenAI's answer fails then, a greeting too after a few words); it sends its last
message twice; it announces that it will close soon; it cancels the
tools that it has requested; it writes its answer instead of speaking it; it
says other words than it was given."""


@dataclass(frozen=True, slots=True)
class Use:
    """A tool that the service requests."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """The service's reaction to one turn of the caller."""

    says: str = ""
    """Spoken at once (before its tools, if it has any)."""
    asks: tuple[Use, ...] = ()
    """Tools requested together."""
    then: str = "{results}"
    """Spoken when all results have arrived; `{results}` = their messages, one after the other."""
    heard: str = "something"
    """The caller's words, as the service claims to have understood them."""


@dataclass(frozen=True, slots=True)
class CallerTurn:
    """A turn of the caller, as the service got it."""

    words: str = ""
    """The text that was written to the service."""
    sound: bytes = b""
    """The voice that it heard instead: s16 mono."""
    rate: int = 8000
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the service may request: `name`, `description`, `parameters` (JSON Schema)."""


SILENCE = CallerTurn()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that happens once."""

    when: When
    do: Do
    code: int | str = 0
    """HTTP status, close code or the protocol's error code, by `do`."""
    after: int = 0
    """Number of occasions without the fault before it happens."""
    connection: int = 0
    """Only on this connection, counted from 1; 0 = on any."""


@dataclass(frozen=True, slots=True)
class Script:
    """A whole conversation."""

    answers: tuple[Answer, ...] = ()
    otherwise: Answer = Answer("I have nothing more to say.")
    faults: tuple[Fault, ...] = ()
    thinking_ms: int = 50
    """Time from the end of a turn, or the last result, to the first audio."""
    improvises: Callable[[CallerTurn], Answer] | None = None
    """Makes each answer, instead of `answers`. It may block: the service thinks meanwhile."""


class Prompter:
    """Follows a script through one call, over all its connections."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._next = 0
        self._left: list[Fault] = list(script.faults)
        self._passed: dict[int, int] = {}
        self.connections = 0
        """Number of connections so far; the emulator increments it."""

    @property
    def thinking(self) -> float:
        """Seconds."""
        return self._script.thinking_ms / 1000

    @property
    def improvises(self) -> bool:
        return self._script.improvises is not None

    def answer(self, turn: CallerTurn = SILENCE) -> Answer:
        """Return the reaction to the next turn."""
        if self._script.improvises is not None:
            return self._script.improvises(turn)
        at, self._next = self._next, self._next + 1
        answers = self._script.answers
        return answers[at] if at < len(answers) else self._script.otherwise

    def fault(self, when: When) -> Fault | None:
        """The fault that happens now, if any; it is used up."""
        for fault in self._left:
            if fault.when != when or fault.connection not in (0, self.connections):
                continue
            passed = self._passed.get(id(fault), 0)
            if passed < fault.after:
                self._passed[id(fault)] = passed + 1
                continue
            self._left.remove(fault)
            return fault
        return None


def results_said(then: str, messages: Iterable[str]) -> str:
    """The sentence that follows the tools' results."""
    return then.replace("{results}", " ".join(message for message in messages if message))
