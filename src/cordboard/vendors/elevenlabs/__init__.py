"""ElevenLabs: Agents and the voices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.provider import Parts, Provider
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider, ElevenLabsTts
from cordboard.vendors.elevenlabs.limits import ELEVENLABS, PAYLOAD
from cordboard.vendors.elevenlabs.probes import agent_probes, voice_probes

if TYPE_CHECKING:
    from cordboard.agent_api.service_protocol import ServiceProtocol
    from cordboard.agent_api.tts import Voice


def _agent(section: ElevenLabsAgentProvider, parts: Parts) -> ServiceProtocol:
    from cordboard.vendors.elevenlabs.agent.protocol import ElevenLabsProtocol

    return ElevenLabsProtocol(section, parts.key)


def _tts(section: ElevenLabsTts, parts: Parts) -> Voice:
    from cordboard.vendors.elevenlabs.tts import elevenlabs_voice

    return elevenlabs_voice(section, parts.key)


PROVIDERS = (
    Provider(
        "elevenlabs_agent",
        "agent",
        ElevenLabsAgentProvider,
        _agent,
        ELEVENLABS,
        PAYLOAD,
        agent_probes,
        tries_session=False,
    ),
    Provider("elevenlabs", "tts", ElevenLabsTts, _tts, probes=voice_probes),
)
