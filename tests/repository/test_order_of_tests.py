"""The order of the tests, and which of them take real time."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.conftest import REAL_TIME, SLOW, shuffled

ROOT = Path(__file__).parents[2]
IN_REAL_TIME = re.compile(r"\bSipPhone\b|\bAsteriskInstance\b|\bSimulatedCaller\b")


def test_what_takes_real_time_is_taken_first_and_is_not_among_the_fast_tests() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and IN_REAL_TIME.search(path.read_text())
    ]
    assert len(found) > 4
    assert [path for path in found if not path.startswith(REAL_TIME)] == []


def test_the_lists_name_what_is_there() -> None:
    assert [name for name in REAL_TIME + SLOW if not (ROOT / name).exists()] == []


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
