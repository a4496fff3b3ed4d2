"""Alarms over time: who is told when, and what faults, reloads and restarts do to them."""

from __future__ import annotations

import asyncio
import datetime
import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cordboard import private_files
from cordboard.alarms import watch as watch_module
from cordboard.alarms.notices import KEEP_SECONDS, Notice, Notifier
from cordboard.alarms.readings import Calls, Live
from cordboard.alarms.states import Stage
from cordboard.alarms.watch import AlarmWatch
from cordboard.calls.post_call.job import PostCallJob
from cordboard.config.schema import Config
from cordboard.errors import NotThere
from cordboard.history.erased import ErasedCalls, key_of
from cordboard_testkit.emulators.mail_server import MailServer
from cordboard_testkit.free_ports import free_port

from .measured import NOON, call

BUSY = {"measure": "calls", "above": 0, "over_minutes": 60, "clear_minutes": 0, "note": "ring Bo"}
DOWN = {"server": "crm", "after_minutes": 2, "clear_minutes": 5}
TOOL = {"tool": "tell_ops", "arguments": {"what": "{alarm.text}", "all": "{alarm.calls}"}}


class Outbox:
    """Takes jobs, unless its disk is full."""

    def __init__(self) -> None:
        self.jobs: list[PostCallJob] = []
        self.full = False

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        if not self.full:
            known = {job.name for job in self.jobs}
            self.jobs += [job for job in jobs if job.name not in known]
        return not self.full

    @property
    def told(self) -> list[tuple[str, str]]:
        return [
            (job.call_id.removeprefix("alarm-"), job.name.rpartition("-")[2]) for job in self.jobs
        ]


class World:
    """An engine's alarms, whose clocks and calls a test sets."""

    def __init__(self, folder: Path, rules: dict[str, Any], **alarms: Any) -> None:
        self.file = folder / "admin" / "alarms.json"
        self.calls_folder = folder / "calls"
        self.monotonic = 1000.0
        self.wall = NOON.timestamp()
        self.calls: Calls | None = ()
        self.live = Live()
        self.outbox = Outbox()
        self.errors: list[str] = []
        self.use(rules, **alarms)
        self.watch = self.begin()

    def use(self, rules: dict[str, Any], **alarms: Any) -> None:
        """Reload."""
        given = {"tool": TOOL, **alarms, "rules": rules}
        self.config = Config.model_validate({"contexts": {"demo": {}}, "alarms": given})

    def begin(self) -> AlarmWatch:
        notifier = Notifier(
            lambda: self.config,
            self.outbox,
            clock=lambda: self.wall,
            monotonic=lambda: self.monotonic,
        )
        return AlarmWatch(
            lambda: self.config,
            lambda: self.live,
            lambda _: self.calls,
            notifier,
            self.file,
            ErasedCalls(self.calls_folder),
            self.errors.append,
            clock=lambda: self.monotonic,
            wall=lambda: self.wall,
        )

    async def passes(self, seconds: float = 0, *, looks: int = 1) -> None:
        """Let time pass, then look and tell."""
        for _ in range(looks):
            self.monotonic += seconds / looks
            self.wall += seconds / looks
            await self.watch.look()
            await self.watch.tell()

    def busy(self, *call_ids: str) -> None:
        now = datetime.datetime.fromtimestamp(self.wall).astimezone()
        self.calls = tuple((call_id, call(1, now=now)) for call_id in call_ids)

    def down(self, *, down: bool = True) -> None:
        self.live = Live(servers={"crm": "failed" if down else ""})

    def stage(self, name: str) -> str:
        return self.watch.alarm(name).state.stage.value


async def test_an_alarm_is_told_once_with_its_calls_and_once_when_it_is_over(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"busy": BUSY})
    await world.passes()
    assert world.outbox.told == []
    world.busy("a", "b")
    await world.passes(10, looks=5)
    assert world.outbox.told == [("busy", "firing")]
    (job,) = world.outbox.jobs
    assert job.tool == "tell_ops"
    assert job.arguments["all"] == ["b", "a"]
    assert "calls: 2 calls" in job.arguments["what"]
    world.calls = ()
    await world.passes(10, looks=3)
    assert world.outbox.told == [("busy", "firing"), ("busy", "over")]
    assert stat.S_IMODE(world.file.stat().st_mode) == 0o600


