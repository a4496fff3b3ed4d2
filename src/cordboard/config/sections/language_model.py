"""The text side of a pipeline, `brain:`: the base of all language models, and the rules.

Settings of a model have the vendor's own names. A setting that is left out is not sent: the
vendor's default applies. Default models are the small, quick ones: on the telephone half a second
matters more than a clever turn of phrase.
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
    """A language model: the keys common to all of them."""

    model: str = Field(min_length=1, description="The service's name of the model.")
    spoken_style: str = Field(
        SPOKEN_STYLE,
        description="Instructions for the model after the context's prompt; empty = none.",
    )
    eager: bool = Field(
        True,
        description="Begin an answer at a pause, before the end of the caller's turn is certain. "
        "It is neither spoken nor acted on before that, and is dropped if the caller continues: "
        "quicker, but dropped answers are paid for too.",
    )
    max_rounds: int = Field(
        5, ge=1, le=20, description="Highest number of rounds of tool calls in one answer."
    )
    speak_results: bool = Field(
        False,
        description="Speak a tool's own sentence (its `message`, `speech_field` or "
        "`speech_template`) instead of the model's words about it: for small models, which get "
        "facts wrong.",
    )
    max_history_turns: int = Field(
        50, ge=1, le=1_000, description="Turns of the caller that are sent to the model."
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
        description="Time after which a model that has not begun to answer is given up.",
    )
    stall_ms: int = Field(
        8_000,
        ge=100,
        le=120_000,
        description="Time after which a model that stops in the middle of an answer is given up.",
    )


class ModelBrain(LanguageModelBrain, Service):
    """A language model of a service."""

    max_retries: int = Field(
        2,
        ge=0,
        le=10,
        description="Number of retries of a request that failed before its first word.",
    )
    token_command: tuple[str, ...] = Field(
        (),
        max_length=50,
        description="Program and arguments that print a token, in place of a key that stays: "
        "`[gcloud, auth, print-access-token]`. It is sent as `Authorization: Bearer`.",
    )
    token_lifetime_s: int = Field(
        1_800,
        ge=60,
        le=86_400,
        description="Life of such a token in seconds. The command runs again before it is over.",
    )

    @property
    def needs_key(self) -> bool:
        """A command that prints tokens takes the place of the key."""
        return not self.token_command


Temperature = Annotated[
    float | None, Field(ge=0, le=2, description="Randomness; models that reason may refuse it.")
]
TopP = Annotated[float | None, Field(ge=0, le=1, description="Nucleus sampling.")]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
