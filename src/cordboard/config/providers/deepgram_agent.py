"""`type: deepgram_agent`: Deepgram Voice Agent."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from cordboard.config.providers.realtime import RealtimeProvider


class DeepgramAgentProvider(RealtimeProvider):
    """Deepgram Voice Agent: hears and speaks by itself."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram_agent"] = Field(description="The kind of provider.")
