"""Which protocol speaks to which service. Each is imported when the first call needs it."""

from __future__ import annotations

from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.config.providers.deepgram_agent import DeepgramAgentProvider
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.gemini_live import GeminiLiveProvider
from cordboard.config.providers.openai_realtime import OpenAIRealtimeProvider
from cordboard.config.providers.realtime import RealtimeProvider
from cordboard.errors import AgentError


def protocol_for(settings: RealtimeProvider, key: str) -> ServiceProtocol:
    """A new protocol for one call. Raises `AgentError` for a provider that has none."""
    match settings:
        case OpenAIRealtimeProvider():
            from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

            return OpenAIProtocol(settings, key)
        case DeepgramAgentProvider():
            from cordboard.vendors.deepgram.agent.protocol import DeepgramProtocol

            return DeepgramProtocol(settings, key)
        case GeminiLiveProvider():
            from cordboard.vendors.gemini.live.protocol import GeminiProtocol

            return GeminiProtocol(settings, key)
        case ElevenLabsAgentProvider():
            from cordboard.vendors.elevenlabs.agent.protocol import ElevenLabsProtocol

            return ElevenLabsProtocol(settings, key)
    raise AgentError(f"nobody speaks to a provider of type {type(settings).__name__}")
