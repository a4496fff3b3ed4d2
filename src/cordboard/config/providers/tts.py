"""The voices of a pipeline: `tts:`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section


class HibariTts(Section):
    """The bundled voice on this machine; needs the extra `local`."""

    type: Literal["hibari"] = Field("hibari", description="The kind of voice.")


class OpenAITts(Service):
    """OpenAI's speech synthesis (`/v1/audio/speech`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai"] = Field(description="The kind of voice.")


class DeepgramTts(Service):
    """Deepgram's streaming speech synthesis (`/v1/speak`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram"] = Field(description="The kind of voice.")


class ElevenLabsTts(Service):
    """ElevenLabs' streaming speech synthesis (`/v1/text-to-speech/{voice}/stream`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("ELEVENLABS_API_KEY",)

    type: Literal["elevenlabs"] = Field(description="The kind of voice.")


Tts: TypeAlias = Annotated[
    Annotated[HibariTts, Tag("hibari")]
    | Annotated[OpenAITts, Tag("openai")]
    | Annotated[DeepgramTts, Tag("deepgram")]
    | Annotated[ElevenLabsTts, Tag("elevenlabs")],
    Discriminator(part_type),
    BeforeValidator(as_section),
    Field(description="The voice: its type alone, or a section with `type`."),
]
"""A pipeline's voice."""
