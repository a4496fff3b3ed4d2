"""The versions of the configuration's file: every text that was in force, and its origin.

    VERSIONS/objects/<sha256>.yaml   the texts; the name is the SHA-256 of the content
    VERSIONS/log.jsonl               one JSON object per line: a version, a load of one, or a trial
    VERSIONS/lock                    held while the file or the log is written

Files have mode 0600, folders 0700: a text may contain secrets. An object is on the disk before a
line names it, and a line that a killed process has cut off is passed over and closed by the next
one. Everything blocks on the disk: call it in threads.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from cordboard import private_files
from cordboard.config.files import content_of, digest_of
from cordboard.errors import NotThere, VersionsUnusable

Origin: TypeAlias = Literal["page", "file", "cli", "restore"]
"""The way in which a version came about: the interface, an editor or deployment tool that wrote the
file, `cordboard config set`, or the return to an earlier version."""
SHORTEST_PREFIX = 4
"""Characters of a digest that may stand for it."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "version": ("from", "who", "why", "parent"),
    "load": ("generation", "result"),
    "trial": ("who",),
}
"""Fields of a line by its event, besides `at`, `digest` and `file`."""
_MOST_KIB = 2_048
_MOST_LOG_KIB = 65_536
MOST_TRIED = 100
"""Texts of trials that are kept: their authors may not be among those who publish."""
LONGEST_WAIT_S = 5.0
"""Seconds to wait for another process that holds the lock."""
_LOOK_AGAIN_S = 0.02


@dataclass(frozen=True, slots=True)
class Author:
    """The origin of a new version."""

    who: str = ""
    """Name of a person; empty if it is unknown."""
    why: str = ""
    source: Origin = "file"


@dataclass(frozen=True, slots=True)
class Version:
    """A text of the file, each time it came into place."""

    digest: str
    """SHA-256 of the file's bytes."""
    at: str
    """ISO 8601 with zone."""
    author: Author = field(default_factory=Author)
    parent: str = ""
    """Digest of the version before it; empty for the first."""
    generation: int | None = None
    """Generation of the engine that loaded it last; None if none did."""
    result: str = ""
    """Result of that load: `applied` or `refused`; empty if there was none."""