async def test_an_erased_call_is_in_no_alarm_no_notice_and_no_file(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.outbox.full = True
    world.busy("gone", "kept")
    await world.passes()
    await world.watch.forget({"gone"})
    assert world.watch.alarm("busy").reading.calls == ("kept",)
    assert "gone" not in world.file.read_text()
    world.outbox.full = False
    world.calls = None
    await world.passes(10)
    assert [job.arguments["all"] for job in world.outbox.jobs] == [["kept"]]
    before, world.watch = world.watch, world.begin()
    await world.watch.start()
    await world.watch.forget({"kept"})
    assert "kept" not in world.file.read_text()
    await before.close()
    await world.watch.close()


async def test_a_call_that_another_process_erases_leaves_the_alarms_and_comes_back_in_none(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"busy": BUSY}, remind_minutes=5)
    world.outbox.full = True
    world.busy("gone", "kept")
    await world.passes()
    assert "gone" in world.file.read_text()
    day = world.calls_folder / "2026-03-02"
    private_files.make_folder(world.calls_folder)
    ErasedCalls(world.calls_folder).add({key_of(day / "gone.jsonl", "gone"): 1}, "now")
    await world.passes(10)  # the index still has the call
    assert world.watch.alarm("busy").reading.calls == ("kept",)
    assert "gone" not in world.file.read_text()
    world.outbox.full = False
    await world.passes(300, looks=2)
    assert len(world.outbox.jobs) > 1, "a reminder"
    assert {tuple(job.arguments["all"]) for job in world.outbox.jobs} == {("kept",)}
    assert "gone" not in world.file.read_text()


async def test_a_call_that_was_erased_while_the_engine_was_off_is_forgotten_at_its_start(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.outbox.full = True
    world.busy("gone", "kept")
    await world.passes()
    private_files.make_folder(world.calls_folder)
    ErasedCalls(world.calls_folder).add({"2026-03-02/gone": 1}, "now")
    world.use({})  # the rule has gone too
    world.watch = world.begin()
    world.watch._load()
    await world.watch.look()
    assert "gone" not in world.file.read_text()
    assert "kept" in world.file.read_text()


async def test_a_server_that_flaps_is_told_of_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"crm": DOWN})
    for _ in range(10):  # never down for two minutes
        world.down()
        await world.passes(110)
        world.down(down=False)
        await world.passes(10)
    assert world.outbox.told == []
    world.down()
    await world.passes(10)
    await world.passes(120)
    for _ in range(10):  # never up for five minutes
        world.down(down=False)
        await world.passes(200)
        world.down()
        await world.passes(10)
    assert world.outbox.told == [("crm", "firing")]
    world.down(down=False)
    await world.passes(10)
    await world.passes(300)
    assert world.outbox.told == [("crm", "firing"), ("crm", "over")]


async def test_a_reload_keeps_the_states_and_forgets_what_is_no_rule_any_more(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, {"busy": BUSY, "crm": DOWN})
    world.busy("a")
    await world.passes()
    world.use({"busy": {**BUSY, "over_minutes": 30}, "more": BUSY})
    assert [each.name for each in world.watch.alarms()] == ["busy", "more"]
    assert world.stage("busy") == "firing"
    await world.passes(10)
    assert world.outbox.told == [("busy", "firing"), ("more", "firing")]
    with pytest.raises(NotThere):
        world.watch.alarm("crm")


async def test_a_restart_neither_tells_again_nor_forgets(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.busy("a")
    await world.passes()
    await world.watch.acknowledge("busy", "anna", "I see")
    world.watch = world.begin()
    await world.watch.start()
    try:
        await world.passes(60)
        assert world.outbox.told == [("busy", "firing")]
        alarm = world.watch.alarm("busy")
        assert alarm.acknowledged is not None
        assert (alarm.acknowledged.who, alarm.since[:10]) == ("anna", "2026-11-23")
        world.calls = ()
        await world.passes(60)
        assert world.outbox.told == [("busy", "firing"), ("busy", "over")]
        assert world.watch.alarm("busy").acknowledged is None
    finally:
        await world.watch.close()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"alarms": 5, "pending": [{}]}', b"\xff"])
