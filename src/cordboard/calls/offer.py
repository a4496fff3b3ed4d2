"""The door between telephony and calls: an offer, its media and its line.

A source (Asterisk, a bare AudioSocket, a browser, a simulated caller) makes an `Offer`; the
call registry admits it. The rooms above this door do not know the transport or the PBX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NoReturn, Protocol, TypeAlias

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.outbound_order import OutboundCall
from cordboard.errors import LineUnsupported
from cordboard.tools.tool_use import REAL, ToolUse


class Media(Protocol):
    """The two audio directions of a call. All methods but `close` are synchronous and cheap."""

    @property
    def format(self) -> AudioFormat:
        """The one format of both directions, e.g. slin at 8000 Hz."""

    def on_audio(self, callback: Callable[[bytes], None]) -> None:
        """Call `callback` with each arriving frame (usually 20 ms) on the event loop."""

    def on_dtmf(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with each key that the caller presses (one of `0-9*#A-D`)."""

    def on_hold(self, callback: Callable[[bool], None]) -> None:
        """Call `callback(True)` when the caller puts us on hold, `callback(False)` when they are
        back. On hold frames may bring the music of the caller's side, or none may arrive."""

    def on_sent(self, callback: Callable[[bytes], None]) -> None:
        """Call `callback` with each 20 ms frame at the moment it is sent to the caller.

        Silence included, one frame for each 20 ms of the call: the recorder's second channel and
        the echo guard's reference. Where the PBX owns the clock, the moment is an estimate.
        """

    def on_closed(self, callback: Callable[[str], None]) -> None:
        """Call `callback` once, with a reason, when the far side ends or the media dies.

        Not called for our own `close()`. Called at once if it has already happened.
        """

    def write(self, pcm: bytes) -> None:
        """Append audio of any length to the outgoing queue. Ignored once closed."""

    def mark(self, callback: Callable[[], None]) -> None:
        """Call back when all audio written before this mark has been sent to the caller.

        So a mark before the first byte of a sentence fires when its first frame is on the wire.
        Marks that a `flush` overtakes never fire.
        """

    def hold(self) -> None:
        """Fall silent at once and keep the audio that is not yet heard. Idempotent."""

    def resume(self) -> None:
        """Continue at the very sample where `hold` stopped. No effect when not held."""

    def flush(self) -> int:
        """Drop the audio that is not yet heard, end a hold, and return the new `heard_ms`."""

    @property
    def heard_ms(self) -> int:
        """Milliseconds of written audio that the caller has heard since the start."""

    @property
    def queued_ms(self) -> int:
        """Milliseconds of written audio that the caller has yet to hear."""

    async def close(self) -> None:
        """End both directions and free every resource. Idempotent."""


RINGBACK = "ringback"
"""In place of a class of hold music: the telephone system's ringing tone."""
TargetType: TypeAlias = Literal[
    "extension", "number", "queue", "ring_group", "voicemail", "dialplan", "refer"
]


@dataclass(frozen=True, slots=True)
class TransferTarget:
    """The destination of a transfer; built from `tools.transfer.destinations` in the YAML."""

    name: str
    type: TargetType
    target: str
    """Extension, number, or name of a queue."""
    context: str
    """Dialplan context."""
    priority: int = 1
    away_seconds: float = 0.0
    """Longest time for which a caller who is sent there may come back; 0: for good."""
    endpoint: str = ""
    """Channel that a consultation dials, e.g. `PJSIP/6001`."""
    ring_seconds: float = 25.0
    """Time after which a consultation's phone stops ringing, if the engine has not stopped it."""
    music: str = ""
    """Class of the hold music; empty: the telephone system's default."""
    shown: tuple[str, str] | None = None
    """Name and number that a consultation's phone shows; None: the caller's."""


@dataclass(frozen=True, slots=True)
class PartyRings:
    """The other party's phone rings."""


@dataclass(frozen=True, slots=True)
class PartyAnswered:
    """The other party, or their voicemail, has answered."""


@dataclass(frozen=True, slots=True)
class PartyGone:
    """The other party has hung up, or was never reached."""

    cause: int = 0
    """Hang-up cause of the telephone system (Q.850); 0: unknown."""
    status: int = 0
    """SIP status of an answer that refused the call; 0: none."""


@dataclass(frozen=True, slots=True)
class CallerGone:
    """The caller has hung up."""


@dataclass(frozen=True, slots=True)
class CallerKey:
    """The caller pressed a key while on hold."""

    key: str


