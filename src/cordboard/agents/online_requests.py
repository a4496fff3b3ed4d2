"""What is asked of each service to verify key, model and voice, and what its answers mean. Pure.

One cheap GET for each thing, none of which costs money. Sources: the vendors' REST references:
OpenAI and Anthropic `GET /v1/models/{model}`, Gemini `GET /v1beta/models/{model}`, Deepgram
`GET /v1/auth/token` and `GET /v1/models`, ElevenLabs `GET /v1/convai/agents/{id}`,
`GET /v1/voices/{id}` and `GET /v1/models`. What speaks like OpenAI at an address of its own
(Ollama, vLLM, llama.cpp) has the list only, `GET /models`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from cordboard.config.providers.brains import AnthropicBrain, GeminiBrain, OpenAIChatBrain
from cordboard.config.providers.deepgram_agent import DeepgramAgentProvider
from cordboard.config.providers.elevenlabs_agent import ElevenLabsAgentProvider
from cordboard.config.providers.gemini_live import GeminiLiveProvider
from cordboard.config.providers.service import Service
from cordboard.config.providers.services import PaidPart
from cordboard.config.providers.stt import DeepgramFluxStt, DeepgramStt
from cordboard.config.providers.tts import DeepgramTts, ElevenLabsTts
from cordboard.vendors.anthropic.messages import AnthropicWire
from cordboard.vendors.elevenlabs.sync_plan import unfit

State = Literal["ok", "no key", "wrong key", "unknown", "unlisted", "unreachable", "refused"]
"""`unlisted`: the service does not name it among its own, which need not mean that it is not there;
`refused`: the answer says neither yes nor no."""
_ELEVENLABS_UNKNOWN = frozenset({400, 404, 422})
"""Statuses by which ElevenLabs says that there is no such thing."""
Judge = Callable[[Any], str]
"""What is wrong by the body of a good answer; empty = nothing."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One request."""

    what: str
    """What it verifies: `key`, `model gpt-x`, `voice y`."""
    url: str
    headers: Mapping[str, str] = field(repr=False)
    judge: Judge = lambda _: ""
    unknown: frozenset[int] = frozenset({404})
    """Statuses by which the service says that there is no such thing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer means."""

    state: State
    detail: str = ""


def probes(paid: PaidPart, key: str) -> tuple[Probe, ...]:
    """What to ask the service of a provider or part."""
    service = paid.service
    match service:
        case DeepgramAgentProvider() | DeepgramStt() | DeepgramFluxStt() | DeepgramTts():
            return _deepgram(service, paid, key)
        case ElevenLabsAgentProvider() | ElevenLabsTts():
            return _elevenlabs(service, key)
        case GeminiLiveProvider() | GeminiBrain():
            return (_gemini(service, key),)
        case AnthropicBrain():
            wire = AnthropicWire(service)
            url = f"{_base(service, wire.base_url)}/v1/models/{_part(service.model)}"
            return (Probe(f"model {service.model}", url, wire.headers(key)),)
    return _openai(service, paid, key)


def verdict(probe: Probe, status: int, body: bytes) -> Verdict:
    """What an answer means."""
    if status in (401, 403) or (status == 400 and b"API_KEY_INVALID" in body):
        if b"missing_permissions" in body:
            return Verdict("refused", "the key may not ask for this; it may do for calls")
        return Verdict("wrong key", f"it does not accept the key (HTTP {status})")
    if status in probe.unknown:
        return Verdict("unknown", f"there is no such thing, or not for this key (HTTP {status})")
    if status == 404:
        return Verdict("refused", "there is nothing at this address (HTTP 404); is base_url right?")
    if status == 429:
        return Verdict("refused", "the account is used up, or the service too busy (HTTP 429)")
    if status >= 500:
        return Verdict("unreachable", f"the service is not well (HTTP {status})")
    if status != 200:
        return Verdict("refused", f"an unexpected answer (HTTP {status})")
    try:
        told = json.loads(body)
    except ValueError:
        return Verdict("refused", "the answer is no JSON; is the address right?")
    problem = probe.judge(told)
    return Verdict("unlisted", problem) if problem else Verdict("ok")


