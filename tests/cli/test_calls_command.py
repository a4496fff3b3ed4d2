"""`cordboard calls list|show|draw|bundle`: any call on record, by id, its beginning, or file."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import orjson
import pytest

import cordboard.calls
from cordboard.audio.g711 import linear_to_ulaw
from cordboard.audio.wav import WavHeader

from .commands import ROOT, Done, typed

EXAMPLE = Path(cordboard.calls.__file__).with_name("example_ledger.jsonl")


class Calls:
    """A directory of calls with its configuration, which needs a variable that is not set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ai-agent.yaml"
        self.config.write_text(
            "contexts: {demo: {}}\n"
            "asterisk: {password: '${PASSWORD_THAT_IS_NOT_SET}'}\n"
            "calls: {directory: '${TEST_CALLS}/calls'}\n"
        )

    def add(self, call_id: str, started_at: str, changes: dict[str, Any] | None = None) -> Path:
        """Write the example's call; `changes` replaces whole lines by type, None drops them."""
        lines = [orjson.loads(line) for line in EXAMPLE.read_bytes().splitlines()]
        lines[0] |= {"call_id": call_id, "started_at": started_at}
        for kind, line in (changes or {}).items():
            lines = [line if each["type"] == kind else each for each in lines]
        path = self.folder / "calls" / started_at[:10] / f"{call_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines if line))
        return path

    def typed(self, *arguments: str) -> Done:
        return typed("calls", *arguments, "-c", str(self.config), TEST_CALLS=str(self.folder))


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_calls_are_listed_the_newest_first(calls: Calls) -> None:
    calls.add("a-old", "2026-11-20T10:00:00.000+00:00")
    last = calls.add("b-last", "2026-11-21T12:00:00.000+00:00")
    before = calls.add("c-before", "2026-11-21T11:00:00.000+00:00", {"call.ended": None})
    calls.add("d-junk", "2026-11-21T12:30:00.000+00:00").write_text("[1, 2]\n{}\n")
    for at, path in enumerate((before, last)):
        os.utime(path, (at, at))
    done = calls.typed("list", "--json")
    assert (done.status, done.err) == (0, "")
    rows = json.loads(done.out)
    assert [row["call_id"] for row in rows] == ["b-last", "c-before", "a-old"]
    assert [row["outcome"] for row in rows] == ["completed", "not ended", "completed"]
    assert {row["context"] for row in rows} == {"demo"}
    assert rows[0]["duration_ms"] > 40_000
    table = calls.typed("list", "-n", "2").out.splitlines()
    assert [line.split()[2] for line in table[1:]] == ["b-last", "c-before"]
    assert "completed (agent_hangup)" in table[1]


def test_a_damaged_ledger_hides_no_other(calls: Calls) -> None:
    path = calls.add("whole", "2026-11-21T19:12:13.261+00:00")
    path.with_name("damaged.jsonl").write_text('{"at_ms":0,"type":"call.offered"}\n')
    done = calls.typed("list")
    assert "whole" in done.out, done.err
    assert "damaged" not in done.out


def test_a_call_is_shown_as_the_demo_shows_it(calls: Calls) -> None:
    path = calls.add("23627530-b370", "2026-11-21T19:12:13.261+00:00")
    by_id = calls.typed("show", "23627530-b370")
    assert (by_id.status, by_id.err) == (0, "")
    for line in (
        "7.47 s heard        Hello, what is the ATIS for Copenhagen Kastrup?",
        "7.48 s tool asked   mcp_aviation_atis_get_atis {'icao': 'EKCH'}",
        "agent        Goodbye.",
        "call ended: completed (agent_hangup)",
    ):
        assert line in by_id.out, line
    assert "brain+tools" in by_id.out
    assert calls.typed("show", "2362").out == by_id.out
    assert calls.typed("show", str(path)).out == by_id.out
    turns = json.loads(calls.typed("show", "2362", "--json").out)["turns"]
    assert turns[1]["heard"] == "Hello, what is the ATIS for Copenhagen Kastrup?"


def test_a_text_of_a_caller_does_not_steer_the_terminal(calls: Calls) -> None:
    said = {"at_ms": 1, "type": "caller.text", "turn": 1, "text": "\x1b[2Jred", "confidence": 1.0}
    calls.add("id", "2026-11-21T19:12:13.261+00:00", {"caller.text": said})
    assert "heard         [2Jred" in calls.typed("show", "id").out


def test_a_reason_in_a_ledger_is_no_markup(calls: Calls) -> None:
    ended = {"at_ms": 1, "type": "call.ended", "outcome": "completed", "reason": "\x1b[2J[/bye]"}
    ended["duration_ms"] = 1
    calls.add("id", "2026-11-21T19:12:13.261+00:00", {"call.ended": ended})
    done = calls.typed("show", "id")
    assert (done.status, "call ended: completed ( [2J[/bye])" in done.out) == (0, True)


def test_a_ledger_that_lacks_fields_does_not_hide_the_others(calls: Calls) -> None:
    calls.add("good", "2026-11-21T19:12:13.261+00:00")
    bound = {"at_ms": 1, "type": "call.bound"}
    calls.add("bad", "2026-11-21T19:13:13.261+00:00", {"call.bound": bound})
    assert [row["call_id"] for row in json.loads(calls.typed("list", "--json").out)] == ["good"]
    assert "bad.jsonl is not the ledger of a call" in calls.typed("show", "bad").err


