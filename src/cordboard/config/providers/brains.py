"""The text sides of a pipeline: `brain:`.

Settings of a model bear its vendor's own names. Those that are left out are not sent: then the
vendor's default counts. Default models are the small, quick ones: on the telephone half a second
counts for more than a clever turn of phrase.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag

from cordboard.config.providers.parts import as_section, part_type
from cordboard.config.providers.service import Service
from cordboard.config.section import Section

SPOKEN_STYLE = (
    "You are talking with the caller on the telephone: what you write is spoken aloud. Answer in "
    "one to three short sentences of plain speech, without lists, markdown, emoji or addresses of "
    "web pages, and ask one thing at a time. Before a tool that may take a while you may say a few "
    "words. What the caller says was written down by a machine and may be misheard."
)


class RulesBrain(Section):
    """The context's `rules`: no model, no network."""

    type: Literal["rules"] = Field("rules", description="The kind of brain.")


class LanguageModelBrain(Section):
    """A language model; what all of them have in common."""

    model: str = Field(min_length=1, description="The model, by the service's name for it.")
    spoken_style: str = Field(
        SPOKEN_STYLE,
        description="Told to the model after the context's prompt; empty = nothing is.",
    )
    eager: bool = Field(
        True,
        description="Begin an answer at a pause already, before it is sure that the caller's turn "
        "is over. Nothing is said or done before it is, and what came of it is dropped if the "
        "caller goes on: quicker, but such answers are paid for too.",
    )
    max_rounds: int = Field(
        5, ge=1, le=20, description="How often tools may be asked for in one answer."
    )
    max_history_turns: int = Field(
        50, ge=1, le=1_000, description="Turns of the caller that the model is reminded of."
    )
    max_history_tokens: int = Field(
        16_000,
        ge=500,
        le=1_000_000,
        description="Size of the conversation that is sent, estimated at four characters a token. "
        "The oldest turns are dropped beyond it.",
    )
    first_token_ms: int = Field(
        8_000,
        ge=100,
        le=120_000,
        description="A model that has not begun to answer after so long is given up.",
    )
    stall_ms: int = Field(
        8_000,
        ge=100,
        le=120_000,
        description="A model that falls silent for so long in the middle of an answer is given up.",
    )


class ModelBrain(LanguageModelBrain, Service):
    """A language model of a service."""

    max_retries: int = Field(
        2,
        ge=0,
        le=10,
        description="How often a request that failed before its first word is sent again.",
    )


Temperature = Annotated[
    float | None, Field(ge=0, le=2, description="Randomness; models that reason may refuse it.")
]
TopP = Annotated[float | None, Field(ge=0, le=1, description="Nucleus sampling.")]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class OpenAIChatBrain(ModelBrain):
    """Chat Completions, by OpenAI or any service that speaks like it (Ollama, vLLM, llama.cpp).

    With a `base_url` no key is needed.
    """

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai_chat"] = Field(description="The kind of brain.")
    model: str = Field("gpt-5.4-mini", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    max_completion_tokens: int | None = Field(
        None, ge=1, description="Most tokens of one answer, those of reasoning included."
    )
    max_tokens: int | None = Field(
        None, ge=1, description="The same for services that do not know `max_completion_tokens`."
    )
    reasoning_effort: Effort | None = Field(None, description="How much to reason first.")
    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="How wordy answers are."
    )
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be asked for at once."
    )
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = Field(
        None, description="What kind of service is paid for."
    )


class Reasoning(Section):
    """`reasoning:` of OpenAI's Responses."""

    effort: Effort | None = Field(None, description="How much to reason first.")
    mode: str | None = Field(None, description="`standard` or `pro`.")


class TextSettings(Section):
    """`text:` of OpenAI's Responses."""

    verbosity: Literal["low", "medium", "high"] | None = Field(
        None, description="How wordy answers are."
    )


class OpenAIResponsesBrain(ModelBrain):
    """OpenAI's Responses."""

    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)

    type: Literal["openai_responses"] = Field(description="The kind of brain.")
    model: str = Field("gpt-5.4-mini", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    max_output_tokens: int | None = Field(
        None, ge=16, description="Most tokens of one answer, those of reasoning included."
    )
    reasoning: Reasoning | None = Field(None, description="How the model reasons.")
    text: TextSettings | None = Field(None, description="What answers are like.")
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be asked for at once."
    )
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = Field(
        None, description="What kind of service is paid for."
    )
    store: bool = Field(False, description="Whether OpenAI keeps the answers.")


