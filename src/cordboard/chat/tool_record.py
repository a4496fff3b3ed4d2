"""Record of the tool calls in a written conversation: to the reader, the metrics and the ledger.

It is the desk's observer. Each tool call and answer goes to three places: the ledger (the audit
trail), the metrics, and the reader of the conversation. The desk has masked secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.calls.tools.events import answered_event, asked_event, count
from cordboard.chat.answer import ChatEvent
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk.desk import SilentObserver
from cordboard.tools.tool import Effects, ToolAsk, ToolReply, ToolSpec


@dataclass(frozen=True, slots=True)
class _Late:
    reply: ToolReply
    came_at: float


class ToolRecord(SilentObserver):
    """A `cordboard.tools.desk.desk.DeskObserver`."""

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        context: str,
        tell: Callable[[ChatEvent], None] = lambda _: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ledger = ledger
        self._metrics = metrics
        self._context = context
        self._tell = tell
        self._late: list[_Late] = []
        """Answers to tool calls that were given up, not yet reported."""

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        event = asked_event(ask, spec)
        self._ledger.record(event)
        data: dict[str, Any] = {
            "turn": ask.turn,
            "ask_id": ask.ask_id,
            "name": ask.name,
            "tool": event.tool,
            "arguments": ask.arguments,
        }
        if ask.parent:
            data["parent"] = ask.parent
        self._tell(ChatEvent("tool_call", data))

    def filler(self, ask: ToolAsk, text: str) -> None:
        self._ledger.record(events.ToolFiller(ask.ask_id, text))
        self._tell(ChatEvent("filler", {"turn": ask.turn, "ask_id": ask.ask_id, "text": text}))

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        self._ledger.record(answered_event(ask, reply))
        count(self._metrics, self._context, spec, reply)
        self._tell(result_event(reply, ask.turn))

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Keep a late answer for the next message, except the failure of a tool that only reads."""
        late = _Late(reply, self._loop.time())
        if reply.ok or spec.effects is not Effects.READ_ONLY:
            self._late.append(late)
        else:
            self._settle(late, told=False)

    def take_late(self, turn: int) -> list[str]:
        """Return the sentences about late answers, and mark them as reported."""
        late, self._late = self._late, []
        for each in late:
            self._settle(each, told=True)
            self._tell(result_event(each.reply, turn))
        return [each.reply.message for each in late]

    def close(self) -> None:
        """Drop late answers: there is no reader any more."""
        late, self._late = self._late, []
        for each in late:
            self._settle(each, told=False)

    def _settle(self, late: _Late, *, told: bool) -> None:
        self._metrics.tools.late(told=told)
        reply, waited = late.reply, round((self._loop.time() - late.came_at) * 1000)
        self._ledger.record(
            events.ToolLate(
                reply.ask_id, reply.name, str(reply.status), reply.message, told, waited
            )
        )


def result_event(reply: ToolReply, turn: int) -> ChatEvent:
    """Return the reader's event for an answer, without the data of the result."""
    return ChatEvent(
        "tool_result",
        {
            "turn": turn,
            "ask_id": reply.ask_id,
            "name": reply.name,
            "status": str(reply.status),
            "message": reply.message,
            "source": reply.source,
            "took_ms": reply.took_ms,
            "cut": list(reply.cut),
        },
    )
