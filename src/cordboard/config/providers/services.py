"""The paid services of a provider: the provider itself, or the parts of a pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.sections.parts import PartSection, Role
from cordboard.config.sections.service import Service


@dataclass(frozen=True, slots=True)
class Part:
    """One section that makes a provider, or a part of a pipeline."""

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
    """Return the sections of a provider."""
    if isinstance(provider, PipelineProvider):
        return (
            Part("stt", "stt", provider.stt),
            Part("llm", "brain", provider.brain),
            Part("tts", "tts", provider.tts),
        )
    return (Part("agent", "", provider),)


def paid_parts(provider: PartSection) -> Iterator[PaidPart]:
    """Yield the services of a provider; none for one that runs on this machine."""
    for part in parts_of(provider):
        if isinstance(part.section, Service):
            yield PaidPart(part.role, part.key, part.section)