async def test_a_damaged_file_costs_a_repeated_notice_and_no_more(
    tmp_path: Path, content: bytes
) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.file.parent.mkdir()
    world.file.write_bytes(content)
    with capture_logs() as logs:
        await world.watch.start()
    assert [line["event"] for line in logs] == ["alarms_not_read"]
    world.busy("a")
    await world.passes()
    await world.watch.close()
    assert world.outbox.told == [("busy", "firing")]


async def test_while_the_index_is_made_anew_no_alarm_changes(tmp_path: Path) -> None:
    quiet = {"measure": "calls", "below": 1, "over_minutes": 5, "clear_minutes": 0}
    world = World(tmp_path, {"busy": BUSY, "quiet": quiet})
    world.busy("a")
    await world.passes(3600, looks=2)
    world.busy("a")
    await world.passes()
    told = list(world.outbox.told)
    assert world.stage("busy") == "firing"
    world.calls = None
    await world.passes(3600, looks=10)
    assert (world.stage("busy"), world.outbox.told) == ("firing", told)
    assert "calls: 1 calls" in world.watch.alarm("busy").reading.text


async def test_a_clock_that_is_set_makes_no_alarm(tmp_path: Path) -> None:
    quiet = {"measure": "calls", "below": 1, "over_minutes": 60}
    world = World(tmp_path, {"quiet": quiet})
    world.monotonic += 4000
    world.wall += 4000
    world.busy("a")
    await world.passes(10)
    told: list[tuple[str, str]] = []
    assert world.outbox.told == told
    world.wall += 10 * 3600  # the same calls are old now
    with capture_logs() as logs:
        await world.passes(10)
    assert "clock_set" in [line["event"] for line in logs]
    await world.passes(3500, looks=10)
    assert world.outbox.told == told
    await world.passes(200)
    assert world.outbox.told == [*told, ("quiet", "firing")]


async def test_reminders_until_somebody_has_seen_it(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY}, remind_minutes=30)
    for _ in range(7):
        world.busy("a")
        await world.passes(600)
    assert [state for _, state in world.outbox.told] == ["firing"] * 3
    until = datetime.datetime.fromtimestamp(world.wall + 3100).astimezone().isoformat()
    assert await world.watch.acknowledge("busy", "anna", "", until)
    for _ in range(5):
        world.busy("a")
        await world.passes(600)
    assert len(world.outbox.told) == 3, "silent until then"
    world.busy("a")
    await world.passes(600)
    assert len(world.outbox.told) == 4
    await world.watch.acknowledge("busy", "anna", "")
    for _ in range(10):
        world.busy("a")
        await world.passes(600)
    assert len(world.outbox.told) == 4


