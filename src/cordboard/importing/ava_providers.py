"""Providers and pipelines of AVA as providers of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import dotted
from cordboard.importing.ava_keys import (
    BASE_URLS,
    COMPONENTS,
    FORMATS,
    FULL_AGENTS,
    KEY_VARIABLES,
    PART_KEYS,
    PARTS,
    PROVIDER_KEYS,
    STAND_INS,
    VOICE_KEYS,
)
from cordboard.importing.result import Imported, Part, needed_variables

_OPENAI = "https://api.openai.com/v1"


@dataclass(slots=True)
class Providers:
    """Reads providers and pipelines into `result.tree`."""

    root: Part
    result: Imported
    variables: frozenset[str]
    """Variables that AVA has."""
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """AVA's provider → its `prompt` and `greeting`, for contexts that have none."""

    def read(self, used: set[str]) -> None:
        """Read everything that is switched on or `used`."""
        providers, left = self.root.part("providers"), self.result.left
        components: dict[str, Part] = {}
        for name, provider in providers.parts():
            if name.endswith(("_stt", "_llm", "_tts")) and provider.text("type") != "full":
                components[name] = provider
            elif name in used or provider.truth("enabled"):
                self._agent(name, provider)
            else:
                left.append((f"providers.{name}", "switched off, and no agent uses it"))
        unused = set(components)
        for name, pipeline in self.root.part("pipelines").parts():
            unused -= self._pipeline(name, pipeline, providers)
        if idle := [name for name in components if name in unused]:
            left.append((f"providers.{', '.join(idle)}", "no pipeline uses it"))
        known = self.result.names["provider"]
        for name, ours in list(known.items()):
            needed = needed_variables(str(self.result.tree["providers"].get(ours)))
            missing = [variable for variable in needed if variable not in self.variables]
            if name not in used and missing:
                del self.result.tree["providers"][ours], known[name]
                reason = f"no agent uses it, and AVA's .env has no {missing[0]}"
                left.append((f"providers or pipelines: {name}", reason))

    def with_voice(self, provider: str, voice: str, context: str) -> str | None:
        """Return a copy of our provider with another voice; None if its kind has none to choose."""
        section = self.result.tree["providers"][provider]
        key = VOICE_KEYS.get(section["type"])
        if key is None:
            return None
        name = f"{provider}-{context}"
        name = self.result.renamed("provider", f"contexts.{context}.voice", name)
        section = _complete(_with(section, key.split("."), voice))
        self.result.tree["providers"][name] = section
        self.result.comments["providers", name] = f"{provider} with the voice of {context}."
        return name

    def _agent(self, name: str, provider: Part) -> None:
        said = provider.text("type")
        kind = next((kind for kind in (said, name) if kind in (*FULL_AGENTS, "local")), "")
        if not kind:
            nearest = "; nearest: openai_realtime" if "grok" in (said, name) else ""
            reason = f"no provider for {said or name}{nearest}"
            self.result.left.append((f"providers.{name}", reason))
            return
        prompt, greeting = provider.text("instructions"), provider.text("greeting")
        self.texts[name] = {"prompt": prompt, "greeting": greeting}
        provider.skip(FORMATS)
        ours = self.result.renamed("provider", f"providers.{name}", name)
        if kind == "local":
            voice = provider.text("tts_voice")
            parts = {part: self._part(part, "local", provider, voice) for part in PARTS}
            section: dict[str, Any] = {"type": "pipeline", **parts}
            provider.rest("AVA's own model server; models here run in the engine")
        else:
            section = self._realtime(FULL_AGENTS[kind], provider)
        self.result.put("providers", ours, section, f"providers.{name}")

    def _realtime(self, kind: str, provider: Part) -> dict[str, Any]:
        section: dict[str, Any] = {"type": kind, **provider.copy(PROVIDER_KEYS[kind])}
        if kind == "elevenlabs_agent":
            section.setdefault("agent_id", "${ELEVENLABS_AGENT_ID}")
            keys = ("voice_id", "model_id", "voice_settings")
            provider.leave(dict.fromkeys(keys, "set in the agent at ElevenLabs"))
        if "openai.com" not in provider.text("base_url"):
            provider.leave({"base_url": "nearest: base_url, with http(s)://"})
        provider.leave({"use_vertex_ai": "only Google's Developer API is supported"})
        provider.rest(f"no counterpart in a provider of type {kind}")
        return _complete(section)

    def _pipeline(self, name: str, pipeline: Part, providers: Part) -> set[str]:
        """Return the components that it uses."""
        known = self.result.names["provider"]
        before = known.get(name)
        ours = self.result.renamed("provider", f"pipelines.{name}", name)
        known[name] = before or ours  # a provider goes before a pipeline of the same name
        section: dict[str, Any] = {"type": "pipeline"}
        options = pipeline.part("options")
        used = [pipeline.text(theirs) for theirs in COMPONENTS]
        for component, (theirs, part) in zip(used, COMPONENTS.items(), strict=True):
            sources = (providers.get(component), options.get(theirs))
            base, over = (one if isinstance(one, dict) else {} for one in sources)
            stated = base.get("type")
            kind = stated if isinstance(stated, str) and stated else component.rpartition("_")[0]
            settings = Part({**base, **over}, ("pipelines", name, theirs), self.result)
            section[part] = self._part(part, kind, settings)
            settings.skip(FORMATS)
            settings.rest(f"no counterpart in a {part} of type {section[part]['type']}")
        pipeline.leave({"tools": "nearest: `contexts.<name>.tools`"})
        pipeline.rest()
        about = f": {', '.join(used)}"
        self.result.put("providers", ours, section, f"pipelines.{name}", about)
        return set(used)

    def _part(self, part: str, kind: str, settings: Part, voice: str = "") -> dict[str, Any]:
        """Return `stt`, `brain` or `tts` of a pipeline."""
        ours, left = PARTS[part].get(kind, ""), self.result.left
        if not ours and part == "brain":
            speaks_like_openai = settings.text("chat_base_url") or settings.text("base_url")
            ours = "openai_chat" if speaks_like_openai else ""
        if part == "tts" and kind == "local":
            voice = voice or settings.text("tts_voice")
            piper = settings.text("tts_backend") in ("", "piper") and voice.endswith(".onnx")
            ours = "piper" if piper else ours
        if not ours:
            ours = STAND_INS[part]
            reason = f"no {part} of {kind or 'no name'}; {ours} here"
            left.append((dotted(settings.path), reason))
        section = {"type": ours, **settings.copy(PART_KEYS.get(f"{part} {ours}", {}))}
        if ours == "gguf" and "model" not in section:
            section = {"type": "rules"}
            reason = "no model is named; write `rules` for the contexts"
            left.append((dotted(settings.path), reason))
        if ours == "openai_chat" or (ours == "openai" and kind == "groq"):
            section |= _address(kind, settings)
        return section


