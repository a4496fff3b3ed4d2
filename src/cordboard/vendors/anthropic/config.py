"""The section of Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from cordboard.config.section import Section
from cordboard.config.sections.language_model import ModelBrain
from cordboard.config.sections.model_ends import ANTHROPIC_MODEL_ENDS


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
        None, description="Effort for an answer."
    )


class AnthropicBrain(ModelBrain):
    """Anthropic's Messages."""

    key_variables: ClassVar[tuple[str, ...]] = ("ANTHROPIC_API_KEY",)
    # anthropic 2.12, `DEPRECATED_MODELS`
    model_ends: ClassVar[Mapping[str, str]] = ANTHROPIC_MODEL_ENDS
    domain: ClassVar[str] = "anthropic.com"

    type: Literal["anthropic"] = Field(description="The kind of brain.")
    model: str = Field("claude-haiku-5-5", min_length=1, description="The model.")
    max_tokens: int = Field(
        2_048, ge=1, description="Most tokens of one answer, those of thinking included."
    )
    thinking: Thinking | None = Field(None, description="Whether the model thinks first.")
    output_config: OutputConfig | None = Field(None, description="Form of the answers.")
    parallel_tool_calls: bool | None = Field(
        None, description="Whether several tools may be called at once."
    )
    service_tier: Literal["auto", "standard_only"] | None = Field(
        None, description="Service tier that is paid for."
    )
    cache_prompt: bool = Field(
        True,
        description="Have the service keep prompt, tools and conversation for five minutes "
        "(`cache_control`): the turns of a call are quicker and cheaper for it.",
    )