@dataclass(frozen=True, slots=True)
class PartyKey:
    """A guest pressed a key."""

    key: str


PartyEvent: TypeAlias = PartyRings | PartyAnswered | PartyGone | CallerGone | CallerKey
GuestEvent: TypeAlias = PartyRings | PartyAnswered | PartyGone | PartyKey


class Party(Protocol):
    """A phone that is called besides the caller's.

    Each method returns when the telephone system has accepted it, and raises a `LineError` if it
    has not.
    """

    async def dial(self) -> None:
        """Call the party. Raises `PartyUnreachable` when their phone is not connected."""

    def aside(self) -> AbstractAsyncContextManager[Media]:
        """Open sound that the party alone hears, over what they hear otherwise; one at a time. It
        ends (`on_closed`) when the party hangs up."""

    async def drop(self) -> None:
        """Hang up the party, ringing or answered. One that is gone is fine."""

    async def close(self) -> None:
        """Remove everything but the caller. Idempotent, and never cut short by a cancellation."""


class Guest(Party, Protocol):
    """A third party of the call, beside caller and agent."""

    def aloud(self) -> AbstractAsyncContextManager[Media]:
        """Open sound for those whom the guest is to join; it is at the place of `aside`, and ends
        as it does."""

    async def join(self) -> None:
        """Connect the guest with those who talk: caller and agent, or caller and the other party
        of a consultation. All of them hear each other."""


class SecondLeg(Party, Protocol):
    """A consultation on the caller's line: the caller on hold and one other party.

    While this exists, the caller's hang-up is an event of it; the call learns of it when this is
    closed.
    """

    async def hold(self) -> None:
        """Take the caller from the agent, to hold music."""

    async def brief(self) -> None:
        """Connect the other party with the agent: the media's sound and keys are theirs now."""

    async def introduce(self) -> None:
        """Connect the caller, too: all three hear each other."""

    async def join(self) -> None:
        """Connect caller and other party, without the agent."""

    async def follow(self) -> None:
        """Let the call's media hear both parties, who do not hear it; after `join`."""

    async def back(self) -> None:
        """Connect the caller with the agent again, without music."""


class LineControl(Protocol):
    """Operations on the caller's line. Each raises a `LineError` on failure."""

    async def answer(self) -> None: ...

    async def hangup(self, cause: str = "normal") -> None:
        """End the line (`normal`, `busy`, `congestion`). A line that is already gone is fine."""

    async def decline(self, status: str) -> None:
        """Return the caller to the dialplan, unanswered if possible, and give up the line.

        The dialplan continues after its `Stasis(...)` with `CORDBOARD_STATUS` set to `status`
        (`busy`, `unavailable`); the operator decides there about the caller.
        """

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> str | None:
        """Transfer the caller, blind. Returns None when the PBX has taken over.

        With `away_seconds`: when the caller is back on this line within that time, the status that
        the dialplan gives (`TIMEOUT`, `NOANSWER`, ...), and None when they are not, or when a REFER
        has connected them elsewhere; `left` is called when they have left.
        """

    def consult(self, target: TransferTarget, watch: Callable[[PartyEvent], None]) -> SecondLeg:
        """Prepare a consultation; nothing is done yet. `watch` takes its events, on the event
        loop. Raises `LineUnsupported`, or `LineError` if one is under way."""

    def invite(self, target: TransferTarget, watch: Callable[[GuestEvent], None]) -> Guest:
        """Prepare a third party; nothing is done yet. `watch` takes its events, on the event loop.
        Raises `LineUnsupported`, or `LineError` unless the caller talks and is alone with the
        other side."""

    async def device_state(self, device: str) -> str:
        """Return the state of a device (`PJSIP/6001`): `NOT_INUSE`, `INUSE`, `BUSY`,
        `UNAVAILABLE`, `INVALID`, `UNKNOWN`, ... Raises a `LineError` if it cannot be seen."""

    async def dtmf(self, keys: str) -> None:
        """Send keys (`0-9*#A-D`, `w` = half a second's pause) to the caller's side."""

    async def music(self, music: str) -> None:
        """Play hold music of this class to the caller, in place of our sound, while we still hear
        them; `RINGBACK`: a ringing tone, during which we need not hear them. Empty: stop it, and
        send our sound again."""

    async def variable(self, name: str) -> str | None:
        """Return the value of a channel variable; None when unset."""

    async def release(self) -> None:
        """Free what the source holds for this call (bridge, media channel). Idempotent."""


