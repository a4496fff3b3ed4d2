"""`bench privacy`: one engine writes plain files, the other redacted and encrypted ones."""

from __future__ import annotations

from typing import cast

import pytest
from bench import privacy
from bench.options import Options


async def test_both_engines_take_the_calls_and_write_as_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(privacy, "ROUNDS", 1)
    monkeypatch.setattr(privacy, "SETTLE", 1.0)
    report = await privacy.measure(lambda text: None, Options(calls=2, seconds=8))
    cores = cast("dict[str, list[float]]", report.figures["cores"])
    assert set(cores) == {"plain", "private"}
    assert min(*cores["plain"], *cores["private"]) > 0
    assert len(report.targets) == 1
