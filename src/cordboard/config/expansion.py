"""`${VAR}` in a text: the only way values from the environment enter the configuration.

    ${NAME}            the value; NAME must be set (it may be empty)
    ${NAME:-default}   the value, or `default` when NAME is unset or empty (as in a shell)
    $$                 one dollar sign

Everything else stays as it is, a lone `$` and `{placeholders}` included. It is done once, on texts
that YAML has already parsed: a value can neither change the structure of the file nor be expanded
again, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<inner>[^}]*)(?P<end>\}?))")
_INNER = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What became of one text."""

    text: str
    """The result; what could not be expanded counts as empty."""
    values: tuple[tuple[str, str], ...] = ()
    """Name and value of each variable that was used, not the defaults. They may be secret."""
    missing: tuple[str, ...] = ()
    """Variables that are not set and have no default."""
    malformed: bool = False
    """Whether there is a `${` that begins no reference."""


def expand(text: str, environ: Mapping[str, str]) -> Expansion:
    """Replace the references in `text` by their values. Never raises."""
    values: list[tuple[str, str]] = []
    missing: list[str] = []
    malformed = False

    def value_of(reference: re.Match[str]) -> str:
        nonlocal malformed
        if reference["escaped"]:
            return "$"
        inner = _INNER.fullmatch(reference["inner"])
        if inner is None or not reference["end"]:
            malformed = True
            return ""
        value, default = environ.get(inner["name"]), inner["default"]
        if default is not None and not value:
            return str(default)
        if value is None:
            missing.append(inner["name"])
            return ""
        values.append((inner["name"], value))
        return value

    result = _REFERENCE.sub(value_of, text)
    return Expansion(result, tuple(values), tuple(missing), malformed)
