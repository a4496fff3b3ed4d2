"""The events of a call's ledger: one small class per event, which is its documented schema.

Each becomes one JSON object: `{"at_ms": ..., "type": "caller.text", ...fields}`. `at_ms` is the
time since the offer. Fields that end in `_ms` are milliseconds; `turn` counts the caller's turns, 0
is the greeting. New fields and types may be added; none is renamed or removed (`SCHEMA`).
`docs/call-ledger.md` is generated from this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from cordboard.observe.conversation_metrics import Stage

SCHEMA = 1
"""Version of the ledger's schema, in its first line."""


class LedgerEvent:
    """The base of all events."""

    type: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """Return the event's own fields as JSON values (a shallow copy)."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


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
    """As in `ai_agent_refused_offers_total`: `draining`, `busy`, `overloaded`, `no_agent`,
    `internal_error`, `bare_busy`, `bare_rate` or `bare_budget`."""
    error: str = ""
    """Details, for example why no agent was ready."""
    external_id: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Bound(LedgerEvent):
    """The call was bound to a context."""

    type = "call.bound"
    context: str
    provider: str
    generation: int
    """Number of the configuration among those that the engine has had in force; 0: a trial."""
    tools: list[str]
    """Exposed names of the toolbox."""
    missing_tools: list[str] = field(default_factory=list)
    """Tools that the context lists but that no source offers now."""
    problems: list[str] = field(default_factory=list)
    """Reasons why the context or provider is not the requested one."""


@dataclass(frozen=True, slots=True)
class Connected(LedgerEvent):
    """Audio flows both ways."""

    type = "call.connected"


@dataclass(frozen=True, slots=True)
class PreCallDone(LedgerEvent):
    """The steps of `pre_call` have finished or timed out."""

    type = "call.pre_call"
    steps: list[dict[str, str]]
    """Per step: `tool`, `save_as`, and `status`: the status of the tool's answer, or `late`."""
    took_ms: int
    """From the offer to the end of the last step."""


@dataclass(frozen=True, slots=True)
class SpeechBegan(LedgerEvent):
    """The caller began to speak."""

    type = "caller.started"
    speech_ms: int
    """Time of the first speech sample."""


@dataclass(frozen=True, slots=True)
class TurnEnded(LedgerEvent):
    """The caller's turn is over."""

    type = "caller.stopped"
    turn: int
    last_speech_ms: int
    """Time of the last speech sample."""


@dataclass(frozen=True, slots=True)
class Heard(LedgerEvent):
    """The caller's words; empty when nothing was understood."""

    type = "caller.text"
    turn: int
    text: str
    """The recogniser's text."""
    confidence: float
    understood: str = ""
    """The same text with misheard names corrected; empty if nothing was corrected."""


@dataclass(frozen=True, slots=True)
class Key(LedgerEvent):
    """The caller pressed a key."""

    type = "caller.key"
    key: str
    """`0` to `9`, `*`, `#`, `A` to `D`; `*` for each secret key."""
    secret: bool = False
    """True for a key of a secret input (`collect_digits`): the key itself is not recorded."""


@dataclass(frozen=True, slots=True)
class Answering(LedgerEvent):
    """A sentence that the agent is about to speak."""

    type = "agent.text"
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AudioStarted(LedgerEvent):
    """The first audible sample of this turn's answer was sent to the caller."""

    type = "agent.audio_started"
    turn: int


@dataclass(frozen=True, slots=True)
class AudioEnded(LedgerEvent):
    """The caller has heard this turn's answer to its end."""

    type = "agent.audio_ended"
    turn: int


@dataclass(frozen=True, slots=True)
class Held(LedgerEvent):
    """A voice was detected over the agent's: its speech paused until the cause was known."""

    type = "agent.held"
    onset_ms: int
    """Time of the first sample of that voice."""
    reaction_ms: int = 0
    """From `onset_ms` until the agent fell silent."""


@dataclass(frozen=True, slots=True)
class Resumed(LedgerEvent):
    """It was not an interruption: the agent's speech continued at the same sample."""

    type = "agent.resumed"
    why: str
    """`backchannel`, `noise`, `echo` or `key`; `undecided` if no decision was made."""
    held_ms: int = 0
    """Duration of the agent's silence."""


