"""`collect_digits`: lets the caller enter digits with the telephone keys.

Without `secret` the agent receives the digits. With `secret` it receives only their number and a
reference under which the call keeps them; they appear in no ledger, log or recording. The agent
does not decide which tools may receive the digits of a reference (`CallLine.reveal`).
"""

from __future__ import annotations

from cordboard.tools.call_line import KeysCollected, KeysWanted
from cordboard.tools.tool import (
    COLLECT_DIGITS_ORIGIN,
    Effects,
    JsonObject,
    Limits,
    Status,
    ToolResult,
    ToolRun,
    ToolSpec,
)

TIMEOUT_MS = 180_000
"""Covers a long prompt and sixty slow keys; the waits of the collection itself are shorter."""
FIRST_DIGIT_SECONDS = 10.0
NOTHING_CAME = "I did not get any digits."

_SPEC = ToolSpec(
    name="collect_digits",
    kind="builtin",
    description=(
        "Let the caller enter digits on the telephone keypad and wait for them. Use it for numbers "
        "that must be exact, and with secret=true for anything confidential, such as a PIN or a "
        "card number: then you get only how many digits came and a reference to them, never the "
        "digits. Give the question in `prompt`, or ask it before."
    ),
    parameters={
        "type": "object",
        "properties": {
            "prompt": {
                "type": "string",
                "maxLength": 500,
                "description": "Said to the caller first; empty = nothing.",
            },
            "count": {
                "type": "integer",
                "minimum": 0,
                "maximum": 60,
                "description": "Number of digits in the whole input; 0 = until the terminator.",
            },
            "terminator": {
                "type": "string",
                "enum": ["#", "*", ""],
                "description": "The key that ends the input; default #.",
            },
            "timeout_seconds": {
                "type": "number",
                "minimum": 1,
                "maximum": 60,
                "description": "How long to wait for the first digit; default 10.",
            },
            "secret": {
                "type": "boolean",
                "description": "Whether the digits are confidential.",
            },
            "purpose": {
                "type": "string",
                "maxLength": 200,
                "description": "What they are for, for the call record; never spoken.",
            },
        },
        "additionalProperties": False,
    },
    origin=COLLECT_DIGITS_ORIGIN,
    limits=Limits(timeout_ms=TIMEOUT_MS),
    effects=Effects.IDEMPOTENT,
)


class CollectDigits:
    """Waits for keys from the caller. Needs no settings."""

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Say the prompt and collect keys; keys pressed during the prompt count, and stop it."""
        prompt = str(arguments.get("prompt", "")).strip()
        if prompt:
            run.line.say(prompt)
        wanted = KeysWanted(
            count=int(arguments.get("count", 0)),
            terminator=str(arguments.get("terminator", "#")),
            first_timeout=float(arguments.get("timeout_seconds", FIRST_DIGIT_SECONDS)),
            secret=bool(arguments.get("secret", False)),
        )
        collected = await run.line.collect_keys(wanted)
        length = len(collected.keys)
        data: JsonObject = {"length": length, "ended_by": collected.ended_by}
        if length == 0:
            return ToolResult(Status.ERROR, NOTHING_CAME, {"collected": False, **data})
        complete = length >= wanted.count
        data = {"collected": True, "complete": complete, **data, **_shown(collected, wanted)}
        return ToolResult(message=_message(length, wanted, complete), data=data)


def _shown(collected: KeysCollected, wanted: KeysWanted) -> JsonObject:
    if wanted.secret:
        return {"reference": collected.reference}
    return {"digits": collected.keys}


def _message(length: int, wanted: KeysWanted, complete: bool) -> str:
    if not complete:
        return f"I got only {length} of {wanted.count} digits."
    return "Thank you."
