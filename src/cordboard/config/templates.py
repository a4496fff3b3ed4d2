"""The one template language: `{placeholders}` in the texts of the configuration.

    Flight {flight:spell} leaves at {departure.time:time}, {gates.0.name|gate unknown}.

`{path}`, `{path:format}`, `{path|default}`, `{path:format|default}`; `{{` and `}}` are braces. A
path leads into a value by keys and list indexes, with dots between them (`forecast.0.summary`,
`-1` = the last); a key with a dot, colon, bar or brace in it stands in quotes (`"a.b".c`, a quote
in it is doubled). A default ends at the closing brace and is taken as it is.

One reader handles four kinds of text:

- Spoken texts (`speech_template`, `approval_question`): `read_template`. `FORMATS` has the formats.
- Data that is sent (bodies, headers, arguments, URLs): `read_data_template`, `read_json_template`.
  There are no formats: the place of a value decides its escaping.
- `prompt` and `greeting`: `read_prompt`. Braces that are not a placeholder stay as written.
- Paths alone (`speech_field`, `result`, `when`): `read_path`.

The tools room fills them in: `cordboard.tools.templates` (data), `cordboard.tools.speech.template`
(speech, prompts). `${VAR}` is not part of this language: `cordboard.config.environment`.

Texts are parsed once, when the configuration is loaded. `TemplateError` gives the position and the
expected text there. Pure text work, linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from cordboard.config.yaml_document import KeyPath, dotted

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
"""Name → least and greatest number of arguments; `.0f` to `.9f` are formats too."""

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
_BRACE = re.compile(r"(?P<escaped>\{\{|\}\})|\{(?P<inner>[^{}]*)\}")
_PLAIN = re.compile(r"\s*[A-Za-z_][\w.-]*(?: +[\w.-]+)*\s*(?:\|[^{}|]*)?")
"""Inside the braces of a prompt: a name or a path, and a default; also near misses."""
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*[.:|](?=\S)")
"""Inside the braces of a prompt: a name that continues. `{name: text}` is JSON."""


class TemplateError(ValueError):
    """A template or path that cannot be read."""

    def __init__(self, position: int, expected: str, found: str) -> None:
        self.position = position
        """Characters before the error; 0 is the beginning."""
        self.expected = expected
        self.found = found
        """The beginning of the text at the error; empty at the end."""
        what = repr(found) if found else "the end"
        super().__init__(f"at character {position + 1}: expected {expected}, found {what}")


@dataclass(frozen=True, slots=True)
class Format:
    """The way to put a value into words."""

    name: str
    """One of `FORMATS`, or `fixed` for `.2f`."""
    arguments: tuple[str, ...] = ()
    """For `fixed`: the number of decimals."""
    path: Path = ()
    """For `list`: the spoken part of each entry; empty = the entry itself."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A place in a template for a value."""

    path: Path
    format: Format | None = None
    default: str | None = None
    """Spoken when the value is missing or does not fit the format."""


Template: TypeAlias = tuple[str | Placeholder, ...]
"""Texts and placeholders in their order; a tuple, where the lists of JSON are lists."""
JsonTemplate: TypeAlias = Any
"""A JSON value in which each text is a `Template`; keys of objects stay as written."""


def read_template(text: str) -> Template:
    """Read a spoken text. Raises `TemplateError`."""
    return _Reader(text).template()


def read_path(text: str) -> Path:
    """Read a path alone, in which only dots and quotes are special. Raises `TemplateError`."""
    return _Reader(text).whole_path()


def read_data_template(text: str) -> Template:
    """Read a text that is sent. Raises `TemplateError`, also for a format."""
    return _Reader(text, formats=False).template()


def read_json_template(value: Any) -> JsonTemplate:
    """Read every text in a JSON value. Raises `ValueError` that begins with the inner key."""
    return _read_json(value, ())


def read_prompt(text: str, known: Collection[str]) -> Template:
    """Read a prompt or greeting. Never raises.

    `known`: names of the call variables and saved results. A brace that opens no placeholder stays
    as written, so a prompt may show JSON. `{name}`, `{name.path}` and `{name|default}` are always
    placeholders; with a format, a quoted key or a second bar they are one only if the name is
    known.
    """
    return joined(piece for piece, _ in _prompt_pieces(text, known))


