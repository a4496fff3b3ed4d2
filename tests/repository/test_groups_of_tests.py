"""Which tests must not run beside each other, in the two processes of `make test`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import FIRST, group_of

ROOT = Path(__file__).parents[2]
STARTS_AN_ENGINE = re.compile(
    r'import .*\bEngine\b|sweep_orphans\(|PROGRAM,$|"cordboard", "run"', re.MULTILINE
)


def test_whoever_starts_engines_or_looks_for_their_orphans_is_in_one_group() -> None:
    starting = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and STARTS_AN_ENGINE.search(path.read_text())
    ]
    assert len(starting) > 4
    assert [path for path in starting if group_of(path) != "first"] == []


def test_whoever_goes_first_is_there() -> None:
    assert [beginning for beginning in FIRST if not (ROOT / beginning).exists()] == []
