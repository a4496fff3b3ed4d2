"""The door to tracing: events of calls become OpenTelemetry spans, or nothing.

    call                     from the offer to the end
    ├── turn                 from the caller's first sound to the end of the answer
    │   └── execute_tool …   one request of the agent, from the request to its answer
    │       └── MCP send …   the MCP SDK's own span of it
    └── execute_tool …       outside of any turn

Calls and turns are made from the lines of the ledger as they are written, with the ledger's times,
so they cost nothing on the path of the audio. `Tracing` itself makes no spans and costs a method
call for each ledger line and each tool call; `cordboard.observe.open_tracing` returns the real one
if `tracing:` is configured (`cordboard.observe.spans`, loaded only then).

Spans contain ids, names, times and outcomes: no arguments, no results, no words of the
conversation, no numbers of callers, and no error texts, whose content servers choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Protocol


class LedgerLine(Protocol):
    """An event of the ledger, by its documented type and fields (`docs/call-ledger.md`)."""

    type: ClassVar[str]

    def fields(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """Facts of a tool call for its span. Names only; `exposed_name` may be an invented one."""

    call_id: str
    turn: int
    context: str
    provider: str
    server: str
    tool: str
    """Internal id, such as `mcp:aviation_atis:get_atis`; empty when there is no such tool."""
    exposed_name: str


class ToolSpan:
    """The time in which a tool call is answered. This base makes no span."""

    def __enter__(self) -> ToolSpan:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The tool call is over."""

    def answered(self, status: str) -> None:
        """Set the result of the tool call, a `Status`. Call it before the end."""


_NO_SPAN = ToolSpan()


class Tracing:
    """Makes no spans. Every method except `close` is quick and may be called on the event loop."""

    def start(self) -> None:
        """Allow spans from now on."""

    def close(self) -> None:
        """Send waiting spans and stop. Blocks, for 2 s at most: not on the loop."""

    def ledger(self, call_id: str, at_ms: int, event: LedgerLine) -> None:
        """Take a line written to a call's ledger. Never raises."""

    def tool_call(self, facts: ToolFacts) -> ToolSpan:
        """Return a span to enter before the tool runs; inner work nests under it."""
        return _NO_SPAN


NO_TRACING = Tracing()
"""Has no state."""
