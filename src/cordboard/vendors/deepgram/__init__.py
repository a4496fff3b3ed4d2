"""Deepgram: Voice Agent, the streaming recognisers and the voices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.provider import Parts, Provider
from cordboard.vendors.deepgram.config import (
    DeepgramAgentProvider,
    DeepgramFluxStt,
    DeepgramStt,
    DeepgramTts,
)
from cordboard.vendors.deepgram.limits import DEEPGRAM, PAYLOAD
from cordboard.vendors.deepgram.probes import probes

if TYPE_CHECKING:
    from cordboard.agent_api.service_protocol import ServiceProtocol
    from cordboard.agent_api.stt import CallRecogniser
    from cordboard.agent_api.tts import Voice


def _agent(section: DeepgramAgentProvider, parts: Parts) -> ServiceProtocol:
    from cordboard.vendors.deepgram.agent.protocol import DeepgramProtocol

    return DeepgramProtocol(section, parts.key)


def _stt(section: DeepgramStt, parts: Parts) -> CallRecogniser:
    from cordboard.vendors.deepgram.stt import DeepgramRecogniser

    return DeepgramRecogniser(section, parts.key)


def _flux(section: DeepgramFluxStt, parts: Parts) -> CallRecogniser:
    from cordboard.vendors.deepgram.flux import DeepgramFluxRecogniser

    return DeepgramFluxRecogniser(section, parts.key)


def _tts(section: DeepgramTts, parts: Parts) -> Voice:
    from cordboard.vendors.deepgram.tts import deepgram_voice

    return deepgram_voice(section, parts.key)


PROVIDERS = (
    Provider("deepgram_agent", "agent", DeepgramAgentProvider, _agent, DEEPGRAM, PAYLOAD, probes),
    Provider("deepgram", "stt", DeepgramStt, _stt, probes=probes),
    Provider("deepgram_flux", "stt", DeepgramFluxStt, _flux, probes=probes),
    Provider("deepgram", "tts", DeepgramTts, _tts, probes=probes),
)
