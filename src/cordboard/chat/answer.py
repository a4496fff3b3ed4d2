"""The answer to one message, event by event, for its sender.

session      the first event: the conversation, and its context
token        a piece of the answer; the pieces of a turn, joined unchanged, are the answer
tool_call    a tool call began; secret arguments are masked
tool_result  its result: status, words, duration, what was cut
filler       a sentence to bridge a slow tool; not a part of the answer
approval     a question; the next message answers it with yes or no
error        something went wrong; the conversation continues unless `done` says otherwise
done         the last event: what the conversation waits for now
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
        self._events: asyncio.Queue[tuple[ChatEvent, Callable[[], None] | None] | None]
        self._events = asyncio.Queue()
        self._taken: Callable[[], None] | None = None
        """Of the event that the reader has."""
        self._on_left = on_left
        self._over = False

    def put(self, event: ChatEvent, taken: Callable[[], None] | None = None) -> None:
        """Add an event; ignored after the end. `taken` is called once the reader has done with it:
        when it asks for the next one."""
        if not self._over:
            self._events.put_nowait((event, taken))

    def end(self) -> None:
        """End the answer: no more events come."""
        if not self._over:
            self._over = True
            self._events.put_nowait(None)

    def leave(self) -> None:
        """Stop reading: work for the reader is given up, as far as it changes nothing. Harmless
        after the end."""
        if not self._over:
            self.end()
            self._on_left(self)

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> ChatEvent:
        """Return the next event. May be cancelled and called again; nothing is lost."""
        if self._taken is not None:
            self._taken()
            self._taken = None
        item = await self._events.get()
        if item is None:
            self._events.put_nowait(None)
            raise StopAsyncIteration
        event, self._taken = item
        return event
