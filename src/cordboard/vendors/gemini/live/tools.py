"""Gemini Live's tool calls: requested, cancelled, answered.

Calls that the model waits for are answered together, as they were requested. Answers to the others
are sent at once, all but the last of one message silently, so that the model speaks once and with
all of them. The last one interrupts the model: if it waited until the model is idle, the model
would first have answered out of its own knowledge. A call that the service has forgotten with its
connection is answered in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cordboard.tools.tool import JsonObject, ToolReply
from cordboard.vendors.gemini.config import GeminiLiveProvider
from cordboard.vendors.gemini.live import messages as say
from cordboard.vendors.gemini.live.floor import Floor
from cordboard.vendors.gemini.live.memory import Call
from cordboard.vendors.gemini.models import live_model

_NAMELESS: JsonObject = {"status": "error", "message": "There is no such function."}


class ToolCalls:
    """One connection's tool calls."""

    def __init__(
        self, floor: Floor, settings: GeminiLiveProvider, pause: Callable[[], None]
    ) -> None:
        """`pause`: called because the model says nothing more until it has its answers."""
        self._floor = floor
        self._pause = pause
        self._host = floor.host
        self._memory = floor.memory
        self._settings = settings
        self._scheduling = live_model(settings.model).scheduling
        self._specs = {spec.name: spec for spec in floor.session.toolbox}

    def called(self, message: JsonObject) -> None:
        """Take a `toolCall`."""
        entries = message.get("functionCalls")
        if not isinstance(entries, list):
            self._host.ignored("malformed", "toolCall")
            return
        group = self._memory.new_group()
        asked = [call for entry in entries if (call := self._read(entry, group)) is not None]
        if not asked:
            return
        self._floor.turns.answered()
        self._floor.turns.settle()
        self._floor.done_told = False
        for call in asked:  # all are recorded first: an answer may come before the next call
            if call.name:
                self._host.tool_asked(call.call_id, call.name, call.arguments)
            else:
                self._host.ignored("malformed", "a function call without a name")
                call.name, call.response = "unknown", _NAMELESS
                self.deliver(call)
        if any(call.blocking for call in asked):
            self._pause()

    def _read(self, entry: Any, group: int) -> Call | None:
        call_id = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(call_id, str) or not call_id:
            self._host.ignored("malformed", "a function call without an id")
            return None
        if call_id in self._memory.seen:
            self._host.ignored("duplicate", "a function call")
            return None
        self._memory.seen.add(call_id)
        name, arguments = entry.get("name"), entry.get("args")
        name = name if isinstance(name, str) else ""
        call = Call(
            call_id,
            name,
            arguments if isinstance(arguments, dict) else {},
            say.blocks(self._specs.get(name), self._settings),
            group,
            self._host.now(),
        )
        self._memory.calls[call_id] = call
        return call

    def cancelled(self, message: JsonObject) -> None:
        """Take a `toolCallCancellation`."""
        ids = message.get("ids")
        if not isinstance(ids, list):
            self._host.ignored("malformed", "toolCallCancellation")
            return
        waiting: list[Call] = []
        for call_id in ids:
            call = self._memory.calls.get(call_id) if isinstance(call_id, str) else None
            if call is None or not self._memory.cancelled(call.call_id):
                self._host.ignored("late", "the cancellation of a function call")
                continue
            waiting = [peer for peer in self._memory.peers(call) if peer.response is not None]
            if call.response is None:
                self._host.tool_cancelled(call.call_id)
        if waiting:
            self.deliver(waiting[0])  # it waited for the cancelled call

    def answer(self, reply: ToolReply) -> None:
        """Take the answer to a call."""
        call = self._memory.waits_for(reply.ask_id)
        if call is None:
            self._host.ignored("late", "the answer to a cancelled tool call")
            return
        call.response = say.response_of(reply)
        if self._floor.ready_at is not None:
            self.deliver(call)

    def deliver_waiting(self) -> None:
        """Send the answers that could not be sent before the session was accepted."""
        for call in self._memory.open_calls():
            if call.response is not None and not call.sent:
                self.deliver(call)

    def deliver(self, call: Call) -> None:
        """Send an answer, or keep it until the answers that belong to it are there."""
        peers = self._memory.peers(call)
        if not call.known:
            if all(peer.response is not None for peer in peers):
                for peer in peers:
                    self._floor.note(peer.in_words())
                    self._memory.was_sent(peer)
                self._floor.tell_notes()
            return
        if not call.blocking and self._scheduling:
            others = any(peer.response is None for peer in peers)
            self._give([call], "SILENT" if others or call.quiet else "INTERRUPT")
            return
        together = [peer for peer in peers if peer.blocking == call.blocking]
        if all(peer.response is not None for peer in together):
            self._give(together, "")

    def _give(self, calls: list[Call], scheduling: str) -> None:
        self._floor.send(
            say.tool_response(
                say.function_response(call.call_id, call.name, call.response or {}, scheduling)
                for call in calls
            )
        )
        for call in calls:
            self._memory.was_sent(call)
        if scheduling != "SILENT":
            self._floor.gives_way = self._floor.answering is not None
            self._floor.owes()
