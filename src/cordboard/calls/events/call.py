"""The beginning and the end of a call, and what concerns all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cordboard.calls.events.event import SCHEMA, LedgerEvent


@dataclass(frozen=True, slots=True)
class Offered(LedgerEvent):
    """A source handed in a call; always the first line."""

    type = "call.offered"
    call_id: str
    started_at: str
    """Wall-clock time of the offer, ISO 8601 with zone."""
    source: str
    caller_number: str
    caller_name: str
    called_number: str
    external_id: str = ""
    """The call's id on the telephone side, if the engine knows one: for a call by the bare
    AudioSocket() application, the UUID that the dialplan gave it."""
    schema: int = SCHEMA
    config: str = ""
    """Version of the configuration that the call runs on (`cordboard config history`): SHA-256 of
    its file. Empty if the version could not be kept."""
    test: bool = False
    """True if a person made the call or conversation to try the agent; statistics leave it out."""
    trial: str = ""
    """Id of the trial that it ran on (`docs/trials.md`); empty for the configuration in force."""
    direction: str = "in"
    """`out` for a call that the engine places: the caller's number is then the called one's."""
    trunk: str = ""
    """Endpoint of the telephone system by which the call comes or leaves, such as `PJSIP/acme`;
    empty if unknown."""


@dataclass(frozen=True, slots=True)
class Refused(LedgerEvent):
    """An offer was refused: there is no call, and no other line about it. It is in
    `{date}/refused.jsonl`, with the other refused offers of that day."""

    type = "call.refused"
    call_id: str
    started_at: str
    """Wall-clock time of the offer, ISO 8601 with zone."""
    source: str
    caller_number: str
    caller_name: str
    called_number: str
    reason: str
    """As in `ai_agent_refused_offers_total`: `draining`, `busy`, `cluster_busy`, `overloaded`,
    `no_agent`, `internal_error`, `bare_busy`, `bare_rate`, `bare_budget`, `blocked` or `capped`."""
    error: str = ""
    """Details, for example why no agent was ready."""
    external_id: str = ""
    schema: int = SCHEMA
    trunk: str = ""
    """As in `call.offered`."""


@dataclass(frozen=True, slots=True)
class Bound(LedgerEvent):
    """The call was bound to a context."""

    type = "call.bound"
    context: str
    provider: str
    generation: int
    """Number of the configuration among those that the engine has had in force; 0: a trial or a
    canary."""
    tools: list[str]
    """Exposed names of the toolbox."""
    missing_tools: list[str] = field(default_factory=list)
    """Tools that the context lists but that no source offers now."""
    problems: list[str] = field(default_factory=list)
    """Reasons why the context or provider is not the requested one."""


@dataclass(frozen=True, slots=True)
class PreCallDone(LedgerEvent):
    """The steps of `pre_call` have finished or timed out."""

    type = "call.pre_call"
    steps: list[dict[str, str]]
    """Per step: `tool`, `save_as`, and `status`: the status of the tool's answer, or `late`."""
    took_ms: int
    """From the offer to the end of the last step."""


@dataclass(frozen=True, slots=True)
class Adopted(LedgerEvent):
    """The engine that had the call was lost, or has handed the call over, and another one goes on
    with it (docs/cluster-calls.md). The lines before this one are those of the former engine; the
    next lines close what it had open."""

    type = "call.adopted"
    engine: str
    """Instance name of the former engine."""
    epoch: int
    """Number of the ownership; it grows with each engine that takes the call."""
    silence_ms: int | None = None
    """Time for which the caller heard nothing; null if unknown."""
    handed_over: bool = False
    """True if the former engine has handed the call over; False: it was lost."""


@dataclass(frozen=True, slots=True)
class Connected(LedgerEvent):
    """Audio flows both ways."""

    type = "call.connected"


@dataclass(frozen=True, slots=True)
class Silence(LedgerEvent):
    """Neither side was heard for too long, and the engine reacted."""

    type = "call.silence"
    kind: str
    """`filler`: the agent owed an answer, and a filler was spoken; `continuer`: a caller who did
    not sound finished paused and was encouraged; `reprompt`: the caller was asked if they are still
    there; `goodbye`: they did not answer, and the call ends; `stalled`: the agent never answered,
    and the call ends."""
    silent_ms: int
    """Duration of the silence: since the last sample of either side."""
    text: str = ""
    """The spoken sentence."""


@dataclass(frozen=True, slots=True)
class Trouble(LedgerEvent):
    """Something failed; the call continued or was ended."""

    type = "call.trouble"
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Gap(LedgerEvent):
    """Lines are missing before this one: the disk did not accept them, or the engine was killed
    while writing."""

    type = "ledger.gap"
    lost: int
    """Number of missing lines."""
    since_ms: int
    """Time of the first missing line."""


@dataclass(frozen=True, slots=True)
class Ended(LedgerEvent):
    """The call is over; always the last line."""

    type = "call.ended"
    outcome: str
    """`completed` (either side hung up), `transferred`, `failed`, `shutdown`, `not_reached` (an
    outbound call without an answer), `killed`: the engine was killed, and the next one has
    written this line; or `moved`: another engine goes on with the call, in a ledger of its own
    (`call.adopted`)."""
    reason: str
    """`caller_hangup`, `agent_hangup`, `operator_hangup` (by the admin port), `caller_silent`,
    `max_duration`, `budget`; `transfer:` and the destination (also when a human had the caller),
    `transferred` (in the PBX, not by the engine); `engine_stopped`, `engine_killed`; `fenced`
    (other engines have taken the calls of this one), `handed_over` (another engine has the caller);
    `no_room` (no engine had any for a call whose engine was lost);
    `agent_failed`, `media_failed` (the audio never started), `media_lost`, `asterisk_lost`,
    `line_failed` or `internal_error`. Outbound: `voicemail_message` (it was left), `voicemail`,
    `machine`, `ivr`, `fax`, `intercept` or `busy_tone` answered and was hung up on; `ringback` or
    `undecided` after three minutes without another answer, or without any; with
    `not_reached`, the outcome of `line.dialled`."""
    duration_ms: int
    cost: float | None = None
    """Sum of all `agent.used` with a known cost; null if none is known."""
    currency: str = ""
