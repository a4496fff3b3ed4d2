"""What is written down of tools that no agent asked for: those of `pre_call` and `post_call`."""

from __future__ import annotations

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import Status, ToolAsk, ToolReply, ToolSpec


class PhaseRecords:
    """A desk's observer. Before a call, asks are lines of its ledger, of the greeting's turn; after
    it the ledger is closed, and they are only counted."""

    def __init__(self, metrics: Metrics, context: str, ledger: Ledger | None = None) -> None:
        self._metrics = metrics
        self._context = context
        self._ledger = ledger

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        if self._ledger is not None:
            origin = spec.origin if spec is not None else ""
            self._ledger.record(
                events.ToolCalled(0, ask.ask_id, ask.name, origin, ask.arguments, ask.parent)
            )

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Nobody listens yet, or any more."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        if self._ledger is not None:
            self._ledger.record(
                events.ToolAnswered(
                    ask.ask_id,
                    ask.name,
                    str(reply.status),
                    reply.message,
                    reply.took_ms,
                    reason=reply.refused,
                    source=reply.source,
                    tries=reply.tries,
                )
            )
        name = spec.name if spec is not None else "unknown"
        seconds = reply.took_ms / 1000
        self._metrics.tool_called(
            name, reply.status, seconds, context=self._context, source=reply.source
        )
        if reply.status is Status.REFUSED:
            self._metrics.tool_refused(reply.refused or "tool")
        if spec is not None and spec.server:
            tool = spec.origin.removeprefix(f"mcp:{spec.server}:")
            self._metrics.mcp_tool_called(spec.server, tool, reply.status, seconds)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """It is of no use any more; the desk's log has it."""
