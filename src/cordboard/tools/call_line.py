"""The face of a call that a tool may use: what a tool can do to the line and ask of the caller.

The calls room implements it for phone calls, the chat room for conversations in writing;
`cordboard.tools.no_caller` is the one for runs where nobody is on the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class KeysWanted:
    """What `CallLine.collect_keys` waits for."""

    count: int = 0
    """So many keys end it; 0 = only the terminator or the timeout does."""
    terminator: str = "#"
    """This key ends it and is not part of the answer; empty = none."""
    first_timeout: float = 10.0
    """Seconds until the first key."""
    next_timeout: float = 4.0
    """Seconds between two keys."""
    secret: bool = False
    """The keys appear nowhere: not in ledger, logs, recording (sound muted) or to the agent."""


@dataclass(frozen=True, slots=True)
class KeysCollected:
    """The keys that came."""

    keys: str = field(repr=False)
    """Never in a log, whoever logs this; the terminator is not part of it."""
    ended_by: Literal["count", "terminator", "timeout"]
    reference: str = ""
    """Of secret keys: the name under which the call keeps them to its end (`CallLine.reveal`).
    All of them that an agent may know."""


class CallLine(Protocol):
    """The face of a call that a tool may use."""

    @property
    def call_id(self) -> str: ...

    @property
    def context_name(self) -> str: ...

    @property
    def provider_name(self) -> str: ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Call variables as declared by the context (caller_number, called_number, ...)."""
        ...

    def end_after_speech(self, reason: str) -> None:
        """Hang up as soon as the caller has heard what the agent is saying. Returns at once."""
        ...

    async def transfer_after_speech(self, destination: str) -> None:
        """Let the agent finish speaking, then pass the caller on to a configured destination.

        Raises `TransferFailed` (the call goes on), `LineUnsupported` or `LineGone`.
        """
        ...

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        """Wait for keys of the caller. While it waits the agent is not given any.

        Keys pressed up to 2 s before count too. Raises `LineError` when another collection runs,
        and `LineGone` when the call ends meanwhile.
        """
        ...

    def reveal(self, reference: str) -> str | None:
        """The secret keys that `collect_keys` kept under this name, for whom they were asked.

        None when there are none. What comes of it must never reach an agent, a log or the ledger.
        """
        ...

    async def send_keys(self, keys: str) -> None:
        """Send DTMF to the caller's side. Raises `LineUnsupported` or another `LineError`."""
        ...

    def say(self, text: str) -> None:
        """Have the agent speak a sentence now. Returns at once."""
        ...

    def pause_recording(self) -> bool:
        """Record silence from now on. False when the call is not being recorded."""
        ...

    def resume_recording(self) -> bool:
        """Record sound again. False when the call is not being recorded."""
        ...

    async def confirm(self, question: str) -> bool | None:
        """Ask the caller and wait for a spoken or keyed yes or no.

        None when no clear answer came. While it waits the agent answers nothing. Raises
        `LineUnsupported` where there is nobody to ask, `LineError` when something else is being
        asked, `LineGone` when the call ends meanwhile.
        """
        ...
