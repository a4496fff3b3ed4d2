"""The line of a written conversation, with the actions that tools may take there.

It can be ended, spoken on and used for yes-or-no questions. It has no keys, no recorded audio and
no transfers: tools that need one get an error text that the other side may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cordboard.errors import LineUnsupported
from cordboard.tools.call_line import KeysCollected, KeysWanted

NO_TRANSFER = "a written conversation cannot be transferred"
NO_KEYS = "a written conversation has no keys"


class Talk(Protocol):
    """The conversation, as the line needs it."""

    def leave(self, reason: str) -> None:
        """End once the answer has been given."""
        ...

    def say(self, text: str) -> None:
        """Speak a sentence now."""
        ...

    async def confirm(self, question: str) -> bool | None:
        """As `CallLine.confirm`."""
        ...


@dataclass(frozen=True, slots=True)
class ChatLine:
    """Implements `cordboard.tools.call_line.CallLine`."""

    call_id: str
    context_name: str
    provider_name: str
    talk: Talk = field(repr=False)
    variables: Mapping[str, str] = field(default_factory=dict)

    def end_after_speech(self, reason: str) -> None:
        self.talk.leave(reason)

    async def transfer_after_speech(self, destination: str) -> None:
        raise LineUnsupported(NO_TRANSFER)

    async def collect_keys(self, wanted: KeysWanted) -> KeysCollected:
        raise LineUnsupported(NO_KEYS)

    def reveal(self, reference: str) -> str | None:
        return None

    async def send_keys(self, keys: str) -> None:
        raise LineUnsupported(NO_KEYS)

    def say(self, text: str) -> None:
        self.talk.say(text)

    def pause_recording(self) -> bool:
        return False

    def resume_recording(self) -> bool:
        return False

    async def confirm(self, question: str) -> bool | None:
        return await self.talk.confirm(question)
