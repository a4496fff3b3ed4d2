"""The text sides of a pipeline: `brain:`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section


class RulesBrain(Section):
    """The context's `rules`: no model, no network."""

    type: Literal["rules"] = Field("rules", description="The kind of brain.")


class ModelBrain(Service):
    """A language model; what all of them have in common."""


class OpenAIChatBrain(ModelBrain):
    """Chat Completions, by OpenAI or any service that speaks like it (Ollama, vLLM, llama.cpp)."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai_chat"] = Field(description="The kind of brain.")


class OpenAIResponsesBrain(ModelBrain):
    """OpenAI's Responses."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai_responses"] = Field(description="The kind of brain.")


class AnthropicBrain(ModelBrain):
    """Anthropic's Messages."""

    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)

    type: Literal["anthropic"] = Field(description="The kind of brain.")


class GeminiBrain(ModelBrain):
    """Gemini's `streamGenerateContent`."""

    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    type: Literal["gemini"] = Field(description="The kind of brain.")


Brain: TypeAlias = Annotated[
    Annotated[RulesBrain, Tag("rules")]
    | Annotated[OpenAIChatBrain, Tag("openai_chat")]
    | Annotated[OpenAIResponsesBrain, Tag("openai_responses")]
    | Annotated[AnthropicBrain, Tag("anthropic")]
    | Annotated[GeminiBrain, Tag("gemini")],
    Discriminator(part_type),
    BeforeValidator(as_section),
    Field(description="The text side: its type alone, or a section with `type`."),
]
"""A pipeline's brain."""
