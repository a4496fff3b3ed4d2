"""Keys common to tools of every kind: limits, approval, speech, slow answers.

A key that is left out has the default of its place: the server's `defaults` for tools of MCP
servers, that of `cordboard.tools.operator_rules` for all others. That module also turns these keys
into the rules that the desk enforces.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from cordboard.config.section import Section
from cordboard.config.templates import PathText, SpeechTemplateText

EffectsName: TypeAlias = Literal["read_only", "idempotent", "destructive"]
Approval: TypeAlias = Literal["none", "caller"]
Duplicates: TypeAlias = Literal["join", "reject", "allow"]
CacheScope: TypeAlias = Literal["call", "all"]


_MARKUP = re.compile(r"[{}<>\[\]|\\=_\x00-\x1f]")


def _is_plain(text: str) -> str:
    match = _MARKUP.search(text)
    if match is not None or "://" in text:
        found = match[0] if match is not None else "://"
        raise ValueError(f"expected plain words that can be spoken, found {found!r}")
    return text


ErrorSentence = Annotated[str, Field(max_length=200), AfterValidator(_is_plain)]
"""Words without markup, short enough for an apology."""


def _a_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _without_empty(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts if text.strip())


FillerTexts = Annotated[
    tuple[str, ...], BeforeValidator(_a_list), AfterValidator(_without_empty), Field(max_length=20)
]
"""One sentence or a list of them."""


class ErrorMessages(Section):
    """Sentences for the caller when a tool fails."""

    timeout: ErrorSentence = Field("", description="On a timeout. Empty: an apology.")
    error: ErrorSentence = Field(
        "",
        description="On a failure or an unusable answer. Empty: the tool's own words if they can "
        "be spoken, else an apology.",
    )
    unavailable: ErrorSentence = Field(
        "", description="When its server is down or no longer offers it. Empty: an apology."
    )

    def over(self, other: ErrorMessages) -> ErrorMessages:
        """Return these sentences; empty ones are replaced by the others."""
        return ErrorMessages(
            timeout=self.timeout or other.timeout,
            error=self.error or other.error,
            unavailable=self.unavailable or other.unavailable,
        )


class ToolRules(Section):
    """The rules of one tool."""

    description: str | None = Field(
        None, description="Description for the agent. Default: its maker's."
    )
    effects: EffectsName | None = Field(
        None,
        description="Effect on the world. `read_only` and `idempotent` tools may be retried and "
        "are stopped when the caller interrupts; `destructive` ones never. Default: as its maker "
        "states.",
    )
    timeout_ms: int | None = Field(
        None,
        ge=50,
        le=600_000,
        description="Timeout of its answer. Default: 10 000; of a workflow 60 000.",
    )
    retries: int | None = Field(
        None,
        ge=0,
        le=5,
        description="Retries after a failure, within `timeout_ms`; never of a destructive tool. "
        "Default: 0.",
    )
    cache_ttl_ms: int | None = Field(
        None,
        ge=0,
        description="Time for which a good answer is used again for equal arguments; only of "
        "read-only tools. Default: 0, never.",
    )
    cache_scope: CacheScope | None = Field(
        None,
        description="Calls that may use a kept answer: `call` = only the same call; `all` = every "
        "call, for answers that are the same for every caller. Default: `call`.",
    )
    per_turn: int | None = Field(
        None, ge=1, description="Highest number of runs in one turn of the caller. Default: 5."
    )
    per_call: int | None = Field(
        None, ge=0, description="Highest number of runs in one call; 0 = no limit. Default: 0."
    )
    duplicates: Duplicates | None = Field(
        None,
        description="A second request with equal arguments while the first still runs: `join` = "
        "one run answers both; `reject` = it is refused; `allow` = it runs again. Default: `join`.",
    )
    approval: Approval | None = Field(
        None,
        description="`caller` = the caller must say yes, or press 1, before it runs. Default: "
        "`caller` for tools that are stated to be destructive, else `none`.",
    )
    approval_question: SpeechTemplateText | None = Field(
        None,
        description="The question then, with {fields} of the arguments. Default: a sentence with "
        "the tool's name.",
    )
    secret_arguments: tuple[str, ...] = Field(
        (),
        description="Arguments that are recorded nowhere in clear: not in the ledger, the logs or "
        "the admin pages.",
    )
    speech_field: PathText | None = Field(
        None, description="Field of the result that is spoken; dots lead further in."
    )
    speech_template: SpeechTemplateText | None = Field(
        None,
        description="Sentence that is spoken, with {fields} of the result, their formats and "
        "defaults: docs/tool-speech.md.",
    )
    slow_response_threshold_ms: int | None = Field(
        None, ge=0, description="Time until the caller hears a filler; 0 = never. Default: 0."
    )
    slow_response_message: FillerTexts | None = Field(
        None,
        description="The fillers: a sentence, or a list; no sentence is spoken twice in a row. "
        "Default: One moment, please.",
    )
    slow_response_repeat_ms: int | None = Field(
        None,
        ge=0,
        description="Time until each further filler; 0 = none. Default: 0.",
    )
    error_messages: ErrorMessages = Field(
        ErrorMessages(),
        description="Sentences for the caller when it fails. For a tool of a server, the server's "
        "`defaults` fill in missing sentences.",
    )
    speak_errors: bool | None = Field(
        None,
        description="`false` = the error text of its server or service (`isError`, `error_field`) "
        "reaches neither caller nor model: the caller hears an apology, the model learns that it "
        "failed, and the text is in the log. Default: that of the server's `defaults`, else "
        "`true`.",
    )


class ToolSection(ToolRules):
    """The base of the sections under `tools:`; each kind narrows `kind` to its `Literal`."""

    kind: str = Field(description="The kind of tool.")
