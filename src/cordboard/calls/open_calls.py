"""The running calls, on disk, so that the next engine can end the ledgers of a killed one.

    calls.directory/open/
        3f9c…/                       one engine; removed when it stops in order
            .lock                    locked (flock) while that engine lives; the kernel unlocks it
            2026-11-22.<id>.json     one call: its ledger has no end yet, or the steps after it
                                     are not in the queue yet

A call's file holds the data for the steps after the call that the ledger lacks. All functions here
block: call them in threads.
"""

from __future__ import annotations

import datetime
import fcntl
import glob
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
import structlog

from cordboard import private_files
from cordboard.calls.ledger_file import encode_line
from cordboard.privacy.sealed_file import PLAIN, CallSeal, Vault

log = structlog.get_logger()

FOLDER = "open"
_LOCK = ".lock"
_SUFFIX = ".json"
_LEDGER = ".jsonl"
_NAMED = re.compile(rf"(?P<day>\d{{4}}-\d\d-\d\d)\.(?P<stem>.+){re.escape(_SUFFIX)}")
_UNFINISHED = "."
"""First character of a folder that is not locked yet."""


Kind = Literal["call", "chat", "try"]
"""A call, a written conversation, or a test without steps of `post_call`: the trial of one tool, or
a call whose tools do not run."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """The data about a call that the next engine needs to end it."""

    kind: Kind
    call_id: str
    context: str
    provider: str
    started_at: str
    """Time of the offer, as `call.offered` has it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The call's own variables, for the steps after it."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """Results of `pre_call` so far."""
    key: str = ""
    """Id of the key that encrypts the files of the call; empty = they are plain."""


class OpenCalls:
    """The open calls of this engine."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the directory of the calls."""
        self._directory = directory
        self._folder: Path | None = None
        self._lock = -1

    def prepare(self) -> None:
        """Create and lock this engine's folder. Raises `OSError`; `put` tries again."""
        self._own()

    def put(self, ledger: Path, call: OpenCall, seal: CallSeal | None = None) -> None:
        """Store an open call with this ledger, or an update of it, encrypted by `seal`. Raises
        `OSError`."""
        relative = ledger.relative_to(self._directory)
        content = encode_line({"ledger": str(relative), **asdict(call)})
        if seal is not None:
            content = seal.whole("open", content)
        name = _name(ledger)
        try:
            private_files.replace(self._own() / name, content)
        except FileNotFoundError:  # the folder has been deleted
            self._disown()
            private_files.replace(self._own() / name, content)

    def remove(self, ledger: Path) -> None:
        """Remove a call that is completely done. Raises `OSError`."""
        if self._folder is not None:
            (self._folder / _name(ledger)).unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder when the engine stops; its files are for the next one. Idempotent."""
        if self._folder is not None:
            with suppress(OSError):
                _remove_if_empty(self._folder)
            self._disown()

    def _own(self) -> Path:
        """Return this engine's folder, locked before others can see it."""
        if self._folder is None:
            name = secrets.token_hex(8)
            parent = self._directory / FOLDER
            making = parent / f"{_UNFINISHED}{name}"
            private_files.make_folder(making)
            lock = private_files.open_lock(making / _LOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                making.rename(parent / name)
            except OSError:
                os.close(lock)
                raise
            self._lock, self._folder = lock, parent / name
        return self._folder

    def _disown(self) -> None:
        os.close(self._lock)
        self._folder = None


class AbandonedCalls:
    """The open calls of an engine that has died. This process holds its lock until `release`."""

    def __init__(self, directory: Path, folder: Path, lock: int, vault: Vault) -> None:
        self._directory = directory
        self.vault = vault
        self._folder = folder
        self._lock = lock

    def __iter__(self) -> Iterator[Path]:
        """Yield the calls' files."""
        yield from sorted(self._folder.glob(f"*{_SUFFIX}"))

    def read(self, file: Path) -> tuple[Path, OpenCall]:
        """Return the ledger of a call and its stored data. Raises `OSError`, and `ValueError` for
        an invalid file."""
        try:
            found = orjson.loads(self.vault.plain(file.read_bytes()))
            ledger = self._directory / found.pop("ledger")
            call = OpenCall(**found)
            datetime.datetime.fromisoformat(call.started_at)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not an open call: {error!r}") from None
        if ".." in ledger.parts or not ledger.is_relative_to(self._directory):
            raise ValueError("its ledger is elsewhere")
        return ledger, call

    def has_no_ledger(self, file: Path) -> bool:
        """True if the ledger of a call is gone: the call was erased. Needs no key. Raises
        `OSError`."""
        found = _NAMED.fullmatch(file.name)
        if found is None:
            return False
        return not (self._directory / found["day"] / f"{found['stem']}{_LEDGER}").exists()

    def remove(self) -> None:
        """Remove the folder if all its calls are done. Raises `OSError`."""
        _remove_if_empty(self._folder)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._lock)


def files_of(directory: Path, ledger: Path) -> Iterator[Path]:
    """Yield the files about a call in the folders of all engines, also those that a killed writer
    has not finished."""
    for folder in (directory / FOLDER).glob(f"[!{_UNFINISHED}]*"):
        file = folder / _name(ledger)
        yield file
        yield from private_files.unfinished(file)


def is_live(directory: Path, ledger: Path) -> bool:
    """True if a live engine has this ledger among its open calls; needs no key. Raises
    `OSError`."""
    for file in (directory / FOLDER).glob(f"[!{_UNFINISHED}]*/{glob.escape(_name(ledger))}"):
        try:
            os.close(_lock(file.parent))
        except BlockingIOError:
            return True
        except FileNotFoundError:  # removed meanwhile
            continue
    return False


def abandoned(directory: Path, vault: Vault = PLAIN) -> Iterator[AbandonedCalls]:
    """Yield the calls that killed engines have left in a directory of calls; release each. Unusable
    folders are logged and skipped. Raises `OSError` for the directory."""
    for folder in sorted((directory / FOLDER).glob(f"[!{_UNFINISHED}]*")):
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):  # a live engine, or already handled
            continue
        except OSError as error:
            log.error("killed_calls_not_read", folder=str(folder), error=str(error))
            continue
        yield AbandonedCalls(directory, folder, lock, vault)


def _lock(folder: Path) -> int:
    """Acquire the lock of an engine's folder. Raises `OSError`."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _name(ledger: Path) -> str:
    return f"{ledger.parent.name}.{ledger.stem}{_SUFFIX}"


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.glob(f"*{_SUFFIX}")):
        with suppress(FileNotFoundError):  # another engine has just removed it
            for left in folder.iterdir():
                left.unlink(missing_ok=True)
            folder.rmdir()
