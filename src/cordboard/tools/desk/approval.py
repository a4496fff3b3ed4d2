"""The caller's approval before a tool runs: the question, and the effect of the answer.

For tools with `approval: caller`. One question at a time: the next waits until the first is
answered. A yes holds for its own tool call only; an unclear answer, or a call in which the caller
cannot be asked, is not a yes. No secret is spoken.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import structlog

from cordboard.config.templates import TemplateError, read_template
from cordboard.errors import LineError, LineGone, LineUnsupported
from cordboard.tools.call_line import CallLine
from cordboard.tools.masking import MASK
from cordboard.tools.speech.speakable import plain, speakable
from cordboard.tools.speech.template import as_words, fill
from cordboard.tools.tool import JsonObject, Status, ToolResult, ToolSpec

HIDDEN = "what you entered"
"""Spoken in a question in place of a secret."""
MAX_QUESTION = 400
MAX_NAMED = 5
"""Arguments named in a question without a template."""
MAX_VALUE = 80
"""Characters of such an argument; a longer one is left out."""

_JOINTS = re.compile(r"[_\-\s]+|(?<=[a-z0-9])(?=[A-Z])")

log = structlog.get_logger()


def words_of(name: str) -> str:
    """Return a name as words: `bookTable` and `book_table` are "book table"."""
    return " ".join(part for part in _JOINTS.split(name) if part).lower()


def question(spec: ToolSpec, recorded: JsonObject) -> str:
    """Return the question for the caller, made of the arguments as they may be recorded."""
    told = _without_masks(recorded)
    if spec.approval_question:
        try:
            text = fill(read_template(spec.approval_question), told)
        except TemplateError:  # those of the configuration are parsed when it is loaded
            text = None
        if text and text.strip():
            return plain(speakable(text), MAX_QUESTION)
    return plain(speakable(_default(spec, recorded)), MAX_QUESTION)


class Approvals:
    """The questions of one call."""

    def __init__(self, line: CallLine) -> None:
        self._line = line
        self._one_at_a_time = asyncio.Lock()

    async def refusal(self, spec: ToolSpec, recorded: JsonObject) -> ToolResult | None:
        """Ask the caller; return None for a yes, else the refusal for the agent."""
        asked = question(spec, recorded)
        async with self._one_at_a_time:
            try:
                answer = await self._line.confirm(asked)
            except LineUnsupported:
                return _refused(
                    f"{spec.name} needs the caller's yes, and there is no caller to ask here. "
                    "It was not done.",
                    retryable=False,
                )
            except LineGone:
                return ToolResult(Status.CANCELLED, "The caller has gone. It was not done.")
            except LineError as error:
                log.info("approval_not_asked", tool=spec.origin, error=str(error))
                return _refused(
                    f"The caller could not be asked for their yes just now: {error}. It was not "
                    "done; ask again later.",
                    retryable=True,
                )
        log.info("approval", call_id=self._line.call_id, tool=spec.origin, answer=_ANSWERS[answer])
        if answer:
            return None
        if answer is False:
            return _refused(
                "The caller said no. It was not done. Do not ask for it again unless the caller "
                "wants it.",
                retryable=False,
                declined=True,
            )
        return _refused(
            "There was no clear answer from the caller, so it was not done. Ask them what they "
            "want.",
            retryable=True,
        )


_ANSWERS = {True: "yes", False: "no", None: "unclear"}


def _refused(message: str, **control: bool) -> ToolResult:
    return ToolResult(Status.REFUSED, message, control=control)


def _default(spec: ToolSpec, recorded: JsonObject) -> str:
    own = spec.origin.rpartition(":")[2] if spec.kind == "mcp" else spec.name
    action = words_of(own) or words_of(spec.name)
    told = [
        f"{words_of(name)} {words}"
        for name, value in recorded.items()
        if (words := _plain_value(value)) is not None
    ]
    if not told:
        return f"I am about to do this: {action}. Shall I?"
    listed = ", ".join(told[:MAX_NAMED])
    more = ", and more" if len(told) > MAX_NAMED else ""
    return f"I am about to do this: {action}, with {listed}{more}. Shall I?"


def _plain_value(value: Any) -> str | None:
    if isinstance(value, (dict, list, tuple)) or value is None or value == MASK:
        return None
    words = as_words(value)
    return words if words is not None and len(words) <= MAX_VALUE else None


def _without_masks(value: Any) -> Any:
    if value == MASK:
        return HIDDEN
    if isinstance(value, dict):
        return {name: _without_masks(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_masks(item) for item in value]
    return value
