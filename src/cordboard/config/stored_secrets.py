"""Secrets that an operator has stored with the engine, for the `${NAME}` of its file.

`secrets.env` in `admin.ui.data`, mode 0600, one `NAME="value"` per line (the value as a JSON text),
with `# {"at": ..., "by": ...}` behind it: when it was stored, and by whom.
A variable of the environment wins over a stored one. Nothing shows a value again: commands and
interfaces can only list names, and write. Everything blocks on the disk.
"""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cordboard import private_files
from cordboard.config.files import MOST_KIB, content_of, digest_of
from cordboard.config.yaml_document import is_text
from cordboard.errors import NotThere, StoredSecretsUnusable

FILE = "secrets.env"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_KIB = 1_024
_KEY = "fingerprint.key"
_KEY_BYTES = 32
_VALUE = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Note:
    """The last change of a secret."""

    at: str = ""
    """ISO 8601 with zone; empty if it is unknown."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored secrets, for the loading of a configuration."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    digests: dict[Path, str] = field(default_factory=dict)
    """Digest of the file, to notice changes; empty text for one that does not exist yet."""
    notes: dict[str, Note] = field(default_factory=dict)
    problem: str = ""
    """Reason why some or all cannot be used."""


class StoredSecrets:
    """The secrets in one folder; several processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE

    def names(self) -> list[str]:
        """Return the names, sorted. Raises `StoredSecretsUnusable`."""
        return sorted(self.checked().values)

    def put(self, name: str, value: str, by: str = "") -> None:
        """Store a secret, in place of one with that name. `by` is the name of a person. Raises
        `StoredSecretsUnusable`; then nothing has changed."""
        if not is_name(name):
            raise StoredSecretsUnusable(f"{name!r} is not the name of a variable, such as SHOP_KEY")
        if not value or not is_text(value) or "\0" in value:
            raise StoredSecretsUnusable("a secret must be a text, not empty and without NUL")
        if len(value.encode()) > MOST_KIB * 1024:
            raise StoredSecretsUnusable(f"a secret has at most {MOST_KIB} KiB")
        at = datetime.now().astimezone().isoformat(timespec="seconds")

        def put(stored: Stored) -> None:
            stored.values[name], stored.notes[name] = value, Note(at, by)

        self._change(put)

    def remove(self, name: str) -> None:
        """Remove a secret. Raises `NotThere` and `StoredSecretsUnusable`."""

        def remove(stored: Stored) -> None:
            if stored.values.pop(name, None) is None:
                raise NotThere(f"there is no stored secret {name}")

        self._change(remove)

    def fingerprint(self, value: str) -> str:
        """Return a short text that is the same for the same value, and tells nothing of it without
        a key that never leaves this folder. Raises `StoredSecretsUnusable`."""
        path = self._folder / _KEY
        try:
            try:
                key = private_files.read(path, _KEY_BYTES)
            except FileNotFoundError:
                private_files.make_folder(self._folder)
                with self._locked():
                    if not path.exists():
                        private_files.replace(path, os.urandom(_KEY_BYTES), sync=True)
                    key = private_files.read(path, _KEY_BYTES)
        except OSError as error:
            reason = error.strerror or error
            raise StoredSecretsUnusable(f"{path} cannot be used: {reason}") from None
        return hmac.new(key, value.encode("utf-8", "surrogateescape"), "sha256").hexdigest()[:8]

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
        values, notes, bad = _parsed(content)
        problem = f'line {bad} of {self._path} is not NAME="value"' if bad else ""
        if mode & 0o077:
            problem = f"{self._path} is open to other users (mode {mode:o}): chmod 600"
        return Stored(values, {self._path: digest_of(content)}, notes, problem)

    def checked(self) -> Stored:
        """Return the secrets, to list them. Raises `StoredSecretsUnusable`."""
        stored = self.read()
        if stored.problem:
            raise StoredSecretsUnusable(stored.problem)
        return stored

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = private_files.open_lock(self._folder / f"{FILE}.lock")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _change(self, change: Callable[[Stored], None]) -> None:
        try:
            private_files.make_folder(self._folder)
            with self._locked():
                stored = self.checked()
                change(stored)
                lines = (_line(name, stored) for name in sorted(stored.values))
                private_files.replace(self._path, "".join(lines).encode(), sync=True)
        except OSError as error:
            reason = error.strerror or error
            raise StoredSecretsUnusable(f"{self._path} cannot be written: {reason}") from None


def is_name(name: str) -> bool:
    """Return True for the name of a variable."""
    return _NAME.fullmatch(name) is not None


def _line(name: str, stored: Stored) -> str:
    note = stored.notes.get(name)
    behind = f" # {json.dumps({'at': note.at, 'by': note.by})}" if note is not None else ""
    return f"{name}={json.dumps(stored.values[name])}{behind}\n"


def _parsed(content: bytes) -> tuple[dict[str, str], dict[str, Note], int]:
    """Return the secrets, their notes, and the number of the first line that is none; 0 if all
    are."""
    values: dict[str, str] = {}
    notes: dict[str, Note] = {}
    bad = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        name, _, written = line.decode("utf-8", "replace").strip().partition("=")
        if not name or name.startswith("#"):
            continue
        try:
            value, end = _VALUE.raw_decode(written.lstrip())
            behind = written.lstrip()[end:].strip()
        except ValueError:
            value = behind = None
        is_one = _NAME.fullmatch(name) and isinstance(value, str) and is_text(value)
        if not is_one or (behind and not behind.startswith("#")):
            bad = bad or number
            continue
        values[name] = value
        if behind:
            with suppress(ValueError, TypeError):  # a comment of a person
                notes[name] = Note(**json.loads(behind.removeprefix("#")))
    return values, notes, bad
