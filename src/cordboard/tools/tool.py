"""The door of the tools room: what a tool is, what it is asked, what it answers.

A tool is anything an agent may do, of one of five kinds. Whoever adds a kind implements `Tool`;
whoever wants one run goes through the desk (`cordboard.tools.desk`), never to `Tool.run` itself.
A tool sees the call only through `ToolRun.line` (`cordboard.tools.call_line`), a narrow face that
the calls room implements, so this room knows no call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from cordboard.config.sections.tool import Approval, CacheScope, Duplicates
from cordboard.config.templates import Path, Template, read_path, read_template
from cordboard.tools.call_line import CallLine

JsonObject: TypeAlias = dict[str, Any]
ToolKind = str
"""`builtin`, `mcp`, `http`, `python`, `workflow`, or the kind of a plug-in."""
RefusalReason = Literal["", "not_in_toolbox", "arguments", "limit", "duplicate", "approval"]
"""Why the desk did not run a tool; empty when it did, or when the tool itself refused."""
COLLECT_DIGITS_ORIGIN = "builtin:collect_digits"
NOT_AVAILABLE = "Sorry, that is not available at the moment."
"""The answer of a tool that broke."""
MAX_REFUSAL = 400
"""Characters of a refusal for wrong arguments."""


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
    """How long a good answer may be reused for equal arguments; 0 = never."""
    cache_scope: CacheScope = "call"
    """Who may be given a kept answer: the same call only, or all."""
    per_turn: int = 5
    """How often one caller turn may run this tool."""
    per_call: int = 0
    """How often one call may run this tool; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """What the operator wants said when a tool fails; empty = the engine's own words."""

    timeout: str = ""
    error: str = ""
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Speech:
    """How a structured result becomes a sentence; neither set = a short summary.

    Both texts are read when it is made: raises `TemplateError` for one that cannot be.
    """

    field: str | None = None
    """Dotted path into the result, e.g. `weather.summary` or `items.0.name`; empty = none."""
    template: str | None = None
    """A sentence with `{dotted.path}` placeholders; empty = none."""
    errors: ErrorWords = ErrorWords()
    speaks_errors: bool = True
    """Whether the service's own words about a failure are passed on to caller and model."""
    field_read: Path | None = dataclasses.field(init=False, repr=False, compare=False)
    template_read: Template | None = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        path = read_path(self.field) if self.field else None
        template = read_template(self.template) if self.template else None
        object.__setattr__(self, "field_read", path)
        object.__setattr__(self, "template_read", template)


@dataclass(frozen=True, slots=True)
class Filler:
    """What is said while a slow tool runs."""

    threshold_ms: int = 0
    """Say one after this time without a result; 0 = never."""
    messages: tuple[str, ...] = ()
    """To choose from; never the same twice running in a call."""
    repeat_ms: int = 0
    """Say another after each such time more; 0 = never."""


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
    approval: Approval = "none"
    """`caller`: the desk asks the caller, and runs it only after a yes."""
    approval_question: str = ""
    """Speech template over the arguments; empty = a sentence with the tool's name."""
    duplicates: Duplicates = "join"
    """What becomes of an ask with equal arguments while the first still runs."""
    secret_arguments: frozenset[str] = frozenset()
    """Arguments whose values are masked wherever anything is recorded."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers. `message` is short and fit to be spoken; `data` stays inside."""

    status: Status = Status.OK
    message: str = ""
    data: Any = None
    control: Mapping[str, bool] = field(default_factory=dict)
    """What the agent must know besides, such as `{"call_ends": True}`."""


def wrong_arguments(name: str, problems: list[str]) -> ToolResult:
    """Refuse an ask so that a model can mend its arguments.

    It names as many problems as have room, the first always.
    """
    before, after = f"The arguments of {name} are not valid: ", ". Correct them and ask again."
    room = MAX_REFUSAL - len(before) - len(after)
    text = problems[0][:room]
    for problem in problems[1:]:
        if len(text) + len(problem) + 2 <= room:
            text = f"{text}; {problem}"
    message = f"{before}{text}{after}"
    return ToolResult(Status.REFUSED, message, {"problems": problems}, {"retryable": True})


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
    confirmed: bool = False
    """The agent's own code (never a model's word) has had the caller's yes to this very ask."""
    parent: str = ""
    """Of a step of a workflow: the ask that it belongs to."""


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
    control: Mapping[str, bool] = field(default_factory=dict)
    """For the agent: the flags of the result, and `truncated`, `retryable`, `late` of the desk."""
    cut: tuple[str, ...] = ()
    """What of the data was left out for this agent, such as `rows: 100 of 240 items`."""
    source: Literal["run", "cache", "joined", "late"] = "run"
    """Where the answer came from; `late`: a run that an earlier ask had not waited for."""
    refused: RefusalReason = ""
    tries: int = 1
    """How often the tool was run for it, retries included; 0: not at all."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def may_collect_keys(specs: Iterable[ToolSpec]) -> bool:
    """Whether any of these tools may ask for keys: only these kinds are handed the call's line
    and use it so."""
    return any(
        spec.kind in ("python", "workflow") or spec.origin == COLLECT_DIGITS_ORIGIN
        for spec in specs
    )


class ToolRun(Protocol):
    """One run of a tool, as the tool sees it: the call it serves, and the desk that runs it."""

    @property
    def line(self) -> CallLine: ...

    @property
    def ask_id(self) -> str: ...

    @property
    def idempotency_key(self) -> str:
        """The same for all tries of one ask, and for nothing else."""
        ...

    def progress(self, note: str = "") -> None:
        """Still at work: the caller is told again to wait if it takes long. Extends no timeout.

        `note` is for the log; it is not spoken.
        """
        ...

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        """Run another tool of this call's toolbox: how a workflow does its steps.

        It passes the whole desk, so it is checked, limited and recorded as any ask. Never raises
        for the tool's failure: a refusal, an error and a timeout are results.
        """
        ...


@runtime_checkable
class Tool(Protocol):
    """Anything an agent may do."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Do the work. Arguments are already valid against `spec.parameters`.

        Raises `ToolError` with a speakable text when it cannot. May be cancelled at any await.
        """
        ...
