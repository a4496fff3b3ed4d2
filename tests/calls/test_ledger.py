from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
import structlog

from cordboard.calls import events
from cordboard.calls.events import Heard
from cordboard.calls.history import read
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.open_calls import OpenCall, OpenCalls
from cordboard.calls.turn_latency import TurnStopwatch
from cordboard_testkit.patience import PATIENCE

SOON = 0.01
"""Seconds after which a writer in trouble tries again."""
LINE = events.Answering(1, "x" * 1000)


def until(reached: Callable[[], bool]) -> None:
    """For what the writer's thread does by itself."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def types(path: Path) -> list[str]:
    return [json.loads(line)["type"] for line in path.read_text().splitlines()]


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


@contextmanager
def umask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def test_each_event_is_one_line_stamped_in_call_time(tmp_path: Path) -> None:
    writer = LedgerWriter()
    seen: list[tuple[int, str]] = []
    path = tmp_path / "deep" / "call.jsonl"
    ledger = Ledger(
        writer, path, 100.0, lambda at, event: seen.append((at, event.type)), lambda: 101.5
    )
    ledger.record(Heard(1, 'line\nbreak and "quotes" æøå', 0.9))
    ledger.record(events.Key("5"), at=102.25)
    ledger.close()
    writer.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {
            "at_ms": 1500,
            "type": "caller.text",
            "turn": 1,
            "text": 'line\nbreak and "quotes" æøå',
            "confidence": 0.9,
            "understood": "",
            "said_by": "",
        },
        {"at_ms": 2250, "type": "caller.key", "key": "5", "secret": False},
    ]
    assert seen == [(1500, "caller.text"), (2250, "caller.key")]


def test_what_cannot_be_written_is_counted_and_harms_nobody(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    writer = LedgerWriter()
    bad = Ledger(writer, blocked / "call.jsonl", 0.0)
    good = Ledger(writer, tmp_path / "good.jsonl", 0.0)
    bad.record(events.Connected())
    good.record(events.Connected())
    writer.close()
    assert writer.failures == 1
    assert (tmp_path / "good.jsonl").read_text().count("\n") == 1


def test_a_folder_that_cannot_be_had_is_said_once_until_it_is_mended(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    folder.write_text("not a folder")
    writer = LedgerWriter(retry_seconds=SOON)
    with structlog.testing.capture_logs() as logs:
        writer.prepare(folder)
        assert "calls are not recorded" in writer.trouble
        ledger = Ledger(writer, folder / "today" / "call.jsonl", 0.0)
        for _ in range(3):
            ledger.record(events.Connected())
        writer.flush()
        assert writer.failures == 3
        folder.unlink()
        until(lambda: writer.trouble == "")
        ledger.record(events.Connected())
        writer.close()
    assert types(folder / "today" / "call.jsonl") == ["call.connected"] * 4, "nothing is lost"
    assert [entry["event"] for entry in logs] == ["ledger_write_failed", "ledger_written_again"]


def test_an_engine_that_is_stopped_while_it_starts_is_not_held_up(tmp_path: Path) -> None:
    writer = LedgerWriter()
    writer.close()
    writer.prepare(tmp_path)
    writer.flush()


def test_a_path_that_no_system_takes_ends_the_writing_of_nobody_else(tmp_path: Path) -> None:
    writer = LedgerWriter()
    Ledger(writer, tmp_path / "bad\0name.jsonl", 0.0).record(events.Connected())
    Ledger(writer, tmp_path / "good.jsonl", 0.0).record(events.Connected())
    writer.close()
    assert writer.failures == 1
    assert (tmp_path / "good.jsonl").read_text().count("\n") == 1


def test_arguments_nested_too_deep_for_json_do_not_harm_the_call(tmp_path: Path) -> None:
    writer = LedgerWriter()
    nested: list[object] = []
    for _ in range(5_000):
        nested = [nested]
    ledger = Ledger(writer, tmp_path / "call.jsonl", 0.0)
    ledger.record(events.ToolCalled(1, "1.1", "tool", "mcp:a:tool", {"a": nested}))
    ledger.record(events.Connected())
    ledger.close()
    writer.close()
    first, second = map(json.loads, (tmp_path / "call.jsonl").read_text().splitlines())
    assert (first["type"], second["type"]) == ("tool.asked", "call.connected")


def test_nothing_follows_the_last_line(tmp_path: Path) -> None:
    writer = LedgerWriter()
    ledger = Ledger(writer, tmp_path / "call.jsonl", 0.0)
    ledger.record(events.Ended("completed", "caller_hangup", 10))
    ledger.close()
    ledger.record(events.AudioEnded(1))
    writer.close()
    (line,) = (tmp_path / "call.jsonl").read_text().splitlines()
    assert json.loads(line)["type"] == "call.ended"


@pytest.mark.parametrize("bits", [0, 0o022, 0o777])
def test_only_the_engines_user_can_read_a_ledger(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "var" / "calls" / "today" / "call.jsonl"
    with umask(bits):
        writer = LedgerWriter(OpenCalls(tmp_path / "var" / "calls"))
        ledger = Ledger(writer, path, 0.0)
        ledger.note(OpenCall("call", "call", "demo", "local", "2026-11-22T12:00:00.000+00:00"))
        ledger.record(events.Connected())
        writer.flush()
        found = {each: mode(each) for each in (tmp_path / "var").rglob("*")}
        writer.close()
    assert len(found) == 7
    assert {each for each, bits in found.items() if bits != "700"} == {
        each for each in found if each.is_file()
    }
    assert {found[each] for each in found if each.is_file()} == {"600"}
    assert mode(tmp_path / "var") == "700"


def test_a_ledger_that_exists_is_never_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "call.jsonl"
    writer = LedgerWriter()
    names = []
    for _ in range(3):
        ledger = Ledger(writer, path, 0.0)
        ledger.record(events.Connected())
        ledger.record(events.Ended("completed", "caller_hangup", 10))
        ledger.close()
        writer.flush()
        names.append(ledger.path.name)
    writer.close()
    assert names == ["call.jsonl", "call-2.jsonl", "call-3.jsonl"]
    assert all(types(tmp_path / name) == ["call.connected", "call.ended"] for name in names), (
        "each call has its own"
    )


class Disk(Protocol):
    """A disk that can be full."""

    folder: Path

    def write(self, descriptor: int, content: bytes) -> int: ...

    def fill(self, room: int = 0) -> None:
        """Leave so many bytes at most."""

    def free(self) -> None:
        """Make room again."""


@dataclass
class FeignedDisk:
    """All files together have at most `limit` bytes; half a write where that ends."""

    folder: Path
    limit: int = 1_000_000_000

    def write(self, descriptor: int, content: bytes) -> int:
        room = self.limit - self._used()
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(descriptor, content[:room])

    def fill(self, room: int = 0) -> None:
        self.limit = self._used() + room

    def free(self) -> None:
        self.limit = 1_000_000_000

    def _used(self) -> int:
        used = 0
        for path in self.folder.rglob("*.*"):
            with suppress(FileNotFoundError):  # the writer's trial is over
                used += path.stat().st_size
        return used


@dataclass
class SmallDisk:
    """A file system of one megabyte in memory."""

    folder: Path
    write = staticmethod(os.write)

    def fill(self, room: int = 0) -> None:
        with (self.folder / "ballast").open("ab", buffering=0) as ballast:
            for size in (65_536, 4_096, 1):
                with suppress(OSError):
                    while ballast.write(b"\0" * size):
                        pass
            ballast.truncate(ballast.tell() - room)

    def free(self) -> None:
        (self.folder / "ballast").unlink()


@pytest.fixture(params=["feigned", "real"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "feigned":
        yield FeignedDisk(tmp_path)
        return
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    done = subprocess.run(mounting, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_lines_wait_for_a_full_disk_and_none_is_lost(disk: Disk) -> None:
    writer = LedgerWriter(retry_seconds=SOON, write=disk.write)
    old = Ledger(writer, disk.folder / "today" / "old.jsonl", 0.0)
    old.record(events.Connected())
    writer.flush()
    disk.fill()
    for _ in range(10):
        old.record(LINE)
    old.record(events.Ended("completed", "caller_hangup", 10))
    old.close()
    new = Ledger(writer, disk.folder / "today" / "new.jsonl", 0.0)
    new.record(events.Connected())
    writer.flush()
    assert "No space left" in writer.trouble
    assert writer.failures > 0
    disk.free()
    until(lambda: writer.trouble == "")
    new.record(events.Key("1"))
    writer.close()
    assert types(old.path) == ["call.connected", *["agent.text"] * 10, "call.ended"]
    assert types(new.path) == ["call.connected", "caller.key"]


def test_ended_calls_wait_on_when_a_little_room_is_used_up_again(disk: Disk) -> None:
    writer = LedgerWriter(retry_seconds=SOON, write=disk.write)
    disk.fill()
    ledgers = [Ledger(writer, disk.folder / f"{number}.jsonl", 0.0) for number in range(4)]
    for ledger in ledgers:
        for _ in range(45):
            ledger.record(LINE)
        ledger.record(events.Ended("completed", "caller_hangup", 10))
        ledger.close()
    writer.flush()
    disk.fill(70_000)  # for a trial, and for one ledger and a part of the next
    until(lambda: ledgers[1].path.stat().st_size > 0)
    writer.flush()  # all of them have been tried
    assert "No space left" in writer.trouble
    disk.free()
    until(lambda: writer.trouble == "")
    writer.close()
    for ledger in ledgers:
        assert types(ledger.path) == [*["agent.text"] * 45, "call.ended"]


def test_ledgers_are_not_ready_before_a_new_file_can_be_written(disk: Disk) -> None:
    """A file that is there may still have room in its last block: that means nothing."""
    writer = LedgerWriter(retry_seconds=SOON, write=disk.write)
    ledger = Ledger(writer, disk.folder / "call.jsonl", 0.0)
    ledger.record(events.Connected())
    writer.flush()
    disk.fill()
    for _ in range(10):
        ledger.record(LINE)
    writer.flush()
    disk.fill(20_000)

    def written() -> bool:
        ledger.record(events.Key("1"))
        writer.flush()
        return ledger.path.read_bytes().endswith(b'"key":"1","secret":false}\n')

    until(written)
    assert writer.trouble, "there is room for some lines, and none for a new file"
    disk.free()
    until(lambda: writer.trouble == "")
    writer.close()
    assert types(ledger.path)[:12] == ["call.connected", *["agent.text"] * 10, "caller.key"]


def test_a_gap_says_how_much_is_lost_and_the_end_is_kept(disk: Disk) -> None:
    writer = LedgerWriter(retry_seconds=SOON, write=disk.write, most_waiting=2_500)
    ledger = Ledger(writer, disk.folder / "call.jsonl", 0.0)
    ledger.record(events.Connected(), at=1.0)
    writer.flush()
    disk.fill(500 if isinstance(disk, FeignedDisk) else 0)  # half a line is written
    for number in range(10):
        ledger.record(LINE, at=2.0 + number)
    ledger.record(events.Ended("completed", "caller_hangup", 10), at=20.0)
    ledger.close()
    writer.flush()
    disk.free()
    until(lambda: writer.trouble == "")
    writer.close()
    lines = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    kept = [line for line in lines if line["type"] == "agent.text"]
    [gap] = [line for line in lines if line["type"] == "ledger.gap"]
    assert [line["type"] for line in lines] == [
        "call.connected", *["agent.text"] * len(kept), "ledger.gap", "call.ended",
    ]  # fmt: skip
    assert 0 < len(kept) < 10
    assert gap["lost"] == 10 - len(kept)
    assert gap["since_ms"] == 2000 + 1000 * len(kept)
    [written] = read(ledger.path).gaps
    assert written.lost == gap["lost"]


def test_a_call_that_begins_on_a_full_disk_keeps_its_head(disk: Disk) -> None:
    writer = LedgerWriter(retry_seconds=SOON, write=disk.write, most_waiting=400)
    disk.fill()
    ledger = Ledger(writer, disk.folder / "call.jsonl", 0.0)
    offered = events.Offered("id", "2026-11-22T12:00:00.000+00:00", "asterisk", "1", "", "2")
    ledger.record(offered)
    for _ in range(3):
        ledger.record(LINE)
    writer.flush()
    disk.free()
    until(lambda: writer.trouble == "")
    ledger.record(events.Key("1"))
    writer.close()
    assert types(ledger.path) == ["call.offered", "ledger.gap", "agent.text", "caller.key"]
    history = read(ledger.path)
    assert (history.call_id, [gap.lost for gap in history.gaps]) == ("id", [2])


FEW_DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
from cordboard.calls import events
from cordboard.calls.ledger import Ledger, LedgerWriter
writer = LedgerWriter(retry_seconds=0.01)
ledgers = [Ledger(writer, Path(sys.argv[1]) / f"{n}.jsonl", 0.0) for n in range(100)]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for ledger in ledgers:
    ledger.record(events.Connected())
writer.flush()
assert "Too many open files" in writer.trouble, writer.trouble
for ledger in ledgers:
    ledger.record(events.Ended("completed", "caller_hangup", 10))
    ledger.close()
writer.close()
"""


