"""`type: pipeline`: an agent made of a recogniser, a brain and a voice."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from cordboard.config.chosen import Chosen
from cordboard.config.sections.language_model import RulesBrain
from cordboard.config.sections.parts import PartSection

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
