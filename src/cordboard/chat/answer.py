"""What comes of one message, event by event, for whoever sent it.

session      who answers: first of all
token        a piece of the answer; joined as they are, those of a turn are the answer
tool_call    a tool was asked for; secret arguments are masked
tool_result  what came of it: status, words, how long it took, what was cut
filler       a sentence to bridge a slow tool; no part of the answer
approval     a question; the next message answers it with yes or no
error        something went wrong; the conversation goes on unless `done` says otherwise
done         the last one: what the conversation waits for now
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

EventName: TypeAlias = Literal[
    "session", "token", "tool_call", "tool_result", "filler", "approval", "error", "done"
]


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """One event; `data` is fit for JSON."""

    name: EventName
    data: dict[str, Any] = field(default_factory=dict)


class Answer:
    """An async iterator over the events of one message, to be read once."""

    def __init__(self, on_left: Callable[[Answer], None] = lambda _: None) -> None:
        self._events: asyncio.Queue[ChatEvent | None] = asyncio.Queue()
        self._on_left = on_left
        self._over = False

    def put(self, event: ChatEvent) -> None:
        """Hand an event over; harmless when all is said already."""
        if not self._over:
            self._events.put_nowait(event)

    def end(self) -> None:
        """Nothing more comes."""
        if not self._over:
            self._over = True
            self._events.put_nowait(None)

    def leave(self) -> None:
        """Whoever read does not read on: what is still being done for them is given up, as far as
        it changes nothing. Harmless when all is said."""
        if not self._over:
            self.end()
            self._on_left(self)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> ChatEvent:
        """The next event. May be cancelled and called again; nothing is lost."""
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise StopAsyncIteration
        return event
