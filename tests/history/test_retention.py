"""Ledgers are deleted after `calls.keep_days`, and nothing else is."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from cordboard.calls.killed_calls import end_ledger
from cordboard.history.notes import Notes, write_notes
from cordboard.history.retention import sweep_ledgers

from .ledgers import NOON, Told, refuse

TODAY = dt.date(2026, 11, 25)


def old(path: Path, days: int) -> Path:
    at = dt.datetime.combine(TODAY, dt.time(12)).timestamp() - days * 86_400
    os.utime(path, (at, at))
    return path


def test_old_ledgers_go_with_their_notes(tmp_path: Path) -> None:
    ledger = Told("a").write(tmp_path)
    write_notes(ledger, Notes(tags=("x",)), "")
    old(ledger, 5)
    old(refuse(tmp_path, "r"), 5)
    kept = old(Told("b", NOON + dt.timedelta(days=1)).write(tmp_path), 4)
    assert sweep_ledgers(tmp_path, 0, TODAY) == 0
    assert sweep_ledgers(tmp_path, 4, TODAY) == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    assert not ledger.parent.exists()


def test_no_recording_outlives_its_ledger(tmp_path: Path) -> None:
    """Without it, nobody finds the recording, and no erasure by number reaches it."""
    ledger = Told("a", recording="2026-11-20/a.wav").write(tmp_path)
    for suffix in (".wav", ".peaks"):
        ledger.with_suffix(suffix).write_bytes(b"sound")
    old(ledger, 5)
    assert sweep_ledgers(tmp_path, 4, TODAY) == 1
    assert not ledger.parent.exists()


def test_a_ledger_that_was_cut_in_its_first_line_goes_with_its_recording(tmp_path: Path) -> None:
    ledger = Told("a").write(tmp_path)
    ledger.write_bytes(ledger.read_bytes()[:100])  # by a full disk
    end_ledger(ledger)  # the engine was killed
    ledger.with_suffix(".wav").write_bytes(b"sound")
    old(ledger, 5)
    assert sweep_ledgers(tmp_path, 4, TODAY) == 1
    assert not ledger.parent.exists()


def test_what_the_engine_has_not_written_stays(tmp_path: Path) -> None:
    ledger = old(Told("a").write(tmp_path), 5)
    stays = [ledger.with_name(name) for name in ("mine.jsonl", "mine.txt", "a.wav", "link.jsonl")]
    for path in stays[:3]:
        path.write_text('{"mine": 1}\n')
    stays[3].symlink_to(tmp_path / "elsewhere")
    for path in stays[:3]:
        old(path, 5)
    assert sweep_ledgers(tmp_path, 1, TODAY) == 1
    assert all(path.is_symlink() or path.exists() for path in stays)


def test_a_call_that_runs_for_longer_than_the_period_keeps_its_ledger(tmp_path: Path) -> None:
    ledger = old(Told("a", ended=False).write(tmp_path), 0)
    assert sweep_ledgers(tmp_path, 2, TODAY) == 0
    assert ledger.exists()
