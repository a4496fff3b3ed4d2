"""Secrets that an operator has stored with the engine, for the `${NAME}` of its file.

`secrets.env` in `admin.ui.data`, mode 0600, one `NAME="value"` per line (the value as a JSON text).
A variable of the environment wins over a stored one. Nothing shows a value again: commands and
interfaces can only list names, and write. Everything blocks on the disk.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cordboard import private_files
from cordboard.config.files import MOST_KIB, content_of, digest_of
from cordboard.config.yaml_document import is_text
from cordboard.errors import NotThere, StoredSecretsUnusable

FILE = "secrets.env"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_KIB = 1_024


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored secrets, for the loading of a configuration."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    digests: dict[Path, str] = field(default_factory=dict)
    """Digest of the file, to notice changes; empty text for one that does not exist yet."""
    problem: str = ""
    """Reason why some or all cannot be used."""


class StoredSecrets:
    """The secrets in one folder; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    def names(self) -> list[str]:
        """Return the names, sorted. Raises `StoredSecretsUnusable`."""
        return sorted(self._checked())

    def put(self, name: str, value: str) -> None:
        """Store a secret, in place of one with that name. Raises `StoredSecretsUnusable`; then
        nothing has changed."""
        if not _NAME.fullmatch(name):
            raise StoredSecretsUnusable(f"{name!r} is not the name of a variable, such as SHOP_KEY")
        if not value or not is_text(value) or "\0" in value:
            raise StoredSecretsUnusable("a secret must be a text, not empty and without NUL")
        if len(value.encode()) > MOST_KIB * 1024:
            raise StoredSecretsUnusable(f"a secret has at most {MOST_KIB} KiB")
        self._change(lambda values: values.__setitem__(name, value))

    def remove(self, name: str) -> None:
        """Remove a secret. Raises `NotThere` and `StoredSecretsUnusable`."""

        def remove(values: dict[str, str]) -> None:
            if values.pop(name, None) is None:
                raise NotThere(f"there is no stored secret {name}")

        self._change(remove)

    def read(self) -> Stored:
        """Return the secrets, as far as they can be read. Only for the loading of a
        configuration."""
        try:
            content = content_of(self._path, _MOST_KIB)
            mode = stat.S_IMODE(self._path.stat().st_mode)
        except FileNotFoundError:  # without a folder there is nothing to watch
            return Stored(digests={self._path: ""} if self._folder.is_dir() else {})
        except NotADirectoryError:
            return Stored()
        except OSError as error:
            return Stored(problem=f"{self._path} cannot be read: {error.strerror or error}")
        values, bad = _parsed(content)
        problem = f'line {bad} of {self._path} is not NAME="value"' if bad else ""
        if mode & 0o077:
            problem = f"{self._path} is open to other users (mode {mode:o}): chmod 600"
        return Stored(values, {self._path: digest_of(content)}, problem)

    def _checked(self) -> dict[str, str]:
        stored = self.read()
        if stored.problem:
            raise StoredSecretsUnusable(stored.problem)
        return stored.values

    def _change(self, change: Callable[[dict[str, str]], None]) -> None:
        try:
            private_files.make_folder(self._folder)
            descriptor = private_files.open_lock(self._folder / f"{FILE}.lock")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                values = self._checked()
                change(values)
                lines = (f"{name}={json.dumps(values[name])}\n" for name in sorted(values))
                private_files.replace(self._path, "".join(lines).encode(), sync=True)
            finally:
                os.close(descriptor)
        except OSError as error:
            reason = error.strerror or error
            raise StoredSecretsUnusable(f"{self._path} cannot be written: {reason}") from None


def _parsed(content: bytes) -> tuple[dict[str, str], int]:
    """Return the secrets, and the number of the first line that is none; 0 if all are."""
    values: dict[str, str] = {}
    bad = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        name, _, written = line.decode("utf-8", "replace").partition("=")
        if not line.strip() or name.startswith("#"):
            continue
        try:
            value = json.loads(written)
        except ValueError:
            value = None
        if _NAME.fullmatch(name) and isinstance(value, str) and is_text(value):
            values[name] = value
        else:
            bad = bad or number
    return values, bad
