"""Counts by hour and day, their bounds, and the file that keeps them over a restart."""

from __future__ import annotations

import asyncio
import datetime
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cordboard.firewall import counts as counts_module
from cordboard.firewall import store as firewall_store
from cordboard.firewall.counts import Counts, Used
from cordboard.firewall.store import FILE, CountStore

NINE = datetime.datetime(2026, 11, 23, 9, 0, tzinfo=datetime.UTC)
KARI = "+4791234567"


def after(**time: float) -> datetime.datetime:
    return NINE + datetime.timedelta(**time)


def of_kari(counts: Counts, now: datetime.datetime) -> Used:
    return counts.used("in", "caller", KARI, now)


def test_calls_minutes_and_cost_add_up_for_caller_context_and_total() -> None:
    counts = Counts()
    live = counts.begin("in", KARI, "demo", NINE, lambda: 0.5)
    assert of_kari(counts, after(minutes=3)) == Used(1, 1, 3, 0.5), "a live call counts"
    counts.end(live, after(minutes=6))
    counts.end(live, after(minutes=9))
    counts.act("in", "", "demo", after(minutes=10))
    assert of_kari(counts, after(minutes=20)) == Used(1, 1, 6, 0.5)
    assert counts.used("in", "context", "demo", after(minutes=20)) == Used(2, 2, 6, 0.5)
    assert counts.used("in", "total", "", after(minutes=20)) == Used(2, 2, 6, 0.5)
    assert counts.used("in", "caller", "", after(minutes=20)).calls == 1, "without a number"
    assert counts.used("out", "total", "", after(minutes=20)) == Used()


def test_an_hour_slides_and_a_day_ends_at_midnight() -> None:
    counts = Counts()
    for minute in (0, 20, 40):
        counts.act("in", KARI, "demo", after(minutes=minute))
    assert of_kari(counts, after(minutes=59)).calls_in_hour == 3
    assert of_kari(counts, after(minutes=90)).calls_in_hour == pytest.approx(1.5)
    assert of_kari(counts, after(hours=2)).calls_in_hour == 0
    assert of_kari(counts, after(hours=14)).calls == 3
    assert of_kari(counts, after(hours=15)) == Used(), "the next day"


def test_an_hour_before_midnight_counts_for_the_hour_only() -> None:
    counts = Counts()
    counts.act("in", KARI, "demo", after(hours=14, minutes=30))
    assert of_kari(counts, after(hours=15)) == Used(calls_in_hour=1)


def test_callers_are_bounded_and_their_numbers_are_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts_module, "MOST_CALLERS", 100)
    counts = Counts()
    counts.act("in", KARI, "demo", NINE)
    for number in range(10_000):
        counts.act("in", f"+47{number:08}", "demo", NINE)
        counts.act("in", "+4722999999", "demo", NINE)
    assert of_kari(counts, NINE).calls == 0, "the oldest was dropped"
    assert counts.used("in", "caller", "+4722999999", NINE).calls == 10_000
    assert counts.used("in", "total", "", NINE).calls == 20_001
    rows, gone = counts.take_rows()
    assert len(rows) == 102
    assert len(gone) == 9_902
    assert "22999999" not in repr(vars(counts))


def test_old_hours_are_dropped() -> None:
    counts = Counts()
    for hour in range(24 * 30):
        counts.act("in", KARI, "demo", after(hours=hour))
    (hours,) = (each for key, each in counts._by_key.items() if key[1] == "caller")
    assert len(hours) <= 25


@given(st.lists(st.integers(0, 3 * 24 * 60), max_size=60))
def test_a_day_has_exactly_its_calls(minutes: list[int]) -> None:
    counts, now = Counts(), NINE
    for minute in sorted(minutes):
        now = after(minutes=minute)
        counts.act("in", KARI, "demo", now)
    same_day = [m for m in minutes if after(minutes=m).date() == now.date()]
    assert of_kari(counts, now).calls == len(same_day)


async def run(counts: Counts, folder: Path, *, wanted: bool = True) -> None:
    """An engine's life."""
    store = CountStore(counts, folder, lambda: wanted, write_seconds=60)
    await store.start()
    counts.act("in", KARI, "demo", local())
    await store.close()


def local() -> datetime.datetime:
    return datetime.datetime.now().astimezone()


async def test_counts_survive_a_restart_without_a_number_on_disk(tmp_path: Path) -> None:
    for engine in range(1, 4):
        counts = Counts()
        await run(counts, tmp_path / "data")
        assert of_kari(counts, local()).calls == engine
    file = tmp_path / "data" / FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert b"91234567" not in file.read_bytes()


async def test_a_killed_engine_loses_what_was_not_written_yet_only(tmp_path: Path) -> None:
    first = Counts()
    store = CountStore(first, tmp_path, lambda: True, write_seconds=0.01)
    await store.start()
    first.act("in", KARI, "demo", local())
    async with asyncio.timeout(10):
        while first.changed or not (tmp_path / FILE).exists():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    await asyncio.to_thread(lambda: None)
    second = Counts()
    async with asyncio.timeout(10):
        while of_kari(second, local()).calls == 0:
            second = Counts()
            beside = CountStore(second, tmp_path, lambda: False)
            await beside.start()
            await beside.close()
    assert of_kari(second, local()).calls == 1
    await store.close()


async def test_old_days_and_dropped_callers_leave_the_file(tmp_path: Path) -> None:
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=60)
    await store.start()
    counts.act("in", "+4722999999", "demo", local() - datetime.timedelta(days=3))
    counts.act("in", KARI, "demo", local())
    counts.dropped.add(counts.keys("in", KARI, "demo")[0])
    counts.changed = {each for each in counts.changed if each[0][1] != "caller"}
    await store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        rows = database.execute("SELECT scope, calls FROM counts ORDER BY scope").fetchall()
    assert rows == [("context", 1), ("total", 1)]


async def test_without_caps_nothing_is_written(tmp_path: Path) -> None:
    await run(Counts(), tmp_path, wanted=False)
    assert not (tmp_path / FILE).exists()


async def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database" * 1_000)
    with capture_logs() as log:
        await run(Counts(), tmp_path)
    assert [entry["event"] for entry in log] == ["firewall_counts_damaged"]
    counts = Counts()
    await run(counts, tmp_path)
    assert of_kari(counts, local()).calls == 2


async def test_a_busy_file_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        await run(Counts(), tmp_path)
    monkeypatch.setattr(firewall_store, "BUSY_SECONDS", 0.01)
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=0.01)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with capture_logs() as log:
            await store.start()
            counts.act("in", KARI, "demo", local())
            other.execute("COMMIT")
            async with asyncio.timeout(10):
                while of_kari(counts, local()).calls != 2:  # noqa: ASYNC110 - another thread reads
                    await asyncio.sleep(0.01)
            await store.close()
    assert log[0]["event"] == "firewall_counts_not_read"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    again = Counts()
    await run(again, tmp_path)
    assert again.used("in", "total", "", local()).calls == 4


async def test_a_disk_that_refuses_stops_no_count(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=0.01)
    with capture_logs() as log:
        await store.start()
        counts.act("in", KARI, "demo", local())
        async with asyncio.timeout(10):
            while not any(e["event"] == "firewall_counts_not_written" for e in log):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        (tmp_path / FILE).rmdir()
        await store.close()
    assert of_kari(counts, local()).calls == 1
    assert sum(entry["event"] == "firewall_counts_not_written" for entry in log) == 1
    again = Counts()
    await run(again, tmp_path)
    assert of_kari(again, local()).calls == 2
