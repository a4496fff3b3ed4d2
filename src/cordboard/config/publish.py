"""Publishing a configuration: a checked text takes the place of the file's.

A process that is killed at any moment leaves the file with its old text or its new one, and both
among the versions. The exception is a file that cannot be replaced by a rename, because it is
itself a mount point (a single file mounted into a container), or because its folder or owner does
not allow it: it is written in place. A kill during these writes may leave a part; `cordboard config
restore` mends it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeAlias

from cordboard.config.edit.holes import HOLE, Hidden, hide, put_back, secret_values
from cordboard.config.files import content_of, digest_of
from cordboard.config.load import MOST_KIB, read
from cordboard.config.plugins import Plugins
from cordboard.config.versions import Author, Versions, sync_folder
from cordboard.errors import (
    ConfigError,
    CordboardError,
    NotThere,
    PublishRefused,
    VersionsUnusable,
)

_IN_PLACE = (errno.EBUSY, errno.EACCES, errno.EPERM, errno.EXDEV)
"""Errors of creating or renaming a file beside ours that do not concern our file itself."""

_TOO_LARGE = f"the text is larger than {MOST_KIB} KiB"
_Known: TypeAlias = Callable[[str], frozenset[str] | None]
"""Returns the secret values of a text (`holes.secret_values`)."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lines that two people have changed differently."""

    line: int
    """1-based line in the base."""
    base: str
    ours: str
    theirs: str
    at: int
    """1-based line of `ours` in `PublishConflict.with_ours`."""


class PublishConflict(CordboardError):
    """The file has changed since the text to publish was begun. Its texts have holes in place of
    secrets."""

    def __init__(
        self,
        theirs: str,
        digest: str,
        merged: str | None = None,
        with_ours: str | None = None,
        conflicts: Sequence[Conflict] = (),
    ):
        self.theirs = theirs
        """Text of the file now."""
        self.digest = digest
        """Its digest, the base of the next attempt."""
        self.merged = merged
        """Both changes in one text; None if they touch the same lines, or the base is unknown."""
        self.with_ours = with_ours
        """Both changes in one text, ours where they touch the same lines: for a person to decide
        about the conflicts. None if the base is unknown."""
        self.conflicts = conflicts
        how = (
            "both changes can be merged"
            if merged is not None
            else "the changes do not fit together"
        )
        super().__init__(f"the file has been changed meanwhile (now {digest[:12]}); {how}")


def publish(
    text: str,
    base: str,
    author: Author,
    path: Path,
    versions: Versions,
    environ: Mapping[str, str],
    plugins: Plugins | None = None,
) -> str:
    """Check a text, write it to the file and note it as a version; return its digest. `base` is the
    digest of the text that it was made from; holes of the text get that one's secrets
    (`config.edit.holes`). The file keeps its owner and mode.

    Raises `ConfigError` for a text that no engine could run with, `EditRefused` for holes that do
    not fit, `PublishConflict` if the file is not `base` any more, `PublishRefused` if it cannot be
    written, and `VersionsUnusable`. In each
    case the file is unchanged, except if the last line of the log cannot be written; the error says
    so. Blocks on the disk.
    """
    if len(text) > MOST_KIB * 1024:
        raise PublishRefused(_TOO_LARGE)
    target = path.resolve()

    def known(text: str) -> frozenset[str] | None:
        return secret_values(text, path, environ, plugins)

    with versions.locked():
        before = _content(target)
        if digest_of(before) != base:
            raise _conflict(text, base, before, versions, known)
        if HOLE.search(text):
            text = put_back(text, _hidden(before, known), known)
        content = text.encode("utf-8")
        if len(content) > MOST_KIB * 1024:
            raise PublishRefused(_TOO_LARGE)
        read(text.removeprefix("\ufeff"), path, environ, plugins)
        versions.add(before, Author())
        digest = versions.keep(content)
        if content != before:
            write_file(target, content)
            try:
                versions.add(content, author)
            except VersionsUnusable as error:
                raise VersionsUnusable(
                    f"the file has its new text, but not noted: {error}"
                ) from None
    return digest


def _content(path: Path) -> bytes:
    try:
        return content_of(path, MOST_KIB)
    except OSError as error:
        raise PublishRefused(f"{path} cannot be read: {error.strerror or error}") from None


def _hidden(content: bytes, known: _Known) -> Hidden:
    text = content.decode("utf-8", "replace")
    return hide(text, known(text))


