"""How tools are used, as an operator reads it: counts, percentiles, days on disk."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cordboard.observe.metrics import Metrics
from cordboard.observe.tool_usage import MOST_CELLS, Cell, ToolUsage, as_json, from_json
from cordboard.observe.tool_usage_files import ToolUsageFiles

DAY = datetime.date(2026, 11, 21)


class Calendar:
    """A clock that shows the day a test wants."""

    def __init__(self, day: datetime.date = DAY) -> None:
        self.day = day

    def __call__(self) -> datetime.date:
        return self.day


@given(st.lists(st.integers(0, 700_000), min_size=1, max_size=300))
def test_percentiles_are_within_a_bucket_of_the_truth(waits: list[int]) -> None:
    cell = Cell()
    for wait in waits:
        cell.take("ok", wait, "run")
    ordered = sorted(waits)
    for share in (0.5, 0.95):
        found = cell.percentile_ms(share)
        exact = ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)]
        assert found is not None
        if exact <= 600_000:
            assert exact / 1.21 - 1 <= found <= exact * 1.21 + 1
        assert found <= max(waits)


def test_what_is_counted_and_what_is_timed() -> None:
    usage = ToolUsage(Calendar())
    for status, source in [
        ("ok", "run"), ("ok", "cache"), ("error", "run"), ("timeout", "run"),
        ("refused", "run"), ("cancelled", "run"), ("ok", "joined"),
    ]:  # fmt: skip
        usage.record("demo", "find", status, 0.2, source)
    usage.record("other", "find", "ok", 5.0)
    figures = usage.day(DAY)["demo", "find"].figures()
    assert figures == {
        "calls": 7, "ok": 3, "errors": 1, "timeouts": 1, "refused": 1, "cancelled": 1, "cached": 1,
        "p50_ms": figures["p50_ms"], "p95_ms": 200, "longest_ms": 200,
    }  # fmt: skip
    assert figures["p50_ms"] == pytest.approx(200, rel=0.2)
    assert Cell().figures()["p50_ms"] is None


def test_one_day_tells_a_bounded_number_of_tools_apart() -> None:
    usage = ToolUsage(Calendar())
    for number in range(MOST_CELLS + 50):
        usage.record("demo", f"tool_{number}", "ok", 0.01)
    cells = usage.day(DAY)
    assert len(cells) == MOST_CELLS + 1
    assert cells["demo", "other"].figures()["calls"] == 50


def test_an_answer_is_counted_by_the_metrics_under_its_context() -> None:
    metrics = Metrics()
    metrics.tools.called("find", "ok", 0.1, context="demo")
    metrics.tools.called("find", "ok", 0.0, context="demo", source="cache")
    figures = metrics.usage.day(metrics.usage.today)["demo", "find"].figures()
    assert (figures["calls"], figures["cached"]) == (2, 1)


def test_a_hundred_thousand_answers_take_no_more_room_than_eighty() -> None:
    usage = ToolUsage(Calendar())
    for number in range(100_000):
        usage.record("demo", "find", "ok", number / 1000)
    (cell,) = usage.day(DAY).values()
    assert len(cell.buckets) <= 80


async def test_days_are_kept_on_disk_and_counted_on(tmp_path: Path) -> None:
    calendar = Calendar(DAY - datetime.timedelta(days=1))
    usage = ToolUsage(calendar)
    files = ToolUsageFiles(usage, tmp_path)
    await files.start()
    usage.record("demo", "find", "ok", 0.1)
    calendar.day = DAY
    usage.record("demo", "find", "error", 0.3)
    await files.close()
    assert sorted(path.name for path in (tmp_path / "usage").iterdir()) == [
        "2026-11-20.json", "2026-11-21.json"
    ]  # fmt: skip
    assert usage.days() == (DAY,), "yesterday is not held any more"

    again = ToolUsage(calendar)
    files = ToolUsageFiles(again, tmp_path)
    await files.start()
    again.record("demo", "find", "ok", 0.2)
    again.record("shop", "buy", "ok", 1.0)
    answer = await files.report(7)
    assert (answer["from"], answer["to"]) == ("2026-11-15", "2026-11-21")
    rows = [(row["day"], row["context"], row["tool"], row["calls"]) for row in answer["rows"]]
    assert rows == [
        ("2026-11-20", "demo", "find", 1), ("2026-11-21", "demo", "find", 2),
        ("2026-11-21", "shop", "buy", 1),
    ]  # fmt: skip
    totals = {row["tool"]: row for row in answer["tools"]}
    assert (totals["find"]["calls"], totals["find"]["errors"]) == (3, 1)
    assert totals["find"]["longest_ms"] == 300
    assert [row["tool"] for row in (await files.report(1, "shop"))["rows"]] == ["buy"]
    assert (await files.report(1, "nobody"))["rows"] == []
    await files.close()
    await files.close()


async def test_once_a_minute_what_has_changed_is_written(tmp_path: Path) -> None:
    usage = ToolUsage(Calendar())
    files = ToolUsageFiles(usage, tmp_path, write_seconds=0.01)
    await files.start()
    usage.record("demo", "find", "ok", 0.1)
    path = tmp_path / "usage" / "2026-11-21.json"

    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110 - it is written in a thread
            await asyncio.sleep(0.01)
    assert from_json(orjson.loads(path.read_bytes())).keys() == {("demo", "find")}
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert [each.stat().st_mode & 0o777 for each in (path.parent, path)] == [0o700, 0o600]
    await files.close()


async def test_a_file_that_cannot_be_understood_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "usage" / "2026-11-21.json"
    path.parent.mkdir()
    path.write_text('{"schema": 1, "tools": [{"tool": 1}]}')
    (path.parent / "2026-11-20.json").write_text("no JSON")
    usage = ToolUsage(Calendar())
    files = ToolUsageFiles(usage, tmp_path)
    with capture_logs() as log:
        await files.start()
        usage.record("demo", "find", "ok", 0.1)
        await files.close()
        assert (await files.report(7))["tools"][0]["calls"] == 1
    assert [entry["event"] for entry in log] == ["tool_usage_not_understood"] * 2
    assert path.with_suffix(".unreadable").exists()


class CountingFiles(ToolUsageFiles):
    attempts = 0

    def _write(self, *what: Any) -> None:
        self.attempts += 1
        super()._write(*what)


async def test_a_folder_that_cannot_be_written_is_told_once_and_harms_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "usage").write_text("a file where the folder should be")
    usage = ToolUsage(Calendar())
    files = CountingFiles(usage, tmp_path, write_seconds=0.001)

    with capture_logs() as log:
        await files.start()
        usage.record("demo", "find", "ok", 0.1)
        async with asyncio.timeout(60):
            while files.attempts < 3:  # noqa: ASYNC110 - in a thread
                await asyncio.sleep(0.001)
        await files.close()
    assert [entry["event"] for entry in log].count("tool_usage_not_written") == 1
    assert usage.changed == {DAY}


async def test_days_are_kept_for_ninety_days(tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    folder.mkdir()
    old, kept = DAY - datetime.timedelta(days=90), DAY - datetime.timedelta(days=89)
    for day in (old, kept):
        (folder / f"{day}.json").write_bytes(orjson.dumps(as_json(day, {})))
    (folder / "notes.json").write_text("an operator's own")
    files = ToolUsageFiles(ToolUsage(Calendar()), tmp_path)
    await files.start()
    await files.close()
    assert {path.name for path in folder.iterdir()} == {f"{kept}.json", "notes.json"}
