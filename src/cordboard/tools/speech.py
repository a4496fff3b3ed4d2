"""From a tool's data to a sentence that may be spoken to the caller.

`speech_field` picks one value, `speech_template` fills a sentence with several; both use dotted
paths with list indexes (`weather.0.summary`). Where a value is missing nothing is guessed: the
fallback sentence is said, never "None". Whatever is said is plain text: control and invisible
characters, markup and pictographs are removed, and it ends at a sentence when it is too long.

Values are data: a `{placeholder}` or `${VAR}` inside a value stays what it is. Pure functions.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from cordboard.tools.tool import Speech

FETCHED = "I have the result."
"""Said when a tool worked but nothing says how to speak its data."""
FAILED = "Sorry, that did not work."
"""Said when a tool failed and its own words are not fit to be spoken."""
MAX_SPOKEN = 1_500
"""Characters; about 100 s of speech."""
MAX_ERROR_SPOKEN = 200
MAX_LISTED = 100
"""Entries of a list that are read out; what comes after is "more"."""
MAX_LIST_DEPTH = 2

_MISSING: Final = object()
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^)\s\[]*\)")  # nothing in it may run past the next "["
_MARKS = re.compile(r"\*{1,3}|`{1,3}|~~|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_LINE_HEAD = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•][ \t]+|>[ \t]?)", re.MULTILINE)
_LINE_END = re.compile(r"(?<=[^\s.!?,;:])[ \t]*\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)")
_TECHNICAL = re.compile(r"[{}<>\[\]|\\=_]|://|\n|Traceback|[A-Za-z]Error\b|Exception\b")


def sentence(data: Any, speech: Speech, fallback: str = FETCHED) -> str:
    """The sentence for a result. The template goes before the field; both missing = fallback."""
    text = ""
    if speech.template is not None:
        text = fill(speech.template, data) or ""
    if not text and speech.field is not None:
        text = as_words(look_up(data, speech.field)) or ""
    return plain(text) or plain(fallback)


def fill(template: str, data: Any) -> str | None:
    """Fill `{dotted.path}` placeholders; None when any value is missing."""
    missing = False

    def replace(match: re.Match[str]) -> str:
        nonlocal missing
        words = as_words(look_up(data, match.group(1).strip()))
        if words is None:
            missing = True
            return ""
        return words

    text = _PLACEHOLDER.sub(replace, template)
    return None if missing else text


def look_up(data: Any, path: str) -> Any:
    """The value at a dotted path; a private marker (see `as_words`) when there is none."""
    value = data
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and re.fullmatch(r"-?[0-9]{1,6}", part):
            index = int(part)
            if not -len(value) <= index < len(value):
                return _MISSING
            value = value[index]
        else:
            return _MISSING
    return value


def as_words(value: Any, depth: int = MAX_LIST_DEPTH) -> str | None:
    """A value as words: text, numbers, yes/no, and lists of them. None = cannot be spoken."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int, float)):
        return str(value).strip() or None
    if isinstance(value, (list, tuple)) and value and depth > 0:
        words = [as_words(item, depth - 1) for item in value[:MAX_LISTED]]
        spoken = [word for word in words if word is not None]
        if len(spoken) < len(words):
            return None
        if len(value) > MAX_LISTED:
            spoken.append("more")
        return spoken[0] if len(spoken) == 1 else f"{', '.join(spoken[:-1])} and {spoken[-1]}"
    return None


def plain(text: str, most: int = MAX_SPOKEN) -> str:
    """Text fit to be spoken: no markup, no control or invisible characters, one line, capped."""
    text = _LINK.sub(r"\1", _TAG.sub(" ", text[: 20 * most]))
    text = _MARKS.sub("", _LINE_HEAD.sub("", text))
    text = _LINE_END.sub(". ", text.strip())
    text = "".join(_spoken_character(character) for character in text)
    text = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split()))
    return cut_at_sentence(text, most)


def cut_at_sentence(text: str, most: int) -> str:
    """At most `most` characters, ending with a whole sentence if there is one, else a word."""
    if len(text) <= most:
        return text
    head = text[:most]
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and ends[-1] > most // 4:
        return head[: ends[-1]]
    words = head[: most - 1].rpartition(" ")[0] or head[: most - 1]
    return words.rstrip(" ,;:-") + "."


def spoken_error(text: str) -> str:
    """A tool's own error text if a caller can make sense of it, else `FAILED`."""
    stripped = text.strip()
    if not stripped or len(stripped) > MAX_ERROR_SPOKEN or _TECHNICAL.search(stripped):
        return FAILED
    words = plain(stripped, MAX_ERROR_SPOKEN)
    return words or FAILED


def _spoken_character(character: str) -> str:
    if character in "\n\t\r":
        return " "
    category = unicodedata.category(character)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn"}:
        return " " if category == "Cc" else ""
    if category == "So" and character != "°":
        return " "
    if category in {"Mn", "Me"} and "\ufe00" <= character <= "\ufe0f":
        return ""
    return character
