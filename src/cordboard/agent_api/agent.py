"""The door of the agents room: what talks back to a caller.

An agent is a realtime provider's session or a pipeline of recogniser, brain and voice. The call
gives it frames by direct calls (`hear`) and gets typed events by direct calls
(`AgentSession.emit`): both run on the event loop, never through a queue, and must return within
microseconds.

The order of a conversation as an agent reports it:

    CallerStarted → CallerStopped → CallerText → (ToolAsked → answer_tool)*
                  → (AgentText → AgentAudio+)+ → AgentAudioDone

`AgentText` precedes the audio that speaks it. An agent whose words come beside their sound opens
with an empty `AgentText` and lets it grow by `AgentWords`. A provider is one file that maps its
wire to these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from cordboard.agent_api.speech import Speech
from cordboard.audio.format import AudioFormat
from cordboard.errors import FailureKind
from cordboard.tools.payload import PayloadLimits
from cordboard.tools.tool import ToolAsk, ToolReply, ToolSpec


@dataclass(frozen=True, slots=True)
class CallerStarted:
    """The caller began to speak."""

    at: float
    """Loop time of the first speech sample, as well as it is known."""


@dataclass(frozen=True, slots=True)
class CallerPauses:
    """The caller has been silent for long within a turn that is not taken to be over: a listener
    would say "mm-hm" now, and the caller keeps the floor."""

    at: float
    silent_since: float
    """Loop time of the last speech sample, as well as it is known."""


@dataclass(frozen=True, slots=True)
class CallerWaits:
    """The caller has been silent for long, and what the agent listens by has not said that their
    turn is over: it may be slow, or have stalled. They should hear something. Nothing else follows:
    the turn goes on until `CallerStopped`."""

    silent_since: float
    """Loop time of the last speech sample, as well as it is known."""


@dataclass(frozen=True, slots=True)
class CallerStopped:
    """The caller's turn is over: the endpoint was decided."""

    turn: int
    last_speech_at: float
    """Loop time of the last speech sample of the turn, as well as it is known."""
    at: float
    """Loop time of the decision."""
    silence_at: float | None = None
    """Loop time at which the voice detector noticed the silence; None when it is not known."""


@dataclass(frozen=True, slots=True)
class CallerText:
    """The final text of a caller's turn; empty when nothing could be understood."""

    turn: int
    text: str
    """As the recogniser wrote it."""
    at: float
    confidence: float = 1.0
    understood: str = ""
    """The same with misheard names put right; empty when the agent changed nothing."""


@dataclass(frozen=True, slots=True)
class AgentText:
    """A sentence that the agent is going to speak. `turn` 0 is the greeting."""

    turn: int
    text: str
    at: float
    speech: Speech | None = None
    """The sentence of the engine that this is (`Agent.say`); None: the agent's own."""


@dataclass(frozen=True, slots=True)
class AgentWords:
    """More words of the sentence that the last `AgentText` of this turn opened."""

    turn: int
    text: str
    """As it follows what is there already, spaces included."""


@dataclass(frozen=True, slots=True)
class AgentAudio:
    """Sound for the caller in the session's format; follows the `AgentText` it speaks."""

    turn: int
    pcm: bytes


@dataclass(frozen=True, slots=True)
class AgentAudioDone:
    """All sound of this turn's answer has been handed over; none, if it wants no answer."""

    turn: int


@dataclass(frozen=True, slots=True)
class ToolAsked:
    """The agent wants a tool run; the call answers with `Agent.answer_tool`."""

    ask: ToolAsk


@dataclass(frozen=True, slots=True)
class ToolCancelled:
    """The agent no longer wants the result of an ask."""

    ask_id: str


@dataclass(frozen=True, slots=True)
class OverlapBegan:
    """There is a voice over the agent's: its speech is held at once, until it is known what it is.

    `Interrupted` or `OverlapDismissed` follows within 0.3 s, in doubt 0.64 s.
    """

    at: float
    """Loop time of the decision to hold."""
    onset_at: float
    """Loop time of the first sample of that voice, as well as it is known."""


@dataclass(frozen=True, slots=True)
class OverlapDismissed:
    """It was no interruption: the agent's speech goes on at the very sample."""

    at: float
    why: str
    """`backchannel`, `noise`, `echo` or `key`."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The caller speaks over the agent: what is not yet heard must be taken back now."""

    at: float


@dataclass(frozen=True, slots=True)
class Usage:
    """What a service has counted, or what was counted for one that does not tell."""

    provider: str
    """The type of the provider or part, as in the configuration: `openai_realtime`."""
    model: str
    amounts: Mapping[str, float]
    """By unit; each amount since the last `Used` of this part. Units: `input_text_tokens`,
    `input_audio_tokens`, `cached_text_tokens`, `cached_audio_tokens`, `cache_write_tokens`,
    `output_text_tokens`, `output_audio_tokens`, `seconds`, `characters`. Cached tokens are not
    among the input tokens: no token stands in two units."""


