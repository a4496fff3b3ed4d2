"""The list of keys that indexes of one directory of calls have had, `{calls.directory}/index_keys`.

An index that was damaged, deleted or replaced cannot name the key of its hashes any more. The list
can: ids of keys, one a line. It is beside the index, not in its folder, which may be deleted with
it. Everything here blocks.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from cordboard import private_files
from cordboard.privacy.sealed_file import Vault

log = structlog.get_logger()

NAME = "index_keys"
_LARGEST = 1_000_000


class IndexKeys:
    """The list of one directory. May be used by several threads and processes."""

    def __init__(self, directory: Path, vault: Vault) -> None:
        self._path = directory / NAME
        self._vault = vault

    def ids(self) -> set[str]:
        """Return the ids of all keys that may exist. Raises `OSError`."""
        try:
            return set(private_files.read(self._path, _LARGEST).decode().split())
        except FileNotFoundError:
            return set()

    def add(self, key: str) -> None:
        """Add a key that will be made; it is on the disk on return. Raises `OSError`."""
        private_files.make_folder(self._path.parent)
        with private_files.alone(self._path.parent):
            private_files.append(self._path, f"{key}\n".encode(), sync=True)

    def keep_only(self, present: str) -> None:
        """Delete all keys but that of the present index (empty: it has none). One that is not
        there stays on the list: its folder may not be mounted. Raises `OSError`."""
        private_files.make_folder(self._path.parent)
        with private_files.alone(self._path.parent):
            left = {key for key in self.ids() - {present} if not self._erased(key)}
            if present:
                left.add(present)
            content = "".join(f"{key}\n" for key in sorted(left))
            private_files.replace(self._path, content.encode(), sync=True)

    def _erased(self, key: str) -> bool:
        try:
            return self._vault.erase(key)
        except OSError as error:
            log.warning("index_key_not_erased", error=str(error))
            return False
