"""The agent's tool calls, what the firewall refused, and what tools took from the caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cordboard.calls.events.event import LedgerEvent


@dataclass(frozen=True, slots=True)
class ToolCalled(LedgerEvent):
    """The agent requested a tool call."""

    type = "tool.asked"
    turn: int
    ask_id: str
    name: str
    tool: str
    """Internal id, e.g. `mcp:aviation_atis:get_atis`; empty if the call has no such tool."""
    arguments: dict[str, Any]
    """The arguments as the agent wrote them, secrets masked."""
    parent: str = ""
    """The `ask_id` of the workflow's tool call, if this is a step of a workflow."""


@dataclass(frozen=True, slots=True)
class ToolFiller(LedgerEvent):
    """A filler for a slow tool, which begins to be spoken now."""

    type = "tool.filler"
    ask_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolApproval(LedgerEvent):
    """The caller was asked for approval, and answered or did not."""

    type = "tool.approval"
    question: str
    answer: str
    """`yes`, `no`, or `none`: unclear, no answer, or no longer needed."""
    took_ms: int
    """From the request for approval until the answer."""
    by: str = ""
    """`voice`, `key`, or `text` if it was typed; empty without an answer."""


@dataclass(frozen=True, slots=True)
class ToolAnswered(LedgerEvent):
    """The desk answered a tool call."""

    type = "tool.answered"
    ask_id: str
    name: str
    status: str
    """`ok`, `error`, `timeout`, `refused` or `cancelled`."""
    message: str
    took_ms: int
    reason: str = ""
    """Reason of a refusal: `not_in_toolbox`, `arguments`, `firewall`, `limit`, `duplicate` or
    `approval`."""
    source: str = "run"
    """The origin of the answer: `run`; `cache`, a kept answer; `joined`, the run of an equal tool
    call; `late`, a run for which an earlier tool call had stopped waiting."""
    tries: int = 1
    """Number of runs of the tool for this answer, including retries; 0: none."""
    payload_bytes: int = 0
    """Size of the data that the agent received, as JSON."""
    cut: list[str] = field(default_factory=list)
    """Parts of the result's data that the agent did not receive, e.g. `rows: 100 of 240 items`."""
    sent: dict[str, Any] = field(default_factory=dict)
    """The data that the agent received, secrets masked. More than 4 kB is cut to its beginning, as
    text: `{"shortened": "…"}`."""


@dataclass(frozen=True, slots=True)
class ToolLate(LedgerEvent):
    """The outcome of a tool call that had been given up or had timed out."""

    type = "tool.late"
    ask_id: str
    name: str
    status: str
    message: str
    told: bool
    """True if the caller heard the answer."""
    waited_ms: int = 0
    """Time from the answer until it was spoken, or until the call was over."""


@dataclass(frozen=True, slots=True)
class FirewallRefused(LedgerEvent):
    """The telephone firewall refused an act (docs/firewall.md)."""

    type = "firewall.refused"
    act: str
    """`tool`, `transfer`, `keys` or `callback`."""
    name: str
    """The tool or destination; empty for keys."""
    rule: str
    """The rule that refused, such as `number.class`."""
    why: str
    """Reason in words, without a number."""
    ask_id: str = ""
    """The `ask_id` of the tool call; empty for other acts."""


@dataclass(frozen=True, slots=True)
class CapUsedUp(LedgerEvent):
    """A cap of a day's minutes or cost was used up while the call was live
    (`firewall.used_up`)."""

    type = "firewall.used_up"
    rule: str
    """`cap.caller`, `cap.context`, `cap.trunk` or `cap.total`."""
    why: str
    """The cap, in words."""
    act: str
    """`warned`: the caller hears the warning. `ended`: the call ends."""


@dataclass(frozen=True, slots=True)
class MessageTaken(LedgerEvent):
    """A caller was asked for a message (docs/messages.md)."""

    type = "message.taken"
    outcome: str
    """`confirmed`; `unconfirmed`: handed over without a clear yes, such as after a hang-up;
    `rejected`: the caller said no to each reading; `empty`: no words were understood."""
    text: str
    """The caller's words."""
    about: str
    """Its recipient and subject, in the agent's words."""
    tries: int
    """Number of dictations."""
    path: str = ""
    """The file with the caller's voice, relative to `calls.directory`; empty: not recorded."""
    from_ms: int = 0
    """Begin of the message in that file."""
    to_ms: int = 0
    written: bool = False
    """True if it was on the disk, in the queue of the steps after calls; False for one that was
    handed over in memory only (the disk failed), and where nothing was handed over."""


@dataclass(frozen=True, slots=True)
class CallbackRequested(LedgerEvent):
    """A caller wants to be called back (docs/messages.md)."""

    type = "callback.requested"
    outcome: str
    """`noted`; `no_number`, `other_number`, `not_allowed` (by the firewall), `do_not_call`,
    `no_time`, `closed`, `not_confirmed` (by the caller), `failed`."""
    number: str
    at: str
    """The promised time, in ISO 8601."""
    about: str
    """The caller's concern, in the agent's words."""
    way: str = ""
    """`queue`: the engine calls; `post`: the request is on the disk for the tools of `deliver`;
    `memory`: it waits for them in memory, and is lost if the engine stops first."""
