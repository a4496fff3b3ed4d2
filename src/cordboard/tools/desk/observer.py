"""Who is told what happens at a call's desk: the call, for ledger, metrics and spoken fillers."""

from __future__ import annotations

from typing import Protocol

from cordboard.tools.tool import ToolAsk, ToolReply, ToolSpec


class DeskObserver(Protocol):
    """What the call wants to know of its tools.

    All are called on the event loop and must return at once. Asks and replies come in the form in
    which they may be recorded: secrets masked, arguments bounded and JSON. Steps of workflows are
    told as all others; `ToolAsk.parent` says whose they are.
    """

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """An ask came in. `spec` is None when there is no such tool in the toolbox."""
        ...

    def filler(self, ask: ToolAsk, text: str) -> None:
        """The tool is slow: the text should be said now."""
        ...

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """The ask is answered, or given up (status cancelled); called once for each ask."""
        ...

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """The answer has come to an ask that was given up or had timed out."""
        ...


class SilentObserver:
    """A `DeskObserver` that wants to know nothing."""

    def asked(self, ask: ToolAsk, spec: ToolSpec | None) -> None:
        """Ignore it."""

    def filler(self, ask: ToolAsk, text: str) -> None:
        """Ignore it."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, reply: ToolReply) -> None:
        """Ignore it."""

    def late(self, ask: ToolAsk, spec: ToolSpec, reply: ToolReply) -> None:
        """Ignore it."""
