"""The interface of a call for tools: actions on the line and questions to the caller.

The calls package implements it for phone calls, the chat package for written conversations;
`NoCaller` implements it for runs without a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias

from cordboard.errors import LineUnsupported


@dataclass(frozen=True, slots=True)
class KeysWanted:
    """The keys that `CallLine.collect_keys` waits for."""

    count: int = 0
    """Number of keys that ends the collection; 0 = only the terminator or the timeout ends it."""
    terminator: str = "#"
    """The key that ends it and is not part of the answer; empty = none."""
    first_timeout: float = 10.0
    """Seconds until the first key."""
    next_timeout: float = 4.0
    """Seconds between two keys."""
    secret: bool = False
    """True if the keys must not appear in ledger, logs, recording (muted) or to the agent."""
    kept: bool = True
    """For secret keys: False if the call must forget them at once; then there is no reference."""
    early: bool = True
    """True if keys that were pressed shortly before count: a caller who knows the question does not
    hear it to its end. False where another telephone is asked."""


@dataclass(frozen=True, slots=True)
class SecondPhoneAsk:
    """A question for keys at another telephone than the caller's."""

    number: str
    """E.164 with the plus sign."""
    endpoint: str
    """Asterisk's endpoint that reaches it."""
    shown: tuple[str, str]
    """Name and number that it shows; both may be empty."""
    ring_seconds: float
    told: str
    """Sentence for the caller, who then waits with music."""
    prompt: str
    """Sentence at the other telephone."""
    wanted: KeysWanted
    answered: Callable[[], None]
    """Called when it is answered."""


@dataclass(frozen=True, slots=True)
class KeysCollected:
    """The collected keys."""

    keys: str = field(repr=False)
    """The keys without the terminator; not in the repr, so that no log shows them."""
    ended_by: Literal["count", "terminator", "timeout"]
    reference: str = ""
    """For secret keys: the name under which the call keeps them until its end (`CallLine.reveal`).
    The agent receives only this name."""


TransferOutcome: TypeAlias = Literal[
    "accepted", "busy", "no_answer", "declined", "unavailable", "machine", "cancelled", "failed"
]
"""Outcome of a transfer.

- `accepted`: the other party has the caller, or had them
- `busy`, `no_answer`, `declined`: as a person would say it
- `unavailable`: closed now, or their phone is not connected
- `machine`: answered, but the call was not taken: probably a voicemail
- `cancelled`: by the caller
- `failed`: a fault of the telephone system or its configuration
"""


@dataclass(frozen=True, slots=True)
class TransferResult:
    """The end of a transfer."""

    outcome: TransferOutcome
    returned: bool = False
    """The caller is with the agent (again)."""
    closed: bool = False
    """The destination has no business hours now."""
    away: bool = False
    """The caller was in the dialplan meanwhile, and was handed back."""


MessageOutcome: TypeAlias = Literal["confirmed", "unconfirmed", "rejected", "empty"]
"""Outcome of a message.

- `confirmed`: passed on after the caller's yes
- `unconfirmed`: passed on without a clear answer
- `rejected`: not passed on, because the caller said no to each reading
- `empty`: no words were understood
"""


@dataclass(frozen=True, slots=True)
class MessageResult:
    """A caller's message."""

    outcome: MessageOutcome
    text: str
    """The caller's words, without what records may not have."""
    kept: bool = True
    """False if it was passed on in memory only: it is lost if the engine stops first."""


CallbackOutcome: TypeAlias = Literal[
    "noted",
    "no_number",
    "other_number",
    "not_allowed",
    "do_not_call",
    "no_time",
    "closed",
    "not_confirmed",
    "failed",
]
"""Outcome of a request to be called back.

- `no_number`: there is none, or it cannot be read
- `other_number`: only the number that the caller calls from may be called back
- `not_allowed`, `do_not_call`: by the firewall, by the do-not-call list
- `no_time`: the time cannot be read, or is over
- `closed`: outside the hours, or too far ahead
- `not_confirmed`: the caller did not say yes
"""


@dataclass(frozen=True, slots=True)
class CallbackResult:
    """A request to be called back."""

    outcome: CallbackOutcome
    number: str
    """In E.164."""
    at: str
    """The promised time, in ISO 8601."""
    now: str
    """The time now, in the zone of the promises."""
    kept: bool = True
    """False if it was noted in memory only: it is lost if the engine stops first."""


