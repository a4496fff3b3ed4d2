"""Folders and files that only the engine's user can read: 0700 and 0600, regardless of the umask.

Ledgers, recordings, post-call jobs, markers of live calls and usage counts are created only by
these functions. They block: call them in threads.
"""

from __future__ import annotations

import fcntl
import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_OTHERS = 0o077
TEMPORARY = ".tmp"
"""Suffix of files that `replace` has not finished; their names begin with a dot."""


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents. An existing folder is not changed. Raises
    `OSError`."""
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_folder(path.parent)
    try:
        path.mkdir(_FOLDER_MODE)
    except FileExistsError:
        if not path.is_dir():  # otherwise another thread or engine was faster
            raise
    else:
        path.chmod(_FOLDER_MODE)


def create(path: Path) -> int:
    """Create a new file, and its folder if necessary; return a descriptor to write to. Raises
    `FileExistsError` for an existing file, and other kinds of `OSError`."""
    make_folder(path.parent)
    return _open(path, os.O_WRONLY | os.O_EXCL)


def make_database(path: Path) -> None:
    """Create the empty file of an SQLite database, if there is none: SQLite would use the umask.
    One that is there is not opened: closing any descriptor of a file gives up all locks that this
    process has on it, and the last one who leaves deletes the log of the others
    (sqlite.org/howtocorrupt.html, 2.2). So it is not looked for first: another thread may make it
    meanwhile. Raises `OSError`."""
    with suppress(FileExistsError):
        os.close(_open(path, os.O_RDWR | os.O_EXCL))


def open_lock(path: Path) -> int:
    """Return a descriptor of a file to lock; the file is created if necessary. Raises `OSError`."""
    return _open(path, os.O_RDWR)


def read(path: Path, most: int) -> bytes:
    """Return the content of an ordinary file. Raises `OSError`, also for a link, a pipe, and a file
    of more than `most` bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise OSError(f"{path} is not an ordinary file of at most {most} bytes")
        return file.read(found.st_size)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep others who use this function for the same folder away. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part. With `sync`
    the content is on the disk on return; the file's name may not be. Writers of one process must
    keep each other away (`alone`). A writer that is killed leaves `unfinished`. Raises
    `OSError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        descriptor = _open(temporary, os.O_WRONLY | os.O_TRUNC)
        with open(descriptor, "wb", closefd=True) as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # also when a person interrupts a command: the content may be a key
        temporary.unlink(missing_ok=True)
        raise


def unfinished(path: Path) -> Iterator[Path]:
    """Yield the files that killed writers have left of `replace` for a path."""
    yield from path.parent.glob(f".{glob.escape(path.name)}.*{TEMPORARY}")


def append(path: Path, content: bytes, *, sync: bool = False, most: int | None = None) -> bool:
    """Add to the end of a file; it is created if necessary. Return False, and add nothing, if the
    file would get longer than `most` bytes. A line that a full disk has cut is ended first. With
    `sync` the content is on the disk on return. Raises `OSError`."""
    make_folder(path.parent)
    descriptor = _open(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if most is not None and size + len(content) > most:
            return False
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        while content:
            content = content[os.write(descriptor, content) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True


def open_to_others(folder: Path) -> bool:
    """True if the mode of a folder lets other users in. Raises `OSError`."""
    return bool(stat.S_IMODE(folder.stat().st_mode) & _OTHERS)


def narrow(folder: Path) -> None:
    """Close a folder to other users. Raises `OSError`."""
    if open_to_others(folder):
        folder.chmod(_FOLDER_MODE)


def _open(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
    try:
        os.fchmod(descriptor, _FILE_MODE)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
