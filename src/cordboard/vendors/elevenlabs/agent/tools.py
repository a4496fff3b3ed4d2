"""Which tool calls of an ElevenLabs agent wait for an answer, over all conversations of one call.

A connection is a conversation of its own: the ids of a lost one mean nothing to the next. What was
asked there and is answered later, and what was answered there and perhaps never arrived, is told to
the next one in words. Pure bookkeeping.
"""

from __future__ import annotations

from typing import Literal

from cordboard.tools.tool import ToolReply

MOST_OPEN = 200
"""Calls that wait at the same time; more is not a conversation."""


class OpenCalls:
    """The tool calls of one call."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._open: set[str] = set()
        """Of the present conversation."""
        self._orphans: set[str] = set()
        """Of those that were lost."""
        self._unproven: dict[str, ToolReply] = {}

    def asked(self, call_id: str) -> bool:
        """Take a call; False: it is known already."""
        if call_id in self._known:
            return False
        self._known.add(call_id)
        self._open.add(call_id)
        return True

    def refuse(self, call_id: str) -> None:
        """It was answered at once, by ourselves."""
        self._open.discard(call_id)

    @property
    def too_many(self) -> bool:
        return len(self._open) > MOST_OPEN

    def answered(self, reply: ToolReply) -> Literal["here", "lost", "nowhere"]:
        """Where its call is waiting: in this conversation, in one that was lost, or nowhere."""
        if reply.ask_id in self._open:
            self._open.remove(reply.ask_id)
            self._unproven[reply.ask_id] = reply
            return "here"
        if reply.ask_id in self._orphans:
            self._orphans.remove(reply.ask_id)
            return "lost"
        return "nowhere"

    @property
    def orphans(self) -> bool:
        """Whether calls of lost conversations still wait."""
        return bool(self._orphans)

    @property
    def unproven(self) -> tuple[ToolReply, ...]:
        """Answers that were given and that nothing was said to yet: they may not have arrived."""
        return tuple(self._unproven.values())

    def proven(self) -> None:
        """The agent speaks: it has what it was given."""
        self._unproven.clear()

    def conversation_lost(self) -> None:
        """There is another one."""
        self._orphans |= self._open
        self._open = set()
