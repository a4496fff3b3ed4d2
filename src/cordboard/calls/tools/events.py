"""Ledger entries and metrics of tool calls, for all users of the desk: telephone calls, written
conversations, and trials of one tool. The desk reports tool calls and answers with secrets
masked.
"""

from __future__ import annotations

from typing import Any

import orjson

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.observe.metrics import Metrics
from cordboard.tools.desk.desk import SilentObserver
from cordboard.tools.tool import Status, ToolAsk, ToolReply, ToolSpec

MOST_SENT = 4_096
"""Bytes of JSON of a reply's data that are written into the ledger."""


def asked_event(ask: ToolAsk, spec: ToolSpec | None) -> events.ToolCalled:
    """Return the ledger entry of a tool call."""
    origin = spec.origin if spec is not None else ""
    return events.ToolCalled(ask.turn, ask.ask_id, ask.name, origin, ask.arguments, ask.parent)


def answered_event(ask: ToolAsk, reply: ToolReply, *, to_agent: bool = True) -> events.ToolAnswered:
    """Return the ledger entry of an answer; with the data, where an agent receives it."""
    size, sent = _as_recorded(reply.data) if to_agent else (0, {})
    return events.ToolAnswered(
        ask.ask_id,
        ask.name,
        str(reply.status),
        reply.message,
        reply.took_ms,
        reason=reply.refused,
        source=reply.source,
        tries=reply.tries,
        payload_bytes=size,
        cut=list(reply.cut) if to_agent else [],
        sent=sent,
    )


def count(metrics: Metrics, context: str, spec: ToolSpec | None, reply: ToolReply) -> None:
    """Count an answer, by the names that the context knows."""
    if spec is not None:
        name = spec.name
    else:  # an error belongs to a tool that the context lists and no server offers now
        name = reply.name if reply.status is Status.ERROR else "unknown"
    seconds = reply.took_ms / 1000
    metrics.tools.called(name, reply.status, seconds, context=context, source=reply.source)
    if reply.status is Status.REFUSED:
        metrics.tools.refused(reply.refused or "tool")
    if reply.source == "cache":
        metrics.tools.cache_hit(name)
    elif spec is not None and spec.server:
        tool = spec.origin.removeprefix(f"mcp:{spec.server}:")
        metrics.servers.tool_called(spec.server, tool, reply.status, seconds)


def _as_recorded(data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the size of a reply's data as JSON, and the part that the ledger keeps."""
    if not data:
        return 2, {}
    encoded = orjson.dumps(data, default=str, option=orjson.OPT_NON_STR_KEYS)
    if len(encoded) <= MOST_SENT:
        return len(encoded), data
    room = MOST_SENT
    while True:
        text = encoded[:room].decode("utf-8", "ignore")
        shortened = {"shortened": f"{text}…"}
        size = len(orjson.dumps(shortened))
        if size <= MOST_SENT:
            return len(encoded), shortened
        room = min(room - 1, room * MOST_SENT // size)  # quotes are written as two bytes


class PhaseRecords(SilentObserver):
    """A desk's observer. Before a call, tool calls are lines of its ledger, in the greeting's turn;
    after the call the ledger is closed, and they are only counted."""

    def __init__(self, metrics: Metrics, context: str, ledger: Ledger | None = None) -> None:
        self._metrics = metrics
        self._context = context
        self._ledger = ledger

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        if self._ledger is not None:
            self._ledger.record(asked_event(ask, spec))

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        if self._ledger is not None:
            self._ledger.record(answered_event(ask, reply, to_agent=False))
        count(self._metrics, self._context, spec, reply)
