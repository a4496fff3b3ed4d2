"""The interface of agents: an agent talks with the caller in one call.

An agent is a realtime provider's session or a pipeline of recogniser, brain and voice. The call
gives it frames by direct calls (`hear`) and gets typed events by direct calls
(`AgentSession.emit`): both run on the event loop, never through a queue, and must return within
microseconds.

The order of a conversation as an agent reports it:

    CallerStarted → CallerStopped → CallerText → (ToolAsked → answer_tool)*
                  → (AgentText → AgentAudio+)+ → AgentAudioDone

`AgentText` precedes the audio that speaks it. An agent whose words arrive alongside their sound
opens with an empty `AgentText` and extends it by `AgentWords`. A provider is one file that maps its
wire to these events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.errors import FailureKind
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import ToolAsk, ToolReply, ToolSpec


@dataclass(frozen=True, slots=True)
class CallerStarted:
    """The caller began to speak."""

    at: float
    """Loop time of the first speech sample, as precisely as it is known."""


@dataclass(frozen=True, slots=True)
class CallerPauses:
    """The caller has been silent for long within a turn that is probably not over: a listener would
    say "mm-hm" now, and the caller keeps the floor."""

    at: float
    silent_since: float
    """Loop time of the last speech sample, as precisely as it is known."""


@dataclass(frozen=True, slots=True)
class CallerWaits:
    """The caller has been silent for long, but the service that decides the end of the turn has not
    reported it: it may be slow, or have stalled. The caller should hear something. Nothing else
    follows: the turn continues until `CallerStopped`."""

    silent_since: float
    """Loop time of the last speech sample, as precisely as it is known."""


@dataclass(frozen=True, slots=True)
class CallerStopped:
    """The caller's turn is over: its end was decided."""

    turn: int
    last_speech_at: float
    """Loop time of the last speech sample of the turn, as precisely as it is known."""
    at: float
    """Loop time of the decision."""
    silence_at: float | None = None
    """Loop time at which the voice detector noticed the silence; None when it is not known."""


@dataclass(frozen=True, slots=True)
class CallerPartial:
    """The text of a caller's turn so far, for people who watch: a later one or `CallerText`
    replaces it. An agent may leave it out."""

    text: str


@dataclass(frozen=True, slots=True)
class CallerText:
    """The final text of a caller's turn; empty when nothing could be understood."""

    turn: int
    text: str
    """The text as the recogniser wrote it."""
    at: float
    confidence: float = 1.0
    understood: str = ""
    """The text with misheard names corrected; empty when the agent changed nothing."""


@dataclass(frozen=True, slots=True)
class AgentText:
    """A sentence that the agent is going to speak. `turn` 0 is the greeting."""

    turn: int
    text: str
    at: float
    speech: Speech | None = None
    """The engine's sentence (`Agent.say`) that this is; None: the agent's own."""


@dataclass(frozen=True, slots=True)
class AgentWords:
    """More words of the sentence that the last `AgentText` of this turn opened."""

    turn: int
    text: str
    """The words as they follow the text so far, spaces included."""


@dataclass(frozen=True, slots=True)
class AgentAudio:
    """Sound for the caller in the session's format; follows the `AgentText` it speaks."""

    turn: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class AgentAudioDone:
    """All sound of this turn's answer has been handed over; there is none if the turn needs no
    answer."""

    turn: int


@dataclass(frozen=True, slots=True)
class AgentBroke:
    """The voice or the service failed within a sentence: the sentence gets no more sound. Another
    connection or another agent may go on with another sentence."""


@dataclass(frozen=True, slots=True)
class ToolAsked:
    """The agent wants a tool run; the call answers with `Agent.answer_tool`."""

    ask: ToolAsk


@dataclass(frozen=True, slots=True)
class ToolCancelled:
    """The agent no longer needs the result of a tool call."""

    ask_id: str


@dataclass(frozen=True, slots=True)
class OverlapBegan:
    """There is a voice over the agent's: its speech is held at once, until the voice is classified.

    `Interrupted` or `OverlapDismissed` follows within 0.3 s, in doubt 0.64 s.
    """

    at: float
    """Loop time of the decision to hold."""
    onset_at: float
    """Loop time of the first sample of that voice, as precisely as it is known."""


@dataclass(frozen=True, slots=True)
class OverlapDismissed:
    """The voice was not an interruption: the agent's speech resumes at the very sample."""

    at: float
    why: str
    """`backchannel`, `noise`, `echo` or `key`."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The caller speaks over the agent: the audio not yet heard must be taken back now."""

    at: float


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage that a service reports, or that was counted for a service that does not report
    it."""

    provider: str
    """The type of the provider or part, as in the configuration: `openai_realtime`."""
    model: str
    amounts: Mapping[str, float]
    """Amount by unit; each is the use since the last `Used` of this part. Units:
    `input_text_tokens`, `input_audio_tokens`, `cached_text_tokens`, `cached_audio_tokens`,
    `cache_write_tokens`, `output_text_tokens`, `output_audio_tokens`, `seconds`, `characters`.
    Cached tokens are not among the input tokens: no token counts in two units."""


@dataclass(frozen=True, slots=True)
class Used:
    """The agent has used up something that costs money."""

    usage: Usage


INTERNAL: Final = "internal"
"""`AgentTrouble.what` and the kind of an `AgentFailed` where the mistake is ours."""


@dataclass(frozen=True, slots=True)
class AgentTrouble:
    """A problem that was handled: a lost connection, another agent that took over, a malformed
    message. For the record; nothing follows from it."""

    what: str
    """`reconnected`, `fallback`, `malformed`, ...: a short word, a metric's label. `INTERNAL` is a
    mistake of ours, caught at a task's border."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AgentFailed:
    """The agent cannot continue; the call apologises, transfers the caller if it can, and ends."""

    reason: str
    kind: FailureKind = "internal"


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """The agent considers the conversation over."""

    reason: str


