"""The verdict on a text: places of its problems, and when its changes take effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from cordboard.config.load import read
from cordboard.config.review import Review, review
from cordboard.config.schema import Config

RUNNING = """\
contexts:
  demo: {greeting: Hello.}
health: {port: 15000}
mcp:
  servers:
    one: {command: [sh], env: {A: "1"}}
    two: {command: [sh, x]}
"""


def running() -> Config:
    return read(RUNNING, Path("a.yaml"), {}).config


def reviewed(text: str, **environ: str) -> Review:
    return review(text, running(), Path("a.yaml"), environ)


def marked(text: str, found: Review) -> list[tuple[str, str]]:
    """Key and marked text of each problem."""
    lines = text.splitlines()
    result = []
    for problem in found.problems:
        assert problem.line is not None
        assert problem.column is not None
        assert problem.end_line == problem.line
        assert problem.end_column is not None
        line = lines[problem.line - 1]
        result.append((problem.key, line[problem.column - 1 : problem.end_column - 1]))
    return result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("contexts:\n  demo: {greting: x}\n", [("contexts.demo.greting", "greting: x")]),
        ("contexts: {demo: {}}\nhealth:\n  port: far\n", [("health.port", "port: far")]),
        (
            "contexts:\n  demo:\n    tools:\n      - nothing\n",
            [("contexts.demo.tools[0]", "nothing")],
        ),
        ("contexts: {demo: {}}\nasterisk: {password: x, url: y}\n", [("asterisk.url", "url: y")]),
        (
            "contexts: {demo: {greeting: '${NO}'}}\n",
            [("contexts.demo.greeting", "greeting: '${NO}'")],
        ),
        ("contexts: {demo: {}, demo: {}}\n", [("contexts.demo", "demo")]),
        ("contexts: [\n", [("", "")]),
        ("contexts: {demo: {}}\nx: a: b\n", [("", ":")]),
    ],
)
def test_each_problem_marks_its_place(text: str, expected: list[tuple[str, str]]) -> None:
    found = reviewed(text)
    assert not found.usable
    assert found.changes == ()
    assert marked(text + "\n", found) == expected


def test_a_problem_that_is_not_fatal_has_its_place_too() -> None:
    text = RUNNING.replace("Hello.}", "Hello., tools: [mcp_three_find]}")
    found = reviewed(text)
    assert [problem.key for problem in found.problems] == ["contexts.demo.tools[0]"]
    assert marked(text, found) == [("contexts.demo.tools[0]", "mcp_three_find")]


def test_each_change_says_when_it_takes_effect() -> None:
    text = RUNNING.replace("Hello.", "Good day.").replace("15000", "15001")
    text = text.replace('A: "1"', 'A: "2"').replace("    two: {", "    new: {")
    found = reviewed(text)
    assert found.usable
    assert [(change.key, change.takes_effect) for change in found.changes] == [
        ("health.port", "restart"),
        ("contexts.demo.greeting", "now"),
        ("mcp.servers.one.env.A", "idle"),
        ("mcp.servers.new", "now"),
        ("mcp.servers.two", "now"),
    ]
    live = reviewed(text + "reload: {mcp: live}\n")
    assert ("mcp.servers.one.env.A", "now") in [
        (change.key, change.takes_effect) for change in live.changes
    ]


def test_a_server_that_was_switched_off_has_nothing_to_wait_for() -> None:
    off = read(RUNNING.replace("one: {", "one: {enabled: false, "), Path("a.yaml"), {}).config
    found = review(RUNNING.replace('"1"', '"2"'), off, Path("a.yaml"), {})
    assert {change.takes_effect for change in found.changes} == {"now"}


def test_a_mark_at_the_begin_of_the_text_shifts_no_column() -> None:
    found = reviewed("\ufeffcontexts: 5\n")
    assert [(problem.line, problem.column) for problem in found.problems] == [(1, 1)]
