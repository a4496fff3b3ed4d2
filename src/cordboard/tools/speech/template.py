"""Filling the `{placeholders}` of spoken texts: templates of results, prompts and greetings.

`cordboard.config.templates` parses the language; `cordboard.tools.templates` fills data that is
sent. Values are data: they are put in once and never searched for placeholders or `${VAR}`. A value
that is missing, or does not fit its format, becomes its default; without a default the template
gives no sentence: half a sentence, or "None", is never spoken. Pure functions that never raise,
whatever the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cordboard.config.templates import Format, Placeholder, Template, read_prompt
from cordboard.tools.speech import codes, numbers, times
from cordboard.tools.templates import look_up

MAX_LISTED = 100
"""Entries of a list that are read out; the rest becomes "more"."""
MAX_LIST_DEPTH = 2
MAX_TEXT = 30_000
"""Characters of one value that are examined; far more than is ever spoken."""


def fill(template: Template, data: Any) -> str | None:
    """Return the sentence; None when a value without a default is missing."""
    said: list[str] = []
    for piece in template:
        words = piece if isinstance(piece, str) else _filled(piece, data)
        if words is None:
            return None
        said.append(words)
    return "".join(said)


def fill_prompt(
    text: str,
    values: Mapping[str, str],
    saved: Mapping[str, Callable[[Placeholder], str]] | None = None,
) -> str:
    """Return a prompt or greeting with its values. A name without a value becomes its default,
    else an empty text.

    `saved`: for each saved result, a function from a placeholder that begins with its name to
    words (empty if it has none).
    """
    saved = saved or {}

    def words(piece: str | Placeholder) -> str:
        if isinstance(piece, str):
            return piece
        if piece.path[0] in saved:
            found = saved[piece.path[0]](piece)
        else:
            value = values.get(".".join(piece.path), "")
            found = value if piece.format is None else words_of(value, piece.format) or ""
        return found or piece.default or ""

    return "".join(map(words, read_prompt(text, {*values, *saved})))


def words_of(value: Any, form: Format | None) -> str | None:
    """Return a value in its format; None if it does not fit."""
    return as_words(value) if form is None else _FORMATS[form.name](value, form)


def as_words(value: Any, depth: int = MAX_LIST_DEPTH) -> str | None:
    """Return a value as words: text, numbers, yes/no, and lists of them; None if unspeakable."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value[:MAX_TEXT].strip() or None
    if isinstance(value, (int, float)):
        return numbers.number(value, grouped=False)
    if isinstance(value, (list, tuple)) and value and depth > 0:
        return _listed([as_words(item, depth - 1) for item in value[:MAX_LISTED]], len(value))
    return None


def _listed(words: list[str | None], of: int) -> str | None:
    """Return `a, b and c`; None when one of them cannot be spoken."""
    spoken = [word for word in words if word is not None]
    if not spoken or len(spoken) < len(words):
        return None
    if of > len(words):
        spoken.append("more")
    return spoken[0] if len(spoken) == 1 else f"{', '.join(spoken[:-1])} and {spoken[-1]}"


def _filled(placeholder: Placeholder, data: Any) -> str | None:
    words = words_of(look_up(data, placeholder.path), placeholder.format)
    return placeholder.default if words is None else words


def _code(value: Any) -> str | None:
    """Return a code as text: JSON often has it as a number."""
    if isinstance(value, str):
        return value.strip()[:MAX_TEXT]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**40:
        return str(value)
    return None


def _coded(said: Callable[[str], str | None]) -> Callable[[Any, Format], str | None]:
    def words(value: Any, form: Format) -> str | None:
        code = _code(value)
        return None if code is None else said(code)

    return words


def _percent(value: Any, form: Format) -> str | None:
    words = numbers.number(value)
    return None if words is None else f"{words} percent"


def _count(value: Any) -> int | float | None:
    return len(value) if isinstance(value, (list, tuple)) else numbers.as_number(value)


def _plural(value: Any, form: Format) -> str | None:
    count = _count(value)
    if count is None:
        return None
    return form.arguments[0 if abs(count) == 1 else 1]


def _choice(value: Any, form: Format) -> str | None:
    return form.arguments[0 if value else 1] if isinstance(value, bool) else None


def _list(value: Any, form: Format) -> str | None:
    if not isinstance(value, (list, tuple)):
        return as_words(value)
    entries = value[:MAX_LISTED]
    return _listed([as_words(look_up(entry, form.path), 1) for entry in entries], len(value))


_FORMATS: Mapping[str, Callable[[Any, Format], str | None]] = MappingProxyType(
    {
        "choice": _choice,
        "date": lambda value, form: times.date_words(value),
        "datetime": lambda value, form: times.date_time_words(value),
        "digits": _coded(codes.digits),
        "duration": lambda value, form: times.duration_words(value),
        "email": _coded(codes.email_address),
        "fixed": lambda value, form: numbers.fixed(value, int(form.arguments[0])),
        "list": _list,
        "money": lambda value, form: numbers.money(value, form.arguments[0]),
        "number": lambda value, form: numbers.number(_count(value)),
        "ordinal": lambda value, form: numbers.ordinal(value),
        "percent": _percent,
        "phone": _coded(codes.phone_number),
        "plural": _plural,
        "spell": _coded(codes.spelled),
        "time": lambda value, form: times.time_words(value),
        "year": lambda value, form: numbers.year(value),
    }
)
