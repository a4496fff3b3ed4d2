"""`hangup_call`: the agent ends the call once the caller has heard its goodbye."""

from __future__ import annotations

from cordboard.tools.tool import Effects, Filler, JsonObject, Limits, ToolResult, ToolRun, ToolSpec

DEFAULT_REASON = "agent said goodbye"

_SPEC = ToolSpec(
    name="hangup_call",
    kind="builtin",
    description=(
        "End the phone call. Use it when the caller says goodbye or wants nothing more. "
        "Say goodbye first: what you are saying is played to its end before the line is closed."
    ),
    parameters={
        "type": "object",
        "properties": {
            "reason": {
                "type": "string",
                "maxLength": 200,
                "description": "Why the call ends, for the call record; never spoken.",
            }
        },
        "additionalProperties": False,
    },
    origin="builtin:hangup_call",
    limits=Limits(timeout_ms=5_000, per_turn=2),
    filler=Filler(),
    effects=Effects.IDEMPOTENT,
)


class HangupCall:
    """Ends the call after the current speech. Needs no settings."""

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Request the hang-up; returns at once, while the agent may still be speaking."""
        run.line.end_after_speech(str(arguments.get("reason", "")).strip() or DEFAULT_REASON)
        return ToolResult(message="Goodbye.", data={"will_hangup": True})