def _openai(service: Service, paid: PaidPart, key: str) -> tuple[Probe, ...]:
    base = _base(service, "https://api.openai.com/v1")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if isinstance(service, OpenAIChatBrain) and service.base_url is not None:
        model = service.model

        def listed(told: Any) -> str:
            names = {entry.get("id") for entry in _entries(told, "data")}
            return "" if model in names else f"it has no model {model} in its list"

        return (Probe(f"model {model}", f"{base}/models", headers, listed, frozenset()),)
    return tuple(
        Probe(f"model {model}", f"{base}/models/{_part(model)}", headers) for model in paid.models
    )


def _gemini(service: GeminiLiveProvider | GeminiBrain, key: str) -> Probe:
    live = isinstance(service, GeminiLiveProvider)
    wanted = "bidiGenerateContent" if live else "generateContent"

    def can(told: Any) -> str:
        methods = told.get("supportedGenerationMethods") if isinstance(told, dict) else None
        if isinstance(methods, list) and methods and wanted not in methods:
            return f"it does not do {wanted}, which is needed here"
        return ""

    model = service.model.removeprefix("models/")
    base = _base(service, "https://generativelanguage.googleapis.com")
    url = f"{base}/v1beta/models/{_part(model)}"
    return Probe(f"model {model}", url, {"x-goog-api-key": key}, can)


def _deepgram(service: Service, paid: PaidPart, key: str) -> tuple[Probe, ...]:
    base = _base(service, "https://api.deepgram.com")
    headers = {"Authorization": f"Token {key}"}
    key_probe = Probe("key", f"{base}/v1/auth/token", headers)
    if isinstance(service, DeepgramAgentProvider):
        return (key_probe,)
    model, kind = paid.model, "tts" if isinstance(service, DeepgramTts) else "stt"

    def listed(told: Any) -> str:
        names: set[str] = set()
        for entry in _entries(told, kind):
            names |= {str(entry.get(key)) for key in ("name", "canonical_name", "architecture")}
        found = model in names or any(name.startswith(f"{model}-") for name in names)
        return "" if found else f"Deepgram does not list the model {model}"

    return key_probe, Probe(f"model {model}", f"{base}/v1/models", headers, listed)


def _elevenlabs(service: ElevenLabsAgentProvider | ElevenLabsTts, key: str) -> tuple[Probe, ...]:
    base = _base(service, "https://api.elevenlabs.io")
    headers = {"xi-api-key": key}
    if isinstance(service, ElevenLabsAgentProvider):
        if not key:
            return ()  # a public agent: nothing can be asked about it
        url = f"{base}/v1/convai/agents/{_part(service.agent_id)}"
        judge = partial(unfit, service)
        agent = Probe(f"agent {service.agent_id}", url, headers, judge, _ELEVENLABS_UNKNOWN)
        voice_id = service.tts.voice_id
        return (agent, _voice(base, voice_id, headers)) if voice_id is not None else (agent,)
    model = service.model_id

    def listed(told: Any) -> str:
        names = {entry.get("model_id") for entry in _entries({"models": told}, "models")}
        return "" if model in names else f"ElevenLabs does not list the model {model}"

    return (
        _voice(base, service.voice_id, headers),
        Probe(f"model {model}", f"{base}/v1/models", headers, listed),
    )


def _voice(base: str, voice_id: str, headers: Mapping[str, str]) -> Probe:
    url = f"{base}/v1/voices/{_part(voice_id)}"
    return Probe(f"voice {voice_id}", url, headers, unknown=_ELEVENLABS_UNKNOWN)


def _base(service: Service, usual: str) -> str:
    """The HTTP address of a service whose base may be configured for websockets."""
    base = (service.base_url or usual).rstrip("/")
    return f"http{base[2:]}" if urlsplit(base).scheme in ("ws", "wss") else base


def _part(name: str) -> str:
    return quote(name, safe=":@")


def _entries(told: Any, key: str) -> list[dict[str, Any]]:
    """The objects of a list in an answer; none when there is no such list."""
    listed = told.get(key) if isinstance(told, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
