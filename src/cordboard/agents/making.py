"""Make the part that a section of the configuration describes, by its descriptor.

A plug-in's part is foreign code: if it raises, or returns the wrong kind of object, that becomes an
`AgentError` that names the plug-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cordboard.agent_api.agent import Agent
from cordboard.agent_api.language_model import AbsentModel, LanguageModel
from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.provider import Parts, provider_of
from cordboard.agent_api.service_protocol import ServiceProtocol
from cordboard.agent_api.stt import CallRecogniser, Recogniser
from cordboard.agent_api.tts import Voice
from cordboard.agents.llm.brain import LlmBrain
from cordboard.config.chosen import BrokenPart
from cordboard.config.plugins import Plugins, failure_of, installed
from cordboard.config.providers import PipelineProvider, parts_of
from cordboard.config.schema import Config
from cordboard.config.sections.language_model import LanguageModelBrain
from cordboard.config.sections.parts import PartSection, Role
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.config.sections.service import Service
from cordboard.errors import AgentError, BrainError

_DOORS: Mapping[Role, tuple[type, ...]] = {
    "agent": (Agent, ServiceProtocol),
    "stt": (Recogniser, CallRecogniser),
    "llm": (LanguageModel,),
    "tts": (Voice,),
}


def key_of(section: PartSection, environ: Mapping[str, str], what: str) -> str:
    """Return the key of a service; empty where none is needed. Raises `AgentError` of kind `auth`
    for a key that is missing or malformed. `what`: the service, as messages name it."""
    if not isinstance(section, Service):
        return ""
    key, origin = section.key(environ)
    key = key.strip()
    if not key and section.needs_key and origin != "headers":
        raise AgentError(f"{what} has no key: set {section.key_places}", "auth")
    if key and (not (key.isascii() and key.isprintable()) or " " in key):
        raise AgentError(f"{what}: the key has characters that a key cannot have", "auth")
    return key


def make(role: Role, section: PartSection, parts: Parts, plugins: Plugins | None = None) -> Any:
    """Make the part of a section; its type follows from its role. Raises `AgentError`."""
    plugins = plugins or installed()
    if isinstance(section, BrokenPart):
        raise AgentError(section.problem)
    provider = provider_of(plugins, role, section.type)
    if provider is None:
        raise AgentError(f"there is no {role} of type {section.type}")
    source = plugins.sources.get((role, section.type))
    if source is None:
        return provider.make(section, parts)
    try:
        part = provider.make(section, parts)
    except AgentError as error:
        raise AgentError(without_key(f"{source}: {error}", parts.key), error.kind) from error
    except Exception as error:  # border of a plug-in: its code may raise anything
        reason = failure_of(source, f"make of {section.type}", error, parts.key)
        raise AgentError(reason) from error
    if not isinstance(part, _DOORS[role]):
        promised = " or ".join(door.__name__ for door in _DOORS[role])
        made = type(part).__name__
        raise AgentError(f"{source}: make of {section.type} gives a {made}, no {promised}")
    if isinstance(part, ServiceProtocol) and not isinstance(section, RealtimeProvider):
        raise AgentError(f"{source}: the section of {section.type} is not a RealtimeProvider")
    return part


def without_key(words: str, key: str) -> str:
    """The words of a plug-in, which may quote the key that it was given."""
    return words.replace(key, "***") if key else words


def make_with_key(
    role: Role,
    section: PartSection,
    models: OfflineModels | None,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
) -> Any:
    """Make the part of a section, with the key from its section or the environment."""
    what = section.type if role in ("agent", "llm") else f"{role}: {section.type}"
    return make(role, section, Parts(key_of(section, environ, what), models), plugins)


@dataclass(frozen=True, slots=True)
class SpeechParts:
    """The recogniser and the voice of a pipeline."""

    recogniser: Recogniser | CallRecogniser
    voice: Voice

    async def close(self) -> None:
        """Close connections to services, as soon as they are not in use. Idempotent."""
        for part in (self.recogniser, self.voice):
            close = getattr(part, "close", None)
            if close is not None:
                await close()


def speech_parts(
    settings: PipelineProvider,
    models: OfflineModels | None,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
) -> SpeechParts:
    """Make both parts. Raises `AgentError`, of kind `auth` where a key is missing."""
    return SpeechParts(
        make_with_key("stt", settings.stt, models, environ, plugins),
        make_with_key("tts", settings.tts, models, environ, plugins),
    )


def model_brain(
    settings: PartSection,
    environ: Mapping[str, str],
    models: OfflineModels | None = None,
    plugins: Plugins | None = None,
) -> LlmBrain:
    """Make the brain of a language model: one for all contexts of a provider.

    A model that cannot be made (no key, a broken plug-in) becomes a brain with a `problem`, so that
    the engine runs without it. Nothing is connected.
    """
    common = settings if isinstance(settings, LanguageModelBrain) else None
    try:
        model = make_with_key("llm", settings, models, environ, plugins)
    except AgentError as error:
        problem = BrainError(str(error), error.kind)
        absent = AbsentModel(settings.type)
        return LlmBrain(
            absent, common or LanguageModelBrain(type=settings.type, model="-"), problem
        )
    if common is None:
        raise BrainError(f"the section of {settings.type} is not a LanguageModelBrain")
    return LlmBrain(model, common)


def plugin_problems(
    config: Config, environ: Mapping[str, str], plugins: Plugins | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the providers whose plug-ins cannot make them, each with the reason: every part of a
    plug-in is made once, without models, and dropped. Blocks as long as `make` does."""
    plugins = plugins or installed()
    for name, provider in config.providers.items():
        for part in parts_of(provider):
            section = part.section
            outside = (part.role, section.type) in plugins.sources
            if not outside and not isinstance(section, BrokenPart):
                continue
            key = section.key(environ)[0] if isinstance(section, Service) else ""
            try:
                make(part.role, section, Parts(key), plugins)
            except AgentError as error:
                yield name, f"{part.key}: {error}" if part.key else str(error)
                break
