"""Waiting tool calls of an ElevenLabs agent, over all conversations of one call.

A connection is a conversation of its own: the ids of a lost one mean nothing to the next. Calls
from a lost conversation that are answered later, and answers that perhaps never arrived there, are
given to the next one in words. Pure bookkeeping.
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
        """Open calls of the current conversation."""
        self._orphans: set[str] = set()
        """Open calls of lost conversations."""
        self._unproven: dict[str, ToolReply] = {}

    def asked(self, call_id: str) -> bool:
        """Add a call; False: it is already known."""
        if call_id in self._known:
            return False
        self._known.add(call_id)
        self._open.add(call_id)
        return True

    def refuse(self, call_id: str) -> None:
        """Remove a call that we answered at once."""
        self._open.discard(call_id)

    @property
    def too_many(self) -> bool:
        return len(self._open) > MOST_OPEN

    def answered(self, reply: ToolReply) -> Literal["here", "lost", "nowhere"]:
        """Return the place where the call is waiting: this conversation, a lost one, or nowhere."""
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
        """True if calls of lost conversations still wait."""
        return bool(self._orphans)

    @property
    def unproven(self) -> tuple[ToolReply, ...]:
        """Return the answers that had no reaction yet: they may not have arrived."""
        return tuple(self._unproven.values())

    def proven(self) -> None:
        """Note that the agent speaks: it has received the answers."""
        self._unproven.clear()

    def conversation_lost(self) -> None:
        """Note that a new conversation replaces the current one."""
        self._orphans |= self._open
        self._open = set()
