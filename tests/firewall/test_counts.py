"""Counts by hour and day, their bounds, and the file that keeps them over a restart."""

from __future__ import annotations

import asyncio
import datetime
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

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


def call(counts: Counts, number: str, context: str, at: datetime.datetime) -> None:
    """A call that ends at once."""
    counts.end(counts.begin("in", number, context, at), at)


def test_calls_minutes_and_cost_add_up_for_caller_context_trunk_and_total() -> None:
    counts = Counts()
    live = counts.begin("in", KARI, "demo", NINE, lambda _: 0.5, "PJSIP/acme")
    counts.settle(live, after(minutes=3))
    assert of_kari(counts, after(minutes=3)) == Used(1, 1, 3, 0.5, live=1), "a live call counts"
    counts.end(live, after(minutes=6))
    counts.end(live, after(minutes=9))
    counts.settle(live, after(minutes=9))
    call(counts, "", "demo", after(minutes=10))
    assert of_kari(counts, after(minutes=20)) == Used(1, 1, 6, 0.5)
    assert counts.used("in", "context", "demo", after(minutes=20)) == Used(2, 2, 6, 0.5)
    assert counts.used("in", "total", "", after(minutes=20)) == Used(2, 2, 6, 0.5)
    assert counts.used("in", "trunk", "PJSIP/acme", after(minutes=20)) == Used(1, 1, 6, 0.5)
    assert counts.used("in", "caller", "", after(minutes=20)).calls == 1, "without a number"
    assert counts.used("out", "total", "", after(minutes=20)) == Used()
    assert counts.used("in", "trunk", "", after(minutes=20)) == Used(), "an unknown trunk is none"
    assert counts.names("trunk") == {"PJSIP/acme"}


def test_a_minute_slides_and_live_calls_are_those_of_this_moment() -> None:
    counts = Counts()
    lives = [counts.begin("in", KARI, "demo", after(seconds=second)) for second in (0, 30, 59)]
    assert (of_kari(counts, after(seconds=59)).calls_in_minute, of_kari(counts, NINE).live) == (
        3, 3,
    )  # fmt: skip
    assert of_kari(counts, after(seconds=90)).calls_in_minute == pytest.approx(1.5)
    assert of_kari(counts, after(seconds=180)).calls_in_minute == 0
    for live in lives:
        counts.end(live, after(seconds=200))
        counts.end(live, after(seconds=200))
    assert of_kari(counts, after(seconds=200)).live == 0


def test_minutes_over_midnight_belong_to_the_day_on_which_they_were_used() -> None:
    counts = Counts()
    live = counts.begin("in", KARI, "demo", after(hours=14, minutes=50))
    for second in range(0, 30 * 60 + 1, 5):
        counts.settle(live, after(hours=14, minutes=50, seconds=second))
    step = 5 / 60  # it belongs to the moment when it is settled
    assert of_kari(counts, after(hours=15, minutes=20)).minutes == pytest.approx(20, abs=step)
    counts.end(live, after(hours=15, minutes=21))
    assert of_kari(counts, after(hours=15, minutes=21)).minutes == pytest.approx(21, abs=step)


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_clock_that_is_put_forward_or_back_takes_and_gives_no_minutes(day: str) -> None:
    """An hour that is left out, and one that comes twice."""
    oslo = ZoneInfo("Europe/Oslo")
    began = datetime.datetime.fromisoformat(f"{day}T00:30:00+00:00")
    counts = Counts()
    live = counts.begin("in", KARI, "demo", began.astimezone(oslo))
    end = began + datetime.timedelta(minutes=60)
    counts.end(live, end.astimezone(oslo))
    used = of_kari(counts, end.astimezone(oslo))
    assert (used.minutes, used.calls) == (pytest.approx(60), 1)
    assert used.calls_in_hour > 0


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 4_000)), max_size=30))
def test_no_split_of_minutes_over_calls_gets_any_for_nothing(
    calls: list[tuple[int, int]],
) -> None:
    """Over the nights on which the clock changes, settled at any time: each second counts once."""
    oslo = ZoneInfo("Europe/Oslo")
    first = datetime.datetime(2026, 10, 24, 22, 0, tzinfo=datetime.UTC)
    counts, total = Counts(), 0
    for begin, seconds in calls:
        began = first + datetime.timedelta(seconds=begin)
        live = counts.begin("out", KARI, "demo", began.astimezone(oslo))
        for at in (seconds // 3, seconds // 2):
            counts.settle(live, (began + datetime.timedelta(seconds=at)).astimezone(oslo))
        counts.end(live, (began + datetime.timedelta(seconds=seconds)).astimezone(oslo))
        total += seconds
    last = (first + datetime.timedelta(hours=4)).astimezone(oslo)
    used = counts.used("out", "caller", KARI, last)
    assert used.minutes * 60 == pytest.approx(total)
    assert (used.calls, used.live) == (len(calls), 0)


def test_an_hour_slides_and_a_day_ends_at_midnight() -> None:
    counts = Counts()
    for minute in (0, 20, 40):
        call(counts, KARI, "demo", after(minutes=minute))
    assert of_kari(counts, after(minutes=59)).calls_in_hour == 3
    assert of_kari(counts, after(minutes=90)).calls_in_hour == pytest.approx(1.5)
    assert of_kari(counts, after(hours=2)).calls_in_hour == 0
    assert of_kari(counts, after(hours=14)).calls == 3
    assert of_kari(counts, after(hours=15)) == Used(), "the next day"


def test_an_hour_before_midnight_counts_for_the_hour_only() -> None:
    counts = Counts()
    call(counts, KARI, "demo", after(hours=14, minutes=30))
    assert of_kari(counts, after(hours=15)) == Used(calls_in_hour=1)


def test_callers_are_bounded_and_their_numbers_are_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts_module, "MOST_CALLERS", 100)
    counts = Counts()
    call(counts, KARI, "demo", NINE)
    for number in range(10_000):
        call(counts, f"+47{number:08}", "demo", NINE)
        call(counts, "+4722999999", "demo", NINE)
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
        call(counts, KARI, "demo", after(hours=hour))
    (hours,) = (each for key, each in counts._by_key.items() if key[1] == "caller")
    assert len(hours.hours) <= 25


