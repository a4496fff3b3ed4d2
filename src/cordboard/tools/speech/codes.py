"""Words spoken letter by letter or digit by digit: codes, telephone numbers, addresses.

Pauses are commas. A lone letter A is always followed by one: voices read "A 5" with the article.
Functions return None for input without anything to say, and never raise.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

A_LINK = "a link"
A_CODE = "a long code"
MOST_SPELLED = 40
"""Characters; callers do not write down more than that."""
_BREATH = 4
"""Letters or digits spoken without a pause."""

_RUN = re.compile(r"[^\W_]+")
_LETTERS_OR_DIGITS = re.compile(r"\d+|\D+")
_DIGIT_RUN = re.compile(r"\d+", re.ASCII)
_HOST = re.compile(r"(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}", re.ASCII)
_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_SIGNS = {".": "dot", "_": "underscore", "-": "dash", "+": "plus", "%": "percent", "@": "at"}
_SIGN = re.compile(r"[._+%@-]")


def spelled(text: str) -> str | None:
    """Return letter by letter: `AB-12` is `A, B, 1 2`. Signs are pauses. None: nothing to spell."""
    if len(text) > MOST_SPELLED:
        return A_CODE
    groups = [group for run in _RUN.findall(text) for group in _breaths(run)]
    return _paused(groups)


def digits(text: str) -> str | None:
    """Return the digits of a text one by one: `4711` is `4 7 1 1`."""
    if len(text) > 2 * MOST_SPELLED:
        return A_CODE
    groups = [group for run in _DIGIT_RUN.findall(text) for group in _breaths(run)]
    return _paused(groups)


def phone_number(text: str) -> str | None:
    """Return the digits in the groups in which the number is written, or in threes."""
    found = digits(text)
    return f"plus {found}" if found is not None and text.lstrip().startswith("+") else found


def email_address(text: str) -> str | None:
    """Return `ann.lee@example.com` as `ann dot lee at example dot com`."""
    if not _EMAIL.fullmatch(text.strip()):
        return None
    return _signs_said(text.strip())


def link(url: str) -> str:
    """Return only the host of a URL, or "a link" if it has no host."""
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return A_LINK
    host = host.removeprefix("www.")
    return _signs_said(host) if len(host) <= 60 and _HOST.fullmatch(host) else A_LINK


def _signs_said(text: str) -> str:
    return " ".join(_SIGN.sub(lambda match: f" {_SIGNS[match[0]]} ", text).split())


def _breaths(run: str) -> list[str]:
    """Split a run into parts short enough for one breath: where letters and digits meet, then as
    evenly as possible (7 are 3 and 4)."""
    if len(run) <= _BREATH:
        return [run]
    parts: list[str] = []
    for part in _LETTERS_OR_DIGITS.findall(run):
        count = -(-len(part) // _BREATH)
        parts += [part[len(part) * i // count : len(part) * (i + 1) // count] for i in range(count)]
    return parts


def _paused(groups: list[str]) -> str | None:
    said = ", ".join(" ".join(group.upper()) for group in groups)
    return re.sub(r"\bA\b(?!,)", "A,", said) or None
