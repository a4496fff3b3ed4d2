"""No file has the marks of a merge that was not finished."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = re.compile(rb"^(?:<{7}|\|{7}|>{7})(?: |$)", re.M)
NOT_OURS = frozenset({"node_modules", "assets", "build", "dist", "site", "var", "__pycache__"})
"""Folders that .gitignore names, beside hidden ones."""
HIDDEN = frozenset({".github", ".ci"})


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in NOT_OURS or (path.name.startswith(".") and path.name not in HIDDEN):
            continue
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _marked_line(path: Path) -> int | None:
    content = path.read_bytes()
    mark = MARK.search(content)
    return content.count(b"\n", 0, mark.start()) + 1 if mark else None


def test_no_file_has_the_marks_of_an_unfinished_merge() -> None:
    lines = {path.relative_to(ROOT): _marked_line(path) for path in _files(ROOT)}
    assert len(lines) > 1_000
    assert {str(path): line for path, line in lines.items() if line is not None} == {}


def test_the_marks_are_known(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\n" + 7 * b"<" + b" HEAD\nb\n=======\nc\n" + 7 * b">" + b" other\n")
    assert _marked_line(file) == 2
    file.write_bytes(b"Title\n=======\n>>> 7\n")
    assert _marked_line(file) is None
