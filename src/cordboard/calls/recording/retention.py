"""Deletes recordings whose retention period has ended.

Only files that the engine itself recorded are deleted: `<day>/*.wav` in `calls.directory` whose
header names Cordboard and the day and context of the call (`audio.wav`). Files that an
operator adds, copies elsewhere or converts stay. The retention period is the context's present
setting; for a context that no longer exists, its setting when the call was recorded. Ledgers
have a retention of their own (`cordboard.history.retention`).

Blocks on the disk: run it in a thread.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from cordboard import private_files
from cordboard.audio.wav import read_comment
from cordboard.privacy.sealed_file import LONGEST_HEAD, head_of

log = structlog.get_logger()

PEAKS = ".peaks"
"""Suffix of the file beside a recording that has its peaks (`cordboard.history.playback`)."""
INTERVAL = 24 * 3600.0
"""Seconds between two sweeps."""


def sweep(directory: Path, keep_days: Mapping[str, int], today: datetime.date) -> int:
    """Delete recordings older than their context's `keep_days` (0 = for ever); return the
    number."""
    deleted = 0
    for path in sorted(directory.glob("????-??-??/*.wav")):
        try:
            if _is_due(path, keep_days, today):
                with private_files.alone(path.parent):  # else its peaks are written meanwhile
                    path.with_suffix(PEAKS).unlink(missing_ok=True)
                    path.unlink()
                deleted += 1
                log.info("recording_deleted", path=str(path))
        except OSError as error:
            log.warning("recording_not_deleted", path=str(path), error=str(error))
    return deleted


def _is_due(path: Path, keep_days: Mapping[str, int], today: datetime.date) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        start = os.read(descriptor, LONGEST_HEAD)
    finally:
        os.close(descriptor)
    sealed = head_of(start)
    comment = read_comment(start) if sealed is None else sealed[0].about
    if comment is None or comment.get("day") != path.parent.name:
        return False
    try:
        day = datetime.date.fromisoformat(path.parent.name)
        days = int(keep_days.get(str(comment.get("context")), comment.get("keep_days", 0)))
    except (TypeError, ValueError):
        return False
    return days > 0 and (today - day).days > days