AgentEvent: TypeAlias = (
    CallerStarted
    | CallerStopped
    | CallerPauses
    | CallerWaits
    | CallerPartial
    | CallerText
    | AgentText
    | AgentWords
    | AgentAudio
    | AgentAudioDone
    | AgentBroke
    | ToolAsked
    | ToolCancelled
    | OverlapBegan
    | OverlapDismissed
    | Interrupted
    | Used
    | AgentTrouble
    | AgentFailed
    | AgentEnded
)


@dataclass(frozen=True, slots=True)
class Said:
    """One side's words in the conversation so far."""

    who: Literal["caller", "agent"]
    text: str
    """The words; of the agent's only those that the caller has heard."""


@dataclass(frozen=True, slots=True)
class AgentSession:
    """Everything an agent may know about the call it serves."""

    call_id: str
    context_name: str
    prompt: str
    """The system prompt, its call variables filled in."""
    greeting: str
    """The agent's first words; empty = wait for the caller."""
    toolbox: tuple[ToolSpec, ...]
    """The only tools that exist for this agent."""
    format: AudioFormat
    """The format of `hear` and `AgentAudio.pcm`."""
    emit: Callable[[AgentEvent], None]
    """Hands an event to the call; synchronous, on the event loop."""
    speaking: Callable[[], bool]
    """True while the caller is still hearing the agent (sound is queued for the line)."""
    watch_playout: Callable[[Callable[[bytes], None]], None] = lambda _: None
    """`watch_playout(callback)`: have each 20 ms frame that goes to the caller, silence included,
    handed to `callback` in `format`, as it goes: the reference for echo. One frame per 20 ms."""
    variables: Mapping[str, str] = field(default_factory=dict)
    history: tuple[Said, ...] = ()
    """The conversation before this agent took over from another one; it does not greet again."""
    opening: tuple[str, ...] = ()
    """The greeting in pieces, if the end of each must be known: an agent that speaks sentence by
    sentence speaks each on its own. Empty = in one piece."""


@runtime_checkable
class Agent(Protocol):
    """One agent for one call."""

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        """The formats the agent takes and gives, in order of preference; the session has one of
        them."""

    @property
    def payload(self) -> PayloadLimits:
        """The largest tool result that the agent can take now. A fallback changes it during a
        call."""

    async def prepare(self) -> None:
        """Do work that needs no session, such as connecting, while the media comes up. Called at
        most once, before `start`, which waits for it. Raises `AgentError` when it cannot; `start`
        then raises the same error, so the caller of `prepare` may ignore it."""

    async def start(self, session: AgentSession) -> None:
        """Connect and begin, the greeting included. Raises `AgentError` on failure."""

    def hear(self, pcm: bytes) -> None:
        """Take one frame of the caller's sound. Synchronous and cheap."""

    def hear_key(self, key: str) -> None:
        """Take one DTMF key (`0-9*#A-D`)."""

    def answer_tool(self, reply: ToolReply) -> None:
        """Take the answer to one of this agent's tool calls."""

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """Take the part of the answer that the caller had heard when it was cut.

        `heard`: its words, without fillers and continuers. `heard_ms`: milliseconds of the agent's
        own sound, without sentences of the engine, since the first sound of `turn`, the oldest turn
        that was cut.
        """

    def recover(self, reason: str) -> bool:
        """React to a stalled answer: the call receives no more events. True if the agent recovers
        by itself (another connection, another agent); otherwise the call ends with an apology."""

    def say(self, speech: Speech) -> None:
        """Speak a sentence of the engine.

        Its `AgentText` carries this very object. An agent that will not speak it calls
        `speech.drop()`, but not because the agent is closed: then another agent may speak it.
        Outside an answer it is an answer of its own: `AgentAudioDone` follows.

        - `filler`: dropped if it has not begun when the answer is ready to be heard.
        - `continuer`: spoken at once, into the caller's pause, or dropped.
        - `approval`: the only speech of its turn; dropped when `listen_aside(None)` ends the
          question.
        - `operator`: the agent's model knows afterwards that it was spoken.
        - `menu`: as `operator`; it needs no note that a person said it.
        - `late answer`: the agent's model may rephrase it. Dropped when the caller speaks before;
          then it is spoken again later.
        """

    def listen_aside(self, take: Callable[[str], None] | None, *, yes_or_no: bool = True) -> None:
        """Send the text of each turn of the caller to `take` (and before that into `CallerText`)
        while it is set. The agent then neither answers the turn nor gives up its open tool calls:
        the engine asks the caller, by `say`, for a yes or a no; for any words without `yes_or_no`.
        None ends this and drops the unspoken rest of the question. The agent's next words answer
        the caller's last turn."""

    async def close(self) -> None:
        """Stop and free everything. Idempotent; no event is emitted afterwards."""


@runtime_checkable
class TakesNotes(Protocol):
    """An agent, a dialogue or a service's protocol whose model can be given a note in a call."""

    def take_note(self, text: str) -> bool:
        """Put a note before the model's next turn. It is not spoken, and it does not make the model
        speak. False if that is impossible now."""


def operator_note(text: str) -> str:
    """Return the words in which a model gets the hint of an operator."""
    return (
        "[A note of the operator of this call, for you alone. Follow it from your next turn on; do "
        f"not read it out and do not mention it: {text}]"
    )
