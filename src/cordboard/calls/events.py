"""What a call's ledger may say: one small class per event, which is its documented schema.

Each becomes one JSON object: `{"at_ms": ..., "type": "caller.text", ...fields}`. `at_ms` is the
time since the offer. Fields that end in `_ms` are milliseconds; `turn` counts the caller's turns,
0 is the greeting. New fields and types may be added; none is renamed or removed (`SCHEMA`).
`docs/call-ledger.md` is generated from here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cordboard.observe.conversation_metrics import Stage

SCHEMA = 1
"""Version of the ledger's schema, in its first line."""


class LedgerEvent:
    """The base of all events."""

    type: ClassVar[str]

    def fields(self) -> dict[str, Any]:
        """The event's own fields as JSON values (a shallow copy)."""
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
    """The call's name on the telephone's side, where the engine is told one: of a call by the bare
    AudioSocket() application, the UUID that the dialplan gave it."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Bound(LedgerEvent):
    """The call was bound to a context."""

    type = "call.bound"
    context: str
    provider: str
    generation: int
    tools: list[str]
    """Exposed names of the toolbox."""
    missing_tools: list[str] = field(default_factory=list)
    """Tools the context lists but nobody provides now."""
    problems: list[str] = field(default_factory=list)
    """Why the context or provider is not the one asked for."""


@dataclass(frozen=True, slots=True)
class Connected(LedgerEvent):
    """Audio flows both ways."""

    type = "call.connected"


@dataclass(frozen=True, slots=True)
class PreCallDone(LedgerEvent):
    """The steps of `pre_call` are done, or their time was over."""

    type = "call.pre_call"
    steps: list[dict[str, str]]
    """Of each: `tool`, `save_as`, and `status`: that of the tool's answer, or `late`."""
    took_ms: int
    """From the offer until the last of them."""


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
    """What the caller said; empty when nothing was understood."""

    type = "caller.text"
    turn: int
    text: str
    """As the recogniser wrote it."""
    confidence: float
    understood: str = ""
    """The same with misheard names put right; empty when it is the same."""


@dataclass(frozen=True, slots=True)
class Key(LedgerEvent):
    """The caller pressed a key."""

    type = "caller.key"
    key: str
    """`0` to `9`, `*`, `#`, `A` to `D`; `*` for each one that is secret."""
    secret: bool = False
    """It belongs to a secret input (`collect_digits`): which key it was stands nowhere."""


@dataclass(frozen=True, slots=True)
class Answering(LedgerEvent):
    """A sentence the agent is going to speak."""

    type = "agent.text"
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AudioStarted(LedgerEvent):
    """The first audible sample of this turn's answer went to the caller."""

    type = "agent.audio_started"
    turn: int


@dataclass(frozen=True, slots=True)
class AudioEnded(LedgerEvent):
    """The caller has heard this turn's answer to its end."""

    type = "agent.audio_ended"
    turn: int


@dataclass(frozen=True, slots=True)
class Held(LedgerEvent):
    """There was a voice over the agent's: its speech stopped until it was known what that is."""

    type = "agent.held"
    onset_ms: int
    """Time of the first sample of that voice."""
    reaction_ms: int = 0
    """From there until the agent fell silent."""


@dataclass(frozen=True, slots=True)
class Resumed(LedgerEvent):
    """It was no interruption: the agent's speech went on at the very sample."""

    type = "agent.resumed"
    why: str
    """`backchannel`, `noise`, `echo` or `key`; `undecided` when the agent never said."""
    held_ms: int = 0
    """How long the agent was silent."""


@dataclass(frozen=True, slots=True)
class BargedIn(LedgerEvent):
    """The caller spoke over the agent; what was not yet heard was taken back."""

    type = "agent.interrupted"
    turn: int
    heard: str
    """What the caller had heard of this turn's answer, to the word."""
    heard_ms: int = 0
    """How much of its sound that was."""
    reaction_ms: int = 0
    """From the first sample of the caller's voice until the agent fell silent; 0: not known."""
    decision_ms: int = 0
    """From there until it was decided that this is an interruption; 0: not known."""


