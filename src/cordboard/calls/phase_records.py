"""Records tool calls that no agent requested: those of `pre_call` and `post_call`."""

from __future__ import annotations

from cordboard.calls.ledger import Ledger
from cordboard.calls.tools.events import answered_event, asked_event, count
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import ToolAsk, ToolReply, ToolSpec


class PhaseRecords:
    """A desk's observer. Before a call, tool calls are lines of its ledger, in the greeting's turn;
    after the call the ledger is closed, and they are only counted."""

    def __init__(self, metrics: Metrics, context: str, ledger: Ledger | None = None) -> None:
        self._metrics = metrics
        self._context = context
        self._ledger = ledger

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        if self._ledger is not None:
            self._ledger.record(asked_event(ask, spec))

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Do nothing: there is no listener."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        if self._ledger is not None:
            self._ledger.record(answered_event(ask, reply, to_agent=False))
        count(self._metrics, self._context, spec, reply)

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Do nothing: the answer is useless now; the desk logs it."""
