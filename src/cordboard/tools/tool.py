"""The interface of the tools package: tools, tool calls and their results.

A tool is anything an agent may do, of one of five kinds. A new kind implements `Tool`. Code that
runs a tool goes through the desk (`cordboard.tools.desk`) and never calls `Tool.run` itself. A tool
sees the call only through `ToolRun.line` (`cordboard.tools.call_line`), a narrow interface that the
calls package implements, so that this package does not depend on calls.
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
RefusalReason = Literal[
    "", "not_in_toolbox", "arguments", "firewall", "limit", "duplicate", "approval"
]
"""Reason why the desk did not run a tool; empty if it did, or if the tool itself refused."""
COLLECT_DIGITS_ORIGIN = "builtin:collect_digits"
NOT_AVAILABLE = "Sorry, that is not available at the moment."
"""The answer of a tool that broke."""
MAX_REFUSAL = 400
"""Characters of a refusal for wrong arguments."""


class Effects(StrEnum):
    """The effects of a tool on the world; they decide about retries, barge-in and approval."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    DESTRUCTIVE = "destructive"


class Status(StrEnum):
    """The outcome of a tool call."""

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
    """Further tries after a failure; only if the effects allow it."""
    cache_ttl_ms: int = 0
    """Milliseconds for which a successful result is reused for equal arguments; 0 = never."""
    cache_scope: CacheScope = "call"
    """Calls that may reuse a kept result: only the same call, or all calls."""
    per_turn: int = 5
    """Maximum runs of this tool in one caller turn."""
    per_call: int = 0
    """Maximum runs of this tool in one call; 0 = no limit."""


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """The operator's sentences for a failing tool; empty = the engine's own sentences."""

    timeout: str = ""
    error: str = ""
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Speech:
    """Conversion of a structured result to a sentence; if neither is set, a short summary.

    Both texts are parsed on construction, which raises `TemplateError` for an invalid one.
    """

    field: str | None = None
    """Dotted path into the result, e.g. `weather.summary` or `items.0.name`; empty = none."""
    template: str | None = None
    """A sentence with `{dotted.path}` placeholders; empty = none."""
    errors: ErrorWords = ErrorWords()
    speaks_errors: bool = True
    """True if the service's own error text is passed on to caller and model."""
    field_read: Path | None = dataclasses.field(init=False, repr=False, compare=False)
    template_read: Template | None = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        path = read_path(self.field) if self.field else None
        template = read_template(self.template) if self.template else None
        object.__setattr__(self, "field_read", path)
        object.__setattr__(self, "template_read", template)


@dataclass(frozen=True, slots=True)
class Filler:
    """Sentences to speak while a slow tool runs."""

    threshold_ms: int = 0
    """Speak one after this time without a result; 0 = never."""
    messages: tuple[str, ...] = ()
    """The sentences to choose from; never the same twice in succession in a call."""
    repeat_ms: int = 0
    """Speak another one after each further period of this length; 0 = never."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Everything that an agent may know about a tool, and the rules that the desk applies to it."""

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
    """`caller`: the desk asks the caller, and runs the tool only after a yes."""
    approval_question: str = ""
    """Speech template over the arguments; empty = a sentence with the tool's name."""
    duplicates: Duplicates = "join"
    """Handling of a tool call with equal arguments while the first one still runs."""
    secret_arguments: frozenset[str] = frozenset()
    """Arguments whose values are masked in every record."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool. `message` is short and fit to be spoken; the agent
    gets `data` only within its payload limits."""

    status: Status = Status.OK
    message: str = ""
    data: Any = None
    control: Mapping[str, bool] = field(default_factory=dict)
    """Flags for the agent, such as `{"call_ends": True}`."""


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
    """A tool call that an agent requests."""

    ask_id: str
    """Unique within the call; the reply carries it back."""
    name: str
    """The exposed name as the agent wrote it: not checked yet."""
    arguments: JsonObject
    turn: int = 0
    """The caller turn in which the agent requested it."""
    confirmed: bool = False
    """True if the agent's own code (never a model) has the caller's yes to exactly this call."""
    parent: str = ""
    """For a step of a workflow: the id of the tool call that it belongs to."""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The desk's answer to a `ToolAsk`: a result in the form that the agent may see."""

    ask_id: str
    name: str
    status: Status
    message: str
    """Text for the caller, in one or a few sentences."""
    data: JsonObject = field(default_factory=dict)
    """The structured result, already capped for the requesting agent."""
    took_ms: int = 0
    control: Mapping[str, bool] = field(default_factory=dict)
    """For the agent: the result's flags, and `truncated`, `retryable`, `late` from the desk."""
    cut: tuple[str, ...] = ()
    """The parts of the data left out for this agent, such as `rows: 100 of 240 items`."""
    source: Literal["run", "cache", "joined", "late"] = "run"
    """The origin of the answer; `late`: a run for which an earlier call had stopped waiting."""
    refused: RefusalReason = ""
    tries: int = 1
    """Number of runs of the tool for this answer, including retries; 0: none."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


def may_collect_keys(specs: Iterable[ToolSpec]) -> bool:
    """True if any of these tools may collect keys: only these kinds receive the call's line and use
    it so."""
    return any(
        spec.kind in ("python", "workflow") or spec.origin == COLLECT_DIGITS_ORIGIN
        for spec in specs
    )


class ToolRun(Protocol):
    """One run of a tool, from the tool's view: the call it serves, and the desk that runs it."""

    @property
    def line(self) -> CallLine: ...

    @property
    def ask_id(self) -> str: ...

    @property
    def idempotency_key(self) -> str:
        """The same key for all tries of one tool call, and different for every other."""

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Values among the arguments that no record may repeat: secrets, and keys of the caller."""

    def progress(self, note: str = "") -> None:
        """Report that the tool is still working, so that the caller is asked to wait. Extends no
        timeout.

        `note` is for the log; it is not spoken.
        """

    async def step(self, name: str, arguments: JsonObject) -> ToolResult:
        """Run another tool of this call's toolbox, as a step of a workflow.

        The step passes the whole desk, so it is checked, limited and recorded like any tool call. A
        failure of the tool does not raise: a refusal, an error and a timeout are results.
        """


@runtime_checkable
class Tool(Protocol):
    """Anything an agent may do."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Do the work. Arguments are already valid against `spec.parameters`.

        Raises `ToolError` with a speakable text on failure. May be cancelled at any await.
        """