@dataclass(frozen=True, slots=True)
class Silence(LedgerEvent):
    """Nobody was heard for too long, and the engine did something about it."""

    type = "call.silence"
    kind: str
    """`filler`: the agent owed an answer, a filler was said; `continuer`: a caller who did not
    sound finished paused and was encouraged; `reprompt`: the caller was asked
    whether they are there; `goodbye`: they were not, the call ends; `stalled`: the agent never
    answered, the call ends."""
    silent_ms: int
    """How long nobody had been heard: since the last sample of either."""
    text: str = ""
    """What was said."""


@dataclass(frozen=True, slots=True)
class ToolCalled(LedgerEvent):
    """The agent asked for a tool."""

    type = "tool.asked"
    turn: int
    ask_id: str
    name: str
    tool: str
    """Internal id, e.g. `mcp:aviation_atis:get_atis`; empty when there is no such tool here."""
    arguments: dict[str, Any]
    """As the agent wrote them; what is secret is masked."""
    parent: str = ""
    """Of a step of a workflow: the ask that it belongs to."""


@dataclass(frozen=True, slots=True)
class ToolFiller(LedgerEvent):
    """A slow tool is bridged by a sentence, which now begins to be spoken."""

    type = "tool.filler"
    ask_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolApproval(LedgerEvent):
    """The caller was asked whether something is to be done, and answered, or did not."""

    type = "tool.approval"
    question: str
    answer: str
    """`yes`, `no`, or `none`: not clear, none at all, or no longer wanted."""
    took_ms: int
    """From the wish to ask until the answer."""
    by: str = ""
    """`voice`, `key`, or `text` where it was typed; empty when nothing came."""


@dataclass(frozen=True, slots=True)
class ToolAnswered(LedgerEvent):
    """The desk answered."""

    type = "tool.answered"
    ask_id: str
    name: str
    status: str
    """`ok`, `error`, `timeout`, `refused` or `cancelled`."""
    message: str
    took_ms: int
    reason: str = ""
    """Why it was refused: `not_in_toolbox`, `arguments`, `limit`, `duplicate` or `approval`."""
    source: str = "run"
    """Where the answer came from: `run`; `cache`, a kept one; `joined`, the run of an equal ask;
    `late`, a run that an earlier ask had not waited for."""
    tries: int = 1
    """How often the tool was run for it, retries included; 0: not at all."""
    payload_bytes: int = 0
    """Size of the data that the agent was given, as JSON."""
    cut: list[str] = field(default_factory=list)
    """What of the result's data the agent was not given, e.g. `rows: 100 of 240 items`."""
    sent: dict[str, Any] = field(default_factory=dict)
    """The data that the agent was given, secrets masked. Of more than 4 kB only the beginning, as
    text: `{"shortened": "…"}`."""


@dataclass(frozen=True, slots=True)
class ToolLate(LedgerEvent):
    """The answer to an ask that had been given up, or had timed out: what came of it."""

    type = "tool.late"
    ask_id: str
    name: str
    status: str
    message: str
    told: bool
    """Whether the caller was told."""
    waited_ms: int = 0
    """How long it was kept until then, or until the call was over."""


