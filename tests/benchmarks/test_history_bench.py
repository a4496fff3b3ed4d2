"""The generated ledgers of `bench history` are ledgers, and each query finds some of them."""

from __future__ import annotations

from pathlib import Path

from bench.history import _BEGIN, _ask, write_ledgers
from bench.report import Report

from cordboard.calls.history import ledgers, read
from cordboard.history.indexer import Indexer
from cordboard.history.query import CallQuery
from cordboard.history.series import SeriesQuery
from cordboard.history.sql_store import SqlHistoryStore


def test_the_generated_calls_are_whole_and_can_be_asked_for(tmp_path: Path) -> None:
    size = write_ledgers(tmp_path, 60)
    assert 8_000 < size / 60 < 11_000, "as large as those of real calls"
    assert {read(path).outcome for path in ledgers(tmp_path)} > {"completed"}
    store = SqlHistoryStore(tmp_path)
    store.open()
    Indexer(tmp_path, store).catch_up()
    assert sum(store.facets(CallQuery())["context"].values()) == 60
    assert store.find(CallQuery(text="kakaka kakalo")).rows
    report = Report("history")
    _ask(report, store)
    names = ["page", "words", "facets", "a measure of a year"]
    assert [target.name for target in report.targets] == [f"{name}, p95" for name in names]
    begin = round(_BEGIN.timestamp() * 1000)
    year = SeriesQuery("calls", begin, begin + 365 * 86_400_000, "month")
    assert sum(value or 0 for value in store.series(year).lines[0].values) == 60
    store.close()
