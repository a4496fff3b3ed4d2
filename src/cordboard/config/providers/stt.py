"""The recognisers of a pipeline: `stt:`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from cordboard.config.patterns import LANGUAGE
from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section


class WhisperStt(Section):
    """Whisper tiny.en on this machine; needs the extra `local`."""

    type: Literal["whisper"] = Field("whisper", description="The kind of recogniser.")


Keyterms: TypeAlias = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=100)], ...], Field(max_length=100)
]


class DeepgramStt(Service):
    """Deepgram's streaming recogniser (`/v1/listen`).

    Its encoding and sample rate are what the line gives; `interim_results` is always on.
    """

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram"] = Field(description="The kind of recogniser.")
    model: str = Field("nova-3", min_length=1, description="Deepgram's `model`.")
    language: str = Field(
        "en", min_length=1, description="Deepgram's `language`: a BCP-47 tag, or `multi`."
    )
    keyterms: Keyterms = Field(
        (), description="Names and words of the trade, as they should be written (`keyterm`)."
    )
    smart_format: bool = Field(
        True, description="Deepgram's `smart_format`: numbers, dates and the like as one writes."
    )
    punctuate: bool = Field(True, description="Deepgram's `punctuate`.")
    numerals: bool = Field(False, description="Deepgram's `numerals`: digits for number words.")
    profanity_filter: bool = Field(False, description="Deepgram's `profanity_filter`.")
    endpointing: int = Field(
        300,
        ge=0,
        le=60_000,
        description="Deepgram's `endpointing`: milliseconds of silence after which it finalizes by "
        "itself; 0 = never. When the turn is over is decided here, whatever it says.",
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")


class DeepgramFluxStt(Service):
    """Deepgram Flux (`/v2/listen`): it also tells when the caller's turn is over."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram_flux"] = Field(description="The kind of recogniser.")
    model: str = Field(
        "flux-general-en",
        min_length=1,
        description="Deepgram's `model`: `flux-general-en` or `flux-general-multi`.",
    )
    language_hints: tuple[str, ...] = Field(
        (), max_length=20, description="Deepgram's `language_hint`: for `flux-general-multi`."
    )
    keyterms: Keyterms = Field(
        (), description="Names and words of the trade, as they should be written (`keyterm`)."
    )
    eot_threshold: float | None = Field(
        None,
        ge=0.5,
        le=1.0,
        description="Deepgram's `eot_threshold`: how sure it must be that the turn is over. Left "
        "out: Deepgram's default, 0.7.",
    )
    eager_eot_threshold: float | None = Field(
        None,
        ge=0.3,
        le=0.9,
        description="Deepgram's `eager_eot_threshold`: how sure it must be to say so early. Left "
        "out: it does not say so early.",
    )
    eot_timeout_ms: int | None = Field(
        None,
        ge=500,
        le=60_000,
        description="Deepgram's `eot_timeout_ms`: after so much silence the turn is over in any "
        "case. Left out: Deepgram's default, 5000.",
    )
    end_of_turn: Literal["service", "engine"] = Field(
        "service",
        description="Who decides when the caller's turn is over: `service` = Flux, and the "
        "engine only if Flux says nothing for long; `engine` = as with all other recognisers.",
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")

    @model_validator(mode="after")
    def _eager_is_earlier(self) -> Self:
        eager, sure = self.eager_eot_threshold, self.eot_threshold
        if eager is not None and eager > (0.7 if sure is None else sure):
            raise ValueError("eager_eot_threshold: expected at most eot_threshold (left out: 0.7)")
        return self


class OpenAIStt(Service):
    """OpenAI's transcription of whole utterances (`/v1/audio/transcriptions`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai"] = Field(description="The kind of recogniser.")
    model: str = Field("gpt-transcribe", min_length=1, description="OpenAI's `model`.")
    language: str = Field(
        "en",
        pattern=LANGUAGE,
        description="OpenAI's `language` (ISO-639-1); empty: it is found out, which takes longer.",
    )
    prompt: str = Field(
        "", max_length=2_000, description="OpenAI's `prompt`: what the conversation is about."
    )
    keywords: Keyterms = Field(
        (), description="Names and words of the trade, as they should be written (`keywords`)."
    )
    temperature: float | None = Field(None, ge=0, le=1, description="OpenAI's `temperature`.")


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
