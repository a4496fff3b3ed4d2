"""`check --online` at Deepgram: `GET /v1/auth/token`, and `GET /v1/models` for a part's model."""

from __future__ import annotations

from typing import Any

from cordboard.agent_api.probe import Probe, entries, http_base
from cordboard.config.sections.service import Service
from cordboard.vendors.deepgram.config import DeepgramAgentProvider, DeepgramTts

BASE_URL = "https://api.deepgram.com"


def probes(section: Service, key: str) -> tuple[Probe, ...]:
    """Return one probe for the key, and one for the model of a recogniser or voice."""
    base = http_base(section, BASE_URL)
    headers = section.request_headers(key)
    key_probe = Probe("key", f"{base}/v1/auth/token", headers)
    if isinstance(section, DeepgramAgentProvider):
        return (key_probe,)
    model = next(iter(section.paid_models), "")
    kind = "tts" if isinstance(section, DeepgramTts) else "stt"

    def listed(told: Any) -> str:
        names: set[str] = set()
        for entry in entries(told, kind):
            names |= {str(entry.get(key)) for key in ("name", "canonical_name", "architecture")}
        found = model in names or any(name.startswith(f"{model}-") for name in names)
        return "" if found else f"Deepgram does not list the model {model}"

    return key_probe, Probe(f"model {model}", f"{base}/v1/models", headers, listed)