@dataclass(frozen=True, slots=True)
class BargedIn(LedgerEvent):
    """The caller interrupted the agent; the unheard part of the answer was discarded."""

    type = "agent.interrupted"
    turn: int
    heard: str
    """The part of this turn's answer that the caller had heard, to the word."""
    heard_ms: int = 0
    """Duration of the heard part."""
    reaction_ms: int = 0
    """From the first sample of the caller's voice until the agent fell silent; 0: unknown."""
    decision_ms: int = 0
    """From the first sample until the decision that it is an interruption; 0: unknown."""


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
    """For a step of a workflow: the `ask_id` of the workflow's tool call."""


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
    """Reason of a refusal: `not_in_toolbox`, `arguments`, `limit`, `duplicate` or `approval`."""
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
class Latency(LedgerEvent):
    """The caller's wait in one turn, by stage.

    `endpoint_ms` to `wire_ms` add up to `total_ms`. First and last samples are the first and last
    audible ones (`cordboard.audio.levels`), not the quiet ones before and after.
    """

    type = "turn.latency"
    turn: int
    endpoint_ms: int
    """From the last speech sample to the decision that the turn is over."""
    stt_ms: int
    """From the end of the turn to the final text; 0: it was already available."""
    brain_ms: int
    """From the final text to the first sentence of the answer, including tools."""
    tts_ms: int
    """From the first sentence of the answer to its first sound."""
    wire_ms: int
    """From the first sound of the answer to the first audible sample on the wire."""
    total_ms: int
    vad_ms: int = 0
    """The part of `endpoint_ms` until the voice detector noticed the silence; 0: unknown."""
    filler: bool = False
    """True if the first sound was a filler; `turn.answered` has the time of the answer."""

    def stages(self) -> tuple[tuple[Stage, int], ...]:
        """Each stage's name and its ms in the order of time, the total last."""
        return (
            ("vad", self.vad_ms),
            ("endpoint", self.endpoint_ms),
            ("stt", self.stt_ms),
            ("brain", self.brain_ms),
            ("tts", self.tts_ms),
            ("wire", self.wire_ms),
            ("total", self.total_ms),
        )


@dataclass(frozen=True, slots=True)
class Answered(LedgerEvent):
    """The answer itself began, after a filler."""

    type = "turn.answered"
    turn: int
    answer_ms: int
    """From the caller's last speech sample to the first audible one of the answer."""


@dataclass(frozen=True, slots=True)
class RecordingStarted(LedgerEvent):
    """The recording begins; the file begins at this moment."""

    type = "recording.started"
    path: str
    """Path of the file, relative to `calls.directory`."""
    format: str
    """`wav` or `wav_ulaw`; stereo, caller left, agent right."""
    rate: int
    """Samples per second."""


@dataclass(frozen=True, slots=True)
class RecordingPaused(LedgerEvent):
    """The recording is paused: silence is recorded from now on; the file's clock continues."""

    type = "recording.paused"


@dataclass(frozen=True, slots=True)
class RecordingResumed(LedgerEvent):
    """The recording is resumed: sound is recorded again."""

    type = "recording.resumed"


@dataclass(frozen=True, slots=True)
class RecordingStopped(LedgerEvent):
    """The recording is over."""

    type = "recording.stopped"
    duration_ms: int
    dropped_ms: int
    """Duration that could not be written until now and is silence in the file."""


@dataclass(frozen=True, slots=True)
class Transferred(LedgerEvent):
    """A transfer was attempted."""

    type = "line.transfer"
    destination: str
    ok: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class AgentUsed(LedgerEvent):
    """Usage counted by one of the agent's services."""

    type = "agent.used"
    provider: str
    """The type of the provider or part, such as `openai_realtime`."""
    model: str
    amounts: dict[str, float]
    """By unit, since the previous such line of this service: `input_text_tokens`, ..., `seconds`,
    `characters`."""
    cost: float | None = None
    """Cost by `prices`; null if they do not cover it."""
    currency: str = ""


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
    """`completed` (either side hung up), `transferred`, `failed`, `shutdown`, or `killed`: the
    engine was killed, and the next one has written this line."""
    reason: str
    """`caller_hangup`, `agent_hangup`, `operator_hangup` (by the admin port), `caller_silent`,
    `max_duration`, `budget`; `transfer:` and the destination, `transferred` (in the PBX, not by
    the engine); `engine_stopped`, `engine_killed`; `agent_failed`, `media_failed` (the audio never
    started), `media_lost`, `asterisk_lost`, `line_failed` or `internal_error`."""
    duration_ms: int
    cost: float | None = None
    """Sum of all `agent.used` with a known cost; null if none is known."""
    currency: str = ""


EVENTS: tuple[type[LedgerEvent], ...] = (
    Offered, Refused, Bound, Connected, PreCallDone, SpeechBegan, TurnEnded, Heard, Key, Answering,
    AudioStarted, AudioEnded, Held, Resumed, BargedIn, Silence, ToolCalled, ToolApproval,
    ToolFiller, ToolAnswered, ToolLate, Latency, Answered, Transferred, RecordingStarted,
    RecordingPaused, RecordingResumed, RecordingStopped, AgentUsed, Trouble, Gap, Ended,
)  # fmt: skip
"""Every event, roughly in the order in which they occur in a call."""
_BY_TYPE: Mapping[str, type[LedgerEvent]] = MappingProxyType({kind.type: kind for kind in EVENTS})


def event_of(line: Mapping[str, Any]) -> LedgerEvent | None:
    """Return the event of a ledger's line; None for a type that this version does not know, or that
    lacks a field. Unknown fields are ignored."""
    kind = _BY_TYPE.get(str(line.get("type")))
    if kind is None:
        return None
    known = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    try:
        return kind(**{name: value for name, value in line.items() if name in known})
    except TypeError:
        return None
