"""`chat:` — conversations in writing, over HTTP: how many there may be, and for how long."""

from __future__ import annotations

from pydantic import Field

from cordboard.config.section import Section


class Chat(Section):
    """Conversations in writing with the contexts (`POST /chat`); they need `admin.token`."""

    enabled: bool = Field(True, description="Whether there are any.")
    max_sessions: int = Field(
        50, ge=1, le=10_000, description="Conversations at the same time; a further one is refused."
    )
    idle_ms: int = Field(
        900_000, ge=1_000, description="A conversation in which nobody writes for so long is ended."
    )
    max_message_chars: int = Field(
        4_000, ge=1, le=100_000, description="Longest message that is taken."
    )
    turn_timeout_ms: int = Field(
        120_000,
        ge=1_000,
        description="How long one message may take to be answered, tools included; waiting for a "
        "yes or no does not count.",
    )
