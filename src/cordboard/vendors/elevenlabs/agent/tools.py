"""Tool calls of an ElevenLabs agent, over all conversations of one call.

A connection is a conversation of its own: the ids of a lost one mean nothing to the next. Calls
from a lost conversation that are answered later, and answers that perhaps never arrived there, are
given to the next one in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import ToolReply
from cordboard.vendors.elevenlabs.agent import messages

MOST_OPEN = 200
"""Calls that wait at the same time; more is not a conversation."""


class ToolCalls:
    """The tool calls of one call."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._open: set[str] = set()
        """Open calls of the current conversation."""
        self._orphans: set[str] = set()
        """Open calls of lost conversations."""
        self._unproven: dict[str, ToolReply] = {}

    def called(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        """Take a `client_tool_call`. A call that cannot be passed to the desk is answered here."""
        told = messages.part(event, "client_tool_call")
        name, call_id = told.get("tool_name"), told.get("tool_call_id")
        if not (isinstance(name, str) and isinstance(call_id, str) and call_id):
            host.ignored("malformed", "client_tool_call")
            return
        if call_id in self._known:
            host.ignored("duplicate", "a tool call")
            return
        self._known.add(call_id)
        arguments = told.get("parameters")
        if arguments is not None and not isinstance(arguments, dict):
            host.ignored("malformed", "client_tool_call")
            host.send_text(messages.tool_error(call_id, "the parameters are not an object"))
        elif len(self._open) >= MOST_OPEN:
            host.ignored("warning", "too many tool calls wait")
            host.send_text(messages.tool_error(call_id, "too many calls at once"))
        else:
            self._open.add(call_id)
            host.tool_asked(call_id, name, arguments or {})

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
