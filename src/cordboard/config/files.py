"""Access to the disk for the configuration: the content of a small file, and checks of existence.

Only regular files up to a size are read: a named pipe would block, a device might never end, and a
huge file would take minutes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path


def content_of(path: Path, most_kib: int) -> bytes:
    """Return the bytes of a regular file of at most `most_kib` KiB.

    Raises `OSError` with the reason in `strerror`.
    """
    most = most_kib * 1024
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except ValueError:
        raise OSError(errno.EINVAL, "the path has a NUL character") from None
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = bytearray()
        while chunk := file.read(most + 1 - len(content)):
            content += chunk
        if len(content) > most:
            raise OSError(errno.EFBIG, f"larger than {most_kib} KiB")
    return bytes(content)


def is_file(path: Path) -> bool:
    """Return True if there is a regular file; False for an impossible path."""
    return _has_mode(path, stat.S_ISREG)


def is_folder(path: Path) -> bool:
    """Return True if there is a folder; False for an impossible path."""
    return _has_mode(path, stat.S_ISDIR)


def _has_mode(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def digest_of(content: bytes) -> str:
    """Return a digest that distinguishes one content of a file from another."""
    return hashlib.sha256(content).hexdigest()
