"""`send_digits`: sends keys to the far side, such as the menu of an answering machine."""

from __future__ import annotations

from cordboard.errors import LineError, LineUnsupported, ToolError
from cordboard.tools.tool import Effects, JsonObject, Limits, ToolResult, ToolRun, ToolSpec

LONGEST = 64
_SPEC = ToolSpec(
    name="send_digits",
    kind="builtin",
    description=(
        "Send telephone keys (DTMF tones) to the other side, for example to move through the menu "
        "of a machine. Never use it to dial a person."
    ),
    parameters={
        "type": "object",
        "properties": {
            "digits": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST,
                "pattern": "^[0-9*#A-Dw]+$",
                "description": "The keys: 0-9, *, #, A-D; w is a pause of half a second.",
            }
        },
        "required": ["digits"],
        "additionalProperties": False,
    },
    origin="builtin:send_digits",
    limits=Limits(timeout_ms=10_000),
    effects=Effects.DESTRUCTIVE,
)


class SendDigits:
    """Sends keys to the caller's side. Needs no settings."""

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Send the keys; returns when the line has begun to send."""
        digits: str = arguments["digits"]
        try:
            await run.line.send_keys(digits)
        except LineUnsupported:
            raise ToolError("Sorry, keys cannot be sent on this line.") from None
        except LineError:
            raise ToolError("Sorry, I could not send the keys.") from None
        return ToolResult(message="I have sent the keys.", data={"sent": len(digits)})