@dataclass(frozen=True, slots=True)
class Used:
    """The agent has used up something that costs money."""

    usage: Usage


INTERNAL: Final = "internal"
"""What an `AgentTrouble` tells of, and the kind of an `AgentFailed`, where the mistake is ours."""


@dataclass(frozen=True, slots=True)
class AgentTrouble:
    """Something went wrong and was helped: a lost connection, another agent that took over, a
    message that made no sense. For the record; nothing follows from it."""

    what: str
    """`reconnected`, `fallback`, `malformed`, ...: a short word, a metric's label. `INTERNAL` is a
    mistake of ours, caught at a task's border."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AgentFailed:
    """The agent cannot go on; the call helps the caller on and ends."""

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
    | CallerText
    | AgentText
    | AgentWords
    | AgentAudio
    | AgentAudioDone
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
    """Of the agent's only what the caller has heard."""


@dataclass(frozen=True, slots=True)
class AgentSession:
    """All that an agent may know of the call it serves."""

    call_id: str
    context_name: str
    prompt: str
    """The system prompt, its call variables filled in."""
    greeting: str
    """What to say first; empty = wait for the caller."""
    toolbox: tuple[ToolSpec, ...]
    """The only tools that exist for this agent."""
    format: AudioFormat
    """What `hear` gets and `AgentAudio.pcm` must be."""
    emit: Callable[[AgentEvent], None]
    """Hands an event to the call; synchronous, on the event loop."""
    speaking: Callable[[], bool]
    """True while the caller is still hearing the agent (sound is queued for the line)."""
    watch_playout: Callable[[Callable[[bytes], None]], None] = lambda _: None
    """`watch_playout(callback)`: have each 20 ms frame that goes to the caller, silence included,
    handed to `callback` in `format`, as it goes: the reference for echo. One frame per 20 ms."""
    variables: Mapping[str, str] = field(default_factory=dict)
    history: tuple[Said, ...] = ()
    """What was said before this agent took over from another one; it does not greet again."""


class Agent(Protocol):
    """One agent for one call."""

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        """The formats it takes and gives, the most liked first; the session has one of them."""
        ...

    @property
    def payload(self) -> PayloadLimits:
        """How much of a tool's result it can take now. A fallback changes it during a call."""
        ...

    async def prepare(self) -> None:
        """Do ahead what needs no session, such as to connect: while the media comes up. At most
        once, before `start`, which waits for it. Raises `AgentError` when it cannot; so will
        `start` then, and nothing more need be done about it."""
        ...

    async def start(self, session: AgentSession) -> None:
        """Connect and begin, the greeting included. Raises `AgentError` when it cannot."""
        ...

    def hear(self, pcm: bytes) -> None:
        """Take one frame of the caller's sound. Synchronous and cheap."""
        ...

    def hear_key(self, key: str) -> None:
        """Take one DTMF key (`0-9*#A-D`)."""
        ...

    def answer_tool(self, reply: ToolReply) -> None:
        """Take the answer to an ask of this agent."""
        ...

    def interrupted(self, heard: str, heard_ms: int, turn: int) -> None:
        """Learn what the caller had heard of the answer when it was cut.

        `heard`: its words, without fillers and continuers. `heard_ms`: milliseconds of the agent's
        own sound, without sentences of the engine, since the first sound of `turn`, the oldest turn
        that was cut.
        """
        ...

    def recover(self, reason: str) -> bool:
        """The call finds that nothing comes any more. Whether the agent helps itself (by another
        connection, another agent); if not, the call ends with an apology."""
        ...

    def say(self, speech: Speech) -> None:
        """Speak a sentence of the engine.

        The `AgentText` of it carries this very object. An agent that will not speak it calls
        `speech.drop()`, but not because the agent is closed: then another agent may speak it.
        Outside an answer it is an answer of its own: `AgentAudioDone` follows.

        - `filler`: needless, and dropped, when it has not begun as the answer is ready to be heard.
        - `continuer`: said at once, into the caller's pause, or dropped.
        - `approval`: all there is in its turn; dropped when `listen_aside(None)` ends the question.
        - `late answer`: the agent may have its model tell it in the model's own words. Dropped when
          the caller speaks before; then it is said again later.
        """
        ...

    def listen_aside(self, take: Callable[[str], None] | None) -> None:
        """While `take` is set, the text of each turn of the caller goes there (and before that into
        `CallerText`), and the agent neither answers it nor gives up what it has asked for: the
        engine asks the caller for a yes or a no, by `say`. None ends it and drops what is not yet
        said of it. What the agent says next answers the caller's last turn."""
        ...

    async def close(self) -> None:
        """Stop and free everything. Idempotent; no event is emitted afterwards."""
        ...
