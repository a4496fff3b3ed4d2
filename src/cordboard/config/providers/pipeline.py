"""`type: pipeline`: an agent made of a recogniser, a brain and a voice."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.providers.brains import Brain, RulesBrain
from cordboard.config.providers.stt import Stt, WhisperStt
from cordboard.config.providers.tts import HibariTts, Tts
from cordboard.config.section import Section


class PipelineProvider(Section):
    """An agent made of a recogniser, a brain and a voice."""

    type: Literal["pipeline"] = Field(description="The kind of provider.")
    stt: Stt = Field(WhisperStt(), description="Recogniser: its type, or a section with `type`.")
    brain: Brain = Field(RulesBrain(), description="Text side: its type, or a section with `type`.")
    tts: Tts = Field(HibariTts(), description="Voice: its type, or a section with `type`.")
