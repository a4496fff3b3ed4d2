"""The tools built into the engine: hang-up, transfer, keys, pausing the recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordboard.config.schema import Config
from cordboard.config.tools.entry import TransferDestination
from cordboard.errors import LineError, LineUnsupported, ToolError
from cordboard.tools.call_line import KeysCollected, KeysWanted
from cordboard.tools.operator_rules import apply_rules
from cordboard.tools.plugin import RuledTool
from cordboard.tools.tool import (
    Effects,
    JsonObject,
    Limits,
    Status,
    Tool,
    ToolResult,
    ToolRun,
    ToolSpec,
)

BUILTIN_NAMES = (
    "hangup_call",
    "transfer",
    "collect_digits",
    "send_digits",
    "pause_recording",
    "resume_recording",
)
"""Exposed names that no other tool may take, whether or not the tool is configured."""
DEFAULT_REASON = "agent said goodbye"
TRANSFER_TIMEOUT_MS = 60_000
"""Covers the rest of the agent's sentence and the dialling; the line has its own shorter bounds."""
COLLECT_TIMEOUT_MS = 180_000
"""Covers a long prompt and sixty slow keys; the waits of the collection itself are shorter."""
FIRST_DIGIT_SECONDS = 10.0
NOTHING_CAME = "I did not get any digits."
LONGEST = 64
NOT_RECORDED = "This call is not being recorded."


def builtin_tools(config: Config) -> tuple[Tool, ...]:
    """Return the built-in tools, with the operator's rules from `tools:`; `transfer` exists only if
    destinations are configured.

    As with every tool, a context has only those that it lists.
    """
    tools: tuple[Tool, ...] = (
        HangupCall(),
        CollectDigits(),
        SendDigits(),
        PauseRecording(),
        ResumeRecording(),
    )
    if config.destinations:
        tools = (*tools, Transfer(config.destinations))
    return tuple(
        RuledTool(tool, apply_rules(tool.spec, rules))
        if (rules := config.tools.get(tool.spec.name)) is not None
        else tool
        for tool in tools
    )


def _spec(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    limits: Limits,
    effects: Effects = Effects.IDEMPOTENT,
    required: tuple[str, ...] = (),
) -> ToolSpec:
    parameters: JsonObject = {"type": "object", "properties": dict(properties)}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(
        name=name,
        kind="builtin",
        description=description,
        parameters={**parameters, "additionalProperties": False},
        origin=f"builtin:{name}",
        limits=limits,
        effects=effects,
    )


class HangupCall:
    """Ends the call once the caller has heard the agent's goodbye. Needs no settings."""

    spec = _spec(
        "hangup_call",
        "End the phone call. Use it when the caller says goodbye or wants nothing more. "
        "Say goodbye first: what you are saying is played to its end before the line is closed.",
        {
            "reason": {
                "type": "string",
                "maxLength": 200,
                "description": "Why the call ends, for the call record; never spoken.",
            }
        },
        Limits(timeout_ms=5_000, per_turn=2),
    )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Request the hang-up; returns at once, while the agent may still be speaking."""
        run.line.end_after_speech(str(arguments.get("reason", "")).strip() or DEFAULT_REASON)
        return ToolResult(message="Goodbye.", data={"will_hangup": True})


class Transfer:
    """Transfers the caller, blind, to a destination that the operator has configured.

    The agent can only choose among the names under `tools.transfer.destinations`; numbers from a
    conversation are never used. If the transfer fails, the caller is still connected and hears so.
    """

    def __init__(self, destinations: Mapping[str, TransferDestination]) -> None:
        told = [
            f"{name} ({destination.description})" if destination.description else name
            for name, destination in destinations.items()
        ]
        self.spec = _spec(
            "transfer",
            "Transfer the caller to another party and leave the call. Tell the caller first. "
            f"Destinations: {', '.join(told)}.",
            {
                "destination": {
                    "type": "string",
                    "enum": list(destinations),
                    "description": "Where to transfer the caller to.",
                }
            },
            Limits(timeout_ms=TRANSFER_TIMEOUT_MS, per_turn=2),
            Effects.DESTRUCTIVE,
            ("destination",),
        )

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


class CollectDigits:
    """Lets the caller enter digits with the telephone keys. Needs no settings.

    Without `secret` the agent receives the digits. With `secret` it receives only their number and
    a reference under which the call keeps them; they appear in no ledger, log or recording. The
    agent does not decide which tools may receive the digits of a reference (`CallLine.reveal`).
    """

    spec = _spec(
        "collect_digits",
        "Let the caller enter digits on the telephone keypad and wait for them. Use it for numbers "
        "that must be exact, and with secret=true for anything confidential, such as a PIN or a "
        "card number: then you get only how many digits came and a reference to them, never the "
        "digits. Give the question in `prompt`, or ask it before.",
        {
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
        Limits(timeout_ms=COLLECT_TIMEOUT_MS),
    )

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


class SendDigits:
    """Sends keys to the far side, such as the menu of an answering machine. Needs no settings."""

    spec = _spec(
        "send_digits",
        "Send telephone keys (DTMF tones) to the other side, for example to move through the menu "
        "of a machine. Never use it to dial a person.",
        {
            "digits": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST,
                "pattern": "^[0-9*#A-Dw]+$",
                "description": "The keys: 0-9, *, #, A-D; w is a pause of half a second.",
            }
        },
        Limits(timeout_ms=10_000),
        Effects.DESTRUCTIVE,
        ("digits",),
    )

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


class PauseRecording:
    """Records silence from now on."""

    spec = _spec(
        "pause_recording",
        "Pause the recording of this call, when the caller asks for it or is about to say something"
        " confidential. Resume it with resume_recording.",
        {},
        Limits(timeout_ms=5_000),
    )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if not run.line.pause_recording():
            return ToolResult(Status.ERROR, NOT_RECORDED)
        return ToolResult(message="The recording is paused.", data={"recording": "paused"})


class ResumeRecording:
    """Records sound again."""

    spec = _spec(
        "resume_recording",
        "Resume the recording of this call after a pause.",
        {},
        Limits(timeout_ms=5_000),
    )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if not run.line.resume_recording():
            return ToolResult(Status.ERROR, NOT_RECORDED)
        return ToolResult(message="The recording goes on.", data={"recording": "on"})
