"""`check --online` at Gemini: `GET /v1beta/models/{model}`, and the model's abilities."""

from __future__ import annotations

from typing import Any

from cordboard.agent_api.probe import Probe, http_base, path_part
from cordboard.vendors.gemini.config import GeminiBrain, GeminiLiveProvider

BASE_URL = "https://generativelanguage.googleapis.com"


def probes(section: GeminiLiveProvider | GeminiBrain, key: str) -> tuple[Probe, ...]:
    """Return one probe, for the model."""
    live = isinstance(section, GeminiLiveProvider)
    wanted = "bidiGenerateContent" if live else "generateContent"

    def can(told: Any) -> str:
        methods = told.get("supportedGenerationMethods") if isinstance(told, dict) else None
        if isinstance(methods, list) and methods and wanted not in methods:
            return f"it does not do {wanted}, which is needed here"
        return ""

    model = section.model.removeprefix("models/")
    url = f"{http_base(section, BASE_URL)}/v1beta/models/{path_part(model)}"
    return (Probe(f"model {model}", url, section.request_headers(key), can),)
