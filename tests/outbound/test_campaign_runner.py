"""Campaigns on a disk that fails for a while: nobody is lost, nobody is called twice, and it is
said once."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cordboard.calls.callbacks import local_now
from cordboard.config.sections.outbound import Outbound
from cordboard.firewall.policy import Policy
from cordboard.outbound.campaigns import store as campaign_store
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.runner import CampaignRunner
from cordboard.outbound.campaigns.store import CALLBACKS, CampaignSettings, CampaignStore
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import OutboundCalls

from .test_campaign_store import ALWAYS, running
from .test_placing import NUMBERS, Town


def people(count: int) -> list[Row]:
    return [Row(number, each, "Europe/Oslo", {}) for number, each in enumerate(NUMBERS[:count])]


@asynccontextmanager
async def campaigns(path: Path, town: Town) -> AsyncIterator[list[EventDict]]:
    """Run campaigns, and give what is logged."""
    runner = CampaignRunner(lambda: path, town.calls, print, look_seconds=0.01)
    with capture_logs() as logs:
        runner.start()
        yield logs
        await runner.close()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - another thread writes
            await asyncio.sleep(0.01)


def states(store: CampaignStore) -> list[tuple[str, str, int]]:
    rows = store.results("spring")
    return [(row["state"], row["outcome"], row["attempts"]) for row in rows]


def said(logs: list[EventDict]) -> list[str]:
    events = ("campaigns_stopped", "campaigns_go_on", "campaigns_failed", "campaign_results_lost")
    return [line["event"] for line in logs if line["event"] in events]


@pytest.mark.parametrize(
    "refused",
    ["INSERT ON attempt", "UPDATE OF attempts ON person", "UPDATE OF ended ON attempt"],
    ids=["begin", "begin and give back", "finish"],
)
async def test_a_disk_that_refuses_a_write_stops_calls_and_then_they_go_on(
    tmp_path: Path, refused: str
) -> None:
    town, path = Town(tmp_path / "c.db"), tmp_path / "c.db"
    with closing(CampaignStore(path)) as store, closing(sqlite3.connect(path)) as disk:
        running(store, CampaignSettings("demo", concurrency=1, **ALWAYS), people(3))
        disk.execute(
            f"CREATE TRIGGER full BEFORE {refused} BEGIN SELECT RAISE(ABORT, 'the disk is full');"
            " END"
        )
        async with campaigns(path, town) as logs:
            await until(lambda: said(logs))
            await asyncio.sleep(0.1)  # some looks
            assert len(town.dialled) <= 1, "one at a time, and how it ended is not written yet"
            disk.execute("DROP TRIGGER full")
            await until(lambda: states(store) == [("done", "answered", 1)] * 3)
    assert sorted(town.dialled) == list(NUMBERS[:3])
    assert said(logs) == ["campaigns_stopped", "campaigns_go_on"]


async def test_an_end_that_was_not_written_is_written_at_the_stop(tmp_path: Path) -> None:
    town, path = Town(tmp_path / "c.db"), tmp_path / "c.db"
    with closing(CampaignStore(path)) as store, closing(sqlite3.connect(path)) as disk:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        disk.execute(
            "CREATE TRIGGER full BEFORE UPDATE OF ended ON attempt BEGIN"
            " SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        runner = CampaignRunner(lambda: path, town.calls, print, look_seconds=0.01)
        runner.start()
        await until(lambda: town.dialled and not town.calls.live)
        await runner.pause()
        disk.execute("DROP TRIGGER full")
        await runner.close()
        assert states(store) == [("done", "answered", 1)]


async def test_a_file_that_is_none_today_is_worked_off_when_it_is_mended(tmp_path: Path) -> None:
    town, path = Town(tmp_path / "c.db"), tmp_path / "c.db"
    path.write_text("not a database, but long enough to be taken for one" * 20)
    async with campaigns(path, town) as logs:
        await until(lambda: said(logs))
        path.unlink()
        with closing(CampaignStore(path)) as store:
            running(store, CampaignSettings("demo", **ALWAYS), people(1))
            await until(lambda: states(store) == [("done", "answered", 1)])
    assert said(logs) == ["campaigns_stopped", "campaigns_go_on"]


async def test_a_killed_engines_calls_are_settled_though_the_file_was_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, path = Town(tmp_path / "c.db"), tmp_path / "c.db"
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(2))
        [killed] = store.claim(1, 4e9)
        assert store.begin(killed.call_id)
        monkeypatch.setattr(campaign_store, "BUSY_SECONDS", 0.02)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with campaigns(path, town) as logs:
                await until(lambda: said(logs))
                other.execute("COMMIT")
                await until(lambda: len(town.dialled) == 1 and not town.calls.live)
        assert states(store) == [("done", "interrupted", 1), ("done", "answered", 1)]


async def test_a_refusal_for_now_puts_the_campaign_off_and_no_promised_call_back(
    tmp_path: Path,
) -> None:
    """Person by person, a large campaign would use the room of all looks up."""
    path = tmp_path / "c.db"
    town = Town(path, outgoing={"per_context": {"calls_per_day": 1}})
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", concurrency=1, **ALWAYS), people(3))
        promised = Row(0, NUMBERS[3], "Europe/Oslo", {})
        settings = CampaignSettings("plain", **ALWAYS)
        async with campaigns(path, town):
            await until(lambda: store.status("spring")[0]["waits"])
            assert store.promise(f"{CALLBACKS}plain", settings, promised, 0.0)
            await until(lambda: NUMBERS[3] in town.dialled)
        waits = store.status("spring")[0]["waits"]
        assert waits.startswith("not_now: cap.context")
        assert sorted(states(store)) == [
            ("done", "answered", 1), ("pending", "", 0), ("pending", "", 0),
        ]  # fmt: skip
        with closing(sqlite3.connect(path)) as file:
            untouched = file.execute("SELECT count(*) FROM person WHERE not_before = 0").fetchone()
        assert untouched == (1,), "one is called, one was refused, and the next was not asked for"


async def test_a_refusal_of_one_number_puts_off_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    town = Town(path, outgoing={"per_caller": {"calls_per_day": 1}})
    town.counts.begin("out", NUMBERS[0], "demo", local_now())
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", concurrency=1, **ALWAYS), people(3))
        async with campaigns(path, town):
            await until(lambda: len(town.dialled) == 2)
    assert town.dialled == list(NUMBERS[1:3])


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
async def test_people_and_numbers_are_kept_no_longer_also_while_calls_are_off(
    tmp_path: Path, enabled: bool
) -> None:
    path, long_ago = tmp_path / "c.db", time.time() - 90 * 86_400
    town = Town(path)
    town.config = town.config.model_copy(
        update={"outbound": Outbound(enabled=enabled, campaigns=path)}
    )
    policy = Policy(town.config.firewall)
    calls = OutboundCalls(
        lambda: town.config, town.place, lambda: policy, town.counts, town.is_blocked,
        PlacedCalls(path),
    )  # fmt: skip
    with closing(CampaignStore(path)) as store, closing(sqlite3.connect(path)) as disk:
        for name in ("spring", "Callbacks-old"):  # earlier versions took such a name
            assert not list(store.add_people(store.add(name, CampaignSettings("demo")), people(1)))
        store.block([NUMBERS[1]])
        store.unblock(NUMBERS[1])
        with disk:
            disk.execute("UPDATE campaign SET created = ?", (long_ago,))
            disk.execute("UPDATE block_change SET at = ?", (long_ago,))
        runner = CampaignRunner(
            lambda: path if enabled else None, calls, print,
            keep_days=lambda: 30, look_seconds=0.01,
        )  # fmt: skip
        runner.start()
        await until(lambda: not store.status())
        await runner.close()
        assert disk.execute("SELECT count(*) FROM block_change").fetchone() == (0,)
        assert disk.execute("SELECT count(*) FROM person").fetchone() == (0,)


async def test_nobody_is_called_from_a_file_that_was_replaced(tmp_path: Path) -> None:
    """As by a backup: what is cancelled or blocked in the new file is not so in the old one."""
    town, path = Town(tmp_path / "c.db"), tmp_path / "c.db"
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        async with campaigns(path, town) as logs:
            await until(lambda: states(store) == [("done", "answered", 1)])
            CampaignStore(tmp_path / "backup.db").close()
            (tmp_path / "backup.db").rename(path)
            assert not list(store.add_people(1, people(3)[1:]))
            await until(lambda: said(logs))
            await asyncio.sleep(0.1)  # some looks
            problem = next(line["error"] for line in logs if line["event"] == "campaigns_stopped")
        assert problem == f"{path} was replaced or deleted; restart the engine"
    assert town.dialled == list(NUMBERS[:1])


async def test_a_reload_moves_no_campaigns(tmp_path: Path) -> None:
    """The path waits for the next start (`config.changes`): else one part of the engine would look
    here and another there."""
    path, later = tmp_path / "c.db", tmp_path / "later.db"
    town = Town(path)
    found = [path]
    runner = CampaignRunner(lambda: found[-1], town.calls, print, look_seconds=0.01)
    found.append(later)
    with closing(CampaignStore(path)) as store:
        running(store, CampaignSettings("demo", **ALWAYS), people(1))
        runner.start()
        await until(lambda: states(store) == [("done", "answered", 1)])
    await runner.close()
    assert not later.exists()
