"""`bench admin`: its calls talk, its viewers see them, its person is served."""

from __future__ import annotations

from typing import Any, cast

import pytest
from bench import admin
from bench.options import Options


async def test_calls_viewers_and_person_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "RECORDED", 20)
    monkeypatch.setattr(admin, "SETTLE", 0.5)
    monkeypatch.setattr(admin, "CROWDS", ((0, False), (1, True)))
    for seconds in (7, 20, 60):  # a busy machine does less in the same time
        options = Options(only=("live",), calls=2, seconds=seconds)
        report = await admin.measure(lambda text: None, options)
        nobody, crowd = (cast("dict[str, Any]", each) for each in report.figures.values())
        measured = ("rows_ms", "events_ms", "searches_ms", "checks_ms")
        if all(crowd["seen"][each] for each in measured):
            break
    assert (nobody["counted"]["calls"], crowd["counted"]["calls"]) == (2, 2)
    assert nobody["cores"] > 0
    assert nobody["seen"]["frames"] == 0
    seen = crowd["seen"]
    assert seen["rows_ms"]
    assert seen["events_ms"]
    assert min(*seen["rows_ms"], *seen["events_ms"]) > -2, "a clock of ms"
    assert seen["size"] > 0
    assert seen["searches_ms"]
    assert seen["checks_ms"]
    assert not seen["refused"]
    assert len(report.targets) == 3


def test_the_checked_configuration_has_its_lines() -> None:
    assert admin.configuration_to_check().count("\n") == admin.LINES
