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
from cordboard.privacy.redaction import CallRedaction

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
    direction: str = "in"
    """`out` for a call that the engine places: the caller's number is then the called one's."""


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
    `internal_error`, `bare_busy`, `bare_rate`, `bare_budget`, `blocked` or `capped`."""
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
class Dialled(LedgerEvent):
    """An outbound call was dialled, and this is how that ended."""

    type = "line.dialled"
    outcome: str
    """`answered`, `busy`, `no_answer`, `declined`, `unavailable`, `unknown_number`, `redirected`
    (not followed), `cancelled` or `failed`."""
    took_ms: int
    rang: bool = False
    """True if the other side reported that it rings."""
    cause: int = 0
    """ITU-T Q.850 cause; 0: none."""
    sip: int = 0
    """Status of the SIP answer; 0: none."""


@dataclass(frozen=True, slots=True)
class AnswerJudged(LedgerEvent):
    """An outbound call was answered, and this is by whom or what, as it seems now."""

    type = "call.answer"
    answer: str
    """`human`, `voicemail`, `screening` (a machine that asks who calls), `ivr` (a menu of keys),
    `fax`, `intercept` (the number is not in service), `busy_tone`, `ringback`, `silence` or
    `machine` (which kind is not known)."""
    by: str
    """`sound`, `words` or `beep`."""
    heard_ms: int
    """Length of the sound that was judged."""
    revised: bool = False
    """True if it replaces an earlier verdict."""


@dataclass(frozen=True, slots=True)
class KeysSent(LedgerEvent):
    """The engine sent keys of the order's script to a menu."""

    type = "line.keys"
    keys: str
    """Without the pauses between them."""


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
    said_by: str = ""
    """`human`: the words are of the human who was asked to take the call; `conference`: of the
    caller or of the operator who has joined the call; empty: the caller's."""


@dataclass(frozen=True, slots=True)
class Key(LedgerEvent):
    """The caller pressed a key."""

    type = "caller.key"
    key: str
    """`0` to `9`, `*`, `#`, `A` to `D`; `*` for each secret key."""
    secret: bool = False
    """True for a key of a secret input (`collect_digits`): the key itself is not recorded."""


@dataclass(frozen=True, slots=True)
class KeyChosen(LedgerEvent):
    """The caller's key was one that the context offers; the engine acts."""

    type = "caller.key_chosen"
    act: str
    """`transfer`, `say` or `hang_up`."""
    destination: str = ""
    """Of a transfer."""


@dataclass(frozen=True, slots=True)
class Answering(LedgerEvent):
    """A sentence that the agent is about to speak."""

    type = "agent.text"
    turn: int
    text: str
    said_by: str = ""
    """`operator`: the words are of an operator (`operator.say`); empty: the agent's or the
    engine's own."""


@dataclass(frozen=True, slots=True)
class OperatorSaid(LedgerEvent):
    """An operator wants this spoken by the agent. When that begins, `agent.text` follows; if it is
    refused, or the call ends before, none does."""

    type = "operator.say"
    who: str
    """The user, or `key:` and the id of a program's key."""
    text: str
    interrupt: bool = False
    """The agent's present answer was given up for it."""


@dataclass(frozen=True, slots=True)
class OperatorHint(LedgerEvent):
    """An operator gave the agent's model a note, which the caller does not hear."""

    type = "operator.hint"
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class OperatorTakeover(LedgerEvent):
    """An operator takes the call over to a phone; `transfer.step` says how it goes."""

    type = "operator.takeover"
    who: str
    destination: str


@dataclass(frozen=True, slots=True)
class OperatorConference(LedgerEvent):
    """An operator joins the call by a phone; `conference.step` says how it goes."""

    type = "operator.conference"
    who: str
    destination: str
    agent: str = "talks"
    """`talks`: the agent goes on; `quiet`: it says nothing until the operator has left."""


@dataclass(frozen=True, slots=True)
class ConferenceStep(LedgerEvent):
    """A conference is at this step."""

    type = "conference.step"
    destination: str
    step: str
    """`ringing`: the operator's phone is called; `asked`: who answered is asked for the key;
    `joined`: the operator hears caller and agent, or caller and human, and they hear the operator;
    `over`."""
    detail: str = ""
    """Of `over` the cause."""


