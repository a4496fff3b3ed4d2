"""`type: elevenlabs_agent`: ElevenLabs Agents."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from cordboard.config.providers.realtime import RealtimeProvider


class ElevenLabsAgentProvider(RealtimeProvider):
    """ElevenLabs Agents: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("ELEVENLABS_API_KEY",)

    type: Literal["elevenlabs_agent"] = Field(description="The kind of provider.")
