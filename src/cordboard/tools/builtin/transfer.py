"""`transfer`: transfers the caller, blind, to a destination that the operator has configured.

The agent can only choose among the names under `tools.transfer.destinations`; numbers from a
conversation are never used. If the transfer fails, the caller is still connected and hears so.
"""

from __future__ import annotations

from collections.abc import Mapping

from cordboard.config.tools.entry import TransferDestination
from cordboard.errors import LineError, LineUnsupported, ToolError
from cordboard.tools.tool import Effects, JsonObject, Limits, ToolResult, ToolRun, ToolSpec

TRANSFER_TIMEOUT_MS = 60_000
"""Covers the rest of the agent's sentence and the dialling; the line has its own shorter bounds."""


class Transfer:
    """Blind transfer to one of the configured destinations."""

    def __init__(self, destinations: Mapping[str, TransferDestination]) -> None:
        self._spec = _spec(destinations)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Let the agent finish speaking, then transfer. Raises `ToolError` if that fails."""
        destination: str = arguments["destination"]
        spoken = destination.replace("_", " ").replace("-", " ")
        try:
            await run.line.transfer_after_speech(destination)
        except LineUnsupported:
            raise ToolError("Sorry, calls cannot be transferred on this line.") from None
        except LineError:
            raise ToolError(f"Sorry, I could not transfer you to {spoken}.") from None
        return ToolResult(
            message=f"Transferring you to {spoken}.",
            data={"transferred": True, "destination": destination},
        )


def _spec(destinations: Mapping[str, TransferDestination]) -> ToolSpec:
    told = [
        f"{name} ({destination.description})" if destination.description else name
        for name, destination in destinations.items()
    ]
    return ToolSpec(
        name="transfer",
        kind="builtin",
        description=(
            "Transfer the caller to another party and leave the call. Tell the caller first. "
            f"Destinations: {', '.join(told)}."
        ),
        parameters={
            "type": "object",
            "properties": {
                "destination": {
                    "type": "string",
                    "enum": list(destinations),
                    "description": "Where to transfer the caller to.",
                }
            },
            "required": ["destination"],
            "additionalProperties": False,
        },
        origin="builtin:transfer",
        limits=Limits(timeout_ms=TRANSFER_TIMEOUT_MS, per_turn=2),
        effects=Effects.DESTRUCTIVE,
    )
