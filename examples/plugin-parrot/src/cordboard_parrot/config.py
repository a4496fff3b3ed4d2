"""What may be written in `ai-agent.yaml`: pydantic sections, one for each type."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard import PartSection, ToolSection


class ParrotAgentSection(PartSection):
    """An agent that repeats the keys that the caller presses."""

    type: Literal["parrot"] = Field(description="The kind of provider.")
    pitch: int = Field(440, ge=100, le=2_000, description="The voice's tone, in hertz.")
    tool: str = Field("", description="A tool that the key # runs. Empty: none.")


class ParrotVoiceSection(PartSection):
    """A voice that whistles a tone for each word."""

    type: Literal["parrot_voice"] = Field(description="The kind of voice.")
    pitch: int = Field(440, ge=100, le=2_000, description="The tone, in hertz.")


class CountTool(ToolSection):
    """A tool that counts how often it was run."""

    kind: Literal["parrot_count"] = Field(description="The kind of tool.")
    first: int = Field(1, ge=0, description="The first number.")
