"""The order of the tests, and which must not run beside each other in the two processes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.conftest import FIRST, SLOW, group_of, shuffled

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
    assert [beginning for beginning in FIRST + SLOW if not (ROOT / beginning).exists()] == []


def test_an_order_can_be_had_again_and_keeps_files_whole() -> None:
    names = [f"tests/{file}.py::test_{number}" for file in "abcdef" for number in range(9)]
    items = [cast(pytest.Item, SimpleNamespace(nodeid=name)) for name in names]
    order = [item.nodeid for item in shuffled(items, 7)]
    assert order == [item.nodeid for item in shuffled(items, 7)]
    assert order != [item.nodeid for item in shuffled(items, 8)]
    assert sorted(order) == names
    files = [name.partition("::")[0] for name in order]
    assert len(list(itertools.groupby(files))) == 6
    assert list(dict.fromkeys(files)) != sorted(set(files))
    assert order[:9] != sorted(order[:9])
