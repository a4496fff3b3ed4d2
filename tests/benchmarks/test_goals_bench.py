"""The figures of `bench goals` are only as good as its judge and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from bench import goals
from bench.goals import FILES, Goals, Outcome, Request, read_goals
from bench.options import Options
from bench.report import Report

from cordboard.errors import KitError

FILE: dict[str, Any] = {
    "prompt": "You are kind.",
    "greeting": "Hello.",
    "tools": [
        {
            "name": "book_table",
            "description": "Books a table.",
            "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
            "answer": {"table": "nine"},
            "speech": "Your table is number {table}.",
        }
    ],
    "requests": [
        {"says": "A table on Friday.", "tool": "book_table", "arguments": {"day": "friday"}},
        {"says": "Thank you."},
    ],
}


def outcome(asks: int = 0, **given: Any) -> Outcome:
    return Outcome(Request(**FILE["requests"][asks]), **given)


def test_every_file_of_the_folder_can_be_read() -> None:
    assert FILES
    for path in FILES:
        assert len(read_goals(path).requests) >= 20


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"greetings": "Hi."}, "greetings: Extra inputs are not permitted"),
        ({"requests": []}, "requests: Tuple should have at least 1 item"),
        ({"requests": [{"say": "Hi."}]}, "requests.0.says: Field required"),
        ({"requests": [{"says": "Hi.", "tool": "order"}]}, "'Hi.' wants the tool 'order'"),
    ],
)
def test_a_malformed_file_is_named_with_the_place(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    path = tmp_path / "more.json"
    path.write_bytes(orjson.dumps({**FILE, **change}))
    with pytest.raises(KitError) as caught:
        read_goals(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_right_is_the_expected_call_and_no_other() -> None:
    call = ("book_table", {"day": "Friday"})
    assert outcome(calls=[call], worked=1, spoken="Your table is number nine.").right
    assert not outcome(calls=[call], worked=0, spoken="That failed.").right
    assert not outcome(calls=[call, call], worked=2, spoken="Done.").right
    assert not outcome(calls=[("book_table", {"day": "monday"})], worked=1, spoken="Done.").right
    assert not outcome(spoken="Which day?").right
    assert outcome(1, spoken="You are welcome.").right
    assert not outcome(1, calls=[call], worked=1, spoken="Done.").right
    assert not outcome(1).right


def test_facts_from_nowhere_and_words_of_machines_are_found() -> None:
    file = Goals.model_validate(FILE)
    call = ("book_table", {"day": "friday"})
    said = outcome(calls=[call], worked=1, spoken="Table nine on Friday at seven.")
    assert said.invented(file) == {"seven"}
    assert outcome(1, spoken="Please call again, or ask for book_table.").machine_words(file) == [
        "_"
    ]
    assert outcome(1, spoken="CALL it").machine_words(file) == ["CALL"]


async def test_each_file_is_judged_and_all_times_are_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json", tmp_path / "not_chosen.json"]
    for path in paths:
        path.write_bytes(orjson.dumps(FILE))
    times = iter((0.2, 0.4, 0.8, 0.6))

    async def converse(_: Any, requests: Any, progress: Any, listens: float) -> list[Outcome]:
        made = []
        for request in requests:
            calls = [(request.tool, request.arguments)] if request.tool else []
            seconds = next(times) if listens else 5.0
            made.append(Outcome(request, calls, len(calls), "Nine.", seconds))
        return made

    monkeypatch.setattr(goals, "_converse", converse)
    monkeypatch.setattr(goals, "FILES", paths)
    monkeypatch.setenv(goals.VARIABLE, "model.gguf")
    report: Report = await goals.measure(lambda _: None, Options(only=("one", "two")))
    assert [target.name for target in report.targets if target.met] == [
        *("one: right", "one: invented facts", "one: machine words spoken"),
        *("two: right", "two: invented facts", "two: machine words spoken"),
        "first words, warm, without a tool, median",
    ]
    title, heads, rows = report.tables[-1]
    assert title == "First words of the answer, in ms"
    assert heads == ["", "n", "median", "p95", "most"]
    assert rows == [
        ["warm, without a tool", "2", "500", "590", "600"],
        ["warm, with a tool", "2", "500", "770", "800"],
        ["cold, without a tool", "2", "5000", "5000", "5000"],
    ]
