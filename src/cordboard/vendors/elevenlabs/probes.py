"""`check --online` at ElevenLabs: `GET /v1/convai/agents/{id}`, `/v1/voices/{id}`, `/v1/models`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cordboard.agent_api.probe import Probe, entries, http_base, path_part
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider, ElevenLabsTts

BASE_URL = "https://api.elevenlabs.io"
_UNKNOWN = frozenset({400, 404, 422})
"""Statuses with which ElevenLabs reports that a thing does not exist."""


def agent_probes(section: ElevenLabsAgentProvider, key: str) -> tuple[Probe, ...]:
    """Return one probe for the agent, with its settings, and one for a voice in the section."""
    from cordboard.vendors.elevenlabs.sync_plan import unfit

    if not key:
        return ()  # a public agent: it cannot be verified
    base, headers = http_base(section, BASE_URL), section.request_headers(key)
    url = f"{base}/v1/convai/agents/{path_part(section.agent_id)}"
    judge = partial(unfit, section)
    agent = Probe(f"agent {section.agent_id}", url, headers, judge, _UNKNOWN)
    voice_id = section.tts.voice_id
    return (agent, _voice(base, voice_id, headers)) if voice_id is not None else (agent,)


def voice_probes(section: ElevenLabsTts, key: str) -> tuple[Probe, ...]:
    """Return one probe for the voice, one for the model."""
    base, headers, model = (
        http_base(section, BASE_URL),
        section.request_headers(key),
        section.model_id,
    )

    def listed(told: Any) -> str:
        names = {entry.get("model_id") for entry in entries({"models": told}, "models")}
        return "" if model in names else f"ElevenLabs does not list the model {model}"

    return (
        _voice(base, section.voice_id, headers),
        Probe(f"model {model}", f"{base}/v1/models", headers, listed),
    )


def _voice(base: str, voice_id: str, headers: Mapping[str, str]) -> Probe:
    url = f"{base}/v1/voices/{path_part(voice_id)}"
    return Probe(f"voice {voice_id}", url, headers, unknown=_UNKNOWN)