def _conflict(
    text: str, base: str, before: bytes, versions: Versions, known: _Known
) -> PublishConflict:
    """Return the conflict, with holes in all of its texts."""
    digest = digest_of(before)
    try:
        theirs = _hidden(before, known)
    except ConfigError as error:
        raise PublishRefused(f"the file has been changed and is not YAML now: {error}") from None
    try:
        begun_with = _hidden(versions.content(base), known)
    except (NotThere, ConfigError):
        return PublishConflict(theirs.text, digest)
    secrets = begun_with.secrets
    if not HOLE.search(text):
        try:
            ours = hide(text, known(text))
        except ConfigError:  # not YAML: no secrets can be found in it
            return PublishConflict(theirs.text, digest)
        text, secrets = ours.text, ours.secrets
    with_ours, conflicts = merge(begun_with.text, text, theirs.text)
    if not secrets == begun_with.secrets == theirs.secrets:  # a hole has several meanings
        return PublishConflict(theirs.text, digest, conflicts=conflicts)
    merged = None if conflicts else with_ours
    return PublishConflict(theirs.text, digest, merged, with_ours, conflicts)


# Writing.


def write_file(path: Path, content: bytes) -> None:
    """Give an existing file a new content; its owner and mode stay. Raises `PublishRefused`; then
    the file is unchanged."""
    try:
        status = path.stat()
        if not stat.S_IMODE(status.st_mode) & 0o222:
            raise PublishRefused(f"{path} is read-only (mode {stat.S_IMODE(status.st_mode):o})")
        try:
            _replace(path, content, status)
        except OSError as error:
            if error.errno not in _IN_PLACE:
                raise
            _overwrite(path, content)
    except OSError as error:
        reason = error.strerror or error
        raise PublishRefused(f"{path} cannot be written: {reason}; it is unchanged") from None


def _replace(path: Path, content: bytes, status: os.stat_result) -> None:
    temporary = path.with_name(f".{path.name}.publish.tmp")  # one at a time, by the lock
    with suppress(FileNotFoundError):
        temporary.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
            made = os.fstat(file.fileno())
            if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _overwrite(path: Path, content: bytes) -> None:
    """Write into the file itself, once the disk has promised the room."""
    with path.open("r+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        try:
            os.posix_fallocate(file.fileno(), 0, max(len(content), 1))
        except OSError:
            file.truncate(size)
            raise
        file.seek(0)
        waiting = memoryview(content)
        while waiting:
            waiting = waiting[file.write(waiting) :]
        file.truncate(len(content))
        os.fsync(file.fileno())


# Merging.


def merge(base: str, ours: str, theirs: str) -> tuple[str, list[Conflict]]:
    """Return a text with the changes of both sides, by lines (diff3), and the conflicts: the lines
    that they change differently, for which the text has ours."""
    lines = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    merged: list[str] = []
    conflicts: list[Conflict] = []
    at = (0, 0, 0)
    for start, our_start, their_start, length in (*_common(*lines), _ends(*lines)):
        old = lines[0][at[0] : start]
        mine, other = lines[1][at[1] : our_start], lines[2][at[2] : their_start]
        if mine in (other, old):
            merged += other
        elif other == old:
            merged += mine
        else:
            was, our, their = ("".join(part) for part in (old, mine, other))
            conflicts.append(Conflict(at[0] + 1, was, our, their, at=len(merged) + 1))
            merged += mine
        merged += lines[0][start : start + length]
        at = start + length, our_start + length, their_start + length
    return "".join(merged), conflicts


def _ends(*texts: Sequence[str]) -> tuple[int, int, int, int]:
    base, ours, theirs = map(len, texts)
    return base, ours, theirs, 0


def _common(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the runs of lines that all three have: their begin in each, and their length."""
    mine = SequenceMatcher(None, base, ours, autojunk=False).get_matching_blocks()
    other = SequenceMatcher(None, base, theirs, autojunk=False).get_matching_blocks()
    first = second = 0
    while first < len(mine) and second < len(other):
        one, two = mine[first], other[second]
        start = max(one.a, two.a)
        end = min(one.a + one.size, two.a + two.size)
        if start < end:
            yield start, one.b + start - one.a, two.b + start - two.a, end - start
        if one.a + one.size < two.a + two.size:
            first += 1
        else:
            second += 1
