"""The tool calls of an OpenAI Realtime session: answered, and known to the model.

A result is an item of the conversation; the model speaks about it only in a response that is
created afterwards. A response, created by us or by the service because the caller has spoken, sees
the results that the service had stored by then. So one more response is due if, and only if, all
calls of a response are answered and no response sees some of the answers. Pure bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.realtime.messages import function_call_item, function_output_item

KEPT = 6
"""Finished calls that a new session gets."""


@dataclass(slots=True)
class ToolCall:
    """One call of the model."""

    call_id: str
    name: str
    arguments: str
    response_id: str
    output: str | None = None
    stored: bool = False
    """The service has the output."""
    seen_by: str = ""
    """The response that knows it."""
    told: bool = False
    """That response is over."""

    def items(self) -> list[JsonObject]:
        """Return the call and its output as items of a conversation."""
        items = [function_call_item(self.call_id, self.name, self.arguments)]
        if self.output is not None:
            items.append(function_output_item(self.call_id, self.output))
        return items


class ToolCalls:
    """All tool calls of one phone call, over all its connections."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def asked(self, call: ToolCall) -> None:
        self._calls[call.call_id] = call
        told = [one.call_id for one in self._calls.values() if one.told]
        for call_id in told[:-KEPT]:
            del self._calls[call_id]

    def answered(self, call_id: str, output: str) -> bool:
        """Record the output. False: the call is not waiting."""
        call = self._calls.get(call_id)
        if call is None or call.output is not None:
            return False
        call.output = output
        return True

    def stored(self, call_id: str) -> None:
        """Note that the service has stored that output."""
        call = self._calls.get(call_id)
        if call is not None and call.output is not None:
            call.stored = True

    def refused(self, call_id: str) -> ToolCall | None:
        """Note that the service refuses that output: it is given in another way, and no longer
        waited for."""
        call = self._calls.get(call_id)
        if call is None or call.stored:
            return None
        self.settle(call_id)
        return call

    def refused_output(self, message: str) -> str:
        """Return the purpose, as in the outbox, of the output that the service's message refuses by
        the call's id; empty if it names none."""
        for call in self._calls.values():
            if call.output is not None and not call.stored and call.call_id in message:
                return f"output {call.call_id}"
        return ""

    def settle(self, call_id: str) -> None:
        """Note that nothing more must be spoken about this call."""
        call = self._calls[call_id]
        call.stored = call.told = True
        call.seen_by = "-"

    @property
    def unseen(self) -> tuple[str, ...]:
        """Return the calls whose output was sent and is known to no response."""
        return tuple(
            call.call_id
            for call in self._calls.values()
            if call.output is not None and not call.seen_by
        )

    def response_began(self, response_id: str, besides: Iterable[str] = ()) -> None:
        """Note that a response knows the stored outputs, and `besides`: the service need not report
        that it has stored one."""
        for call in self._calls.values():
            if (call.stored or call.call_id in besides) and not call.seen_by:
                call.seen_by = response_id

    def response_ended(self, response_id: str, *, failed: bool) -> None:
        for call in self._calls.values():
            if call.seen_by == response_id and not call.told:
                call.told = not failed
                call.seen_by = "" if failed else response_id

    def resumed(self) -> tuple[list[JsonObject], list[JsonObject]]:
        """Start a new connection: return the items of finished calls, and those of open calls."""
        finished: list[JsonObject] = []
        open_: list[JsonObject] = []
        for call in self._calls.values():
            if call.told and call.output is not None:
                finished += call.items()
                continue
            call.stored, call.seen_by = False, ""
            open_ += call.items()
        return finished, open_

    @property
    def waiting(self) -> bool:
        """True if some call is not answered."""
        return any(call.output is None for call in self._calls.values())

    @property
    def due(self) -> bool:
        """True if the model must be asked to speak about results."""
        waiting = {call.response_id for call in self._calls.values() if call.output is None}
        return any(
            call.output is not None and not call.seen_by and call.response_id not in waiting
            for call in self._calls.values()
        )
