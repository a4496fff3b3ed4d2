"""The seat of the telephone firewall at the desk; `cordboard.calls.call_firewall` takes it."""

from __future__ import annotations

from typing import Protocol

from cordboard.firewall.policy import ALLOWED, Decision, Proof
from cordboard.tools.tool import ToolAsk, ToolResult, ToolSpec


class ToolGuard(Protocol):
    """Judges the tool calls of one call. All but `verify` return at once and never raise."""

    def check(self, ask: ToolAsk, spec: ToolSpec) -> Decision:
        """Judge a tool call whose arguments are valid, and record a refusal."""

    async def verify(self, ask: ToolAsk, proof: Proof) -> ToolResult | None:
        """Have the caller prove who they are; return None if they have, else the refusal."""

    def cleared(self, ask: ToolAsk) -> None:
        """Note that everything which the decision about this ask needed has been given."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, result: ToolResult) -> None:
        """Note the whole result of a tool call, which its agent may read."""


class NoGuard:
    """A `ToolGuard` that allows everything: for steps that only the operator configures."""

    def check(self, ask: ToolAsk, spec: ToolSpec) -> Decision:
        return ALLOWED

    async def verify(self, ask: ToolAsk, proof: Proof) -> ToolResult | None:
        return None

    def cleared(self, ask: ToolAsk) -> None:
        """Do nothing."""

    def answered(self, ask: ToolAsk, spec: ToolSpec | None, result: ToolResult) -> None:
        """Do nothing."""


NO_GUARD = NoGuard()
