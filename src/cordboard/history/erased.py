"""The list of erased calls, `{calls.directory}/erased.jsonl`: hashes of their ids.

It makes an erasure survive a restored backup: a ledger whose id is in the list is deleted again
instead of being indexed. So restore everything but this file. An id is a random UUID, which its
hash does not reveal. All methods block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import orjson

from cordboard import private_files

NAME = "erased.jsonl"


class ErasedCalls:
    """The list of one directory of calls."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._read: tuple[int, int] | None = None
        """Size and time of the file when it was read."""
        self._hashes: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """Read the list again if it has changed. Raises `OSError`."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._read, self._hashes = None, frozenset()
            return
        if self._read == (found.st_size, found.st_mtime_ns):
            return
        hashes = set()
        for raw in self.path.read_bytes().splitlines():
            try:
                hashes.add(str(orjson.loads(raw)["call"]))
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue  # half a line, cut by a full disk
        self._read, self._hashes = (found.st_size, found.st_mtime_ns), frozenset(hashes)

    def __contains__(self, call_id: str) -> bool:
        return bool(self._hashes) and _hash(call_id) in self._hashes

    def add(self, call_ids: Iterable[str], at: str) -> None:
        """Add calls, erased `at` a time (ISO 8601); they are on the disk on return. Raises
        `OSError`."""
        lines = b"".join(
            orjson.dumps({"call": _hash(each), "at": at}, option=orjson.OPT_APPEND_NEWLINE)
            for each in call_ids
        )
        private_files.append(self.path, lines, sync=True)
        self.refresh()


def _hash(call_id: str) -> str:
    return hashlib.sha256(call_id.encode()).hexdigest()
