"""Which dialect speaks to which service. Each is imported when the first call needs it."""

from __future__ import annotations

from cordboard.agents.realtime.dialect import Dialect
from cordboard.config.providers.deepgram_agent import DeepgramAgentProvider
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.gemini_live import GeminiLiveProvider
from cordboard.config.providers.openai_realtime import OpenAIRealtimeProvider
from cordboard.config.providers.realtime import RealtimeProvider
from cordboard.errors import AgentError


def dialect_for(settings: RealtimeProvider, key: str) -> Dialect:
    """A new dialect for one call. Raises `AgentError` for a provider that has none."""
    match settings:
        case OpenAIRealtimeProvider():
            from cordboard.agents.realtime.openai.dialect import OpenAIDialect

            return OpenAIDialect(settings, key)
        case DeepgramAgentProvider():
            from cordboard.agents.realtime.deepgram.dialect import DeepgramDialect

            return DeepgramDialect(settings, key)
        case GeminiLiveProvider():
            from cordboard.agents.realtime.gemini.dialect import GeminiDialect

            return GeminiDialect(settings, key)
        case ElevenLabsAgentProvider():
            from cordboard.agents.realtime.elevenlabs.dialect import ElevenLabsDialect

            return ElevenLabsDialect(settings, key)
    raise AgentError(f"nobody speaks to a provider of type {type(settings).__name__}")
