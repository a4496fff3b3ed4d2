"""What the engine makes is its user's alone, whatever the umask."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordboard import private_files


@pytest.fixture(params=[0, 0o022, 0o777], autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_new_folders_are_shut_and_old_ones_stay_as_they_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    private_files.make_folder(tmp_path / "a" / "b")
    private_files.make_folder(tmp_path / "a" / "b")
    assert [mode(path) for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")] == [
        0o755, 0o700, 0o700,
    ]  # fmt: skip


def test_a_new_file_takes_the_place_of_no_other(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    os.close(private_files.create(path))
    assert mode(path) == 0o600
    with pytest.raises(FileExistsError):
        private_files.create(path)


def test_a_file_is_replaced_as_a_whole_and_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o644)
    private_files.replace(path, b"new", sync=True)
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_that_another_thread_has_just_made_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing it would give up the locks that this process has on it."""
    path = tmp_path / "database"
    private_files.make_database(path)
    assert mode(path) == 0o600
    with path.open("r+b") as database:
        fcntl.lockf(database, fcntl.LOCK_EX)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "exists", lambda _path: False)  # it was not there a moment ago
            private_files.make_database(path)
        words = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | 4)"
        done = subprocess.run(
            [sys.executable, "-c", words, str(path)], capture_output=True, check=False
        )
    assert b"BlockingIOError" in done.stderr, "the lock is held"


def test_a_replacement_that_is_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        private_files.replace(path, b"new", sync=True)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        private_files.make_folder(tmp_path / "file" / "folder")


def test_wide_folders_are_narrowed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o755)
    assert private_files.open_to_others(folder)
    private_files.narrow(folder)
    assert not private_files.open_to_others(folder)


def test_lines_are_added_to_a_file_and_half_a_line_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    assert private_files.append(path, b"one\n", sync=True)
    assert mode(path) == 0o600
    with path.open("ab") as file:
        file.write(b"half")
    assert private_files.append(path, b"two\n", most=13)
    assert path.read_bytes() == b"one\nhalf\ntwo\n"
    assert not private_files.append(path, b"x\n", most=14)
    assert path.read_bytes() == b"one\nhalf\ntwo\n"
