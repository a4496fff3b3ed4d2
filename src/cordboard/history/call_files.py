"""All files of a call, to delete them together. Everything here blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from cordboard.calls.history import parse_lines
from cordboard.calls.post_call.files import SUFFIX as JOB
from cordboard.history.notes import notes_path

PEAKS = ".peaks"
"""Suffix of the file beside a recording that has its peaks."""
_POST_CALL = ("post_call", "post_call/failed")


def files_of(directory: Path, ledger: Path, content: bytes) -> list[Path]:
    """Return the files of a call that exist, its ledger last, so that a deletion that is cut short
    can be repeated. `content` is that of the ledger. Raises `OSError`."""
    found = [notes_path(ledger)]
    for line in parse_lines(content):
        if line["type"] == "recording.started":
            recording = ledger.with_name(Path(str(line["path"])).name)
            found += [recording.with_suffix(PEAKS), recording]
    found += _jobs(directory, call_ids(ledger, content))
    return [path for path in dict.fromkeys([*found, ledger]) if path.is_file()]


def call_ids(ledger: Path, content: bytes) -> set[str]:
    """Return the ids by which a call is known: its own, and the name of its ledger."""
    lines = parse_lines(content)
    return {ledger.stem, str(lines[0].get("call_id", ledger.stem)) if lines else ledger.stem}


def delete_call(directory: Path, ledger: Path, content: bytes) -> None:
    """Delete the files of a call. Raises `OSError`."""
    for path in files_of(directory, ledger, content):
        path.unlink(missing_ok=True)


def _jobs(directory: Path, ids: set[str]) -> Iterator[Path]:
    """Yield the post-call jobs of a call, pending and given up."""
    for folder in _POST_CALL:
        for path in sorted((directory / folder).glob(f"*{JOB}")):
            if any(each in path.name for each in ids) or _job_of(path) in ids:
                yield path


def _job_of(path: Path) -> str:
    try:
        job = orjson.loads(path.read_bytes())
        return str(job["call_id"])
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
        return ""
