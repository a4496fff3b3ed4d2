"""Deletes calls whose retention period (`calls.keep_days`) has ended: ledger, notes, recording.

The index follows the ledgers. Recordings may have a shorter period of their own
(`calls.recording.retention`), not a longer one: without its ledger, a recording can be found by no
one, nor be erased by the caller's number. Files in the folders that the engine has not written
stay. Blocks: run it in a thread.
"""

from __future__ import annotations

import datetime
import os
from contextlib import suppress
from pathlib import Path

import orjson
import structlog

from cordboard.calls.ledger_file import KIND as LEDGER
from cordboard.errors import KeyUnusable
from cordboard.history.call_files import delete_call, read_ledger
from cordboard.privacy.sealed_file import PLAIN, Vault, head_of

log = structlog.get_logger()

_FIRST_LINES = ("call.offered", "call.refused", "call.erased", "ledger.gap")
"""With a gap begins the ledger of a call whose engine was killed before its first line was
whole."""


def sweep_ledgers(
    directory: Path, keep_days: int, today: datetime.date, vault: Vault = PLAIN
) -> int:
    """Delete ledgers of days that are older than `keep_days` (0 = keep all); return the number."""
    if keep_days == 0:
        return 0
    deleted = 0
    oldest = today - datetime.timedelta(days=keep_days)
    for folder in sorted(directory.glob("????-??-??")):
        with suppress(ValueError):
            if datetime.date.fromisoformat(folder.name) < oldest:
                deleted += _sweep_day(directory, folder, oldest, vault)
    if deleted:
        log.info("ledgers_deleted", count=deleted)
    return deleted


def _sweep_day(directory: Path, folder: Path, oldest: datetime.date, vault: Vault) -> int:
    deleted = 0
    for path in sorted(folder.glob("*.jsonl")):
        try:
            if _is_ledger(path) and _written_on(path) < oldest:
                list(delete_call(directory, path, _content(path, vault), vault))
                deleted += 1
        except (OSError, KeyError, TypeError) as error:
            log.warning("ledger_not_deleted", path=str(path), error=str(error))
    with suppress(OSError):  # not empty
        folder.rmdir()
    return deleted


def _written_on(path: Path) -> datetime.date:
    """Return the day of the last line: a call may run longer than a day."""
    return datetime.datetime.fromtimestamp(path.stat().st_mtime).astimezone().date()


def _content(path: Path, vault: Vault) -> bytes:
    """Return the content of a ledger; nothing if it cannot be decrypted, which must not keep it
    from being deleted."""
    try:
        return read_ledger(path, vault)
    except KeyUnusable:
        return b""


def _is_ledger(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        try:
            start = file.readline(65_536)
            if (sealed := head_of(start)) is not None:
                return sealed[0].kind == LEDGER
            line = orjson.loads(start)
        except orjson.JSONDecodeError:
            return False
    return isinstance(line, dict) and line.get("type") in _FIRST_LINES
