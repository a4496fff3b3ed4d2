"""`chat:` — written conversations over HTTP: their number, size and duration."""

from __future__ import annotations

from pydantic import Field

from cordboard.config.section import Section


class Chat(Section):
    """Written conversations with the contexts (`POST /chat`); they need `admin.token`."""

    enabled: bool = Field(True, description="Whether written conversations are accepted.")
    max_sessions: int = Field(
        50, ge=1, le=10_000, description="Conversations at the same time; further ones are refused."
    )
    idle_ms: int = Field(
        900_000, ge=1_000, description="Idle time after which a conversation is ended."
    )
    max_message_chars: int = Field(
        4_000, ge=1, le=100_000, description="Characters of the longest accepted message."
    )
    turn_timeout_ms: int = Field(
        120_000,
        ge=1_000,
        description="Timeout of the answer to one message, tools included; waiting for a yes or "
        "no does not count.",
    )
