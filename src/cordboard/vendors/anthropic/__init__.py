"""Anthropic: Messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cordboard.agent_api.probe import Probe, http_base, path_part
from cordboard.agent_api.provider import Parts, Provider
from cordboard.vendors.anthropic.config import AnthropicBrain
from cordboard.vendors.anthropic.limits import ANTHROPIC, PAYLOAD

if TYPE_CHECKING:
    from cordboard.agent_api.language_model import LanguageModel


def _llm(section: AnthropicBrain, parts: Parts) -> LanguageModel:
    from cordboard.agents.llm.http_model import HttpModel
    from cordboard.vendors.anthropic.messages import AnthropicWire

    return HttpModel(AnthropicWire(section), section, parts.key)


def _probes(section: AnthropicBrain, key: str) -> tuple[Probe, ...]:
    """`GET /v1/models/{model}`."""
    from cordboard.vendors.anthropic.messages import AnthropicWire

    wire = AnthropicWire(section)
    url = f"{http_base(section, wire.base_url)}/v1/models/{path_part(section.model)}"
    return (Probe(f"model {section.model}", url, wire.headers(key)),)


PROVIDERS = (Provider("anthropic", "llm", AnthropicBrain, _llm, ANTHROPIC, PAYLOAD, _probes),)
