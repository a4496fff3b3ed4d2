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
from dataclasses import dataclass, field
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


MOST_KIB = 64
"""Size limit of one file; a certificate chain is a few KiB."""


class SecretUnusable(ValueError):
    """A file has no usable value; the text gives the reason and never quotes the content."""


class SecretMissing(SecretUnusable):
    """The file does not exist or is empty: a default applies."""


@dataclass(frozen=True, slots=True)
class _Secret:
    text: str = field(repr=False)
    digest: str


class SecretFiles:
    """The files of `${file:...}` in one configuration: one secret in each, as Docker mounts them.

    A file is read once per reading of the configuration. Its text is the value, without the line
    breaks at its end.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: base of relative paths, the folder of the configuration file."""
        self._folder = folder
        self._secrets: dict[Path, _Secret] = {}
        self._missing: set[Path] = set()

    @property
    def digests(self) -> dict[Path, str]:
        """Digest of each requested file, by path; empty for one that does not exist."""
        read = {path: secret.digest for path, secret in self._secrets.items()}
        return dict.fromkeys(self._missing, "") | read

    def path_of(self, name: str) -> Path:
        """Return the path that a name in the configuration means."""
        return self._folder / name

    def read(self, name: str) -> str:
        """Return the value in a file. Raises `SecretMissing` or `SecretUnusable`."""
        path = self.path_of(name)
        if path not in self._secrets:
            try:
                self._secrets[path] = _read(path)
            except SecretMissing:
                if path.parent.is_dir():  # else there is no folder to watch
                    self._missing.add(path)
                raise
        text = self._secrets[path].text
        if not text:
            raise SecretMissing(f"the file {path} is empty")
        return text


def _read(path: Path) -> _Secret:
    try:
        content = content_of(path, MOST_KIB)
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except FileNotFoundError:
        raise SecretMissing(f"there is no file {path}") from None
    except OSError as error:
        message = f"the file {path} cannot be read: {error.strerror or error}"
        raise SecretUnusable(message) from None
    except UnicodeDecodeError:
        raise SecretUnusable(f"the file {path} is not UTF-8 text") from None
    return _Secret(text, digest_of(content))