ZONES = ("Pacific/Auckland", "Asia/Kolkata", "Etc/UTC", "America/Los_Angeles")


@pytest.mark.parametrize("was", ZONES)
@pytest.mark.parametrize("is_", ZONES)
def test_another_zone_empties_no_cap_of_the_day(was: str, is_: str) -> None:
    """A call that began before the reload keeps its zone."""
    before, after_it = ZoneInfo(was), ZoneInfo(is_)
    noon = datetime.datetime(2026, 11, 23, 12, 30, tzinfo=after_it)
    counts = Counts()
    old = counts.begin("in", KARI, "demo", noon.astimezone(before))
    for minute in range(10):
        call(counts, KARI, "demo", noon + datetime.timedelta(minutes=minute))
    later = noon + datetime.timedelta(hours=1)
    counts.settle(old, later.astimezone(before))
    assert of_kari(counts, later) == Used(
        calls_in_hour=pytest.approx(5.5), calls=11, minutes=60, live=1
    )


def test_days_of_contexts_and_trunks_that_are_over_take_no_memory() -> None:
    counts = Counts()
    for day in range(30):
        for number in range(100):
            at = after(days=day)
            trunk = f"PJSIP/{day}-{number}"
            counts.end(counts.begin("out", KARI, f"context-{day}", at, trunk=trunk), at)
    talks = counts.begin("out", KARI, "talks", after(days=30), trunk="PJSIP/talks")
    call(counts, KARI, "demo", after(days=33))
    assert counts.names("trunk") == {"PJSIP/talks"}, "a live call is kept"
    assert counts.names("context") == {"talks", "demo"}
    counts.end(talks, after(days=33))
    call(counts, KARI, "demo", after(days=40))
    assert counts.names("trunk") == set()


@given(st.lists(st.integers(0, 3 * 24 * 60), max_size=60))
def test_a_day_has_exactly_its_calls(minutes: list[int]) -> None:
    counts, now = Counts(), NINE
    for minute in sorted(minutes):
        now = after(minutes=minute)
        call(counts, KARI, "demo", now)
    same_day = [m for m in minutes if after(minutes=m).date() == now.date()]
    assert of_kari(counts, now).calls == len(same_day)


async def run(counts: Counts, folder: Path, *, wanted: bool = True) -> None:
    """An engine's life."""
    store = CountStore(counts, folder, lambda: wanted, write_seconds=60)
    await store.start()
    call(counts, KARI, "demo", local())
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
    call(first, KARI, "demo", local())
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


async def test_money_and_trunks_survive_a_restart_also_those_of_a_call_that_talks(
    tmp_path: Path,
) -> None:
    """An engine that is killed writes nothing more: what was settled counts."""
    counts, noon = Counts(), local().replace(hour=12, minute=0, second=0)
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=60)
    await store.start()
    began = noon.timestamp()
    talks = counts.begin("out", KARI, "demo", noon, lambda at: (at - began) / 60, "PJSIP/acme")
    later = noon + datetime.timedelta(minutes=2)
    counts.settle(talks, later)
    await store.close()
    again = Counts()
    store = CountStore(again, tmp_path, lambda: True, write_seconds=60)
    await store.start()
    await store.close()
    expected = Used(1, 1, 2, 2)
    assert again.used("out", "trunk", "PJSIP/acme", later) == expected
    assert again.used("out", "caller", KARI, later) == expected


