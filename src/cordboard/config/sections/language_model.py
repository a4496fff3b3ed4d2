"""The text side of a pipeline, `brain:`: the base of all language models, and the rules.

Settings of a model bear its vendor's own names. A setting that is left out is not sent: the
vendor's default counts. Default models are the small, quick ones: on the telephone half a second
counts for more than a clever turn of phrase.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.service import Service

SPOKEN_STYLE = (
    "You are talking with the caller on the telephone: what you write is spoken aloud. Answer in "
    "one to three short sentences of plain speech, without lists, markdown, emoji or addresses of "
    "web pages, and ask one thing at a time. Before a tool that may take a while you may say a few "
    "words. What the caller says was written down by a machine and may be misheard."
)


class RulesBrain(PartSection):
    """The context's `rules`: no model, no network."""

    type: Literal["rules"] = Field("rules", description="The kind of brain.")


class LanguageModelBrain(PartSection):
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
