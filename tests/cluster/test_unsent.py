"""Notes of calls whose events are not all on the bus: what an earlier engine has left."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cordboard import private_files
from cordboard.cluster.unsent import FOLDER, UnsentNote, UnsentNotes, abandoned


def test_a_folder_that_cannot_be_locked_is_logged_and_the_others_are_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for instance in ("a-1", "b-1"):
        notes = UnsentNotes(tmp_path, instance)
        assert notes.lock()
        notes.put("c1", tmp_path / "c1.jsonl", 7)
        notes.close()
    (tmp_path / FOLDER / "a-0").write_text("not a folder")
    open_lock = private_files.open_lock

    def full(path: Path) -> int:
        if path.parent.name == "a-1":
            raise OSError(errno.ENOSPC, "No space left on device")
        return open_lock(path)

    monkeypatch.setattr(private_files, "open_lock", full)
    with capture_logs() as logs:
        (found,) = abandoned(tmp_path)
    assert list(found) == [UnsentNote("c1", "c1.jsonl", 7)]
    found.close()
    assert [(each["event"], each["instance"]) for each in logs] == [
        ("unsent_notes_not_read", "a-0"),
        ("unsent_notes_not_read", "a-1"),
    ]


def test_a_note_that_cannot_be_read_now_is_kept_and_a_damaged_one_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = UnsentNotes(tmp_path, "a-1")
    assert notes.lock()
    for call_id in ("c1", "c2"):
        notes.put(call_id, tmp_path / f"{call_id}.jsonl", 7)
    (tmp_path / FOLDER / "a-1" / "c2.json").write_text("{")
    read = private_files.read

    def too_many_files(path: Path, most: int) -> bytes:
        if path.name == "c1.json":
            raise OSError(errno.EMFILE, "Too many open files")
        return read(path, most)

    monkeypatch.setattr(private_files, "read", too_many_files)
    assert list(notes) == []
    monkeypatch.undo()
    assert list(notes) == [UnsentNote("c1", "c1.jsonl", 7)]
    assert not (tmp_path / FOLDER / "a-1" / "c2.json").exists()
    notes.close()
