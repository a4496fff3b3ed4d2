"""The tools built into the engine: hang-up, transfer, keys, pausing the recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from cordboard.config.alarms import AlarmEmail
from cordboard.config.schema import Config
from cordboard.config.tools.entry import LONGEST_RETURN_MS, TransferDestination
from cordboard.config.tools.messages import CallbackSettings
from cordboard.errors import LineError, LineUnsupported, ToolError
from cordboard.net.mail import SECONDS, Mailer, MailNotSent
from cordboard.tools.call_line import (
    CallbackOutcome,
    KeysCollected,
    KeysWanted,
    MessageOutcome,
    TransferOutcome,
)
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
    "take_message",
    "request_callback",
    "send_email",
)
"""Exposed names that no other tool may take, whether or not the tool is configured."""
DEFAULT_REASON = "agent said goodbye"
TRANSFER_TIMEOUT_MS = 60_000
"""Covers the rest of the agent's sentence and the dialling; the line has its own shorter bounds."""
BEFORE_TALK_MS = 600_000
"""Covers what precedes a talk: the rest of the agent's sentence, two minutes of ringing, five of
the briefing, and the introduction."""
LONGEST_TALK_MS = LONGEST_RETURN_MS + BEFORE_TALK_MS
"""Covers a talk with a human, or a queue, after which the caller comes back. The destination's own
time is over first, also if the agent gives up waiting at once."""
HUMAN_IS_ASKED = (
    "The person there may be asked first whether they take the call, while the caller waits with "
    "music; give the reason for that. If the result says that the caller is back, go on with them. "
)
COLLECT_TIMEOUT_MS = 180_000
"""Covers a long prompt and sixty slow keys; the waits of the collection itself are shorter."""
FIRST_DIGIT_SECONDS = 10.0
NOTHING_CAME = "I did not get any digits."
LONGEST = 64
NOT_RECORDED = "This call is not being recorded."

log = structlog.get_logger()


def builtin_tools(config: Config) -> tuple[Tool, ...]:
    """Return the built-in tools, with the operator's rules from `tools:`; `transfer`,
    `take_message`, `request_callback` and `send_email` exist only if they are configured.

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
    if config.message is not None:
        tools = (*tools, TakeMessage(config.message.longest_ms))
    if config.callback is not None:
        tools = (*tools, RequestCallback(config.callback))
    if config.email is not None:
        tools = (*tools, SendEmail(config.email))
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


OUTCOME_WORDS: Mapping[TransferOutcome, str] = {
    "accepted": "You are back with me after {place}.",
    "busy": "I am sorry, {place} is busy at the moment.",
    "no_answer": "I am sorry, nobody answers at {place}.",
    "declined": "I am sorry, {place} cannot take the call now.",
    "unavailable": "I am sorry, {place} cannot be reached at the moment.",
    "machine": "I am sorry, nobody at {place} has taken the call.",
    "cancelled": "You are back with me.",
    "failed": "Sorry, I could not transfer you to {place}.",
}
"""One sentence per outcome of a transfer whose caller is with the agent again."""
CLOSED = "I am sorry, {place} is closed at the moment."


def spoken_name(destination: str) -> str:
    """Return the name of a destination as it is spoken."""
    return destination.replace("_", " ").replace("-", " ")


class Transfer:
    """Transfers the caller to a destination that the operator has configured.

    The agent can only choose among the names under `tools.transfer.destinations`; numbers from a
    conversation are never used. A destination is blind, or a human is asked first. If the caller is
    with the agent afterwards, the result says why (`data.outcome`), and they hear so.
    """

    def __init__(self, destinations: Mapping[str, TransferDestination]) -> None:
        told = [
            f"{name} ({destination.description})" if destination.description else name
            for name, destination in destinations.items()
        ]
        asks = any(each.mode != "blind" for each in destinations.values())
        waits = asks or any(each.returns for each in destinations.values())
        properties: dict[str, Any] = {
            "destination": {
                "type": "string",
                "enum": list(destinations),
                "description": "Where to transfer the caller to.",
            }
        }
        if asks:
            properties["reason"] = {
                "type": "string",
                "maxLength": 300,
                "description": "Who the caller is and what they want, in one or two sentences. It "
                "is read to the person who is asked to take the call.",
            }
        self.spec = _spec(
            "transfer",
            "Transfer the caller to another party and leave the call. Tell the caller first. "
            + (HUMAN_IS_ASKED if asks else "")
            + f"Destinations: {', '.join(told)}.",
            properties,
            Limits(timeout_ms=LONGEST_TALK_MS if waits else TRANSFER_TIMEOUT_MS, per_turn=2),
            Effects.DESTRUCTIVE,
            ("destination",),
        )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Let the agent finish speaking, then transfer. Raises `ToolError` if that fails."""
        destination: str = arguments["destination"]
        spoken = spoken_name(destination)
        reason = str(arguments.get("reason", ""))
        try:
            result = await run.line.transfer_after_speech(destination, reason)
        except LineUnsupported:
            raise ToolError("Sorry, calls cannot be transferred on this line.") from None
        except LineError:
            raise ToolError(OUTCOME_WORDS["failed"].format(place=spoken)) from None
        accepted = result.outcome == "accepted"
        data = {
            "transferred": accepted,
            "destination": destination,
            "outcome": result.outcome,
            "caller_is_back": result.returned,
        }
        if not result.returned:
            return ToolResult(message=f"Transferring you to {spoken}.", data=data)
        words = CLOSED if result.closed else OUTCOME_WORDS[result.outcome]
        status = Status.OK if accepted else Status.ERROR
        return ToolResult(status, words.format(place=spoken), data)


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


