"""`${VAR}` and `${file:PATH}` in a text: the only ways for values from outside the file into the
configuration.

    ${NAME}                  the value; NAME must be set (it may be empty) or stored
                             (`stored_secrets`)
    ${NAME:-default}         the value, or `default` when NAME is unset or empty (as in a shell)
    ${file:PATH}             the content of a file, which must not be empty (`secret_files`)
    ${file:PATH:-default}    the content, or `default` when there is no such file or it is empty
    $$                       one dollar sign

Everything else stays as it is, including a lone `$` and `{placeholders}`. Expansion happens once,
on texts that YAML has already parsed: a value can neither change the structure of the file nor be
expanded again, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.config.files import SecretFiles, SecretMissing, SecretUnusable
from cordboard.config.yaml_document import is_text

MOST_TEXT = 2_000_000
"""Characters of one expanded text; far above any prompt."""

_REFERENCE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<inner>[^}]*)(?P<end>\}?))")
_INNER = re.compile(
    r"(?:file:(?P<file>(?:(?!:-|\$\{).){1,4096})|(?P<name>[A-Za-z_][A-Za-z0-9_]*))(?::-(?P<default>.*))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The result of expanding one text."""

    text: str
    """The expanded text; a reference that cannot be expanded is empty."""
    values: tuple[tuple[str, str], ...] = ()
    """Name and value of each variable that was used, not the defaults. They may be secret."""
    secrets: tuple[str, ...] = ()
    """Values from files: secret at every place."""
    files: tuple[Path, ...] = ()
    """Files of these values."""
    missing: tuple[str, ...] = ()
    """Variables that are not set and have no default."""
    problems: tuple[str, ...] = ()
    """All other problems, in words, without any value."""


def expand(text: str, environ: Mapping[str, str], files: SecretFiles) -> Expansion:
    """Replace the references in `text` by their values. Never raises."""
    expander = _Expander(environ, files)
    result = _REFERENCE.sub(expander.value_of, text)
    return Expansion(
        result,
        tuple(expander.values),
        tuple(expander.secrets),
        tuple(expander.paths),
        tuple(expander.missing),
        tuple(dict.fromkeys(expander.problems)),
    )


def variables_in(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the name of each variable in a text, and True if it has a default."""
    for reference in _REFERENCE.finditer(text):
        inner = _INNER.fullmatch(reference["inner"] or "")
        if inner is not None and inner["name"] and reference["end"]:
            yield inner["name"], inner["default"] is not None


@dataclass(slots=True)
class _Expander:
    environ: Mapping[str, str]
    files: SecretFiles
    values: list[tuple[str, str]] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _room: int = MOST_TEXT

    def value_of(self, reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "$"
        inner = _INNER.fullmatch(reference["inner"])
        if inner is None or not reference["end"]:
            self.problems.append(
                "${ without a name; write ${NAME} or ${file:PATH}, or $${ for a literal ${"
            )
            return ""
        value = self._from_file(inner) if inner["file"] else self._from_environment(inner)
        if value is None:
            return inner["default"] or ""
        self._room -= len(value)
        if self._room < 0:
            self.problems.append(f"the expanded text has more than {MOST_TEXT:,} characters")
            return ""
        return value

    def _from_environment(self, inner: re.Match[str]) -> str | None:
        """Return the value of a variable; None: the default applies."""
        name, default = inner["name"], inner["default"]
        value = self.environ.get(name)
        if default is not None and not value:
            return None
        if value is None:
            self.missing.append(name)
        elif not is_text(value):
            self.problems.append(f"the environment variable {name} is not UTF-8 text")
            return None
        else:
            self.values.append((name, value))
        return value

    def _from_file(self, inner: re.Match[str]) -> str | None:
        """Return the content of a file; None: the default applies."""
        name, default = inner["file"], inner["default"]
        try:
            value = self.files.read(name)
        except SecretMissing as error:
            if default is None:
                advice = f"write the secret into it, or give a default: ${{file:{name}:-default}}"
                self.problems.append(f"{error}; {advice}")
            return None
        except SecretUnusable as error:
            self.problems.append(str(error))
            return None
        self.secrets.append(value)
        self.paths.append(self.files.path_of(name))
        return value