class LineWithoutTelephone:
    """Base of a line that the engine can hang up, but not operate like a telephone.

    It is answered from the start and has no channel variables; all other acts of `LineControl`
    raise `LineUnsupported`. A subclass adds `hangup`, `decline` and `release`.
    """

    line_name: ClassVar[str]
    """Its name in messages, such as `a test call`."""
    line_lacks: ClassVar[str] = "it has no telephone"
    """Reason for which it refuses."""

    async def answer(self) -> None:
        """Nothing to do."""

    async def transfer(self, target: TransferTarget, left: Callable[[], None]) -> str | None:
        self._refuse("be transferred")

    def consult(self, target: TransferTarget, watch: Callable[[PartyEvent], None]) -> SecondLeg:
        self._refuse("have a consultation")

    def invite(self, target: TransferTarget, watch: Callable[[GuestEvent], None]) -> Guest:
        self._refuse("be joined by a third party")

    async def device_state(self, device: str) -> str:
        self._refuse("see the state of devices")

    async def dtmf(self, keys: str) -> None:
        self._refuse("be sent keys")

    async def music(self, music: str) -> None:
        self._refuse("play hold music")

    async def variable(self, name: str) -> str | None:
        return None

    def _refuse(self, act: str) -> NoReturn:
        raise LineUnsupported(f"{self.line_name} cannot {act}: {self.line_lacks}")


@dataclass(frozen=True, slots=True)
class CallTest:
    """Facts of a call or conversation that a person makes to try the agent."""

    tools: ToolUse = REAL
    """The tools that run in it."""
    trial: str = ""
    """Id of the trial whose generation it runs on; empty for the configuration in force."""

    @property
    def has_post_call(self) -> bool:
        """True if the steps of `post_call` run after it: as for a call, with the configuration in
        force and all tools."""
        return self.tools.is_real and not self.trial


@dataclass(slots=True)
class HandOver:
    """A call whose caller is still with the engine that hands it over."""

    epoch: int = 0
    """As `ResumedCall.epoch`, which is not known before the caller comes."""
    came: bool = False
    """True once the caller is here, even if their media fail then."""
    failed: Callable[[str], None] = lambda why: None
    """To be called if the call is given up before the caller comes, with the reason."""


@dataclass(frozen=True, slots=True)
class ResumedCall:
    """A call of another engine, which goes on here."""

    lines: tuple[bytes, ...]
    """The lines of its ledger so far, each with its newline, as they were recorded; the ledger here
    begins with what `resumption.whole_lines` makes of them."""
    engine: str
    """Instance name of the other engine."""
    epoch: int
    """Number of this engine's ownership of the call."""
    context: str = ""
    """Name of the context that answered it; empty: unknown."""
    provider: str = ""
    silence_ms: int | None = None
    """Time for which the caller has heard nothing; None: unknown."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Data of the `pre_call` results by name, as far as it is known: such a step does not run
    again."""
    has_room: bool = True
    """False: this engine is full, and so are the others. The call ends decently, without an agent:
    with an apology, and the context's `on_failure`."""
    hand_over: HandOver | None = None
    """Set if the other engine lives, and has the caller until the offer's media are opened; they
    are opened when the agent is ready. The caller is to notice nothing. None: it is lost."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One phone call, as its source describes it. In an outbound call, too, the caller is the
    other side."""

    call_id: str
    """A UUID made by the engine, in its canonical text form."""
    source: str
    """`asterisk`, `audiosocket`, ..."""
    media: MediaOpener
    control: LineControl
    caller_number: str = ""
    caller_name: str = ""
    called_number: str = ""
    external_id: str = ""
    """The call's id on the telephone side, if there is one. It need not be unique."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Channel variables the source knows: at least `AI_CONTEXT`, `AI_AGENT`, `AI_PROVIDER`."""
    test: CallTest | None = None
    """Set if it is a test; never for callers by telephone."""
    transport: str = ""
    """The media transport, if the source has several: `audiosocket`, `websocket`, `rtp`, ..."""
    outbound: OutboundCall | None = None
    """Set if we place the call."""
    trunk: str = ""
    """Endpoint of the telephone system by which the call comes or leaves, such as `PJSIP/acme`;
    empty if the source knows none."""
    resumed: ResumedCall | None = None
    """Set if the call began in another engine. It is not refused here, whatever the load."""


class MediaOpener(Protocol):
    """Opens the media of one offer."""

    async def __call__(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        """Connect and return the media, in the first of `formats` that the transport can carry.

        If it can carry none of them, in a format of its own (the call converts).

        Raises `MediaError` if it does not come in time, `LineGone` when the caller hung up.
        """
