"""From a tool's data to a sentence that may be spoken to the caller.

`speech_template` fills a sentence with values, `speech_field` picks one value; both use dotted
paths with list indexes (`weather.0.summary`). Where a value is missing nothing is guessed: the
result's own words are said, else a short summary, never "None". Whatever is said is put into a form
that a voice can say (`tools.speech.speakable`), and it ends at a sentence when it is too long.

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
"""Said when a tool worked but nothing says how to speak its data."""
FAILED = "Sorry, that did not work."
"""Said when a tool failed and its own words are not fit to be spoken."""
NOT_AVAILABLE = "Sorry, that is not available at the moment."
"""Said when the engine cannot run a tool."""
UNAVAILABLE = "Sorry, that service is not available right now."
UNUSABLE = "Sorry, that service gave an answer I cannot use."
TOO_SLOW = "Sorry, that service takes too long to answer."
"""The three ways in which the service behind a tool fails: `ErrorWords` may say them otherwise."""
MAX_ERROR_SPOKEN = 200

_TECHNICAL = re.compile(r"[{}<>\[\]|\\=_]|://|\n|Traceback|[A-Za-z]Error\b|Exception\b")


def sentence(data: Any, speech: Speech, fallback: str = "") -> str:
    """The sentence for a result: template, else field, else `fallback`, else a summary."""
    text = ""
    if speech.template_read is not None:
        text = fill(speech.template_read, data) or ""
    if not text.strip() and speech.field_read is not None:
        text = as_words(look_up(data, speech.field_read)) or ""
    return (text and speakable(text)) or speakable(fallback) or summary(data)


def summary(data: Any) -> str:
    """A sentence that says no more than what kind of result it is."""
    if isinstance(data, dict):
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
    """A tool's own error text if a caller can make sense of it, else `FAILED`."""
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_ERROR_SPOKEN or _TECHNICAL.search(stripped):
        return FAILED
    words = plain(speakable(stripped), MAX_ERROR_SPOKEN)
    return words or FAILED


def _has_objects(entries: list[Any] | tuple[Any, ...]) -> bool:
    return bool(entries) and isinstance(entries[0], dict)
