"""Tools that a context runs before and after its calls: `pre_call` and `post_call`.

    pre_call:
      - {tool: find_customer, arguments: {number: "{call.caller_number}"}, save_as: customer}
    post_call:
      - {tool: tell_crm, arguments: {call: "{call.call_id}", text: "{call.transcript_text}"}}

Steps run tools of any kind, also tools that the context's agent does not have. Arguments are
templates (`cordboard.config.templates`): {call.NAME} is a variable of the call, in `post_call` also
one of `POST_CALL_VARIABLES`, and {results.NAME} a result that a `pre_call` step has saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from cordboard.config.patterns import ToolName, VariableName
from cordboard.config.section import Section
from cordboard.config.templates import JsonTemplateValue

POST_CALL_VARIABLES: Mapping[str, str] = {
    "outcome": "How the call ended: completed, transferred, failed, shutdown, killed.",
    "reason": "Why it ended, such as caller_hangup.",
    "started_at": "Time of the offer, in ISO 8601.",
    "ended_at": "Time of the end, in ISO 8601.",
    "duration_ms": "Duration of the call, in ms.",
    "transcript": "The spoken turns in order: a list of {who, text}.",
    "transcript_text": "The same as one text, a line for each.",
    "tools": "The tool calls: a list of {name, status, message}.",
    "summary": "Facts of the call: caller_turns, interruptions, tools, failed_tools, "
    "transferred_to, troubles.",
}
"""Names of {call.NAME} in `post_call`, besides the variables of every call."""

RESULTS = "results"


class PreCallStep(Section):
    """A tool that runs when a call comes in, before the greeting."""

    tool: ToolName = Field(description="Exposed name of a tool of any kind.")
    arguments: JsonTemplateValue = Field(
        default_factory=dict, description="Its arguments, with {call.variables}."
    )
    save_as: VariableName | None = Field(
        None,
        description="Name for the result: `{name}` in prompt and greeting is its spoken text, "
        "`{name.path|default}` a field of its data.",
    )
    timeout_ms: int | None = Field(
        None,
        ge=50,
        le=30_000,
        description="Timeout of this step. Default: all of `pre_call_timeout_ms`.",
    )

    @field_validator("arguments", mode="after")
    @classmethod
    def _an_object(cls, arguments: Any) -> Any:
        return _object(arguments)


class PostCallStep(Section):
    """A tool that runs after a call; a failed step is retried, for hours if need be."""

    tool: ToolName = Field(description="Exposed name of a tool of any kind.")
    arguments: JsonTemplateValue = Field(
        default_factory=dict,
        description="Its arguments, with {call.variables} and {results} of `pre_call`.",
    )

    @field_validator("arguments", mode="after")
    @classmethod
    def _an_object(cls, arguments: Any) -> Any:
        return _object(arguments)


class PostCallRetries(Section):
    """Retries of a failed `post_call` step."""

    max_attempts: int = Field(40, ge=1, description="Highest number of attempts.")
    first_retry_ms: int = Field(
        5_000, ge=10, description="Pause before the second attempt; doubles with each failure."
    )
    max_retry_ms: int = Field(3_600_000, ge=10, description="The longest pause.")
    give_up_ms: int = Field(
        86_400_000, ge=1_000, description="Age at which it is given up, and kept in `failed`."
    )

    @model_validator(mode="after")
    def _pauses(self) -> PostCallRetries:
        if self.max_retry_ms < self.first_retry_ms:
            raise ValueError("max_retry_ms: expected at least `first_retry_ms`")
        return self


def saved_names(steps: Iterable[PreCallStep]) -> tuple[str, ...]:
    """Return the names under which results of these steps can be used."""
    return tuple(step.save_as for step in steps if step.save_as is not None)


def _object(arguments: Any) -> Any:
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ValueError("expected the arguments by name")
    return arguments
