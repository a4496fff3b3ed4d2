"""What the responses of an emulated OpenAI Realtime session need of it, and of the service."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from cordboard_testkit.emulators.openai.realtime_conversation import Conversation, Event, Work
from cordboard_testkit.emulators.script import Fault, Prompter, When
from cordboard_testkit.emulators.speech import Speaker


class Gone(Exception):
    """Nothing more happens on this connection."""


class RealtimeService(Protocol):
    """The service: one for all sessions."""

    prompter: Prompter
    works: list[Work]
    """The caller's turns, the last one last."""
    violations: list[str]
    speed: float
    """How much faster than time it speaks."""

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
        """Have it done; it ends with the connection."""
        ...

    async def fault(self, when: When) -> bool:
        """Whether there was one. Raises `Gone` when nothing more happens on this connection."""
        ...

    async def perform(self, fault: Fault) -> None:
        """Let it go wrong. Raises `Gone`, like `fault`."""
        ...
