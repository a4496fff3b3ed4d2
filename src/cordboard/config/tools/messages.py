"""Settings of `take_message` and `request_callback`: messages, and requests to be called back.

tools:
  post_message: {kind: http, url: "https://desk.example/messages", method: POST, ...}
  take_message:
    message:
      deliver:
        - {tool: post_message, arguments: {text: "{message.text}", from: "{call.caller_number}"}}
"""

from __future__ import annotations

from pydantic import Field, field_validator

from cordboard.config.call_phases import PostCallStep
from cordboard.config.hours import BusinessHours, known_zone
from cordboard.config.patterns import Name
from cordboard.config.section import Section

MESSAGE, CALLBACK = "message", "callback"
MESSAGE_FACTS = {
    "text": "The caller's words, as the recogniser wrote them.",
    "about": "Whom it is for and what it is about, in the agent's words.",
    "confirmed": "True if the caller said yes after it was read back.",
    "taken_at": "Time, in ISO 8601.",
    "recording": "File with the caller's voice, relative to `calls.directory`; empty if none.",
    "from_ms": "Begin of the message in that file.",
    "to_ms": "Its end.",
}
"""Names of {message.NAME} in `deliver`."""
CALLBACK_FACTS = {
    "number": "The number to call, as the caller confirmed it.",
    "at": "The promised time, in ISO 8601 with its zone.",
    "about": "What it is about, in the agent's words.",
    "asked_at": "Time of the request, in ISO 8601.",
}
"""Names of {callback.NAME} in `deliver`."""
MESSAGE_PROMPT = (
    "Please say your message now. It is recorded. Press the hash key when you have said all."
)


class MessageSettings(Section):
    """Messages of callers: docs/messages.md."""

    deliver: tuple[PostCallStep, ...] = Field(
        min_length=1,
        max_length=5,
        description="Tools that get each message, with {message.NAME} and {call.NAME} in their "
        "arguments; retried as the steps of `post_call`.",
    )
    prompt: str = Field(
        MESSAGE_PROMPT, min_length=1, max_length=500, description="Said before the message."
    )
    pause_ms: int = Field(
        4_000, ge=1_500, le=15_000, description="Quiet after words that ends the message."
    )
    longest_ms: int = Field(
        120_000, ge=10_000, le=600_000, description="Longest time of a message."
    )
    record: bool = Field(
        True,
        description="The message is recorded, also in a context that does not record its calls. "
        "`false`: only its words are kept.",
    )


class CallbackSettings(Section):
    """Requests to be called back: docs/messages.md."""

    zone: str = Field(description="Time zone of `hours` and of promised times: `Europe/Oslo`, say.")
    hours: BusinessHours = Field(
        BusinessHours(), description="When people are called back, in `zone`."
    )
    context: Name | None = Field(
        None,
        json_schema_extra={"reference": "contexts"},
        description="Context that calls back. Left out: that of the call in which it was promised.",
    )
    message: str = Field(
        "", max_length=1_000, description="Left to a voicemail. Empty: it is hung up on."
    )
    other_numbers: bool = Field(
        False,
        description="Callers may name another number than the one they call from. The firewall "
        "judges it, as that of every outbound call.",
    )
    days_ahead: int = Field(14, ge=1, le=365, description="The latest day of a promise.")
    deliver: tuple[PostCallStep, ...] = Field(
        (),
        max_length=5,
        description="Tools that get each request, with {callback.NAME} and {call.NAME} in their "
        "arguments. Needed while `outbound.enabled` is false, since the engine cannot call then.",
    )

    @field_validator("zone")
    @classmethod
    def _a_zone(cls, zone: str) -> str:
        return known_zone(zone)
