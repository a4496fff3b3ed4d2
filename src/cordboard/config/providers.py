"""The providers: `type: pipeline`, and the sections and paid services of any provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from cordboard.config.chosen import Chosen
from cordboard.config.sections.language_model import RulesBrain
from cordboard.config.sections.parts import PartSection, Role
from cordboard.config.sections.service import Service

RECOGNISERS = Chosen("stt", bare=True)
BRAINS = Chosen("llm", (RulesBrain,), bare=True)
VOICES = Chosen("tts", bare=True)
Stt: TypeAlias = Annotated[PartSection, RECOGNISERS]
Brain: TypeAlias = Annotated[PartSection, BRAINS]
Tts: TypeAlias = Annotated[PartSection, VOICES]


class PipelineProvider(PartSection):
    """An agent made of a recogniser, a brain and a voice."""

    type: Literal["pipeline"] = Field(description="The kind of provider.")
    stt: Stt = Field(
        "whisper",
        validate_default=True,
        description="Recogniser: its type, or a section with `type`.",
    )
    brain: Brain = Field(
        "rules",
        validate_default=True,
        description="Text side: its type, or a section with `type`.",
    )
    tts: Tts = Field(
        "hibari",
        validate_default=True,
        description="Voice: its type, or a section with `type`.",
    )


@dataclass(frozen=True, slots=True)
class Part:
    """One section that makes a provider, or a part of a pipeline."""

    role: Role
    key: str
    """`stt`, `brain` or `tts` of a pipeline; empty for a provider that is one service."""
    section: PartSection


@dataclass(frozen=True, slots=True)
class PaidPart(Part):
    """A part that is a paid service."""

    section: Service


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