class Versions:
    """The versions of one file; several files and processes may share a folder."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder = folder
        self._file = os.path.abspath(file)  # noqa: PTH100 - a link keeps its name
        self._objects = folder / "objects"
        self._log = folder / "log.jsonl"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder, also against other processes. Raises `VersionsUnusable`,
        also if another process holds it for `LONGEST_WAIT_S`: a stopped one must not keep an engine
        from starting, reloading or ending."""
        try:
            private_files.make_folder(self._objects)
            descriptor = private_files.open_lock(self.folder / "lock")
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        end = time.monotonic() + LONGEST_WAIT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise self._unusable(OSError("another process holds their lock")) from None
                time.sleep(_LOOK_AGAIN_S)  # the system has no wait with a limit
            except OSError as error:  # some network file systems have no locks
                raise self._unusable(error) from None
            else:
                return

    def keep(self, content: bytes) -> str:
        """Store a text and return its digest. Idempotent. Raises `VersionsUnusable`."""
        digest = digest_of(content)
        path = self._object(digest)
        try:
            private_files.make_folder(self._objects)
            if not (path.exists() and digest_of(content_of(path, _MOST_KIB)) == digest):
                private_files.replace(path, content, sync=True)
                sync_folder(self._objects)
        except OSError as error:
            raise self._unusable(error) from None
        return digest

    def content(self, digest: str) -> bytes:
        """Return the text of a version, by its digest or the beginning of one. Raises `NotThere`,
        also for an object that has been damaged."""
        whole = self.find(digest)
        try:
            content = content_of(self._object(whole), _MOST_KIB)
        except OSError as error:
            raise NotThere(f"version {digest} cannot be read: {error.strerror}") from None
        if digest_of(content) != whole:
            raise NotThere(f"the file of version {digest} is damaged: {self._object(whole)}")
        return content

    def find(self, prefix: str) -> str:
        """Return the digest that begins with `prefix`. Raises `NotThere` if none or several do."""
        if len(prefix) >= SHORTEST_PREFIX and prefix.isalnum():
            found = [path.stem for path in self._objects.glob(f"{prefix}*.yaml")]
            if len(found) == 1:
                return found[0]
            if found:
                raise NotThere(
                    f"{len(found)} versions begin with {prefix}; give more of its digits"
                )
        raise NotThere(f"there is no version {prefix}; see `cordboard config history`")

    def history(self) -> list[Version]:
        """Return all versions of the file, the newest first. Raises `VersionsUnusable`."""
        found: list[Version] = []
        for line in self._lines("version", "load"):
            if line["event"] == "version":
                found.append(_version(line))
                continue
            for index in range(len(found) - 1, -1, -1):
                if found[index].digest == line["digest"]:
                    loaded = {"generation": line["generation"], "result": line["result"]}
                    found[index] = replace(found[index], **loaded)
                    break
        return found[::-1]

    def latest(self) -> str:
        """Return the digest of the newest version; empty if there is none."""
        history = self.history()
        return history[0].digest if history else ""

    def add(self, content: bytes, author: Author) -> str:
        """Store a text and note that it is in place now, unless it is the newest version already;
        return its digest. Hold the lock. Raises `VersionsUnusable`."""
        digest, parent = self.keep(content), self.latest()
        if digest != parent:
            self._append(
                event="version",
                file=self._file,
                digest=digest,
                who=author.who,
                why=author.why,
                parent=parent,
                **{"from": author.source},
            )
        return digest

    def begun_with(self, content: bytes) -> str:
        """Store the text that an engine starts with and return its digest. A known version is not
        in place again just because the file got a newer one while the engine started. Takes the
        lock. Raises `VersionsUnusable`."""
        with self.locked():
            digest = self.keep(content)
            if any(version.digest == digest for version in self.history()):
                with suppress(OSError):
                    if content_of(Path(self._file), _MOST_KIB) != content:
                        return digest
            return self.add(content, Author())

    def tried(self, content: bytes, who: str) -> str:
        """Store the text of a trial, which is not in place, and return its digest. The texts of the
        last `MOST_TRIED` trials stay. Takes the lock. Raises `VersionsUnusable`."""
        with self.locked():
            digest = self.keep(content)
            self._append(event="trial", file=self._file, digest=digest, who=who)
            tried = [line["digest"] for line in self._lines("trial", of_any_file=True)]
            kept = {line["digest"] for line in self._lines("version", of_any_file=True)}
            for old in {*tried[:-MOST_TRIED]} - {*tried[-MOST_TRIED:], *kept}:
                with suppress(OSError):
                    self._object(old).unlink()
        return digest

    def loaded(self, digest: str, generation: int, result: Literal["applied", "refused"]) -> None:
        """Note that an engine has read a version, unless this is noted already: an engine may be
        reloaded every minute. Takes the lock. Raises `VersionsUnusable`."""
        fields = {"digest": digest, "generation": generation, "result": result}
        with self.locked():
            known = next((one for one in self.history() if one.digest == digest), None)
            if known is None or (known.generation, known.result) != (generation, result):
                self._append(event="load", file=self._file, **fields)

    def _object(self, digest: str) -> Path:
        return self._objects / f"{digest}.yaml"

    def _append(self, **fields: Any) -> None:
        at = datetime.now().astimezone().isoformat(timespec="seconds")
        line = orjson.dumps({"at": at, **fields}, option=orjson.OPT_APPEND_NEWLINE)
        try:
            with open(self._open_log(), "r+b", buffering=0) as log:  # noqa: PTH123 - a descriptor
                end = log.seek(0, os.SEEK_END)
                if end and os.pread(log.fileno(), 1, end - 1) != b"\n":
                    line = b"\n" + line  # a process was killed, or the disk was full
                if log.write(line) != len(line):
                    raise OSError(28, os.strerror(28))
                os.fsync(log.fileno())
        except OSError as error:
            raise self._unusable(error) from None

    def _open_log(self) -> int:
        return private_files.open_lock(self._log)

    def _lines(self, *events: str, of_any_file: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the complete lines of these events about the file, and nothing of damaged ones."""
        try:
            content = content_of(self._log, _MOST_LOG_KIB)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unusable(error) from None
        for line in content.splitlines():
            try:
                fields = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            known = isinstance(fields, dict) and fields.get("event") in events
            if not known or not (of_any_file or fields.get("file") == self._file):
                continue
            if {"at", "digest", *_FIELDS[fields["event"]]} <= fields.keys():
                yield fields

    def _unusable(self, error: OSError) -> VersionsUnusable:
        return VersionsUnusable(
            f"versions cannot be kept in {self.folder}: {error.strerror or error}"
        )


def _version(line: dict[str, Any]) -> Version:
    author = Author(line["who"], line["why"], line["from"])
    return Version(line["digest"], line["at"], author, line["parent"])


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
