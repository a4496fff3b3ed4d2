"""`check --online` at OpenAI: `GET /v1/models/{model}` for each model.

Its answer has the day on which OpenAI ends the model (openai 3.54, `types/model.py`). A compatible
service (Ollama, vLLM, llama.cpp) has the list only, `GET /models`; at Azure the models have names
of the customer's own, so only the key is verified.
"""

from __future__ import annotations

from typing import Any

from cordboard.agent_api.probe import Probe, entries, http_base, path_part
from cordboard.config.sections.service import Service
from cordboard.vendors.openai.config import OpenAIChatBrain

BASE_URL = "https://api.openai.com/v1"


def probes(section: Service, key: str) -> tuple[Probe, ...]:
    """Return one probe for each model of the section."""
    base = http_base(section, BASE_URL)
    headers = section.request_headers(key)
    if isinstance(section, OpenAIChatBrain) and section.base_url is not None:
        model = section.model

        def listed(told: Any) -> str:
            names = {entry.get("id") for entry in entries(told, "data")}
            return "" if model in names else f"it has no model {model} in its list"

        return (Probe(f"model {model}", f"{base}/models", headers, listed, frozenset()),)
    if any(name.lower() == "api-key" for name in section.headers):
        return (Probe("key", f"{base}/models", headers),)
    return tuple(
        Probe(f"model {model}", f"{base}/models/{path_part(model)}", headers, end="shutdown_date")
        for model in section.paid_models
    )
