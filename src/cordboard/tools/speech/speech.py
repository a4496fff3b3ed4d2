"""From a tool's data to a sentence for the caller.

`speech_template` fills a sentence with values, `speech_field` picks one value; both use dotted
paths with list indexes (`weather.0.summary`). A missing value is never guessed and never spoken as
"None": the result's own words are used, else a short summary. The text is then put into spoken form
(`tools.speech.speakable`), and cut at the end of a sentence if it is too long.

Values are data: a `{placeholder}` or `${VAR}` inside a value stays what it is. Pure functions.
"""

from __future__ import annotations

import re
from typing import Any

from cordboard.tools.speech.speakable import plain, speakable
from cordboard.tools.speech.template import as_words, fill
from cordboard.tools.templates import look_up
from cordboard.tools.tool import Speech

FETCHED = "I have the result."
"""Spoken when a tool worked but no rule turns its data into words."""
FAILED = "Sorry, that did not work."
"""Spoken when a tool failed and its own error text is unfit for speech."""
UNAVAILABLE = "Sorry, that service is not available right now."
UNUSABLE = "Sorry, that service gave an answer I cannot use."
TOO_SLOW = "Sorry, that service takes too long to answer."
"""Three failures of the service behind a tool: unavailable, unusable answer, too slow. `ErrorWords`
may override these sentences."""
MAX_ERROR_SPOKEN = 200

_TECHNICAL = re.compile(r"[{}<>\[\]|\\=_]|://|\n|Traceback|[A-Za-z]Error\b|Exception\b")


def sentence(data: Any, speech: Speech, fallback: str = "") -> str:
    """Return the sentence for a result: template, else field, else `fallback`, else a summary."""
    text = ""
    if speech.template_read is not None:
        text = fill(speech.template_read, data) or ""
    if not text.strip() and speech.field_read is not None:
        text = as_words(look_up(data, speech.field_read)) or ""
    return (text and speakable(text)) or speakable(fallback) or summary(data)


def summary(data: Any) -> str:
    """Return a sentence that names only the kind of a result."""
    if isinstance(data, dict):
        if data == {"result": None}:
            return "I found nothing."
        if set(data) == {"result"} and isinstance(data["result"], (bool, int, float)):
            words = as_words(data["result"])
            return FETCHED if words is None else f"The result is {words}."
        lists = [value for value in data.values() if isinstance(value, (list, tuple))]
        is_plain = len(lists) == 1 and (len(data) == 1 or _has_objects(lists[0]))
        return summary(lists[0]) if is_plain else FETCHED
    if isinstance(data, (list, tuple)):
        if not data:
            return "I found nothing."
        return "I found one entry." if len(data) == 1 else f"I found {len(data)} entries."
    return FETCHED


def spoken_error(text: str) -> str:
    """Return a tool's own error text if a caller can understand it, else `FAILED`."""
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_ERROR_SPOKEN or _TECHNICAL.search(stripped):
        return FAILED
    words = plain(speakable(stripped), MAX_ERROR_SPOKEN)
    return words or FAILED


def _has_objects(entries: list[Any] | tuple[Any, ...]) -> bool:
    return bool(entries) and isinstance(entries[0], dict)
