"""Which paid services a provider consists of: itself, or the parts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cordboard.config.providers.parts import PartSection, Role
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.service import Service
from cordboard.config.schema import Config, Context


@dataclass(frozen=True, slots=True)
class Part:
    """One section that makes something: a provider, or a part of a pipeline."""

    role: Role
    key: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    section: PartSection


@dataclass(frozen=True, slots=True)
class PaidPart:
    """One service of a provider."""

    role: Role
    part: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    service: Service


def parts_of(provider: PartSection) -> tuple[Part, ...]:
    """The sections that a provider is made of."""
    if isinstance(provider, PipelineProvider):
        return (
            Part("stt", "stt", provider.stt),
            Part("llm", "brain", provider.brain),
            Part("tts", "tts", provider.tts),
        )
    return (Part("agent", "", provider),)


def paid_parts(provider: PartSection) -> Iterator[PaidPart]:
    """The services that a provider consists of; none for one that runs on this machine."""
    for part in parts_of(provider):
        if isinstance(part.section, Service):
            yield PaidPart(part.role, part.key, part.section)


def chain_of(config: Config, context: Context) -> tuple[str, ...]:
    """The providers of a context in the order in which they are tried, each once."""
    names: Iterable[str] = (context.provider or config.default_provider, *context.fallback)
    return tuple(dict.fromkeys(names))


def providers_in_use(config: Config) -> tuple[str, ...]:
    """Those that some context may speak with, in the order of the file."""
    used = {name for context in config.contexts.values() for name in chain_of(config, context)}
    used.add(config.default_provider)
    return tuple(name for name in config.providers if name in used)