MESSAGE_WORDS: Mapping[MessageOutcome, str] = {
    "confirmed": "Thank you, I have passed your message on.",
    "unconfirmed": "I have passed your message on as I understood it.",
    "rejected": "I have not sent a message.",
    "empty": "I did not hear a message.",
}
MESSAGE_UNKEPT = (
    "I have passed your message on, but I cannot be sure that it arrives. Please call again if you "
    "hear nothing."
)
READ_BACK_MS = 120_000
"""Covers the reading of a message, and the caller's answer."""


class TakeMessage:
    """Takes a message of the caller for a person who is not there, and passes it on."""

    def __init__(self, longest_ms: int) -> None:
        """`longest_ms`: longest time of one dictation."""
        self.spec = _spec(
            "take_message",
            "Take a message of the caller for somebody who is not there. Tell the caller so first. "
            "The caller is then asked to speak the message, it is recorded, read back to them and "
            "passed on: ask for nothing of that yourself, and do not repeat the message.",
            {
                "about": {
                    "type": "string",
                    "maxLength": 300,
                    "description": "Whom it is for and who calls, as far as the caller has said.",
                }
            },
            Limits(timeout_ms=3 * (longest_ms + READ_BACK_MS), per_turn=1),
            Effects.DESTRUCTIVE,
        )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Take it. Where that is impossible now, the result says why."""
        try:
            result = await run.line.take_message(str(arguments.get("about", "")))
        except LineError as error:
            return _impossible("Sorry, I cannot take a message now.", error)
        passed_on = result.outcome in ("confirmed", "unconfirmed")
        unkept = passed_on and not result.kept
        words = MESSAGE_UNKEPT if unkept else MESSAGE_WORDS[result.outcome]
        data = {"outcome": result.outcome, "text": result.text}
        return ToolResult(Status.OK if passed_on else Status.ERROR, words, data)


def _impossible(words: str, error: LineError) -> ToolResult:
    """Return the result of a tool that cannot ask the caller now: words for them, and the reason
    for the agent."""
    return ToolResult(Status.ERROR, words, {"error": str(error)})


CALLBACK_WORDS: Mapping[CallbackOutcome, str] = {
    "noted": "You will be called back.",
    "no_number": "I need the number to call.",
    "other_number": "Only the number that you are calling from can be called back.",
    "not_allowed": "That number cannot be called back.",
    "do_not_call": "That number is on our list of numbers that are never called.",
    "no_time": "I need a time that is still to come.",
    "closed": "Nobody can call back at that time.",
    "not_confirmed": "I have not noted a call-back.",
    "failed": "Sorry, I could not note that.",
}
CALLBACK_UNKEPT = (
    "I have noted that, but I cannot be sure that you will be called. Please call again if nobody "
    "calls."
)
CALLBACK_MS = 120_000
"""Covers the question, its repetition, and the caller's answers."""


class RequestCallback:
    """Notes that the caller wants to be called back at a time."""

    def __init__(self, settings: CallbackSettings) -> None:
        hours = settings.hours
        properties = {
            "at": {
                "type": "string",
                "maxLength": 40,
                "description": f"Local time ({settings.zone}) as 2026-01-31T14:30. Open: "
                f"{', '.join(hours.days)} {hours.from_} to {hours.to}.",
            },
            "about": {
                "type": "string",
                "maxLength": 300,
                "description": "Who the caller is and what they want.",
            },
        }
        if settings.other_numbers:
            properties["number"] = {
                "type": "string",
                "maxLength": 40,
                "description": "Only if it is another one than the caller's own.",
            }
        self.spec = _spec(
            "request_callback",
            "Note that the caller wants to be called back. Agree on a time first. Number and time "
            "are then read back to the caller for a yes: do not ask for that yourself.",
            properties,
            Limits(timeout_ms=CALLBACK_MS, per_turn=2),
            Effects.DESTRUCTIVE,
            ("at",),
        )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Note it. Where that is impossible now, the result says why."""
        given = (str(arguments.get(name, "")) for name in ("number", "at", "about"))
        try:
            result = await run.line.request_callback(*given)
        except LineError as error:
            return _impossible("Sorry, I cannot note a call-back now.", error)
        noted = result.outcome == "noted"
        data = {"outcome": result.outcome, "at": result.at, "now": result.now}
        status = Status.OK if noted else Status.ERROR
        unkept = noted and not result.kept
        words = CALLBACK_UNKEPT if unkept else CALLBACK_WORDS[result.outcome]
        return ToolResult(status, words, data)


class SendEmail:
    """Sends an e-mail to the addresses that the operator has configured; usually a step after
    calls, or of `deliver`, which is retried."""

    spec = _spec(
        "send_email",
        "Send an e-mail to the staff. Its addresses are fixed.",
        {
            "subject": {"type": "string", "maxLength": 200},
            "text": {"type": "string", "maxLength": 100_000},
        },
        Limits(timeout_ms=round(SECONDS * 1000) + 5_000),
        Effects.DESTRUCTIVE,
        ("subject", "text"),
    )

    def __init__(self, settings: AlarmEmail) -> None:
        self._settings = settings

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        """Send it. Raises `ToolError` if the server does not take it for all addresses."""
        try:
            await Mailer(self._settings).send(arguments["subject"], arguments["text"])
        except MailNotSent as error:
            log.warning("mail_not_sent", call_id=run.line.call_id, error=repr(str(error)))
            raise ToolError("Sorry, the e-mail was not sent.") from None
        return ToolResult(message="The e-mail is sent.")
