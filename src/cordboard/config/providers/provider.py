"""One entry of `providers:`; `type` says what it is."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Discriminator, Field, Tag

from cordboard.config.providers.deepgram_agent import DeepgramAgentProvider
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.gemini_live import GeminiLiveProvider
from cordboard.config.providers.openai_realtime import OpenAIRealtimeProvider
from cordboard.config.providers.parts import part_type
from cordboard.config.providers.pipeline import PipelineProvider

# A discriminator by name would not let `Section` look at a value before it is read.
Provider: TypeAlias = Annotated[
    Annotated[PipelineProvider, Tag("pipeline")]
    | Annotated[OpenAIRealtimeProvider, Tag("openai_realtime")]
    | Annotated[DeepgramAgentProvider, Tag("deepgram_agent")]
    | Annotated[GeminiLiveProvider, Tag("gemini_live")]
    | Annotated[ElevenLabsAgentProvider, Tag("elevenlabs_agent")],
    Discriminator(part_type),
    Field(description="An agent to choose from; `type` says what it is."),
]
"""One provider."""
