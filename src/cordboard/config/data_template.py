"""The language of `{placeholders}` in what goes out: URLs, bodies, the arguments of a step.

    {number}   {customer.address.0.city}   {call.caller_number}   {note|none}   {{ and }}

`{path}` or `{path|default}`, with the paths of `cordboard.config.speech_template`. There are no
formats: a value is escaped by the place in which it stands, not by what the operator writes. A text
that is nothing but one placeholder keeps the type of its value; in any other text it becomes text.

Everything is read once, when the configuration is loaded; filling is the tools room's
(`cordboard.tools.data_template`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator

from cordboard.config.document import KeyPath, dotted
from cordboard.config.speech_template import Placeholder, SpeechTemplateError, read_template

DataTemplate: TypeAlias = tuple[str | Placeholder, ...]
"""Texts and placeholders in their order; a tuple, where the lists of JSON are lists."""
JsonTemplate: TypeAlias = Any
"""A JSON value in which each text is a `DataTemplate`; the keys of objects are as written."""


def read_data_template(text: str) -> DataTemplate:
    """Read a text. Raises `SpeechTemplateError`, a `ValueError`."""
    template = read_template(text)
    for piece in template:
        if isinstance(piece, Placeholder) and piece.format is not None:
            place = max(text.find(":", text.find("{")), 0)
            expected = "'.', '|' or '}' (values are escaped by themselves; there are no formats)"
            raise SpeechTemplateError(place, expected, text[place:])
    return template


def read_json_template(value: Any) -> JsonTemplate:
    """Read every text in a JSON value. Raises `ValueError` that begins with the inner key."""
    return _read(value, ())


def _read(value: Any, path: KeyPath) -> JsonTemplate:
    if isinstance(value, dict):
        return {key: _read(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_read(item, (*path, index)) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        return read_data_template(value)
    except SpeechTemplateError as error:
        place = dotted(path)
        raise ValueError(f"{place}: {error}" if place else str(error)) from None


def placeholders_in(template: JsonTemplate) -> Iterator[tuple[KeyPath, Placeholder]]:
    """Every placeholder in a read value, with the way to its text."""
    if isinstance(template, tuple):
        for piece in template:
            if isinstance(piece, Placeholder):
                yield (), piece
    elif isinstance(template, dict):
        for key, item in template.items():
            for path, placeholder in placeholders_in(item):
                yield (key, *path), placeholder
    elif isinstance(template, list):
        for index, item in enumerate(template):
            for path, placeholder in placeholders_in(item):
                yield (index, *path), placeholder


def only_placeholder(template: JsonTemplate) -> Placeholder | None:
    """The placeholder that is all of a text; None for any other."""
    if isinstance(template, tuple) and len(template) == 1 and isinstance(template[0], Placeholder):
        return template[0]
    return None


def _is_data_template(text: str) -> str:
    read_data_template(text)
    return text


def _is_json_template(value: Any) -> Any:
    read_json_template(value)
    return value


DataTemplateText = Annotated[str, AfterValidator(_is_data_template)]
"""A text with `{placeholders}`."""
JsonTemplateValue = Annotated[Any, AfterValidator(_is_json_template)]
"""A JSON value whose texts may have `{placeholders}`."""
