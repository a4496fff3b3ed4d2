"""The kind of tool: each tool of it counts its own runs."""

from __future__ import annotations

from typing import Any

from cordboard import Effects, ToolResult, ToolRun, ToolSpec
from cordboard_parrot.config import CountTool


class Counter:
    """Implements `cordboard.Tool`."""

    def __init__(self, name: str, section: CountTool) -> None:
        self._spec = ToolSpec(
            name,
            section.kind,
            "Counts how often it was asked.",
            {"type": "object", "properties": {}},
            origin=f"parrot_count:{name}",
            effects=Effects.IDEMPOTENT,
        )
        self._next = section.first

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: dict[str, Any], run: ToolRun) -> ToolResult:
        number, self._next = self._next, self._next + 1
        return ToolResult(message=f"That was number {number}.", data={"number": number})