@dataclass(frozen=True, slots=True)
class Latency(LedgerEvent):
    """The caller's wait in one turn, by stage.

    `endpoint_ms` to `wire_ms` add up to `total_ms`. First and last samples are the first and last
    that can be heard (`cordboard.audio.levels`), not the quiet ones before and after.
    """

    type = "turn.latency"
    turn: int
    endpoint_ms: int
    """Last speech sample to the decision that the turn is over."""
    stt_ms: int
    """From there to the final text (0: it was ready)."""
    brain_ms: int
    """From there to the first sentence of the answer, tools included."""
    tts_ms: int
    """From there to its first sound."""
    wire_ms: int
    """From there to the first audible sample on the wire."""
    total_ms: int
    vad_ms: int = 0
    """The part of `endpoint_ms` until the voice detector noticed the silence; 0: not known."""
    filler: bool = False
    """The first sound was a filler; `turn.answered` tells when the answer came."""

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
    """After a filler: the answer itself began."""

    type = "turn.answered"
    turn: int
    answer_ms: int
    """The caller's last speech sample to the first audible one of the answer."""


@dataclass(frozen=True, slots=True)
class RecordingStarted(LedgerEvent):
    """From here on the sound of the call is recorded; the file begins at this moment."""

    type = "recording.started"
    path: str
    """Of the file, relative to `calls.directory`."""
    format: str
    """`wav` or `wav_ulaw`; stereo, caller left, agent right."""
    rate: int
    """Samples per second."""


@dataclass(frozen=True, slots=True)
class RecordingPaused(LedgerEvent):
    """From here on silence is recorded; the file's clock goes on."""

    type = "recording.paused"


@dataclass(frozen=True, slots=True)
class RecordingResumed(LedgerEvent):
    """From here on sound is recorded again."""

    type = "recording.resumed"


@dataclass(frozen=True, slots=True)
class RecordingStopped(LedgerEvent):
    """The recording is over."""

    type = "recording.stopped"
    duration_ms: int
    dropped_ms: int
    """How much of it could not be written until now and is silence in the file."""


@dataclass(frozen=True, slots=True)
class Transferred(LedgerEvent):
    """A transfer was tried."""

    type = "line.transfer"
    destination: str
    ok: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class AgentUsed(LedgerEvent):
    """A service of the agent's has counted what it was used for."""

    type = "agent.used"
    provider: str
    """The type of the provider or part, such as `openai_realtime`."""
    model: str
    amounts: dict[str, float]
    """By unit, since the last such line of this service: `input_text_tokens`, ..., `seconds`,
    `characters`."""
    cost: float | None = None
    """By `prices`; null when they do not tell."""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Trouble(LedgerEvent):
    """Something failed; the call was helped on or ended."""

    type = "call.trouble"
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Gap(LedgerEvent):
    """Lines are missing before this one: the disk did not take them, or the engine was killed while
    it wrote."""

    type = "ledger.gap"
    lost: int
    """How many lines."""
    since_ms: int
    """Time of the first of them."""


@dataclass(frozen=True, slots=True)
class Ended(LedgerEvent):
    """The call is over; always the last line."""

    type = "call.ended"
    outcome: str
    """`completed` (either side hung up), `transferred`, `failed`, `shutdown`, or `killed`: the
    engine was, and the next one has written this line."""
    reason: str
    """`caller_hangup`, `agent_hangup`, `caller_silent`, `max_duration`, `budget`; `transfer:` and
    the destination, `transferred` (by somebody else, in the PBX); `engine_stopped`,
    `engine_killed`; `agent_failed`, `media_failed` (the sound never came), `media_lost`,
    `asterisk_lost`, `line_failed` or `internal_error`."""
    duration_ms: int
    cost: float | None = None
    """Of all `agent.used` whose cost is known; null when none is."""
    currency: str = ""


EVENTS: tuple[type[LedgerEvent], ...] = (
    Offered, Bound, Connected, PreCallDone, SpeechBegan, TurnEnded, Heard, Key, Answering,
    AudioStarted, AudioEnded, Held, Resumed, BargedIn, Silence, ToolCalled, ToolApproval,
    ToolFiller, ToolAnswered, ToolLate, Latency, Answered, Transferred, RecordingStarted,
    RecordingPaused, RecordingResumed, RecordingStopped, AgentUsed, Trouble, Gap, Ended,
)  # fmt: skip
"""Every event, in about the order in which a call meets them."""
