"""Shared state of the connections of an emulated Gemini Live: a conversation, and the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from websockets.asyncio.server import ServerConnection

from cordboard_testkit.emulators.script import Answer, Prompter
from cordboard_testkit.emulators.speech import Speaker


@dataclass(slots=True)
class CallState:
    """The service's current state of one conversation."""

    prompter: Prompter
    pending: dict[str, bool] = field(default_factory=dict)
    """Function calls without an answer; the value is True if the model waits for it."""
    cut_off: set[str] = field(default_factory=set)
    """Calls that were pending when the connection was lost, and that the handle does not hold: the
    resumed session is stuck in their exchange, and the next input only closes it."""
    cancelled: set[str] = field(default_factory=set)
    current: Answer | None = None
    """The answer to the caller's last turn."""
    asked: Answer | None = None
    """The answer whose tools are still running."""
    owed: Answer | None = None
    """The answer to the caller's last turn, until all of it was sent."""


class LiveService(Protocol):
    """The service, as a connection sees it."""

    pace: float
    """Speed of the outgoing audio, as a multiple of real time."""
    guess: str
    """Words that the model says of its own while a tool runs that it does not wait for."""

    @property
    def speaker(self) -> Speaker: ...

    def new_handle(self, state: CallState) -> str:
        """Keep this state as it is now."""
        ...

    def new_call_id(self) -> str: ...

    async def close(self, socket: ServerConnection, code: int, reason: str) -> None:
        """Close a connection, as the service does."""
        ...
