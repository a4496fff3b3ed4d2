"""Notes of calls whose events are not all on the bus: the next engine sends the rest.

    calls.directory/unsent/
        a-3f9c01/                one instance; removed when it stops with nothing left
            .lock                locked (flock) while that engine lives; the kernel unlocks it
            <call id>.json       one call: its ledger, and the epoch in which this engine owned it

A note says only that there may be a rest: how far the sending got is asked of the bus. All methods
block: call them in threads.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import structlog

from cordboard import private_files

log = structlog.get_logger()

FOLDER = "unsent"
_LOCK = ".lock"
_SUFFIX = ".json"
_LARGEST = 4_096


@dataclass(frozen=True, slots=True)
class UnsentNote:
    """A call that may have lines that are not on the bus."""

    call_id: str
    ledger: str
    """Path of the ledger, relative to the directory of the calls."""
    epoch: int
    """0: the bus did not know the call yet."""


class UnsentNotes:
    """The notes of one instance, its own or those of one that has ended."""

    def __init__(self, directory: Path, instance: str) -> None:
        """`directory` is the directory of the calls."""
        self._directory = directory
        self._folder = directory / FOLDER / instance
        self._lock = -1

    def lock(self) -> bool:
        """Lock the folder, and create it if necessary. False if another process has it. Raises
        `OSError`."""
        private_files.make_folder(self._folder)
        lock = private_files.open_lock(self._folder / _LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def put(self, call_id: str, ledger: Path, epoch: int) -> None:
        """Write a note, or an update of it. Raises `OSError`."""
        note = UnsentNote(call_id, str(ledger.relative_to(self._directory)), epoch)
        private_files.replace(self._folder / f"{call_id}{_SUFFIX}", orjson.dumps(asdict(note)))

    def remove(self, call_id: str) -> None:
        """Remove the note of a call whose lines are all on the bus. Raises `OSError`."""
        (self._folder / f"{call_id}{_SUFFIX}").unlink(missing_ok=True)

    def ledger(self, note: UnsentNote) -> Path:
        """Return the path of a noted ledger. Raises `ValueError` if it is outside."""
        path = self._directory / note.ledger
        if ".." in path.parts or not path.is_relative_to(self._directory):
            raise ValueError("its ledger is elsewhere")
        return path

    def __iter__(self) -> Iterator[UnsentNote]:
        """Yield the notes. One that cannot be read is logged, and left to the next start; a damaged
        one is removed."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found = orjson.loads(private_files.read(path, _LARGEST))
                note = UnsentNote(str(found["call_id"]), str(found["ledger"]), int(found["epoch"]))
                self.ledger(note)
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.error("unsent_note_unusable", path=str(path), error=repr(error))
                if not isinstance(error, OSError):
                    with suppress(OSError):
                        path.unlink()
                continue
            yield note

    def close(self) -> None:
        """Release the folder; it is removed if nothing is left in it. Idempotent."""
        if self._lock < 0:
            return
        if not any(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(OSError):
                (self._folder / _LOCK).unlink(missing_ok=True)
                self._folder.rmdir()
        os.close(self._lock)
        self._lock = -1


def abandoned(directory: Path) -> Iterator[UnsentNotes]:
    """Yield the notes of instances that have ended, locked for this process; close each. A folder
    that cannot be used, such as on a full disk, is logged."""
    for folder in sorted((directory / FOLDER).glob("*")):
        notes = UnsentNotes(directory, folder.name)
        try:
            locked = notes.lock()
        except OSError as error:
            log.error("unsent_notes_not_read", instance=folder.name, error=str(error))
            continue
        if locked:
            yield notes
