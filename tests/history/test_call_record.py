"""One call in full: every number of it is one of its ledger."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import orjson
import pytest

import cordboard.calls
from cordboard.calls import events
from cordboard.calls.history import CallHistory, read
from cordboard.errors import HistoryError
from cordboard.history.call_record import CallRecord, Mark, UsedRecord, read_call
from cordboard.history.notes import Note, Notes, NotesChanged, read_notes, write_notes

from .ledgers import Told

EXAMPLE = Path(cordboard.calls.__file__).with_name("example_ledger.jsonl")


@pytest.fixture
def example(tmp_path: Path) -> CallRecord:
    (tmp_path / "2026-11-21").mkdir()
    (tmp_path / "2026-11-21" / "x.jsonl").write_bytes(EXAMPLE.read_bytes())
    return read_call(tmp_path, "2026-11-21/x.jsonl")


def test_the_turns_are_those_of_the_ledger(example: CallRecord) -> None:
    history: CallHistory = read(EXAMPLE)
    lines = [orjson.loads(line) for line in EXAMPLE.read_bytes().splitlines()]
    assert [turn.number for turn in example.turns] == sorted(history.turns)
    greeting, first = example.turns[:2]
    assert (greeting.caller, greeting.waited) == (None, {})
    assert greeting.agent is not None
    assert (greeting.agent.begin_ms, greeting.agent.end_ms) == (88, 3666)
    assert first.caller is not None
    assert (first.caller.begin_ms, first.caller.end_ms) == (4237, 6997)
    (latency,) = [ln for ln in lines if ln["type"] == "turn.latency" and ln["turn"] == 1]
    assert first.waited == {
        stage: latency[f"{stage}_ms"]
        for stage in ("vad", "endpoint", "stt", "brain", "tts", "wire", "total")
    }
    heard = [(who, text) for turn in example.turns for who, text in _said(turn)]
    assert heard == history.transcript()
    cut = [turn.number for turn in example.turns if turn.agent is not None and turn.agent.cut]
    assert cut == [ln["turn"] for ln in lines if ln["type"] == "agent.interrupted"]


def _said(turn: object) -> list[tuple[str, str]]:
    said = []
    if turn.caller is not None and turn.caller.understood:  # type: ignore[attr-defined]
        said.append(("caller", turn.caller.understood))  # type: ignore[attr-defined]
    if turn.agent is not None and turn.agent.heard:  # type: ignore[attr-defined]
        said.append(("agent", turn.agent.heard))  # type: ignore[attr-defined]
    return said


def test_the_tools_have_their_server_payload_and_time(example: CallRecord) -> None:
    tool = example.tools[0]
    assert (tool.id, tool.server, tool.turn) == ("1.1", "aviation_atis", 1)
    assert (tool.begin_ms, tool.end_ms, tool.status) == (7477, 7488, "ok")
    assert tool.arguments == {"icao": "EKCH"}
    assert tool.sent["icao"] == "EKCH"
    assert example.turns[1].tools == ("1.1",)


def test_it_can_be_sent_as_json(example: CallRecord) -> None:
    assert orjson.loads(orjson.dumps(asdict(example)))["row"]["id"] == "x"


def test_marks_usage_and_a_recording_that_is_gone(tmp_path: Path) -> None:
    call = Told("a", recording="2026-11-20/a.wav")
    call.more = [
        (3000, events.Key("5")),
        (3100, events.RecordingPaused()),
        (3200, events.RecordingResumed()),
        (3300, events.Transferred("sales", ok=False, error="busy")),
        (3400, events.Trouble("tts", "slow")),
        (3500, events.AgentUsed("m", "x", {"seconds": 2.0}, 0.1, "EUR")),
        (3600, events.AgentUsed("m", "x", {"seconds": 1.0, "words": 3.0}, 0.2, "EUR")),
        (3700, events.AgentUsed("n", "y", {"seconds": 1.0})),
        (3800, events.Gap(4, 3700)),
        (3900, events.RecordingStopped(3000, 0)),
    ]
    path = call.write(tmp_path)
    record = read_call(tmp_path, call.file)
    assert record.marks == (
        Mark(3000, None, "key", "5"),
        Mark(3100, 3200, "muted", ""),
        Mark(3300, None, "transfer", "sales: busy"),
        Mark(3400, None, "trouble", "tts: slow"),
        Mark(3700, 3800, "gap", "4 lines are missing"),
    )
    assert record.used == (
        UsedRecord("m", "x", {"seconds": 3.0, "words": 3.0}, 0.3, "EUR"),
        UsedRecord("n", "y", {"seconds": 1.0}, None, ""),
    )
    assert (record.recording.state, record.recording.began_ms) == ("deleted", 3)
    assert record.recording.duration_ms == 3000
    path.with_suffix(".wav").touch()
    assert read_call(tmp_path, call.file).recording.state == "there"


def test_a_running_call_and_another_file(tmp_path: Path) -> None:
    call = Told("a", ended=False)
    path = call.write(tmp_path)
    record = read_call(tmp_path, call.file)
    assert (record.row.outcome, record.recording.state) == ("not ended", "off")
    path.write_bytes(b'{"type":"x"}\n')
    with pytest.raises(HistoryError, match=r"2026-11-20/a.jsonl is not the ledger of a call"):
        read_call(tmp_path, call.file)


def test_two_people_who_write_notes_do_not_overwrite_each_other(tmp_path: Path) -> None:
    ledger = Told("a").write(tmp_path)
    revision = write_notes(ledger, Notes(tags=("one",)), "")
    with pytest.raises(NotesChanged, match="changed meanwhile"):
        write_notes(ledger, Notes(tags=("two",)), "")
    note = Note("2026-11-21T10:00:00+01:00", "anna", "call back")
    last = write_notes(ledger, Notes((note,), ("one",), "good", "kind", "anna"), revision)
    assert read_notes(ledger) == (Notes((note,), ("one",), "good", "kind", "anna"), last)
    assert ledger.with_name("a.notes.json").stat().st_mode & 0o777 == 0o600
    assert write_notes(ledger, Notes(), last) == ""
    assert not ledger.with_name("a.notes.json").exists()


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (Notes(review="fine"), "review: expected good, bad or nothing, found 'fine'"),
        (Notes(tags=("",)), "tags: expected 1 to 60 characters each"),
        (Notes(tags=("x" * 61,)), "tags: expected 1 to 60 characters each"),
        (Notes(tags=("x",) * 51), "at most 1000 notes and 50 tags"),
        (Notes((Note("", "", "x" * 10_001),)), "at most 10000 characters of text"),
    ],
)
def test_notes_have_limits(tmp_path: Path, notes: Notes, expected: str) -> None:
    ledger = Told("a").write(tmp_path)
    with pytest.raises(HistoryError, match=expected):
        write_notes(ledger, notes, "")
    with pytest.raises(HistoryError, match="there is no call b"):
        write_notes(ledger.with_name("b.jsonl"), Notes(tags=("x",)), "")


@pytest.mark.parametrize("file", ["../x/2026-11-20/a.jsonl", "2026-11-20/../../a.jsonl", "a.jsonl"])
def test_only_a_ledger_in_the_folder_of_a_day_is_read(tmp_path: Path, file: str) -> None:
    Told("a").write(tmp_path / "x")
    (tmp_path / "calls" / "2026-11-20").mkdir(parents=True)
    with pytest.raises(HistoryError, match="is not the path of a ledger"):
        read_call(tmp_path / "calls", file)
