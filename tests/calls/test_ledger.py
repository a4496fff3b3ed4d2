from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from cordboard.calls import events
from cordboard.calls.events import Heard
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.stopwatch import TurnStopwatch


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
    writer = LedgerWriter()
    with structlog.testing.capture_logs() as logs:
        writer.prepare(folder)
        assert "calls are not recorded" in writer.trouble
        ledger = Ledger(writer, folder / "today" / "call.jsonl", 0.0)
        for _ in range(3):
            ledger.record(events.Connected())
        writer.flush()
        assert writer.failures == 3
        folder.unlink()
        ledger.record(events.Connected())
        writer.close()
    assert writer.trouble == ""
    assert [entry["event"] for entry in logs] == ["ledger_write_failed"]


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