@dataclass(frozen=True, slots=True)
class OperatorWhisper(LedgerEvent):
    """An operator had words spoken to one party alone, who begins to hear them."""

    type = "operator.whisper"
    who: str
    to: str
    """`human`: of a transfer; `operator`: of a conference."""
    text: str


@dataclass(frozen=True, slots=True)
class OperatorHangup(LedgerEvent):
    """An operator ends the call."""

    type = "operator.hangup"
    who: str
    reason: str = ""
    """In the operator's words."""


@dataclass(frozen=True, slots=True)
class Flagged(LedgerEvent):
    """A person marked this moment of the call."""

    type = "call.flagged"
    who: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Listened(LedgerEvent):
    """A person listened to the call; written when they stopped."""

    type = "call.listened"
    who: str
    from_ms: int
    """Beginning of the sound that was sent to them."""
    to_ms: int
    """End of the sound that was sent to them."""


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
class CutOff(LedgerEvent):
    """The call ended before the caller had heard all of the agent's answer."""

    type = "agent.cut_off"
    turn: int
    heard: str
    """The part of this turn's answer that the caller had heard, to the word."""
    heard_ms: int = 0
    """Duration of the heard part."""


@dataclass(frozen=True, slots=True)
class MusicBegan(LedgerEvent):
    """The caller hears music in place of us, because a tool or a lookup takes long."""

    type = "line.music_began"
    music: str
    """`silence.music`: the telephone system's class of hold music, or `ringback`."""


@dataclass(frozen=True, slots=True)
class MusicEnded(LedgerEvent):
    """The music is over: the caller hears us again."""

    type = "line.music_ended"
    played_ms: int
    """Duration of the music."""


@dataclass(frozen=True, slots=True)
class HoldBegan(LedgerEvent):
    """The caller put the call on hold: the agent hears nothing of it, and its speech waits."""

    type = "line.hold_began"


@dataclass(frozen=True, slots=True)
class HoldEnded(LedgerEvent):
    """The caller is back."""

    type = "line.hold_ended"
    held_ms: int
    """Duration of the hold."""


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
    """For a tool: the `ask_id` of the tool call."""


@dataclass(frozen=True, slots=True)
class CallerVerified(LedgerEvent):
    """The caller tried to prove who they are, or an operator vouched for them."""

    type = "caller.verified"
    proof: str
    """`pin`, `callback` or `operator`."""
    ok: bool
    who: str = ""
    """The operator."""


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
class AnnouncementHeard(LedgerEvent):
    """The caller has heard an announcement to its end: the mark behind its sound was reached."""

    type = "announcement.heard"
    kind: str
    """`disclosure` (`contexts.*.disclosure`) or `consent` (`recording.consent`)."""
    text: str
    text_sha256: str
    """Of the text as it was to be spoken: its version."""
    audio_sha256: str
    """Of the sound that was sent, from the first sample of the greeting to the end of the sentence
    with the last word, in the format `audio`."""
    audio: str
    """Encoding and samples per second, such as `ulaw 8000`."""


@dataclass(frozen=True, slots=True)
class AnnouncementUnheard(LedgerEvent):
    """It is not proven that the caller has heard an announcement."""

    type = "announcement.unheard"
    kind: str
    reason: str
    """`cut`: the caller interrupted it, or it was taken back; `other_words`: the service spoke
    other words; `not_spoken`: the greeting or the call was over before; `machine`: what was proven
    heard before was heard by a machine that had seemed to be a person."""


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
class RecordingDeclined(LedgerEvent):
    """The call was not recorded, because the caller did not press the key of consent, or has not
    heard the sentence of consent to its end."""

    type = "recording.declined"
    reason: str = "no_key"
    """`no_key` or `consent_not_heard`."""


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
class TransferStep(LedgerEvent):
    """A transfer is at this step. Keys between `briefing` and the next step are those of the human
    who was called."""

    type = "transfer.step"
    destination: str
    step: str
    """`holding`: the caller waits; `ringing`: the human is called; `briefing`: they are asked;
    `introducing`: all three hear each other; `joined`: caller and human talk without the agent;
    `parting`: the caller hung up, and the human hears so; `returning`: the caller goes back to the
    agent; `over`; `away`: the caller is in the dialplan, and may come back; `back`: they are."""
    detail: str = ""
    """The cause; of `joined` whether the recording goes on; of `back` the dialplan's status."""


