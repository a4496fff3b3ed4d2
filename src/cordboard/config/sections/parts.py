"""Sections of one of several types: `type` names it.

A part of a pipeline is written as its type alone, or as a section with its settings:

    stt: whisper
    brain: {type: openai_chat, model: gpt-5.2-mini}
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from cordboard.config.section import Section

Role: TypeAlias = Literal["agent", "stt", "llm", "tts"]
"""`agent` stands under `providers`; the others are a pipeline's `stt`, `brain` and `tts`."""


class PartSection(Section):
    """The base of all sections with a `type`; each type narrows it to its `Literal`."""

    type: str = Field(description="The kind of part.")

    @property
    def model_file(self) -> str:
        """Path of the file in the key `model` that must exist; empty if no file is needed."""
        return ""


def part_type(value: object) -> str | None:
    """Return the type of a part or provider, parsed or not: a union's discriminator."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) else None
