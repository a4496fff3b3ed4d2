"""`cordboard history find|count|rebuild|erase`: the calls on record, without an engine."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.history.ledgers import Told, refuse

from cordboard.errors import IndexUnavailable

from .commands import Done, typed, user_without_a_name


class Calls:
    """A directory of calls with its configuration."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "calls"
        self.config = folder / "ai-agent.yaml"
        self.config.write_text(
            "contexts: {demo: {}}\n"
            "asterisk: {password: '${PASSWORD_THAT_IS_NOT_SET}'}\n"
            f"calls: {{directory: '{self.directory}'}}\n"
        )

    def add(self, *calls: Told) -> None:
        for call in calls:
            call.write(self.directory)

    def typed(self, *arguments: str) -> Done:
        return typed("history", *arguments, "-c", str(self.config))


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_calls_are_found_by_words_and_filters(calls: Calls) -> None:
    calls.add(
        Told("first", turns=[("a refund please", "of course")]),
        Told("second", turns=[("hello", "a refund?")], outcome="failed"),
        Told("third"),
    )
    done = calls.typed("find", "refund", "-w", "outcome=failed", "-w", "outcome=completed")
    assert (done.status, done.err) == (0, "")
    assert [line.split()[2] for line in done.out.splitlines()[1:]] == ["second", "first"]
    done = calls.typed("find", "refund", "--who", "caller")
    assert [line.split()[2] for line in done.out.splitlines()[1:]] == ["first"]
    done = calls.typed("find", "-n", "2")
    assert done.out.splitlines()[-1] == "and more; `--limit` is 2"
    assert json.loads(calls.typed("count", "refund").out)["outcome"] == {
        "completed": 1,
        "failed": 1,
    }


def test_a_wrong_filter_is_one_clear_message(calls: Calls) -> None:
    calls.add(Told("a"))
    for arguments, expected in (
        (["-w", "colour=red"], "cordboard: there is no filter 'colour'; expected one of "),
        (["-w", "failed"], "cordboard: --where: expected FILTER=VALUE, found 'failed'"),
        (["-w", "since=soon"], "cordboard: since: expected a time such as "),
    ):
        done = calls.typed("find", *arguments)
        assert done.status == 1
        assert done.err.startswith(expected)


def test_an_export_runs_no_formula_of_a_callers_name(calls: Calls) -> None:
    calls.add(
        Told("a", name='=HYPERLINK("http://x","y")', number="+4512345678"),
        Told("b", name="@SUM(1)\n-2", tools=[("pay", "ok"), ("-look", "ok")], cost=-0.5),
        Told("c", name="\t=1", number="-1"),
        Told("d", name="\n=1", context="\uff1d1"),
        Told("e", name='Bo;=1+1;"=2+2"'),
    )
    done = calls.typed("find", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["id"] for row in rows] == ["e", "d", "c", "b", "a"]
    elsewhere = csv.reader(io.StringIO(done.out), delimiter=";")  # where 1.5 is written 1,5
    cells = [cell.strip('"') for row in elsewhere for cell in row]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == []
    del rows[0]
    assert (rows[0]["caller_name"], rows[0]["context"]) == ("'\n'=1", "'\uff1d1")
    del rows[0]
    assert rows[2]["caller_name"] == '\'=HYPERLINK("http://x","y")'
    assert rows[2]["caller_number"] == "+4512345678", "only a number: it does no harm"
    assert rows[1]["caller_name"] == "'@SUM(1)\n'-2"
    assert rows[1]["tools"] == "'-look, pay"
    assert rows[1]["cost"] == "-0.5"
    assert rows[0]["caller_name"] == "'\t'=1"


def test_json_lines_have_the_values_as_they_are_and_every_call(calls: Calls) -> None:
    calls.add(*(Told(f"c{number:03}", name="=1") for number in range(250)))
    lines = calls.typed("find", "--format", "jsonl").out.splitlines()
    assert len(lines) == 250
    assert json.loads(lines[0])["id"] == "c249"
    assert json.loads(lines[0])["caller_name"] == "=1"


def test_the_index_is_rebuilt_from_the_ledgers(calls: Calls) -> None:
    calls.add(Told("a"), Told("b"))
    calls.typed("find")
    index = calls.directory / "history" / "index.sqlite3"
    index.write_bytes(b"no database" * 1000)
    assert calls.typed("find").out.splitlines()[1:]
    done = calls.typed("rebuild")
    assert (done.status, done.out) == (0, "2 files are in the index\n")


def test_erasing_says_first_what_would_go(calls: Calls) -> None:
    calls.add(Told("a", number="+45111"), Told("b"), Told("c", number="+45111", ended=False))
    refuse(calls.directory, "r", number="+45111")
    done = calls.typed("erase", "--number", "+45111")
    assert done.status == 0
    assert done.out.splitlines() == [
        str(calls.directory / Told("a").file),
        "1 calls, 1 files, 1 refused offers",
        "nothing was erased; repeat with --yes",
    ]
    assert done.err == "c has not ended and is left out\n"
    assert (calls.directory / Told("a").file).exists()
    done = calls.typed("erase", "--number", "+45111", "--yes")
    assert done.status == 1, "c is still there"
    assert "the erasure is not complete: 1 calls have not ended" in done.err
    certificate = Path(done.out.splitlines()[-1].removeprefix("erased; certificate: "))
    assert certificate.parent == calls.directory / "certificates"
    assert json.loads(certificate.read_bytes())["refused_offers"] == 1
    assert "+45111" not in certificate.read_text()
    found = calls.typed("find", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in found] == ["c", "b"]
    assert calls.typed("erase", "--call", "nobody").err == "cordboard: there is no call nobody\n"
    assert calls.typed("erase").status == 2


def test_a_system_user_without_a_name_is_in_the_certificate_by_number(calls: Calls) -> None:
    calls.add(Told("a"))
    with user_without_a_name() as number:
        done = calls.typed("erase", "--call", "a", "--yes")
    assert done.status == 0
    certificate = Path(done.out.splitlines()[-1].removeprefix("erased; certificate: "))
    assert number in certificate.read_text()


def test_an_erasure_that_leaves_the_index_as_it_was_says_so(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.add(Told("a"))
    calls.typed("find")

    def busy(_: object) -> None:
        raise IndexUnavailable("another program has the index")

    monkeypatch.setattr("cordboard.history.sql_store.SqlHistoryStore.scrub", busy)
    done = calls.typed("erase", "--call", "a", "--yes")
    assert done.status == 1
    assert "is not complete: the index may still have" in done.err
    assert "(another program has the index)" in done.err


def test_a_measure_over_time(calls: Calls) -> None:
    calls.add(Told("a"), Told("b", context="sales"))
    done = calls.typed(
        "insights", "calls", "--by", "context", "--since", "2026-11-20", "--until", "2026-11-21"
    )
    found = json.loads(done.out)
    assert found["t"] == ["2026-11-20", "2026-11-21"]
    assert {line["key"]: line["values"] for line in found["lines"]} == {
        "booking": [1], "sales": [1],
    }  # fmt: skip
    done = calls.typed("insights", "nonsense")
    assert done.status == 1
    assert "there is no measure 'nonsense'; expected one of calls" in done.err