@dataclass(frozen=True, slots=True)
class Transferred(LedgerEvent):
    """A transfer was attempted."""

    type = "line.transfer"
    destination: str
    ok: bool
    error: str = ""
    outcome: str = ""
    """`accepted`, `busy`, `no_answer`, `declined`, `unavailable`, `machine`, `cancelled` or
    `failed`. A blind transfer without a way back is `accepted` when the dialplan has the caller."""


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
    """Whom it is for and what it is about, in the agent's words."""
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
    """`queue`: the engine calls; `post`: it is on the disk for the tools of `deliver`; `memory`:
    for them, too, but lost if the engine stops first."""


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
    """`completed` (either side hung up), `transferred`, `failed`, `shutdown`, `not_reached` (an
    outbound call without an answer), or `killed`: the engine was killed, and the next one has
    written this line."""
    reason: str
    """`caller_hangup`, `agent_hangup`, `operator_hangup` (by the admin port), `caller_silent`,
    `max_duration`, `budget`; `transfer:` and the destination (also when a human had the caller),
    `transferred` (in the PBX, not by the engine); `engine_stopped`, `engine_killed`;
    `agent_failed`, `media_failed` (the audio never started), `media_lost`, `asterisk_lost`,
    `line_failed` or `internal_error`. Outbound: `voicemail_message` (it was left), `voicemail`,
    `machine`, `ivr`, `fax`, `intercept` or `busy_tone` answered and was hung up on; `ringback` or
    `undecided` after three minutes without another answer, or without any; with
    `not_reached`, the outcome of `line.dialled`."""
    duration_ms: int
    cost: float | None = None
    """Sum of all `agent.used` with a known cost; null if none is known."""
    currency: str = ""


_FACTS = frozenset(
    "act amounts ask_id audio audio_sha256 call_id called_number caller_number config context "
    "currency destination external_id format generation kind missing_tools model name outcome "
    "parent path provider source started_at status steps text_sha256 tool tools trial version "
    "where who why".split()
)
"""Fields that hold no words of the conversation and stay as they are."""


def redacted(event: LedgerEvent, redaction: CallRedaction) -> LedgerEvent:
    """Return an event without the personal data that no record may have. Fields of all events go
    through here, those of `_FACTS` excepted."""
    if isinstance(event, Key):
        return Key("*", secret=True) if redaction.hides_keys else event
    changed = {}
    for name in _TEXTS[event.type]:
        value = getattr(event, name)
        if value and (clean := redaction.data(value)) is not value:
            changed[name] = clean
    return dataclasses.replace(event, **changed) if changed else event  # type: ignore[type-var]


EVENTS: tuple[type[LedgerEvent], ...] = (
    Offered, Refused, Bound, Connected, PreCallDone, Dialled, AnswerJudged, KeysSent,
    SpeechBegan, TurnEnded, Heard, Key, KeyChosen, Answering,
    OperatorSaid, OperatorHint, OperatorTakeover, OperatorConference, ConferenceStep,
    OperatorWhisper, OperatorHangup, Flagged, Listened,
    AudioStarted, AudioEnded, Held,
    Resumed, BargedIn, CutOff, HoldBegan, HoldEnded, MusicBegan, MusicEnded, Silence,
    ToolCalled, ToolApproval,
    ToolFiller, ToolAnswered, ToolLate, FirewallRefused, CallerVerified, Latency, Answered,
    TransferStep, Transferred, MessageTaken, CallbackRequested, AnnouncementHeard,
    AnnouncementUnheard, RecordingStarted, RecordingDeclined, RecordingPaused, RecordingResumed,
    RecordingStopped, AgentUsed, Trouble, Gap, Ended,
)  # fmt: skip
"""Every event, roughly in the order in which they occur in a call."""
_BY_TYPE: Mapping[str, type[LedgerEvent]] = MappingProxyType({kind.type: kind for kind in EVENTS})
_NUMBERS = ("int", "float", "bool", "int | None", "float | None")
_TEXTS = {
    kind.type: tuple(
        each.name
        for each in dataclasses.fields(kind)  # type: ignore[arg-type]
        if each.name not in _FACTS and each.type not in _NUMBERS
    )
    for kind in EVENTS
}
"""Fields of an event that may hold words."""


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
