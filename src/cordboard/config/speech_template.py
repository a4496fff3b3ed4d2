"""The language of `speech_template` and `speech_field`: what of a tool's result is said.

    Flight {flight:spell} leaves at {departure.time:time}, {gates.0.name|gate unknown}.

`{path}`, `{path:format}`, `{path|default}`, `{path:format|default}`; `{{` and `}}` are braces. A
path leads into the result by keys and list indexes, with dots between them (`forecast.0.summary`,
`-1` = the last); a key that has a dot, colon, bar or brace in it stands in quotes (`"a.b".c`, a
quote in it is doubled). A default ends at the closing brace and is said as it is. `FORMATS` has the
formats; what they do is the tools room's (`cordboard.tools.speech.speech_template`).

A text is read once, when the configuration is loaded. `SpeechTemplateError` tells the position and
what was expected there. Pure text work, linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Keys and list indexes; never empty."""

FORMATS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "choice": (2, 2),
        "date": (0, 0),
        "datetime": (0, 0),
        "digits": (0, 0),
        "duration": (0, 0),
        "email": (0, 0),
        "list": (0, 1),
        "money": (1, 1),
        "number": (0, 0),
        "ordinal": (0, 0),
        "percent": (0, 0),
        "phone": (0, 0),
        "plural": (2, 2),
        "spell": (0, 0),
        "time": (0, 0),
        "year": (0, 0),
    }
)
"""Name → the least and the greatest number of arguments; `.0f` to `.9f` are formats too."""

_TEXT = re.compile(r"[^{}]+")
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"|' + r"'((?:[^']|'')*)'")
_KEY = re.compile(r"""[^.:|{}"']+""")
_FIELD_KEY = re.compile(r"""[^."']+""")
_DECIMALS = re.compile(r"\.[0-9]f")
_NAME = re.compile(r"[a-z_]+")
_ARGUMENT = re.compile(r"[^(),{}]*")
_DEFAULT = re.compile(r"[^{}]*")
_CURRENCY = re.compile(r"[A-Z]{3}")


class SpeechTemplateError(ValueError):
    """A template or path that cannot be read."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        self.position = position
        """Characters before the place; 0 is the beginning."""
        self.expected = expected
        what = repr(found[:20]) if found else "the end"
        super().__init__(f"at character {position + 1}: expected {expected}, found {what}")


@dataclass(frozen=True, slots=True)
class Format:
    """How a value is put into words."""

    name: str
    """One of `FORMATS`, or `fixed` for `.2f`."""
    arguments: tuple[str, ...] = ()
    """Of `fixed`: the number of decimals."""
    path: Path = ()
    """Of `list`: which part of each entry is said; empty = the entry itself."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place of a template that a value fills."""

    path: Path
    format: Format | None = None
    default: str | None = None
    """Said when there is no such value, or none that fits the format."""


SpeechTemplate: TypeAlias = tuple[str | Placeholder, ...]
"""Texts and placeholders in their order."""


def read_template(text: str) -> SpeechTemplate:
    """Read a template. Raises `SpeechTemplateError`."""
    return _Reader(text).template()


def read_path(text: str) -> Path:
    """Read a `speech_field`: a path alone, where only dots and quotes mean something.

    Raises `SpeechTemplateError`.
    """
    return _Reader(text).whole_path()


class _Reader:
    """Goes through one text from left to right, never back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def template(self) -> SpeechTemplate:
        pieces: list[str | Placeholder] = []
        plain: list[str] = []
        while self._at < len(self._text):
            for brace in ("{{", "}}"):
                if self._text.startswith(brace, self._at):
                    plain.append(brace[0])
                    self._at += 2
                    break
            else:
                if self._text[self._at] == "}":
                    raise self._error("'}}' for a closing brace that is said")
                if self._text[self._at] == "{":
                    pieces += ["".join(plain)] if plain else []
                    plain = []
                    pieces.append(self._placeholder())
                else:
                    plain.append(self._take(_TEXT))
        return (*pieces, "".join(plain)) if plain else tuple(pieces)

    def whole_path(self) -> Path:
        path = self._path(_FIELD_KEY)
        if self._at < len(self._text):
            raise self._error("a dot or the end")
        return path

    def _placeholder(self) -> Placeholder:
        self._at += 1
        path = self._path(_KEY)
        form = default = None
        if self._skip(":"):
            form = self._format()
        if self._skip("|"):
            default = self._take(_DEFAULT).strip()
        if not self._skip("}"):
            after_path = "'.', ':', '|' or '}'" if form is None else "'|' or '}'"
            raise self._error("'}'" if default is not None else after_path)
        return Placeholder(path, form, default)

    def _path(self, key: re.Pattern[str]) -> Path:
        path = [self._key(key)]
        while self._skip("."):
            path.append(self._key(key))
        return tuple(path)

    def _key(self, key: re.Pattern[str]) -> str:
        self._take(_SPACE)
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            self._take(_SPACE)
            double, single = quoted.groups()
            return double.replace('""', '"') if double is not None else single.replace("''", "'")
        if self._text[self._at : self._at + 1] in ('"', "'"):
            start = self._text[self._at]
            self._at = len(self._text)
            raise self._error(f"a closing {start}")
        name = self._take(key).strip()
        if not name:
            raise self._error("the name of a field or a list index")
        return name

    def _format(self) -> Format:
        self._take(_SPACE)
        decimals = self._take(_DECIMALS)
        if decimals:
            self._take(_SPACE)
            return Format("fixed", (decimals[1],))
        begin = self._at
        name = self._take(_NAME)
        if name not in FORMATS:
            self._at = begin
            raise self._error(f"a format (.2f, {', '.join(FORMATS)})")
        arguments, places = self._arguments()
        least, most = FORMATS[name]
        if not least <= len(arguments) <= most:
            self._at = begin
            count = str(least) if least == most else f"{least} to {most}"
            raise self._error(f"{name} with {count} arguments, got {len(arguments)}")
        if name == "money" and not _CURRENCY.fullmatch(arguments[0]):
            self._at = places[0]
            raise self._error("the three letters of a currency, such as EUR")
        if name == "list" and arguments:
            return Format(name, (), self._inner_path(arguments[0], places[0]))
        return Format(name, arguments)

    def _inner_path(self, text: str, place: int) -> Path:
        try:
            return read_path(text)
        except SpeechTemplateError as error:
            self._at = place + error.position
            raise self._error(error.expected) from None

    def _arguments(self) -> tuple[tuple[str, ...], list[int]]:
        """What stands in parentheses, and where each begins."""
        self._take(_SPACE)
        if not self._skip("("):
            return (), []
        arguments: list[str] = []
        places: list[int] = []
        while True:
            self._take(_SPACE)
            places.append(self._at)
            arguments.append(self._take(_ARGUMENT).strip())
            if not self._skip(","):
                break
        if not self._skip(")"):
            raise self._error("',' or ')'")
        self._take(_SPACE)
        return tuple(arguments), places

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _skip(self, character: str) -> bool:
        if not self._text.startswith(character, self._at):
            return False
        self._at += len(character)
        return True

    def _error(self, expected: str) -> SpeechTemplateError:
        return SpeechTemplateError(self._at, expected, self._text[self._at :])
