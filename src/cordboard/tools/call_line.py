"""The interface of a call for tools: actions on the line and questions to the caller.

The calls package implements it for phone calls, the chat package for written conversations;
`NoCaller` implements it for runs without a caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

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


@dataclass(frozen=True, slots=True)
class KeysCollected:
    """The collected keys."""

    keys: str = field(repr=False)
    """The keys without the terminator; not in the repr, so that no log shows them."""
    ended_by: Literal["count", "terminator", "timeout"]
    reference: str = ""
    """For secret keys: the name under which the call keeps them until its end (`CallLine.reveal`).
    The agent receives only this name."""


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

    async def transfer_after_speech(self, destination: str) -> None:
        """Let the agent finish speaking, then pass the caller on to a configured destination.

        Raises `TransferFailed` (the call continues), `LineUnsupported` or `LineGone`.
        """

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys from the caller. Meanwhile the agent receives no keys.

        Keys pressed up to 2 s before count too. Raises `LineError` if another collection runs, and
        `LineGone` if the call ends meanwhile.
        """

    def reveal(self, reference: str) -> str | None:
        """Return the secret keys kept under this name, for the tool that needs them.

        None if there are none. The keys, and anything that contains them, must never reach an
        agent, a log or the ledger.
        """

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises `LineUnsupported` or another `LineError`."""

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
    call_id: str
    context_name: str
    provider_name: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)

    def end_after_speech(self, reason: str) -> None:
        """Do nothing: there is no call to end."""

    async def transfer_after_speech(self, destination: str) -> None:
        raise LineUnsupported(self.no_transfer)

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        raise LineUnsupported(self.no_keys)

    def reveal(self, reference: str) -> str | None:
        return None

    async def send_keys(self, keys: str) -> None:
        raise LineUnsupported(self.no_keys)

    def say(self, text: str) -> None:
        """Do nothing: there is no listener."""

    def pause_recording(self) -> bool:
        return False

    def resume_recording(self) -> bool:
        return False

    async def confirm(self, question: str) -> bool | None:
        raise LineUnsupported(self.no_transfer)
