"""The files of `${file:...}`: one secret in each, as Docker mounts them.

A file is read once per reading of the configuration. Its text is the value, without the line
breaks at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cordboard.config.files import content_of, digest_of

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
    """The secret files of one configuration."""

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