class Thinking(Section):
    """`thinking:` of Anthropic's Messages."""

    type: Literal["disabled", "adaptive", "between_tools", "enabled"] = Field(
        description="Whether and when the model thinks before it answers."
    )
    budget_tokens: int | None = Field(
        None, ge=1_024, description="Tokens it may think with; for `enabled`."
    )


class OutputConfig(Section):
    """`output_config:` of Anthropic's Messages."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = Field(
        None, description="How much effort an answer is worth."
    )


class AnthropicBrain(ModelBrain):
    """Anthropic's Messages."""

    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)

    type: Literal["anthropic"] = Field(description="The kind of brain.")
    model: str = Field("claude-haiku-5-5", min_length=1, description="The model.")
    max_tokens: int = Field(
        2_048, ge=1, description="Most tokens of one answer, those of thinking included."
    )
    thinking: Thinking | None = Field(None, description="Whether the model thinks first.")
    output_config: OutputConfig | None = Field(None, description="What answers are like.")
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be asked for at once."
    )
    service_tier: Literal["auto", "standard_only"] | None = Field(
        None, description="What kind of service is paid for."
    )
    cache_prompt: bool = Field(
        True,
        description="Have the service keep prompt, tools and conversation for five minutes "
        "(`cache_control`): the turns of a call are quicker and cheaper for it.",
    )


class ThinkingConfig(Section):
    """`thinking_config:` of Gemini."""

    thinking_level: Literal["minimal", "low", "medium", "high", "xhigh"] | None = Field(
        None, description="How much to think first."
    )
    thinking_budget: int | None = Field(
        None, ge=-1, description="Tokens to think with, for older models; 0 = none, -1 = as needed."
    )


class GeminiBrain(ModelBrain):
    """Gemini's `streamGenerateContent`."""

    key_variables: ClassVar[tuple[str, ...]] = ("GEMINI_API_KEY", "GOOGLE_API_KEY")

    type: Literal["gemini"] = Field(description="The kind of brain.")
    model: str = Field("gemini-3.8-flash", min_length=1, description="The model.")
    temperature: Temperature = None
    top_p: TopP = None
    top_k: int | None = Field(None, ge=1, description="Sample from so many tokens.")
    max_output_tokens: int | None = Field(
        None, ge=1, description="Most tokens of one answer, those of thinking included."
    )
    thinking_config: ThinkingConfig | None = Field(None, description="How the model thinks.")


class GgufBrain(LanguageModelBrain):
    """A model in a GGUF file, on this machine (llama.cpp in the engine's own process); needs the
    extra `local-llm`. One answer at a time: the others wait."""

    type: Literal["gguf"] = Field(description="The kind of brain.")
    model: str = Field(min_length=1, description="The file.")
    n_ctx: int = Field(
        8_192, ge=512, description="Tokens of prompt, tools, conversation and answer together."
    )
    n_threads: int = Field(2, ge=1, le=256, description="Threads that it thinks with.")
    temperature: Temperature = None
    top_p: TopP = None
    max_tokens: int = Field(300, ge=1, description="Most tokens of one answer.")
    first_token_ms: int = Field(
        30_000,
        ge=100,
        le=600_000,
        description="A model that has not begun to answer after so long is given up; it reads the "
        "first prompt of a call at some 100 tokens a second.",
    )


Brain: TypeAlias = Annotated[
    Annotated[RulesBrain, Tag("rules")]
    | Annotated[OpenAIChatBrain, Tag("openai_chat")]
    | Annotated[OpenAIResponsesBrain, Tag("openai_responses")]
    | Annotated[AnthropicBrain, Tag("anthropic")]
    | Annotated[GeminiBrain, Tag("gemini")]
    | Annotated[GgufBrain, Tag("gguf")],
    Discriminator(part_type),
    BeforeValidator(as_section),
    Field(description="The text side: its type alone, or a section with `type`."),
]
"""A pipeline's brain."""
