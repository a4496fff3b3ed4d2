"""Gemini: Live and the text models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.provider import Parts, Provider
from cordboard.vendors.gemini.config import GeminiBrain, GeminiLiveProvider
from cordboard.vendors.gemini.limits import GEMINI, LIVE_PAYLOAD
from cordboard.vendors.gemini.probes import probes

if TYPE_CHECKING:
    from cordboard.agent_api.language_model import LanguageModel
    from cordboard.agent_api.service_protocol import ServiceProtocol


def _live(section: GeminiLiveProvider, parts: Parts) -> ServiceProtocol:
    from cordboard.vendors.gemini.live.protocol import GeminiProtocol

    return GeminiProtocol(section, parts.key)


def _llm(section: GeminiBrain, parts: Parts) -> LanguageModel:
    from cordboard.agents.llm.http_model import HttpModel
    from cordboard.vendors.gemini.llm import GeminiWire

    return HttpModel(GeminiWire(section), section, parts.key)


PROVIDERS = (
    Provider("gemini_live", "agent", GeminiLiveProvider, _live, GEMINI, LIVE_PAYLOAD, probes),
    Provider("gemini", "llm", GeminiBrain, _llm, GEMINI, probes=probes),
)