class CallLine(Protocol):
    """The interface of a call for tools."""

    @property
    def call_id(self) -> str: ...

    @property
    def context_name(self) -> str: ...

    @property
    def provider_name(self) -> str: ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Call variables as declared by the context (caller_number, called_number, ...)."""

    def end_after_speech(self, reason: str) -> None:
        """Hang up as soon as the caller has heard what the agent is saying. Returns at once."""

    async def transfer_after_speech(self, destination: str, reason: str = "") -> TransferResult:
        """Let the agent finish speaking, then pass the caller on to a configured destination.

        `reason`: the caller's concern, told to a human who is asked first. Returns when the
        transfer is over: that may take as long as the talk with a human. Raises `TransferFailed`
        (the call continues), `LineUnsupported` or `LineGone`.
        """

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys from the caller. Meanwhile the agent receives no keys.

        Keys pressed up to 2 s before count too. Raises as `check_may_ask` does, and `LineGone` if
        the call ends meanwhile.
        """

    def check_may_ask(self, *, secret: bool = False) -> None:
        """Raise `LineError` if the caller cannot be asked for keys now: they are being asked
        something else, or the agent is to be quiet; for a secret also if a third party is on the
        line."""

    def reveal(self, reference: str) -> str | None:
        """Return the secret keys kept under this name, for the tool that needs them.

        None if there are none. The keys, and anything that contains them, must never reach an
        agent, a log or the ledger.
        """

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises `LineUnsupported` or another `LineError`."""

    async def take_message(self, about: str) -> MessageResult:
        """Have the caller dictate a message, confirm it and pass it on, with `about`: whom it is
        for. Meanwhile the agent answers nothing. Raises `LineUnsupported`, `LineError` if the
        caller is being asked something else, and `LineGone` if the call ends: what the caller said
        until then is passed on all the same."""

    async def request_callback(self, number: str, at: str, about: str) -> CallbackResult:
        """Have the caller confirm number and time of a call-back, and note it. An empty `number` is
        that of the caller; `at` is a time in ISO 8601. Raises as `take_message` does."""

    async def ask_at(self, ask: SecondPhoneAsk) -> KeysCollected:
        """Call another telephone while the caller waits, and collect keys there. Raises `LineError`
        if it is not answered, and as `collect_keys` does."""

    def say(self, text: str) -> None:
        """Make the agent speak a sentence now. Returns at once."""

    def pause_recording(self) -> bool:
        """Record silence from now on. False when the call is not being recorded."""

    def resume_recording(self) -> bool:
        """Record sound again. False when the call is not being recorded."""

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller and wait for a spoken or keyed yes or no.

        Returns None if no clear answer came. Meanwhile the agent answers nothing. Raises
        `LineUnsupported` if there is no caller, `LineError` if another question is open, `LineGone`
        if the call ends meanwhile.
        """


@dataclass(frozen=True, slots=True)
class NoCaller:
    """The line of a tool call without a caller: before or after a call, or in a trial run.

    Actions that need a caller are refused with `LineUnsupported`; nothing is simulated.
    """

    no_transfer: ClassVar[str] = "there is no caller on the line"
    no_keys: ClassVar[str] = no_transfer
    no_voice: ClassVar[str] = no_transfer
    call_id: str
    context_name: str
    provider_name: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def end_after_speech(self, reason: str) -> None:
        """Do nothing: there is no call to end."""

    async def transfer_after_speech(self, destination: str, reason: str = "") -> TransferResult:
        raise LineUnsupported(self.no_transfer)

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        raise LineUnsupported(self.no_keys)

    def check_may_ask(self, *, secret: bool = False) -> None:
        raise LineUnsupported(self.no_keys)

    def reveal(self, reference: str) -> str | None:
        return None

    async def send_keys(self, keys: str) -> None:
        raise LineUnsupported(self.no_keys)

    async def take_message(self, about: str) -> MessageResult:
        raise LineUnsupported(self.no_voice)

    async def request_callback(self, number: str, at: str, about: str) -> CallbackResult:
        raise LineUnsupported(self.no_voice)

    async def ask_at(self, ask: SecondPhoneAsk) -> KeysCollected:
        raise LineUnsupported(self.no_voice)

    def say(self, text: str) -> None:
        """Do nothing: there is no listener."""

    def pause_recording(self) -> bool:
        return False

    def resume_recording(self) -> bool:
        return False

    async def confirm(self, question: str) -> bool | None:
        raise LineUnsupported(self.no_transfer)