def test_a_ledger_from_elsewhere_does_not_steer_the_terminal(calls: Calls) -> None:
    moved = {"at_ms": 1, "type": "line.transfer", "destination": "[/red]\x1b[2J", "ok": True}
    ended = {"at_ms": 2, "type": "call.ended", "outcome": "\x1b[2J", "reason": "[/]\x1b[2J"}
    changes = {"caller.text": moved, "call.ended": ended | {"duration_ms": 2}}
    calls.add("id", "2026-11-21T19:12:13.261+00:00", changes)
    done = calls.typed("show", "id")
    assert "transfer to [/red] [2J: done" in done.out, done.out + done.err
    assert "call ended:  [2J ([/] [2J)" in done.out
    assert "\x1b[2J" not in done.out


def test_a_call_is_drawn_with_its_recording(calls: Calls, tmp_path: Path) -> None:
    begun = {"at_ms": 500, "type": "recording.started", "path": "x/id.wav", "format": "wav_ulaw"}
    begun |= {"rate": 8000}
    path = calls.add("id", "2026-11-21T19:12:13.261+00:00", {"call.connected": begun})
    sound = np.zeros((80_000, 2), "<i2")
    sound[24_000:48_000, 0] = 8_000
    header = WavHeader("ulaw", 8000, {}).encode(len(sound))
    path.with_suffix(".wav").write_bytes(header + linear_to_ulaw(sound.tobytes()))
    output = tmp_path / "picture.svg"
    done = calls.typed("draw", "id", "-o", str(output))
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{output} (with its recording)\n"
    caller, agent = _voices(output)
    assert [_loud(caller, second) for second in (1, 4, 8)] == [False, True, False]
    assert not any(_loud(agent, second) for second in range(10))


def test_a_call_is_put_into_one_file_for_another_person(calls: Calls, tmp_path: Path) -> None:
    ledger = calls.add("id", "2026-11-21T19:12:13.261+00:00")
    output = tmp_path / "call.zip"
    output.write_text("an older one")
    done = calls.typed("bundle", "id", "-o", str(output))
    assert (done.status, done.err, done.out) == (0, "", f"{output}\n")
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    with zipfile.ZipFile(output) as file:
        assert file.testzip() is None
        assert file.read("ledger.jsonl") == ledger.read_bytes()
        assert json.loads(file.read("call.json"))["row"]["id"] == "id"
        assert "config.txt" in file.namelist(), "the version of the example is not kept here"
    done = calls.typed("bundle", "id", "-o", "/nowhere/x.zip")
    assert (done.status, "cannot be written" in done.err) == (1, True)


def test_a_call_without_a_recording_is_drawn_with_blocks(calls: Calls, tmp_path: Path) -> None:
    calls.add("id", "2026-11-21T19:12:13.261+00:00")
    output = tmp_path / "picture.svg"
    done = calls.typed("draw", "id", "-o", str(output))
    assert done.out == f"{output} (not recorded: blocks show who spoke)\n"
    caller, agent = _voices(output)
    assert [_loud(agent, second) for second in (1, 5, 9)] == [True, False, True]
    assert [_loud(caller, second) for second in (1, 5, 9)] == [False, True, False]
    assert "42 s" in output.read_text(), "as long as the call"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nobody"), "there is no call nobody in "),
        (("draw", "same"), "2 calls begin with same: same-a, same-b"),
        (("show", str(ROOT / "README.md")), "README.md is not the ledger of a call"),
        (("show", "nowhere.jsonl"), "there is no file nowhere.jsonl"),
        (("draw", "same-a", "-o", "/nowhere/x.svg"), "/nowhere/x.svg cannot be written: No such"),
    ],
)
def test_what_is_wrong_is_said(calls: Calls, arguments: tuple[str, ...], message: str) -> None:
    for name in ("same-a", "same-b"):
        calls.add(name, "2026-11-21T19:12:13.261+00:00")
    done = calls.typed(*arguments)
    assert done.status == 1
    assert message in done.err


def test_without_any_call(calls: Calls) -> None:
    done = calls.typed("list")
    assert done.status == 1
    assert "no call is on record: there is no folder " in done.err
    assert "(calls.directory)" in done.err


def test_a_directory_whose_variable_is_not_set_is_not_the_working_directory(calls: Calls) -> None:
    calls.config.write_text("calls: {directory: '${CALLS_THAT_ARE_NOT_SET}'}\n")
    done = calls.typed("list")
    assert done.status == 1
    assert "ai-agent.yaml:1: calls.directory: CALLS_THAT_ARE_NOT_SET is not set" in done.err


def _voices(picture: Path) -> list[list[tuple[float, float]]]:
    """Return the outlines of both voices."""
    namespace = "{http://www.w3.org/2000/svg}"
    shapes = list(ElementTree.parse(picture).getroot().iter(f"{namespace}polygon"))
    return [
        [
            (float(x), float(y))
            for x, y in (pair.split(",") for pair in shape.get("points", "").split())
        ]
        for shape in shapes[:2]
    ]


def _loud(outline: list[tuple[float, float]], second: float) -> bool:
    """Return True if there is sound at that second of the picture."""
    at = [y for x, y in outline if abs(x - second * 48) < 2]
    return max(at) - min(at) > 5
