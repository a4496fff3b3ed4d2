"""`cordboard config history|diff|restore|set|remove`: versions of the file, in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cordboard.config.edit.apply import apply
from cordboard.config.files import digest_of
from cordboard.config.versions import Author, Versions

from .commands import ROOT, Done, typed

FIRST = """\
# The desk.
contexts:
  demo:
    greeting: Hello.   # short
admin:
  token: hunter2-admin
  ui: {data: '${TEST_DATA}/admin'}
"""


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "ai-agent.yaml"
        self.versions = Versions(folder / "admin" / "versions", self.path)
        self.write(FIRST)
        self.first = self.versions.add(FIRST.encode(), Author())

    def write(self, text: str) -> None:
        self.path.write_text(text)

    def typed(self, *arguments: str, answer: str = "") -> Done:
        done = typed(
            "config",
            *arguments,
            "-c",
            str(self.path),
            answer=answer,
            TEST_DATA=str(self.folder),
            LOGNAME="anna",
        )
        assert "hunter2" not in done.out + done.err
        return done


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_key_is_set_and_the_history_says_who_and_why(desk: Desk) -> None:
    done = desk.typed("set", "contexts.demo.greeting", "Good day.", "-y", "-m", "politer")
    assert (done.status, done.err) == (0, "")
    assert desk.path.read_text() == FIRST.replace("Hello.", "Good day.")
    assert "+    greeting: Good day.   # short" in done.out
    rows = json.loads(desk.typed("history", "--json").out)
    assert [(row["from"], row["who"], row["why"]) for row in rows] == [
        ("cli", "anna", "politer"),
        ("file", "", ""),
    ]
    assert [row["in_file"] for row in rows] == [True, False]
    assert rows[0]["version"] == digest_of(desk.path.read_bytes())
    table = desk.typed("history").out.splitlines()
    assert table[1].split()[:2] == [rows[0]["version"][:12], "*"]
    assert "politer" in table[1]


def test_nothing_is_written_without_a_yes(desk: Desk) -> None:
    done = desk.typed("set", "contexts.demo.greeting", "Good day.", answer="n\n")
    assert done.status == 1
    assert "+    greeting: Good day." in done.out
    assert desk.path.read_text() == FIRST
    assert desk.typed("set", "contexts.demo.greeting", "Bye.", answer="y\n").status == 0
    assert "Bye." in desk.path.read_text()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["contexts.demo.tools", "[hangup_call]"], "    tools: [hangup_call]"),
        (["calls.max_calls", "5"], "  max_calls: 5"),
        (["contexts.demo.prompt", "5: yes", "--text"], '    prompt: "5: yes"'),
        (["contexts.demo.tools[0]", "hangup_call"], ""),
    ],
)
def test_a_value_is_yaml_or_text(desk: Desk, arguments: list[str], line: str) -> None:
    desk.write(FIRST.replace("    greeting", "    tools: []\n    greeting") if not line else FIRST)
    done = desk.typed("set", *arguments, "-y")
    assert done.status == 0, done.err
    assert (line or "    tools: [hangup_call]") in desk.path.read_text().splitlines()


def test_a_key_is_removed_with_its_comment(desk: Desk) -> None:
    done = desk.typed("remove", "contexts.demo.greeting", "-y")
    assert done.status == 0
    lines = FIRST.splitlines(keepends=True)
    assert desk.path.read_text() == "".join([*lines[:2], "  demo: {}\n", *lines[4:]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "contexts.demo.greting", "x"], "contexts.demo.greting"),
        (["remove", "contexts.nothing"], "there is no contexts.nothing"),
        (["set", "contexts.demo.greeting.x", "1"], "contexts.demo.greeting has no entries"),
        (["restore", "0000"], "there is no version 0000"),
        (["diff", "0000"], "there is no version 0000"),
    ],
)
def test_what_is_impossible_is_one_message_and_changes_nothing(
    desk: Desk, arguments: list[str], message: str
) -> None:
    done = desk.typed(*arguments, *(["-y"] if arguments[0] != "diff" else []))
    assert done.status == 1
    assert message in done.err
    assert desk.path.read_text() == FIRST


def test_a_wrong_key_or_value_is_a_wrong_command_line(desk: Desk) -> None:
    for arguments in (["a..b", "1"], ["a", "[1"], ["a", "1\nb: 2"]):
        assert desk.typed("set", *arguments, "-y").status == 2


def test_differences_of_the_file_and_of_versions(desk: Desk) -> None:
    assert desk.typed("diff").out == "no differences\n"
    desk.write(FIRST.replace("Hello.", "Good day."))
    out = desk.typed("diff").out
    assert "-    greeting: Hello.   # short\n+    greeting: Good day.   # short\n" in out
    assert f"--- {desk.first[:12]}\n+++ {desk.path}\n" in out
    second = desk.versions.add(desk.path.read_bytes(), Author())
    assert "-    greeting: Good day." in desk.typed("diff", second[:6], desk.first[:6]).out
    assert "has been changed since" not in desk.typed("history").out
    desk.write(FIRST.replace("hunter2", "hunter2-other"))
    assert desk.typed("diff", desk.first).out == "only secrets, or line breaks, differ\n"
    assert "has been changed since" in desk.typed("history").out


def test_a_change_of_another_writer_in_between_is_not_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = FIRST.replace("The desk", "Our desk")

    def interrupted(*arguments: Any) -> str:
        desk.write(theirs)
        return apply(*arguments)

    monkeypatch.setattr("cordboard.config.edit.apply.apply", interrupted)
    done = desk.typed("set", "contexts.demo.greeting", "Good day.", "-y")
    assert (done.status, "has been changed meanwhile" in done.err) == (1, True)
    assert desk.path.read_text() == theirs


def test_a_secret_that_has_become_a_comment_is_not_shown(desk: Desk) -> None:
    desk.write(FIRST.replace("  token: hunter2-admin", "  # token: hunter2-admin"))
    done = desk.typed("diff")
    assert "+  # token: «secret:1»" in done.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"contexts:\n  a: {greeting: caf\xe9}\n", "ai-agent.yaml:2: not UTF-8 text"),
        (b"[]\n", "ai-agent.yaml:1: expected a mapping"),
        (b"a: [\n", "ai-agent.yaml:2: not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(desk: Desk, content: bytes, message: str) -> None:
    desk.path.write_bytes(content)
    done = desk.typed("set", "contexts.a.greeting", "x", "-y", "--data", str(desk.folder / "admin"))
    assert done.status != 0
    assert message in done.err
    assert "Traceback" not in done.err
    assert desk.path.read_bytes() == content


def test_a_version_that_is_no_text_is_not_restored(desk: Desk) -> None:
    digest = desk.versions.add(b"caf\xe9", Author())
    done = desk.typed("restore", digest, "-y")
    assert (done.status, "not UTF-8 text" in done.err) == (1, True)
    assert desk.path.read_text() == FIRST


def test_a_restored_version_is_a_new_one(desk: Desk) -> None:
    desk.write("contexts: {other: {}}\n")
    data = ("--data", str(desk.folder / "admin"))
    done = desk.typed("restore", desk.first[:8], "-y", *data)
    assert done.status == 0, done.err
    assert desk.path.read_text() == FIRST
    origins = [(version.author.source, version.digest) for version in desk.versions.history()]
    assert origins[0] == ("restore", desk.first)
    assert origins[1] == ("file", digest_of(b"contexts: {other: {}}\n"))


def test_a_file_that_is_no_yaml_any_more_is_restored(desk: Desk) -> None:
    desk.write("contexts: [hunter2\n")
    done = desk.typed("restore", desk.first[:8], "-y", "--data", str(desk.folder / "admin"))
    assert done.status == 0, done.err
    assert "the differences are not shown" in done.out
    assert desk.path.read_text() == FIRST


def test_before_the_first_version(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"contexts: {{demo: {{}}}}\nadmin: {{ui: {{data: '{tmp_path}/admin'}}}}\n")
    done = typed("config", "history", "-c", str(path))
    assert (done.status, done.out) == (0, f"there are no versions of {path} yet\n")
    done = typed("config", "diff", "-c", str(path))
    assert (done.status, "there are no versions yet" in done.err) == (1, True)


def test_the_page_shows_what_a_terminal_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "configuration-versions.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "desk.yaml"
    path.write_text(text)
    done = typed(
        *("config", "set", "contexts.front.greeting", "Good day.", "-c", str(path), "--yes"),
        *("--why", "fits all day", "--data", str(tmp_path)),
    )
    shown = page.partition('fits all day"\n')[2].partition("\n    $ cordboard")[0]
    expected = "".join(line.removeprefix("    ") + "\n" for line in shown.splitlines())
    printed = done.out.replace(str(path), "desk.yaml")
    assert printed.replace(" \n", "\n") == expected


def test_a_stored_secret_is_listed_by_name_only(desk: Desk) -> None:
    assert desk.typed("secrets", "set", "SHOP_KEY", answer="hunter2-stored\n").status == 0
    assert desk.typed("secrets", "list").out == "SHOP_KEY\n"
    desk.write(FIRST.replace("hunter2-admin", "'${SHOP_KEY}'"))
    checked = typed("check", "-c", str(desk.path), TEST_DATA=str(desk.folder))
    assert (checked.status, "hunter2" in checked.out + checked.err) == (0, False)
    assert desk.typed("secrets", "remove", "SHOP_KEY").status == 0
    assert desk.typed("secrets", "list").out == ""
    done = desk.typed("secrets", "remove", "SHOP_KEY")
    assert (done.status, "there is no stored secret SHOP_KEY" in done.err) == (1, True)