async def test_only_an_alarm_that_fires_can_be_acknowledged(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    await world.passes()
    assert not await world.watch.acknowledge("busy", "anna", "")
    with pytest.raises(NotThere, match="there is no alarm 'nonsense'"):
        await world.watch.acknowledge("nonsense", "anna", "")


async def test_a_notice_waits_for_a_full_disk(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.outbox.full = True
    world.busy("a")
    await world.passes()
    assert world.outbox.told == []
    world.watch = world.begin()  # the engine is restarted meanwhile
    await world.watch.start()
    world.outbox.full = False
    await world.passes(10)
    await world.watch.close()
    assert world.outbox.told == [("busy", "firing")]


def email(port: int) -> dict[str, Any]:
    return {
        "server": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "cordboard@example.org",
        "to": ["ops@example.org"],
    }


async def test_e_mail_says_what_to_do_and_is_tried_again(tmp_path: Path) -> None:
    port = free_port()
    world = World(tmp_path, {"busy": BUSY}, email=email(port))
    world.busy("a", "b")
    with capture_logs() as logs:
        await world.passes()
        await world.passes(1)  # too early
    assert [line["event"] for line in logs].count("alarm_mail_not_sent") == 1
    assert world.outbox.told == [("busy", "firing")], "the tool does not wait for the mail"
    async with MailServer() as server:
        world.use({"busy": BUSY}, email=email(server.port))
        await world.passes(20, looks=3)
    (taken,) = server.mails
    assert taken.message["Subject"] == "ALARM busy"
    lines = taken.message.get_content().splitlines()
    assert lines[0] == "calls: 2 calls in the last 60 minutes; it fires above 0"
    assert "note: ring Bo" in lines
    assert lines[-3:] == ["Calls:", "b", "a"]
    assert world.outbox.told == [("busy", "firing")]


async def test_a_notice_that_nobody_takes_is_dropped_after_a_day(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY}, email=email(free_port()))
    world.busy("a")
    await world.passes()
    with capture_logs() as logs:
        await world.passes(KEEP_SECONDS + 60)
        await world.passes(2000)
    assert "alarm_not_told" in [line["event"] for line in logs]
    assert b'"ALARM' not in world.file.read_bytes()


async def test_a_notice_that_cannot_be_made_keeps_no_other_back(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    world.watch._pending.append(Notice({"name": "old"}, world.wall))  # of another version
    world.busy("a")
    await world.passes()
    assert world.outbox.told == [("busy", "firing")]
    assert world.errors == ["alarms"]
    await world.passes(KEEP_SECONDS + 1)
    assert [notice.facts["name"] for notice in world.watch._pending] == []


async def test_a_database_that_hangs_leaves_the_other_rules_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "READ_SECONDS", 0.05)
    world = World(tmp_path, {"busy": BUSY, "crm": {**DOWN, "after_minutes": 0}})
    go_on, began = threading.Event(), []

    def hang(_: int) -> Calls:
        began.append(1)
        go_on.wait()
        return ()

    world.watch._recent = hang
    world.down()
    await world.passes(10, looks=3)
    assert world.outbox.told == [("crm", "firing")]
    assert len(began) == 1, "no second thread while the first hangs"
    go_on.set()
    await world.watch.close()


async def test_a_failure_of_ours_is_counted_and_the_alarms_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "INTERVAL", 0.01)
    world = World(tmp_path, {"busy": BUSY})
    answers = iter([ValueError("broken")])

    def recent(_: int) -> Calls | None:
        for error in answers:
            raise error
        return world.calls

    world.watch._recent = recent
    world.busy("a")
    changed = asyncio.Event()
    world.watch.listeners.add(changed.set)
    with capture_logs() as logs:
        await world.watch.start()
        await asyncio.wait_for(changed.wait(), 30)
        await world.watch.close()
    assert world.errors == ["alarms"]
    assert any(line["event"] == "alarms_not_judged" and line["exc_info"] for line in logs)
    assert world.watch.alarm("busy").state.stage is Stage.FIRING


async def test_listeners_hear_of_changes_only(tmp_path: Path) -> None:
    world = World(tmp_path, {"busy": BUSY})
    heard: list[str] = []
    world.watch.listeners.add(lambda: heard.append(world.stage("busy")))
    await world.passes(10, looks=3)
    world.busy("a")
    await world.passes(10, looks=3)
    await world.watch.acknowledge("busy", "anna", "")
    assert heard == ["quiet", "firing", "firing"]


async def test_a_test_reaches_every_way(tmp_path: Path) -> None:
    async with MailServer() as server:
        world = World(tmp_path, {}, email=email(server.port))
        assert await world.watch.test() == {"tool": "", "email": ""}
        assert server.mails[0].message["Subject"] == "Test of alarms"
        server.fault = "refuses"
        world.outbox.full = True
        found = await world.watch.test()
    assert found["email"] == "554 5.7.1 go away"
    assert "cannot be written" in found["tool"]


async def test_a_folder_that_cannot_be_written_stops_no_alarm(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        (tmp_path / "admin").write_text("a file in place of the folder")
    else:
        (tmp_path / "admin").mkdir(mode=0o500)
    world = World(tmp_path, {"busy": BUSY})
    world.busy("a")
    with capture_logs() as logs:
        await world.passes(10, looks=3)
    assert world.outbox.told == [("busy", "firing")]
    assert [line["event"] for line in logs].count("alarms_not_saved") == 1
