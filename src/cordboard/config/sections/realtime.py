"""What all realtime agents have in common in the configuration."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from cordboard.config.sections.service import Service

SlowResponse: TypeAlias = Literal["engine", "provider", "off"]


class RealtimeProvider(Service):
    """An agent that hears and speaks by itself: a model of one service, sound in, sound out."""

    type: str = Field(description="The kind of provider.")
    slow_response: SlowResponse = Field(
        "engine",
        description="Who says the fillers while a tool is slow: `engine` = the engine's own voice, "
        "while the provider is silent; `provider` = the provider, where it can say given words, "
        "else the engine; `off` = nobody.",
    )
    thinking_filler_ms: int = Field(
        2_000,
        ge=0,
        le=20_000,
        description="How long a service may think, without any tool at work, before a filler is "
        "said: it is about to speak by itself. 0 = never one.",
    )
    warm_connection: bool = Field(
        False,
        description="Keep one open connection ready for the next call, if the service allows it.",
    )
    reconnect_attempts: int = Field(
        3, ge=0, le=20, description="How often a lost connection is opened again before giving up."
    )
    stall_ms: int = Field(
        15_000,
        ge=1_000,
        le=120_000,
        description="A service that owes an answer and sends nothing for so long is given up.",
    )