async def test_old_days_and_dropped_callers_leave_the_file(tmp_path: Path) -> None:
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=60)
    await store.start()
    call(counts, "+4722999999", "demo", local() - datetime.timedelta(days=3))
    call(counts, KARI, "demo", local())
    counts.dropped.add(counts.keys("in", KARI, "demo")[0])
    counts.changed = {each for each in counts.changed if each[0][1] != "caller"}
    await store.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        rows = database.execute("SELECT scope, calls FROM counts ORDER BY scope").fetchall()
    assert rows == [("context", 1), ("total", 1)]


async def test_old_days_leave_the_file_of_an_engine_without_caps(tmp_path: Path) -> None:
    await run(Counts(), tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        with database:
            database.execute("UPDATE counts SET hour = '2026-01-01T09:00' WHERE scope = 'caller'")
        store = CountStore(Counts(), tmp_path, lambda: False, write_seconds=0.01)
        await store.start()
        await until_scopes(database, "context", "total")
        await store.close()


async def test_old_days_leave_the_file_of_an_engine_without_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(Counts(), tmp_path)
    monkeypatch.setattr(firewall_store, "EXPIRE_SECONDS", 0.01)
    store = CountStore(Counts(), tmp_path, lambda: True, write_seconds=0.01)
    await store.start()
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        await until_scopes(database, "caller", "context", "total")
        monkeypatch.setattr(firewall_store, "_oldest", lambda: "2999-01-01")  # days later
        await until_scopes(database)
    await store.close()


async def until_scopes(database: sqlite3.Connection, *scopes: str) -> None:
    """Wait until the file has the counts of these scopes alone."""
    query = "SELECT DISTINCT scope FROM counts ORDER BY scope"
    async with asyncio.timeout(10):
        while [scope for (scope,) in database.execute(query)] != [*scopes]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_without_caps_nothing_is_written(tmp_path: Path) -> None:
    await run(Counts(), tmp_path, wanted=False)
    assert not (tmp_path / FILE).exists()


async def test_with_the_first_cap_the_day_so_far_is_written(tmp_path: Path) -> None:
    """Until then nothing is noted for the file, however long that is."""
    counts, wanted = Counts(), False
    store = CountStore(counts, tmp_path, lambda: wanted, write_seconds=0.01)
    await store.start()
    call(counts, KARI, "demo", local())
    async with asyncio.timeout(10):
        while counts.changed:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    wanted = True
    await store.close()
    again = Counts()
    await run(again, tmp_path)
    assert of_kari(again, local()).calls == 2


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
            call(counts, KARI, "demo", local())
            talks = counts.begin("in", KARI, "demo", local())
            other.execute("COMMIT")
            async with asyncio.timeout(10):
                while of_kari(counts, local()).calls < 4:  # noqa: ASYNC110 - another thread reads
                    await asyncio.sleep(0.01)
            assert of_kari(counts, local()).live == 1
            counts.end(talks, local())
            assert of_kari(counts, local()).live == 0, "the call counts under its new key"
            await store.close()
    assert log[0]["event"] == "firewall_counts_not_read"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    again = Counts()
    await run(again, tmp_path)
    assert again.used("in", "total", "", local()).calls == 5
    assert of_kari(again, local()).calls == 5, "of the time when the file was busy, too"
    assert "91234567" not in repr(vars(again))


async def test_what_is_held_while_the_file_is_busy_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(Counts(), tmp_path)
    monkeypatch.setattr(counts_module, "MOST_CALLERS", 50)
    monkeypatch.setattr(firewall_store, "BUSY_SECONDS", 0.01)
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=60)
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        await store.start()
        for number in range(500):
            call(counts, f"+47{number:08}", "demo", local())
        assert len(counts._numbers or ()) <= 50
        other.execute("COMMIT")
    await store.close()
    assert counts._numbers is None, "numbers are held for no longer"
    assert counts.used("in", "caller", "+4700000499", local()).calls == 1
    assert counts.used("in", "total", "", local()).calls == 501


async def test_a_disk_that_refuses_stops_no_count(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    counts = Counts()
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=0.01)
    with capture_logs() as log:
        await store.start()
        call(counts, KARI, "demo", local())
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
