"""Keys common to all realtime agents."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from cordboard.config.sections.service import Service

SlowResponse: TypeAlias = Literal["engine", "provider", "off"]


class RealtimeProvider(Service):
    """An agent that hears and speaks by itself: a model of one service, audio in, audio out."""

    type: str = Field(description="The kind of provider.")
    slow_response: SlowResponse = Field(
        "engine",
        description="Speaker of the fillers while a tool is slow: `engine` = the engine's own "
        "voice, while the provider is silent; `provider` = the provider, if it can speak given "
        "words, else the engine; `off` = no fillers.",
    )
    thinking_filler_ms: int = Field(
        2_000,
        ge=0,
        le=20_000,
        description="Time for which a service may think, without any tool at work, before a filler "
        "is spoken: it is about to speak by itself. 0 = no filler.",
    )
    warm_connection: bool = Field(
        False,
        description="Keep one open connection ready for the next call, if the service allows it.",
    )
    reconnect_attempts: int = Field(
        3, ge=0, le=20, description="Attempts to reopen a lost connection before giving up."
    )
    stall_ms: int = Field(
        15_000,
        ge=1_000,
        le=120_000,
        description="Time after which a service that owes an answer and sends nothing is given up.",
    )