def test_ledgers_wait_for_a_free_descriptor(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FEW_DESCRIPTORS, str(tmp_path)], check=True)
    paths = list(tmp_path.iterdir())
    assert len(paths) == 100
    assert all(types(path) == ["call.connected", "call.ended"] for path in paths)


CRASH = """
import os, signal, sys, time
from pathlib import Path
from cordboard.calls import events
from cordboard.calls.ledger import Ledger, LedgerWriter
ledger = Ledger(LedgerWriter(), Path(sys.argv[1]), 0.0)
for number in range(1000):
    ledger.record(events.Key(str(number)))
time.sleep(1.0)
ledger.record(events.Key("too late"))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_engine_loses_at_most_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "call.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(path)], env=dict(os.environ), check=False
    )
    assert done.returncode == -signal.SIGKILL
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert keys[:1000] == [str(number) for number in range(1000)]


def test_calls_that_share_a_file_add_their_lines_up_to_its_largest_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.calls.ledger.MOST_SHARED", 30)
    writer = LedgerWriter()
    path = tmp_path / "2026-11-20" / "refused.jsonl"
    with structlog.testing.capture_logs() as log:
        for _ in range(5):
            writer.append(path, b"12345678\n")
        writer.append(path.with_name("other.jsonl"), b"1\n")
        writer.close()
    assert path.read_bytes() == 3 * b"12345678\n"
    assert mode(path) == "600"
    assert path.with_name("other.jsonl").read_bytes() == b"1\n"
    assert [entry["event"] for entry in log] == ["file_is_full"], "said once"
    assert (writer.failures, writer.trouble) == (0, "")


def test_a_shared_file_that_cannot_be_written_is_counted_and_harms_no_ledger(
    tmp_path: Path,
) -> None:
    (tmp_path / "2026-11-20").write_text("not a folder")
    writer = LedgerWriter(retry_seconds=SOON)
    writer.append(tmp_path / "2026-11-20" / "refused.jsonl", b"1\n")
    ledger = Ledger(writer, tmp_path / "2026-11-21" / "a.jsonl", time.monotonic())
    ledger.record(LINE)
    writer.flush()
    assert writer.failures == 1
    assert "calls are not recorded" in writer.trouble
    assert types(ledger.path) == ["agent.text"]
    (tmp_path / "2026-11-20").unlink()
    until(lambda: not writer.trouble)
    writer.close()


def test_every_event_type_is_listed_once_and_documented() -> None:
    names = [event.type for event in events.EVENTS]
    assert len(set(names)) == len(names)
    defined = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, events.LedgerEvent)
    }
    assert set(events.EVENTS) == defined - {events.LedgerEvent}
    assert all(event.__doc__ for event in events.EVENTS)


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        (TurnStopwatch(1, 10, 10.5, 10.1, 10.6, 10.61, 10.65), (100, 500, 100, 10, 40, 20, 670)),
        (TurnStopwatch(1, 10, 10.5, 9.9, 10.3, 10.5, 10.52), (0, 500, 0, 0, 20, 150, 670)),
        (TurnStopwatch(1, 10, 10.5), (0, 500, 0, 0, 0, 170, 670)),
    ],
)
def test_the_stages_of_a_turn_add_up(watch: TurnStopwatch, expected: tuple[int, ...]) -> None:
    latency = watch.latency(10.67)
    assert tuple(ms for _, ms in latency.stages()) == expected
    assert sum(expected[1:-1]) == expected[-1], "the detector's part belongs to the endpoint"