def _address(kind: str, settings: Part) -> dict[str, Any]:
    """Return `base_url` and `api_key` for a service that speaks like OpenAI."""
    url = settings.text("chat_base_url")
    url = (settings.text("base_url") or url or BASE_URLS.get(kind, "")).rstrip("/")
    for ending in ("/chat/completions", "/audio/transcriptions", "/audio/speech"):
        url = url.removesuffix(ending)
    if kind == "ollama" and not url.endswith("/v1"):
        url += "/v1"
    if url in ("", _OPENAI):
        return {}
    key = settings.text("api_key")
    if kind in KEY_VARIABLES:
        return {"base_url": url, "api_key": f"${{{KEY_VARIABLES[kind]}}}"}
    # AVA ignores a key that is written in its file; only the usual word for none means something.
    kept = "${" in key or key == "not-needed"
    return {"base_url": url, "api_key": key} if kept else {"base_url": url}


def _complete(section: dict[str, Any]) -> dict[str, Any]:
    """Add what follows from the names of Deepgram's models."""
    if section["type"] == "deepgram_agent" and "listen" in section:
        listen = section["listen"]["provider"]
        listen["version"] = "v2" if str(listen.get("model")).startswith("flux") else "v1"
    if section["type"] == "deepgram_agent" and "speak" in section:
        section["speak"]["provider"]["type"] = "deepgram"
    return section


def _with(section: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    below = section.get(keys[0])
    if len(keys) > 1:
        value = _with(below if isinstance(below, dict) else {}, keys[1:], value)
    return {**section, keys[0]: value}
