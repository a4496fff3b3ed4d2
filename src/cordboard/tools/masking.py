"""Decides which parts of a tool call's arguments are recorded, and masks its result.

A tool call is recorded without secrets: values under secret names (`cordboard.tools.secret_names`)
and references to keys that the call keeps (`CallLine.reveal`) become `MASK`. A record is also
bounded, and always valid JSON: an agent may send a megabyte, or half a surrogate pair.

The keys themselves replace their reference in the tool's arguments (`with_keys`), where an argument
is exactly that reference, and nowhere else. The tool's result is searched for them (`Hidden`). Pure
functions that never raise, for any input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cordboard.tools.schema.safety import weight_of
from cordboard.tools.secret_names import SecretNames
from cordboard.tools.tool import JsonObject

MASK: Final = "•••"
CUT: Final = "…"
MAX_RECORDED = 1_000
"""Values of one tool call that are recorded; references to keys are searched in these."""
MAX_RECORDED_TEXT = 2_000
"""Recorded characters of one value or name."""
MAX_RECORDED_DEPTH = 16
MAX_MASKED_DEPTH = 100
MAX_REFERENCE = 64
MAX_SEARCHED = 50_000
"""Values (or 64 characters) of a result that are searched for secrets, about 20 ms of work; a
larger result of a tool that was given keys is not passed on."""
_SURE = 4
"""A secret of at least this many characters is masked anywhere, a shorter one as a whole word."""
_MAX_LOOSE = 64
"""Secrets up to this length are also found with spaces, commas, dots or hyphens inside."""


@dataclass(slots=True)
class Given:
    """The arguments of one tool call as they may be recorded, and the secrets found in them."""

    recorded: JsonObject = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Reference → the keys that it stands for."""
    key_names: set[str] = field(default_factory=set)
    """The names of arguments that are such references."""
    secrets: list[str] = field(default_factory=list)
    """The texts of all other secret values."""


def look_through(arguments: Any, secret: SecretNames, reveal: Callable[[str], str | None]) -> Given:
    """Read the arguments of a tool call, which may be anything."""
    reader = _Reader(secret, reveal)
    recorded = reader.value(arguments, "", MAX_RECORDED_DEPTH, is_secret=False)
    reader.given.recorded = recorded if isinstance(recorded, dict) else {"arguments": recorded}
    return reader.given


def with_keys(value: Any, keys: Mapping[str, str], depth: int = MAX_RECORDED_DEPTH) -> Any:
    """Return the value with each text that is exactly a reference replaced by its keys."""
    if isinstance(value, str):
        return keys.get(value, value)
    if depth == 0:
        return value
    if isinstance(value, dict):
        return {name: with_keys(item, keys, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_keys(item, keys, depth - 1) for item in value]
    return value


class _Reader:
    def __init__(self, secret: SecretNames, reveal: Callable[[str], str | None]) -> None:
        self._secret = secret
        self._reveal = reveal
        self._left = MAX_RECORDED
        self.given = Given()

    def value(self, value: Any, name: str, depth: int, *, is_secret: bool) -> Any:
        """Return the value as it is recorded; `name` is the property that it belongs to."""
        self._left -= 1
        if self._left < 0:
            return CUT
        if isinstance(value, str):
            return self._text(value, name, is_secret)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self._number(value, is_secret)
        if isinstance(value, (dict, list, tuple)):
            return self._container(value, name, depth, is_secret)
        return MASK if is_secret else f"<{type(value).__name__}>"

    def _container(self, value: Any, name: str, depth: int, is_secret: bool) -> Any:
        if depth == 0:
            return CUT
        if not isinstance(value, dict):
            kept = [
                self.value(item, name, depth - 1, is_secret=is_secret)
                for item in value[: max(0, self._left) + 1]
            ]
            return MASK if is_secret else kept
        fields: JsonObject = {}
        for key, item in value.items():
            if self._left < 0:
                fields[CUT] = f"{len(value) - len(fields)} more"
                break
            text = key if isinstance(key, str) else str(key)
            hides = is_secret or self._secret.covers(text)
            fields[_written(text)] = self.value(item, text, depth - 1, is_secret=hides)
        return MASK if is_secret else fields

    def _text(self, text: str, name: str, is_secret: bool) -> str:
        keys = self._reveal(text) if 0 < len(text) <= MAX_REFERENCE else None
        if keys is not None:
            self.given.keys[text] = keys
            self.given.key_names.add(name)
            return MASK
        if is_secret:
            if text:
                self.given.secrets.append(text)
            return MASK
        return _written(text)

    def _number(self, number: float, is_secret: bool) -> Any:
        if is_secret:
            self.given.secrets.append(repr(number))
            return MASK
        if isinstance(number, int):
            return number if -(2**63) <= number < 2**64 else CUT
        return number if number - number == 0 else str(number)


def _written(text: str) -> str:
    """Return the text as valid JSON of limited length."""
    if len(text) > MAX_RECORDED_TEXT:
        text = f"{text[:MAX_RECORDED_TEXT]}{CUT} ({len(text)} characters)"
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Hidden:
    """Masks values that must not be passed on."""

    __slots__ = ("_pattern",)

    def __init__(self, values: Iterable[str]) -> None:
        longest_first = sorted({value for value in values if value}, key=len, reverse=True)
        patterns = [_pattern_of(value) for value in longest_first]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def text(self, text: str) -> str:
        """Return the text with the values masked."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def data(self, data: Any) -> Any:
        """Return the data with the values masked, names included; all of it if it is too large."""
        if self._pattern is None or data is None:
            return data
        try:
            too_much = weight_of(data, MAX_SEARCHED) > MAX_SEARCHED
        except TypeError:  # names that are not strings
            too_much = True
        return {"result": MASK} if too_much else masked_values(data, self.text)


def masked_values(data: Any, mask: Callable[[str], str]) -> Any:
    """Return a copy of the data with every text and name passed through `mask`. Parts that are too
    deep, or contain themselves, become `MASK`."""
    return _Copy(mask).value(data, MAX_MASKED_DEPTH)


class _Copy:
    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self._made: dict[int, Any] = {}
        """Copies by the identity of the original container, which `data` keeps alive."""

    def value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, (int, float)):
            # Python cannot print longer numbers, and they cannot be telephone keys.
            is_long = isinstance(value, int) and value.bit_length() > 4_000
            return MASK if not is_long and self._mask(repr(value)) != repr(value) else value
        if not isinstance(value, (dict, list, tuple)):
            return self._mask(str(value))
        if depth == 0:
            return MASK
        if id(value) not in self._made:
            self._made[id(value)] = MASK
            self._made[id(value)] = self._container(value, depth - 1)
        return self._made[id(value)]

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            return {self._mask(str(k)): self.value(item, depth) for k, item in value.items()}
        return [self.value(item, depth) for item in value]


def _pattern_of(value: str) -> str:
    loose = len(value) <= _MAX_LOOSE
    pattern = r"[\s,.\-]{0,3}".join(map(re.escape, value)) if loose else re.escape(value)
    return pattern if len(value) >= _SURE else rf"(?<![0-9A-Za-z]){pattern}(?![0-9A-Za-z])"
