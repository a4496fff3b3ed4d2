"""The emulated OpenAI Realtime session and its service, as the responses see them."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from cordboard_testkit.emulators.openai.realtime_conversation import Conversation, Event, Work
from cordboard_testkit.emulators.script import Fault, Prompter, When
from cordboard_testkit.emulators.speech import Speaker


class Gone(Exception):
    """The connection is dead."""


class RealtimeService(Protocol):
    """The service: one for all sessions."""

    prompter: Prompter
    works: list[Work]
    """The caller's turns, the last one last."""
    violations: list[str]
    speed: float
    """Speed of the audio, as a multiple of real time."""

    @property
    def speaker(self) -> Speaker: ...


class RealtimeSession(Protocol):
    """One connection."""

    number: int
    """Counted from 1."""
    settings: Event
    conversation: Conversation

    @property
    def emulator(self) -> RealtimeService: ...

    def say(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        ...

    def new_id(self, prefix: str) -> str: ...

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run it as a task; it ends with the connection."""
        ...

    async def fault(self, when: When) -> bool:
        """Return True if there was one. Raises `Gone` when the connection is dead."""
        ...

    async def perform(self, fault: Fault) -> None:
        """Cause the fault. Raises `Gone`, like `fault`."""
        ...
