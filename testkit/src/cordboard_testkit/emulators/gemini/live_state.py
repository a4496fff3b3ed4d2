"""What the connections of an emulated Gemini Live share: a conversation, and the service itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from websockets.asyncio.server import ServerConnection

from cordboard_testkit.emulators.script import Answer, Prompter
from cordboard_testkit.emulators.speech import Speaker


@dataclass(slots=True)
class CallState:
    """What the service knows of one conversation now."""

    prompter: Prompter
    pending: dict[str, bool] = field(default_factory=dict)
    """Function calls that are not answered: whether the model waits for them."""
    cancelled: set[str] = field(default_factory=set)
    current: Answer | None = None
    """The answer to the caller's last turn."""
    asked: Answer | None = None
    """The answer whose tools are being waited for."""
    owed: Answer | None = None
    """The same, until all of it was given."""


class LiveService(Protocol):
    """What a connection needs of the service."""

    pace: float
    """How much faster than it is heard the sound is sent."""

    @property
    def speaker(self) -> Speaker: ...

    def new_handle(self, state: CallState) -> str:
        """Keep this state as it is now."""
        ...

    def new_call_id(self) -> str: ...

    async def close(self, socket: ServerConnection, code: int, reason: str) -> None:
        """Close a connection, as the service does."""
        ...
