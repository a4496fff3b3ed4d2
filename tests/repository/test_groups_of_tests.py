"""Which tests must not run beside each other, in the two processes of `make test`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import FIRST, group_of

ROOT = Path(__file__).parents[2]
STARTS_AN_ENGINE = re.compile(
    r'import .*\bEngine\b|sweep_orphans\(|PROGRAM,$|"cordboard", "run"', re.MULTILINE
)
IN_REAL_TIME = re.compile(r"\bSipPhone\b|\bAsteriskInstance\b|\bSimulatedCaller\b")


@pytest.mark.parametrize("kind", [STARTS_AN_ENGINE, IN_REAL_TIME], ids=["engines", "real time"])
def test_none_is_left_out(kind: re.Pattern[str]) -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and kind.search(path.read_text())
    ]
    assert len(found) > 4
    assert [path for path in found if group_of(path) != "first"] == []


def test_whoever_goes_first_is_there() -> None:
    assert [beginning for beginning in FIRST if not (ROOT / beginning).exists()] == []
