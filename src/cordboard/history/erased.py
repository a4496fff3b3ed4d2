"""The list of erased calls, `{calls.directory}/erased.jsonl`: hashes of their ids, with their days
and without.

It makes an erasure survive a restored backup: a ledger that is in the list is deleted again instead
of being indexed. So restore everything but this file. An id is a random UUID, which its hash does
not reveal. Where all calls have one id (an AudioSocket dialplan may give it), day and start tell
them apart: the list never reaches a later call. All methods block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
        self._started: dict[str, int] = {}
        """Start of the last erased call by hash, ms since 1970."""
        self._ids: frozenset[str] = frozenset()
        """Hashes of ids alone; lists of earlier versions have none."""

    def refresh(self) -> bool:
        """Read the list again if it has changed; return True then. Raises `OSError`."""
        try:
            found = self.path.stat()
            state = found.st_size, found.st_mtime_ns
        except FileNotFoundError:
            state = None
        if self._read == state:
            return False
        started: dict[str, int] = {}
        ids: set[str] = set()
        for raw in self.path.read_bytes().splitlines() if state is not None else ():
            try:
                line = orjson.loads(raw)
                call, began = str(line["call"]), int(line["started_ms"])
            except (KeyError, TypeError, ValueError):
                continue  # half a line, cut by a full disk
            started[call] = max(began, started.get(call, began))
            ids.add(str(line.get("id", "")))
        self._read, self._started, self._ids = state, started, frozenset(ids)
        return True

    def __contains__(self, call: str) -> bool:
        """True if a call of this day and id was erased."""
        return bool(self._started) and hash_of(call) in self._started

    def has_id(self, call_id: str) -> bool:
        """True if a call of this id was erased, of whichever day."""
        return bool(self._ids) and hash_of(call_id) in self._ids

    def covers(self, call: str, started_ms: int) -> bool:
        """True if exactly this call was erased, not one before it with the same id."""
        return call in self and started_ms <= self._started[hash_of(call)]

    def add(self, calls: Mapping[str, int], at: str) -> None:
        """Add the starts of calls by `key_of`, erased `at` a time (ISO 8601); they are on the disk
        on return. Raises `OSError`."""
        lines = [
            orjson.dumps(
                {
                    "call": hash_of(call),
                    "id": hash_of(call.partition("/")[2]),
                    "started_ms": started_ms,
                    "at": at,
                }
            )
            for call, started_ms in calls.items()
        ]
        private_files.append(self.path, b"".join(line + b"\n" for line in lines), sync=True)
        self.refresh()


def key_of(file: Path, call_id: str) -> str:
    """Return the name of a call in the list: the day of its file, and its id."""
    return f"{file.parent.name}/{call_id}"


def hash_of(call: str) -> str:
    """Return the form in which the list has a call (`key_of`)."""
    return hashlib.sha256(call.encode()).hexdigest()
