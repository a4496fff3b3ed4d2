"""Drafts of the configuration that people have not published yet, each with the version it was made
from.

    DRAFTS/<hash of the person>/<id>.json   {"base", "text", "saved_at"}

Files have mode 0600, folders 0700. A draft survives a restart and is removed `LIFE_DAYS` after it
was saved last. Everything blocks on the disk: call it in threads.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from cordboard import private_files
from cordboard.config.load import MOST_KIB
from cordboard.errors import DraftRefused, NotThere, StoreUnavailable

MOST_DRAFTS = 20
"""Drafts of one person."""
LIFE_DAYS = 30
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MOST_BYTES = 8 * MOST_KIB * 1024
"""Bytes of a file: JSON writes a character of the text with up to six."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One saved text."""

    id: str
    base: str
    """SHA-256 of the text that it was made from; its holes stand for that one's secrets."""
    text: str
    saved_at: float
    """Unix time."""


class Drafts:
    """The drafts in one folder. For several threads."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._lock = threading.Lock()

    def list(self, who: str) -> list[Draft]:
        """Return the drafts of a person, the one that was saved last first. Raises
        `StoreUnavailable`."""
        with _usable():
            found = [self._read(path) for path in self._of(who).glob("*.json")]
        drafts = [draft for draft in found if draft is not None]
        return sorted(drafts, key=lambda draft: draft.saved_at, reverse=True)

    def get(self, who: str, name: str) -> Draft:
        """Return a draft. Raises `NotThere` and `StoreUnavailable`."""
        with _usable():
            draft = self._read(self._path(who, name))
        if draft is None:
            raise NotThere(f"there is no draft {name[:64]}")
        return draft

    def put(self, who: str, name: str, base: str, text: str) -> Draft:
        """Save a draft, in place of one with that id. Raises `DraftRefused` and
        `StoreUnavailable`; then nothing has changed."""
        if not _ID.fullmatch(name):
            raise DraftRefused("the id of a draft has 1 to 64 of a-z, 0-9 and -")
        if len(text.encode("utf-8", "surrogatepass")) > MOST_KIB * 1024:
            raise DraftRefused(f"the text is larger than {MOST_KIB} KiB")
        draft = Draft(name, base, text, self._clock())
        path = self._path(who, name)
        content = {"base": base, "text": text, "saved_at": draft.saved_at}
        try:
            written = orjson.dumps(content)
        except orjson.JSONEncodeError:
            raise DraftRefused("the text has half of a surrogate pair") from None
        with self._lock, _usable():
            self._sweep()
            if not path.exists() and len(self.list(who)) >= MOST_DRAFTS:
                raise DraftRefused(f"there are {MOST_DRAFTS} drafts already: delete one")
            private_files.make_folder(path.parent)
            private_files.replace(path, written, sync=True)
        return draft

    def delete(self, who: str, name: str) -> None:
        """Delete a draft. Raises `NotThere` and `StoreUnavailable`."""
        self.get(who, name)
        with _usable():
            self._path(who, name).unlink(missing_ok=True)

    def _of(self, who: str) -> Path:
        return self._folder / hashlib.sha256(who.encode()).hexdigest()[:32]

    def _path(self, who: str, name: str) -> Path:
        if not _ID.fullmatch(name):
            raise NotThere(f"there is no draft {name[:64]!r}")
        return self._of(who) / f"{name}.json"

    def _read(self, path: Path) -> Draft | None:
        """Return the draft in a file; None if there is none, or it has expired or is damaged."""
        try:
            content = private_files.read(path, _MOST_BYTES)
        except FileNotFoundError:
            return None
        try:
            fields = orjson.loads(content)
            draft = Draft(path.stem, fields["base"], fields["text"], float(fields["saved_at"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None
        return draft if self._clock() - draft.saved_at < LIFE_DAYS * 86_400 else None

    def _sweep(self) -> None:
        """Remove expired drafts of everybody, and folders that are empty by it."""
        for folder in self._folder.glob("*"):
            for path in folder.glob("*.json"):
                age = self._clock() - path.stat().st_mtime
                if age > LIFE_DAYS * 86_400 and self._read(path) is None:
                    path.unlink(missing_ok=True)
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106 - fails for a folder with drafts


@contextmanager
def _usable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"drafts cannot be kept: {error.strerror or error}") from None
