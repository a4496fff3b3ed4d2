"""The recognisers of a pipeline: `stt:`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section


class WhisperStt(Section):
    """Whisper tiny.en on this machine; needs the extra `local`."""

    type: Literal["whisper"] = Field("whisper", description="The kind of recogniser.")


class DeepgramStt(Service):
    """Deepgram's streaming recogniser (`/v1/listen`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram"] = Field(description="The kind of recogniser.")


class DeepgramFluxStt(Service):
    """Deepgram Flux (`/v2/listen`): it also tells when the caller's turn is over."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram_flux"] = Field(description="The kind of recogniser.")


class OpenAIStt(Service):
    """OpenAI's transcription of whole utterances (`/v1/audio/transcriptions`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai"] = Field(description="The kind of recogniser.")


Stt: TypeAlias = Annotated[
    Annotated[WhisperStt, Tag("whisper")]
    | Annotated[DeepgramStt, Tag("deepgram")]
    | Annotated[DeepgramFluxStt, Tag("deepgram_flux")]
    | Annotated[OpenAIStt, Tag("openai")],
    Discriminator(part_type),
    BeforeValidator(as_section),
    Field(description="The recogniser: its type alone, or a section with `type`."),
]
"""A pipeline's recogniser."""
