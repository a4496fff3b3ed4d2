"""The tools that really run in a test of an agent: all, those that change nothing, or none.

A toolbox of a test has other tools in the place of those that may not run: with the same name and
schema, so that the agent behaves as in a call. The tool itself is not in the toolbox, so no path of
the desk can run it, be it a step of a workflow or a look-up before the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cordboard.errors import ToolError
from cordboard.tools.tool import Effects, JsonObject, Status, ToolResult, ToolRun, ToolSpec
from cordboard.tools.toolbox import OfferedTool, Toolbox

_OF_THE_LINE = frozenset({"builtin", "workflow"})
"""Kinds of tools that always run: they act on the line of the test itself, or run steps that are
tools of the same toolbox."""


@dataclass(frozen=True, slots=True)
class CannedAnswer:
    """The answer of a tool that does not run."""

    message: str = ""
    """Spoken text; empty: as for a real result of the tool."""
    data: Any = None
    failed: bool = False
    """True: the tool fails with `message`."""
    after_ms: int = 0
    """Time that the tool takes, for fillers and timeouts."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools that run in one call or conversation."""

    effects: Collection[Effects] = frozenset(Effects)
    """Tools with these effects run."""
    canned: Mapping[str, CannedAnswer] | None = None
    """Answers by exposed name. If given, no other tool outside of this machine's line runs."""

    @property
    def is_real(self) -> bool:
        """True if every tool runs."""
        return self.canned is None and set(self.effects) >= set(Effects)

    def of(self, toolbox: Toolbox) -> Toolbox:
        """Return the toolbox in which only these tools run. It shares no results with calls."""
        if self.is_real:
            return toolbox
        offered = (self._offered(entry) for entry in toolbox.entries)
        return Toolbox(offered, toolbox.missing, None, toolbox.known_secrets)

    def _offered(self, entry: OfferedTool) -> OfferedTool:
        spec, tool = entry.spec, entry.tool
        answer = (self.canned or {}).get(spec.name)
        if answer is not None:
            tool = _CannedTool(spec, answer)
            return replace(entry, tool=tool)
        if spec.kind in _OF_THE_LINE or (self.canned is None and spec.effects in self.effects):
            return entry
        spec = replace(spec, approval="none")  # a refusal needs no yes
        tool = _RefusedTool(spec)
        return replace(entry, tool=tool, spec=spec)


REAL = ToolUse()
READ_ONLY = ToolUse(frozenset({Effects.READ_ONLY}))


@dataclass(frozen=True, slots=True)
class _CannedTool:
    spec: ToolSpec
    answer: CannedAnswer

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if self.answer.after_ms:
            await asyncio.sleep(self.answer.after_ms / 1000)
        if self.answer.failed:
            raise ToolError(self.answer.message)
        return ToolResult(Status.OK, self.answer.message, self.answer.data)


@dataclass(frozen=True, slots=True)
class _RefusedTool:
    spec: ToolSpec

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        message = (
            f"This conversation is a test in which {self.spec.name} ({self.spec.effects}) may not "
            "run: it was not run."
        )
        return ToolResult(Status.REFUSED, message)
