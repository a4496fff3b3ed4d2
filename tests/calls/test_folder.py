"""The directory of calls is shut to other users, or the operator is warned."""

from __future__ import annotations

import stat
from pathlib import Path

from structlog.testing import capture_logs

from cordboard.calls.folder import shut


def wide(path: Path) -> Path:
    path.mkdir(parents=True)
    path.chmod(0o755)
    return path


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def test_a_new_directory_is_shut(tmp_path: Path) -> None:
    assert shut(tmp_path / "var" / "calls") == ""
    assert [mode(tmp_path / name) for name in ("var", "var/calls")] == ["700", "700"]


def test_folders_of_an_earlier_version_are_narrowed(tmp_path: Path) -> None:
    mine = [wide(tmp_path / name) for name in ("2026-01-31", "open", "post_call", "usage")]
    foreign = wide(tmp_path / "backup")
    assert shut(tmp_path) == ""
    assert {mode(folder) for folder in mine} == {"700"}
    assert mode(foreign) == "755"


def test_a_directory_that_others_may_enter_is_left_and_warned_of(tmp_path: Path) -> None:
    directory = wide(tmp_path / "shared")
    with capture_logs() as logs:
        warning = shut(directory)
    assert f"chmod 700 {directory}" in warning
    assert mode(directory) == "755"
    assert [(entry["event"], entry["mode"]) for entry in logs] == [("calls_directory_open", "755")]
