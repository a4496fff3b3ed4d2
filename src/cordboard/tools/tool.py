"""The door of the tools room: what a tool is, what it is asked, what it answers.

A tool is anything an agent may do, of one of five kinds. Whoever adds a kind implements `Tool`;
whoever wants one run goes through the desk (`cordboard.tools.desk`), never to `Tool.run` itself.
A tool sees the call only through `CallLine`, a narrow face that the calls room implements, so this
room knows no call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from cordboard.config.speech_template import Path, SpeechTemplate, read_path, read_template

JsonObject: TypeAlias = dict[str, Any]
ToolKind = Literal["builtin", "mcp", "http", "python", "workflow"]
COLLECT_DIGITS_ORIGIN = "builtin:collect_digits"


class Effects(StrEnum):
    """What running a tool does to the world; decides about retries, barge-in and approval."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    DESTRUCTIVE = "destructive"


class Status(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one tool. Times are in ms, as in the configuration."""

    timeout_ms: int = 10_000
    retries: int = 0
    """Further tries after a failure; only used when the effects allow it."""
    cache_ttl_ms: int = 0
    """How long a result may be reused for equal arguments; 0 = never."""
    per_turn: int = 5
    """How often one caller turn may run this tool."""


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """What the operator wants said when a tool fails; empty = the engine's own words."""

    timeout: str = ""
    error: str = ""
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Speech:
    """How a structured result becomes a sentence; neither set = a short summary.

    Both texts are read when it is made: raises `SpeechTemplateError` for one that cannot be.
    """

    field: str | None = None
    """Dotted path into the result, e.g. `weather.summary` or `items.0.name`; empty = none."""
    template: str | None = None
    """A sentence with `{dotted.path}` placeholders; empty = none."""
    errors: ErrorWords = ErrorWords()
    field_read: Path | None = dataclasses.field(init=False, repr=False, compare=False)
    template_read: SpeechTemplate | None = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        path = read_path(self.field) if self.field else None
        template = read_template(self.template) if self.template else None
        object.__setattr__(self, "field_read", path)
        object.__setattr__(self, "template_read", template)


@dataclass(frozen=True, slots=True)
class Filler:
    """What is said while a slow tool runs."""

    threshold_ms: int = 0
    """Say it after this time without a result; 0 = never."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """All that an agent may know of a tool, and the rules the desk keeps for it."""

    name: str
    """Exposed name: `[a-zA-Z_][a-zA-Z0-9_]{0,63}`, unique within a catalogue."""
    kind: ToolKind
    description: str
    parameters: JsonObject
    """JSON Schema (2020-12) of the arguments; the root is an object."""
    origin: str = ""
    """Internal id for logs and the ledger: `builtin:hangup_call`, `mcp:aviation_atis:get_atis`."""
    server: str = ""
    """The MCP server's id; empty for other kinds."""
    limits: Limits = Limits()
    speech: Speech = Speech()
    filler: Filler = Filler()
    effects: Effects = Effects.READ_ONLY


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers. `message` is short and fit to be spoken; `data` stays inside."""

    status: Status = Status.OK
    message: str = ""
    data: Any = None


@dataclass(frozen=True, slots=True)
class ToolAsk:
    """An agent's wish to have a tool run."""

    ask_id: str
    """Unique within the call; the reply carries it back."""
    name: str
    """The exposed name, as the agent wrote it: not yet checked."""
    arguments: JsonObject
    turn: int = 0
    """The caller turn in which it was asked."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The desk's answer to a `ToolAsk`: a result in the shape the agent may see."""

    ask_id: str
    name: str
    status: Status
    message: str
    """What the caller may be told, in one or a few sentences."""
    data: JsonObject = field(default_factory=dict)
    """The structured result, already capped for the agent that asked."""
    took_ms: int = 0

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


@dataclass(frozen=True, slots=True)
class KeysWanted:
    """What `CallLine.collect_keys` waits for."""

    count: int = 0
    """So many keys end it; 0 = only the terminator or the timeout does."""
    terminator: str = "#"
    """This key ends it and is not part of the answer; empty = none."""
    first_timeout: float = 10.0
    """Seconds until the first key."""
    next_timeout: float = 4.0
    """Seconds between two keys."""
    secret: bool = False
    """The keys appear nowhere: not in ledger, logs, recording (sound muted) or to the agent."""


def may_collect_keys(specs: Iterable[ToolSpec]) -> bool:
    """Whether any of these tools may ask for keys: only these kinds are handed the call's line
    and use it so."""
    return any(
        spec.kind in ("python", "workflow") or spec.origin == COLLECT_DIGITS_ORIGIN
        for spec in specs
    )


@dataclass(frozen=True, slots=True)
class KeysCollected:
    """The keys that came."""

    keys: str = field(repr=False)
    """Never in a log, whoever logs this; the terminator is not part of it."""
    ended_by: Literal["count", "terminator", "timeout"]
    reference: str = ""
    """Of secret keys: the name under which the call keeps them to its end (`CallLine.reveal`).
    All of them that an agent may know."""


class CallLine(Protocol):
    """The face of a call that a tool may use."""

    @property
    def call_id(self) -> str: ...

    @property
    def context_name(self) -> str: ...

    @property
    def provider_name(self) -> str: ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Call variables as declared by the context (caller_number, called_number, ...)."""
        ...

    def end_after_speech(self, reason: str) -> None:
        """Hang up as soon as the caller has heard what the agent is saying. Returns at once."""
        ...

    async def transfer_after_speech(self, destination: str) -> None:
        """Let the agent finish speaking, then pass the caller on to a configured destination.

        Raises `TransferFailed` (the call goes on), `LineUnsupported` or `LineGone`.
        """
        ...

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys of the caller. While it waits the agent is not given any.

        Keys pressed up to 2 s before count too. Raises `LineError` when another collection runs,
        and `LineGone` when the call ends meanwhile.
        """
        ...

    def reveal(self, reference: str) -> str | None:
        """The secret keys that `collect_keys` kept under this name, for whom they were asked.

        None when there are none. What comes of it must never reach an agent, a log or the ledger.
        """
        ...

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises `LineUnsupported` or another `LineError`."""
        ...

    def say(self, text: str) -> None:
        """Have the agent speak a sentence now. Returns at once."""
        ...

    def pause_recording(self) -> bool:
        """Record silence from now on. False when the call is not being recorded."""
        ...

    def resume_recording(self) -> bool:
        """Record sound again. False when the call is not being recorded."""
        ...


class Tool(Protocol):
    """Anything an agent may do."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: JsonObject, line: CallLine) -> ToolResult:
        """Do the work. Arguments are already valid against `spec.parameters`.

        Raises `ToolError` with a speakable text when it cannot. May be cancelled at any await.
        """
        ...
