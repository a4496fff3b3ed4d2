"""Providers and pipelines of AVA as providers of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard.config.yaml_document import dotted
from cordboard.importing.ava_keys import (
    BASE_URLS,
    FORMATS,
    FULL_AGENTS,
    KEY_VARIABLES,
    PART_KEYS,
    PARTS,
    PROVIDER_KEYS,
    STAND_INS,
    VOICE_KEYS,
)
from cordboard.importing.names import Names
from cordboard.importing.result import Imported, Part, needed_variables

_OPENAI = "https://api.openai.com/v1"
_COMPONENTS: Mapping[str, str] = {"stt": "stt", "llm": "brain", "tts": "tts"}
"""Part of AVA's pipeline → part of ours."""


@dataclass(slots=True)
class Providers:
    """Reads providers and pipelines into `result.tree`."""

    root: Part
    result: Imported
    names: Names
    variables: frozenset[str]
    """Variables that AVA has."""
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """AVA's provider → its `prompt` and `greeting`, for contexts that have none."""
    components: set[str] = field(default_factory=set)
    """Components of pipelines."""

    def read(self, used: set[str]) -> None:
        """Read everything that is switched on or `used`."""
        components = {
            name: part.get("type") or "" for name, part in self.root.part("providers").parts()
        }
        unused: list[str] = []
        for name, provider in self.root.parts("providers"):
            if self._is_component(name, provider):
                unused.append(name)  # read through the pipelines
            elif name in used or provider.truth("enabled", default=True):
                self._agent(name, provider)
            else:
                self.result.left.append((f"providers.{name}", "switched off, and no agent uses it"))
        for name, pipeline in self.root.parts("pipelines"):
            self._pipeline(name, pipeline, components)
        unused = [name for name in unused if name not in self.components]
        if unused:
            reason = "no pipeline uses it"
            self.result.left.append((f"providers.{', '.join(unused)}", reason))
        known = self.names.of("provider")
        for name, ours in list(known.items()):
            needed = needed_variables(str(self.result.tree["providers"].get(ours)))
            missing = [variable for variable in needed if variable not in self.variables]
            if name not in used and missing:
                del self.result.tree["providers"][ours], known[name]
                reason = f"no agent uses it, and AVA's .env has no {missing[0]}"
                self.result.left.append((f"providers or pipelines: {name}", reason))

    def with_voice(self, provider: str, voice: str, context: str) -> str | None:
        """Return a copy of our provider with another voice; None if its kind has none to choose."""
        section = self.result.tree["providers"][provider]
        key = VOICE_KEYS.get(section["type"])
        if key is None:
            return None
        name = self.names.renamed("provider", f"contexts.{context}.voice", f"{provider}-{context}")
        section = _complete(_with(section, key.split("."), voice))
        self.result.tree["providers"][name] = section
        self.result.comment(("providers", name), f"{provider} with the voice of {context}.")
        return name

    @staticmethod
    def _is_component(name: str, provider: Part) -> bool:
        return name.endswith(("_stt", "_llm", "_tts")) and provider.text("type") != "full"

    def _agent(self, name: str, provider: Part) -> None:
        said = provider.text("type")
        kind = next((kind for kind in (said, name) if kind in (*FULL_AGENTS, "local")), "")
        if not kind:
            nearest = "; nearest: openai_realtime" if "grok" in (said, name) else ""
            self.result.left.append(
                (f"providers.{name}", f"no provider for {said or name}{nearest}")
            )
            return
        ours = self.names.renamed("provider", f"providers.{name}", name)
        if kind == "local":
            stated = provider.text("tts_voice")
            section = {"type": "pipeline"} | {
                part: self._part(part, "local", provider, stated) for part in PARTS
            }
            provider.skip((*FORMATS, "instructions", "greeting"))
            provider.rest("AVA's own model server; models here run in the engine")
        else:
            section = self._realtime(FULL_AGENTS[kind], name, provider)
        prompt, greeting = provider.text("instructions"), provider.text("greeting")
        self.texts[name] = {"prompt": prompt, "greeting": greeting}
        self.result.tree["providers"][ours] = section
        self.result.comment(("providers", ours), f"From providers.{name}.")
        self.result.taken.append(f"providers.{name} → providers.{ours} ({section['type']})")

    def _realtime(self, kind: str, name: str, provider: Part) -> dict[str, Any]:
        section: dict[str, Any] = {"type": kind, **provider.copy(PROVIDER_KEYS[kind])}
        if kind == "elevenlabs_agent":
            section.setdefault("agent_id", "${ELEVENLABS_AGENT_ID}")
            reason = "set in the agent at ElevenLabs"
            for key in ("voice_id", "model_id", "voice_settings"):
                provider.leave(key, reason)
        if "openai.com" not in provider.text("base_url"):
            provider.leave("base_url", "nearest: base_url, with http(s)://")
        provider.leave("use_vertex_ai", "only Google's Developer API is supported")
        provider.skip((*FORMATS, "instructions", "greeting"))
        provider.rest(f"no counterpart in a provider of type {kind}")
        return _complete(section)

    def _pipeline(self, name: str, pipeline: Part, components: Mapping[str, Any]) -> None:
        known = self.names.of("provider")
        before = known.get(name)
        ours = self.names.renamed("provider", f"pipelines.{name}", name)
        known[name] = before or ours  # a provider goes before a pipeline of the same name
        section: dict[str, Any] = {"type": "pipeline"}
        options = pipeline.part("options")
        for theirs, part in _COMPONENTS.items():
            component = pipeline.text(theirs)
            self.components.add(component)
            stated = components.get(component)
            kind = stated if isinstance(stated, str) and stated else component.rpartition("_")[0]
            base = self.root.part("providers").get(component)
            over = options.get(theirs)
            merged = {
                **(base if isinstance(base, dict) else {}),
                **(over if isinstance(over, dict) else {}),
            }
            settings = Part(merged, ("pipelines", name, theirs), self.result)
            section[part] = self._part(part, kind, settings)
            settings.skip(FORMATS)
            settings.rest(f"no counterpart in a {part} of type {section[part]['type']}")
        pipeline.leave("tools", "nearest: `contexts.<name>.tools`")
        pipeline.rest()
        self.result.tree["providers"][ours] = section
        parts = "from pipelines.{}: {}".format(name, ", ".join(map(pipeline.text, _COMPONENTS)))
        self.result.comment(("providers", ours), parts[0].upper() + parts[1:] + ".")
        self.result.taken.append(f"pipelines.{name} → providers.{ours} (pipeline)")

    def _part(self, part: str, kind: str, settings: Part, voice: str = "") -> dict[str, Any]:
        """Return `stt`, `brain` or `tts` of a pipeline."""
        ours = PARTS[part].get(kind, "")
        if not ours and (settings.text("chat_base_url") or settings.text("base_url")):
            ours = "openai_chat" if part == "brain" else ""
        if part == "tts" and kind == "local":
            voice = voice or settings.text("tts_voice")
            piper = settings.text("tts_backend") in ("", "piper") and voice.endswith(".onnx")
            ours = "piper" if piper else ours
        if not ours:
            ours = STAND_INS[part]
            self.result.left.append(
                (dotted(settings.path), f"no {part} of {kind or 'no name'}; {ours} here")
            )
        section: dict[str, Any] = {
            "type": ours,
            **settings.copy(PART_KEYS.get(f"{part} {ours}", {})),
        }
        if ours == "gguf" and "model" not in section:
            section = {"type": "rules"}
            reason = "no model is named; write `rules` for the contexts"
            self.result.left.append((dotted(settings.path), reason))
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
    inner = value
    if len(keys) > 1:
        below = section.get(keys[0])
        inner = _with(below if isinstance(below, dict) else {}, keys[1:], value)
    return {**section, keys[0]: inner}