def prompt_problems(text: str, known: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield placeholders of a prompt that stay as written although they look intended: a sentence
    each, and whether the text has no meaning with them."""
    for _, problem in _prompt_pieces(text, known):
        if problem is not None:
            yield problem


def prompt_names(text: str, known: Collection[str] = ()) -> list[Path]:
    """Return the paths that a prompt uses, in order of appearance, each once."""
    pieces = read_prompt(text, known)
    return list(dict.fromkeys(piece.path for piece in pieces if isinstance(piece, Placeholder)))


def _prompt_pieces(
    text: str, known: Collection[str]
) -> Iterator[tuple[str | Placeholder, tuple[str, bool] | None]]:
    """Yield the pieces of a prompt, each with its problem."""
    at = 0
    while (match := _BRACE.search(text, at)) is not None:
        yield text[at : match.start()], None
        at = match.end()
        if match["escaped"]:
            yield match["escaped"][0], None
            continue
        plain = _PLAIN.fullmatch(match["inner"]) is not None
        named = _NAMED.match(match["inner"])
        meant = plain or (named is not None and named[1] in known)
        problem = None
        if meant:
            try:
                yield _Reader(match[0]).placeholder(), None
                continue
            except TemplateError as error:
                place = TemplateError(match.start() + error.position, error.expected, error.found)
                problem = (f"{match[0]} stays as it is written: {place}", plain)
        at = match.start() + 1  # its end may be half of a doubled brace
        yield "{", problem
    yield text[at:], None


def joined(pieces: Iterable[str | Placeholder]) -> Template:
    """Return the pieces with neighbouring texts joined, without empty ones."""
    template: list[str | Placeholder] = []
    for is_text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        several = [*group]
        template += ["".join(map(str, several))] if is_text else several
    return tuple(piece for piece in template if piece != "")


def _read_json(value: Any, path: KeyPath) -> JsonTemplate:
    if isinstance(value, dict):
        return {key: _read_json(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_read_json(item, (*path, index)) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return read_data_template(value)
    except TemplateError as error:
        place = dotted(path)
        raise ValueError(f"{place}: {error}" if place else str(error)) from None


def placeholders_in(template: JsonTemplate) -> Iterator[tuple[KeyPath, Placeholder]]:
    """Yield every placeholder in a parsed value, with the path of its text."""
    if isinstance(template, tuple):
        for piece in template:
            if isinstance(piece, Placeholder):
                yield (), piece
    elif isinstance(template, (dict, list)):
        items = template.items() if isinstance(template, dict) else enumerate(template)
        for key, item in items:
            for path, placeholder in placeholders_in(item):
                yield (key, *path), placeholder


def only_placeholder(template: JsonTemplate) -> Placeholder | None:
    """Return the placeholder that is a whole text; None for any other text."""
    if isinstance(template, tuple) and len(template) == 1 and isinstance(template[0], Placeholder):
        return template[0]
    return None


class _Reader:
    """Reads one text from left to right, without backtracking."""

    def __init__(self, text: str, *, formats: bool = True) -> None:
        self._text = text
        self._formats = formats
        self._at = 0

    def template(self) -> Template:
        return joined(self._pieces())

    def _pieces(self) -> Iterator[str | Placeholder]:
        while self._at < len(self._text):
            doubled = self._text[self._at : self._at + 2]
            if doubled in ("{{", "}}"):
                self._at += 2
                yield doubled[0]
            elif doubled[0] == "}":
                raise self._error("'}}' for a closing brace that is said")
            elif doubled[0] == "{":
                yield self.placeholder()
            else:
                yield self._take(_TEXT)

    def whole_path(self) -> Path:
        path = self._path(_FIELD_KEY)
        if self._at < len(self._text):
            raise self._error("a dot or the end")
        return path

    def placeholder(self) -> Placeholder:
        """Read the placeholder that begins here."""
        self._at += 1
        path = self._path(_KEY)
        form = default = None
        if self._formats and self._skip(":"):
            form = self._format()
        if self._skip("|"):
            default = self._take(_DEFAULT).strip()
        if not self._skip("}"):
            raise self._error(self._after(form, default))
        return Placeholder(path, form, default)

    def _after(self, form: Format | None, default: str | None) -> str:
        """Return the characters that may follow at the end of a placeholder's path."""
        if default is not None:
            return "'}'"
        if form is not None:
            return "'|' or '}'"
        if not self._formats:
            return "'.', '|' or '}' (values are escaped by themselves; there are no formats)"
        return "'.', ':', '|' or '}'"

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
        except TemplateError as error:
            self._at = place + error.position
            raise self._error(error.expected) from None

    def _arguments(self) -> tuple[tuple[str, ...], list[int]]:
        """Read the arguments in parentheses, and the position of each."""
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

    def _error(self, expected: str) -> TemplateError:
        return TemplateError(self._at, expected, self._text[self._at : self._at + 20])


def _is_template(text: str) -> str:
    read_template(text)
    return text


def _is_path(text: str) -> str:
    read_path(text)
    return text


def _is_data_template(text: str) -> str:
    read_data_template(text)
    return text


def _is_json_template(value: Any) -> Any:
    read_json_template(value)
    return value


SpeechTemplateText = Annotated[str, AfterValidator(_is_template)]
"""A spoken text with `{placeholders}`."""
PathText = Annotated[str, AfterValidator(_is_path)]
"""A path into a result."""
DataTemplateText = Annotated[str, AfterValidator(_is_data_template)]
"""A sent text with `{placeholders}`."""
JsonTemplateValue = Annotated[Any, AfterValidator(_is_json_template)]
"""A JSON value whose texts may have `{placeholders}`."""
