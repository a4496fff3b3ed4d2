"""All files that hold words of a call, to delete them together. Everything here blocks."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import orjson

from cordboard import private_files
from cordboard.calls import open_calls
from cordboard.calls.history import parse_lines
from cordboard.calls.post_call.files import SUFFIX as JOB
from cordboard.calls.recording.retention import PEAKS
from cordboard.history.notes import SUFFIX as NOTES
from cordboard.history.notes import notes_path
from cordboard.history.query import milliseconds
from cordboard.privacy.sealed_file import PLAIN, Vault, head_in

_POST_CALL = ("post_call", "post_call/failed")
DAYS = "????-??-??"
LEDGERS = ".jsonl"
_ERASED = b'{"type":"call.erased"}'
LARGEST = 256_000_000
"""Bytes of a ledger that is read: that of a day-long call has some 20 MB."""


def read_stored(path: Path) -> bytes:
    """Return the content of a ledger, encrypted or not, or of a file of refused offers. Raises
    `OSError`, also for what is no ordinary file."""
    return private_files.read(path, LARGEST)


def read_ledger(path: Path, vault: Vault = PLAIN) -> bytes:
    """Return the plain content of such a file."""
    return vault.plain(read_stored(path))


def recording_path(ledger: Path, named: str) -> Path | None:
    """Return the path of the recording that a ledger names: beside the ledger, also when both were
    moved. None for a name that is not of a recording: ledgers may be edited by hand."""
    name = PurePath(named).name
    return ledger.with_name(name) if name.endswith(".wav") else None


def files_of(directory: Path, ledger: Path, content: bytes) -> list[Path]:
    """Return the files of a call that exist, its ledger last, so that a deletion that is cut short
    can be repeated. `content` is that of the ledger. Raises `OSError`."""
    found, lines = [notes_path(ledger)], parse_lines(content)
    for line in lines:
        named = line["path"] if line["type"] == "recording.started" else ""
        if recording := recording_path(ledger, str(named)):
            found += [recording.with_suffix(PEAKS), recording]
    if not lines or lines[0]["type"] != "call.offered":
        # It cannot be decrypted, or was cut: the recording usually has its name.
        found += [ledger.with_suffix(PEAKS), ledger.with_suffix(".wav")]
    found += ledger.parent.glob(f".{glob.escape(ledger.stem)}.*")  # left by a killed writer
    found += open_calls.files_of(directory, ledger)  # left by a killed engine
    found += _jobs(directory, call_ids(ledger, content), key_of_file(ledger))
    return [path for path in dict.fromkeys([*found, ledger]) if path.is_file()]


def call_ids(ledger: Path, content: bytes) -> set[str]:
    """Return the ids by which a call is known: its own, and the name of its ledger."""
    lines = parse_lines(content)
    return {ledger.stem, str(lines[0].get("call_id", ledger.stem)) if lines else ledger.stem}


def key_of_file(path: Path) -> str:
    """Return the id of the key that encrypts a file; empty for a plain one, or none. Raises
    `OSError`."""
    try:
        head = head_in(path)
    except FileNotFoundError:
        return ""
    return head.key if head is not None else ""


def delete_call(
    directory: Path, ledger: Path, content: bytes, vault: Vault = PLAIN
) -> Iterator[DeletedFile]:
    """Delete the files of a call, its key, and its ledger as the last one; yield each when it is
    gone, so that an error does not hide what was deleted before it. Raises `OSError`."""
    with private_files.alone(ledger.parent):  # so that no one adds notes or peaks meanwhile
        key = key_of_file(ledger)
        for path in files_of(directory, ledger, content):
            if path == ledger and key and vault.erase(key):
                yield DeletedFile("key", 0, "")
            deleted = None
            with suppress(FileNotFoundError):  # it vanished meanwhile, such as a job that was done
                deleted = _deleted(directory, path)
            path.unlink(missing_ok=True)
            if deleted is not None:
                yield deleted


@dataclass(frozen=True, slots=True)
class DeletedFile:
    """A file that was deleted."""

    kind: str
    """`ledger`, `recording`, `peaks`, `notes`, `job`, `key`, or `other`."""
    bytes: int
    sha256: str
    """Of its content as it was on the disk; empty for a key."""


_KINDS = {LEDGERS: "ledger", ".wav": "recording", PEAKS: "peaks"}


def _deleted(directory: Path, path: Path) -> DeletedFile:
    if path.name.endswith(NOTES):
        kind = "notes"
    elif path.is_relative_to(directory / "post_call"):
        kind = "job"
    else:
        kind = _KINDS.get(path.suffix, "other")
    with path.open("rb") as file:
        return DeletedFile(
            kind, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
        )


def blank_refused(path: Path, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Overwrite the wanted lines of a file of refused offers. Each line keeps its length, so that
    the engine may add lines meanwhile. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a descriptor
        at = 0
        for raw in file.readall().splitlines(keepends=True):
            if (line := _refused(raw)) is not None and wanted(line):
                os.pwrite(descriptor, _ERASED.ljust(len(raw.rstrip(b"\n"))), at)
            at += len(raw)
        os.fsync(descriptor)


def refused_offers(
    path: Path, wanted: Callable[[dict[str, Any]], bool]
) -> Iterator[dict[str, Any]]:
    """Yield the lines that `blank_refused` would overwrite. Raises `OSError`."""
    for line in map(_refused, read_ledger(path).splitlines()):
        if line is not None and wanted(line):
            yield line


def _refused(raw: bytes) -> dict[str, Any] | None:
    try:
        line = orjson.loads(raw)
        milliseconds(line["started_at"])
        return line if line["type"] == "call.refused" and line["call_id"] else None
    except (KeyError, TypeError, ValueError):  # damaged, or blanked before
        return None


def _jobs(directory: Path, ids: set[str], key: str) -> Iterator[Path]:
    """Yield the post-call jobs of a call, pending and given up."""
    for folder in _POST_CALL:
        for path in sorted((directory / folder).glob(f"*{JOB}")):
            named = any(f"-{each}-" in path.name for each in ids)
            if named or _job_of(path) in ids or (key and key_of_file(path) == key):
                yield path


def _job_of(path: Path) -> str:
    try:
        job = orjson.loads(path.read_bytes())
        return str(job["call_id"])
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return ""
