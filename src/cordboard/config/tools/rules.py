"""What may be said of every tool, whatever its kind: bounds, approval, speech, slow answers.

A key that is left out has the default of its place: the server's `defaults` for tools of MCP
servers, that of `cordboard.tools.operator_rules` for all others. That module also turns these words
of the operator into the rules that the desk keeps.
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
"""Words without markup, as short as an apology should be."""


def _a_list(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _without_empty(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts if text.strip())


FillerTexts = Annotated[
    tuple[str, ...], BeforeValidator(_a_list), AfterValidator(_without_empty), Field(max_length=20)
]
"""One sentence or a list of them."""


class ErrorMessages(Section):
    """What the caller is told when a tool fails."""

    timeout: ErrorSentence = Field("", description="It took too long. Empty: an apology.")
    error: ErrorSentence = Field(
        "",
        description="It failed, or its answer is unusable. Empty: the tool's own words if they "
        "can be spoken, else an apology.",
    )
    unavailable: ErrorSentence = Field(
        "", description="Its server is not there, or no longer offers it. Empty: an apology."
    )

    def over(self, other: ErrorMessages) -> ErrorMessages:
        """These; where they say nothing, the others."""
        return ErrorMessages(
            timeout=self.timeout or other.timeout,
            error=self.error or other.error,
            unavailable=self.unavailable or other.unavailable,
        )


class ToolRules(Section):
    """The rules of one tool."""

    description: str | None = Field(
        None, description="What the agent is told about it. Default: what its maker says."
    )
    effects: EffectsName | None = Field(
        None,
        description="What running it does to the world. `read_only` and `idempotent` ones may be "
        "tried again and are stopped when the caller interrupts; `destructive` ones never. "
        "Default: what its maker says.",
    )
    timeout_ms: int | None = Field(
        None,
        ge=50,
        le=600_000,
        description="How long it may take to answer. Default: 10 000; of a workflow 60 000.",
    )
    retries: int | None = Field(
        None,
        ge=0,
        le=5,
        description="Further tries after a failure, within `timeout_ms`; never of a destructive "
        "tool. Default: 0.",
    )
    cache_ttl_ms: int | None = Field(
        None,
        ge=0,
        description="How long a good answer is used again for equal arguments; only of read-only "
        "tools. Default: 0, never.",
    )
    cache_scope: CacheScope | None = Field(
        None,
        description="Who may be given a kept answer: `call` = only the same call; `all` = every "
        "call, for answers that are the same for everybody. Default: `call`.",
    )
    per_turn: int | None = Field(
        None, ge=1, description="How often one turn of the caller may run it. Default: 5."
    )
    per_call: int | None = Field(
        None, ge=0, description="How often one call may run it; 0 = no limit. Default: 0."
    )
    duplicates: Duplicates | None = Field(
        None,
        description="A second ask with equal arguments while the first still runs: `join` = one "
        "run answers both; `reject` = it is refused; `allow` = it runs again. Default: `join`.",
    )
    approval: Approval | None = Field(
        None,
        description="`caller` = the caller is asked and must say yes, or press 1, before it is "
        "run. Default: `caller` for tools that are stated to be destructive, else `none`.",
    )
    approval_question: SpeechTemplateText | None = Field(
        None,
        description="What the caller is asked then, with {fields} of the arguments. Default: a "
        "sentence with the tool's name.",
    )
    secret_arguments: tuple[str, ...] = Field(
        (),
        description="Arguments that stand nowhere in clear: not in the ledger, the logs or the "
        "admin pages.",
    )
    speech_field: PathText | None = Field(
        None, description="The field of the result that is spoken; dots lead further in."
    )
    speech_template: SpeechTemplateText | None = Field(
        None,
        description="What is spoken, with {fields} of the result, their formats and defaults: "
        "docs/tool-speech.md.",
    )
    slow_response_threshold_ms: int | None = Field(
        None, ge=0, description="After this time the caller is told to wait; 0 = never. Default: 0."
    )
    slow_response_message: FillerTexts | None = Field(
        None,
        description="What the caller is told then: a sentence, or a list of which never the same "
        "is said twice running. Default: One moment, please.",
    )
    slow_response_repeat_ms: int | None = Field(
        None,
        ge=0,
        description="After each such time more another sentence; 0 = never. Default: 0.",
    )
    error_messages: ErrorMessages = Field(
        ErrorMessages(),
        description="What the caller is told when it fails. Of a server's tool, the server's "
        "`defaults` fill in sentence by sentence.",
    )
    speak_errors: bool | None = Field(
        None,
        description="`false` = what its server or service says about a failure (`isError`, "
        "`error_field`) reaches neither caller nor model: the caller hears an apology, the model "
        "learns that it failed, and the words stand in the log. Default: that of the server's "
        "`defaults`, else `true`.",
    )
