"""`cordboard campaign`: lists of people and of numbers, without an engine."""

from __future__ import annotations

import codecs
import fcntl
from pathlib import Path

import pytest

from .commands import typed


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ai-agent.yaml"
    path.write_text(
        'contexts: {demo: {variables: [name]}}\nfirewall: {country: "NO"}\n'
        f"outbound: {{campaigns: '{tmp_path}/campaigns.db'}}\n"
    )
    return path


def test_a_blocked_number_is_the_same_however_it_is_written(tmp_path: Path, config: Path) -> None:
    people, shut = tmp_path / "people.csv", tmp_path / "shut.txt"
    people.write_text("number,name\n22 00 00 01,Kari\n+4722000002,Per\n22000001,Ola\n112,Eva\n")
    shut.write_text("22 00 00 01\n+47-22-00-00-02\n\n+46 8 123 456 78\n")
    added = typed("campaign", "add", "spring", str(people), "--context", "demo", "-c", str(config))
    assert added.status == 1
    assert added.out.startswith("spring: 2 people, 2 lines left out")
    assert added.err.splitlines() == [
        "line 5: number: numbers of class emergency are shut",
        "line 4: the number is there already",
    ]
    done = typed("campaign", "block", str(shut), "22 00 00 01", "-c", str(config))
    assert done.out == "3 numbers are new on the do-not-call list\n"
    wrong = typed("campaign", "block", "+4722000003", "Kari", "-c", str(config))
    assert wrong.status == 1
    assert "'Kari': expected a number such as +4722000000" in wrong.err
    done = typed("campaign", "block", "+47 22000001", "+4722000003", "-c", str(config))
    assert done.out == "1 numbers are new on the do-not-call list\n", "one wrong one: none is added"
    done = typed("campaign", "block", "+47220", "+4722000003", "-c", str(config))
    assert done.err == "+47220: its country has no such number; it is added\n"
    assert done.out == "1 numbers are new on the do-not-call list\n"
    done = typed("campaign", "unblock", "22 00 00 01", "+4722009999", "-c", str(config))
    assert done.out == "1 numbers are no longer on the do-not-call list\n"
    assert typed("campaign", "cancel", "spring", "-c", str(config)).status == 0
    done = typed("campaign", "results", "spring", "-c", str(config))
    assert done.out.splitlines()[1:] == [
        "+4722000001,done,not_called,,campaign_cancelled,0,,,",
        "+4722000002,done,not_called,,campaign_cancelled,0,,,",
    ]


def test_results_of_an_unknown_campaign_are_an_error_alone(tmp_path: Path, config: Path) -> None:
    assert typed("campaign", "block", "22 00 00 01", "-c", str(config)).status == 0
    for where in ((), ("-o", str(tmp_path / "results.csv"))):
        done = typed("campaign", "results", "summer", *where, "-c", str(config))
        assert (done.status, done.out) == (1, "")
        assert "there is no campaign 'summer'" in done.err
    assert not (tmp_path / "results.csv").exists()


def test_a_list_of_numbers_may_have_a_byte_order_mark(tmp_path: Path, config: Path) -> None:
    (tmp_path / "shut.txt").write_text("+4722000002\r\n", "utf-8-sig")
    done = typed("campaign", "block", str(tmp_path / "shut.txt"), "-c", str(config))
    assert done.out == "1 numbers are new on the do-not-call list\n"


def test_a_list_of_numbers_that_cannot_be_read_is_named(tmp_path: Path, config: Path) -> None:
    shut = tmp_path / "shut.txt"
    for command, mark in (("block", b""), ("unblock", codecs.BOM_UTF8)):
        shut.write_bytes(mark + "+4722000002\n+4722000003 Kåre\n".encode("latin-1"))
        done = typed("campaign", command, str(shut), "-c", str(config))
        assert (done.status, done.out) == (1, "")
        assert done.err == f"cordboard: {shut}: line 2: not UTF-8; save the list as UTF-8\n"


def test_results_are_written_to_a_new_file_alone(tmp_path: Path, config: Path) -> None:
    people, results = tmp_path / "people.csv", tmp_path / "results.csv"
    people.write_text("number\n+4722000001\n")
    words = ("spring", str(people), "--context", "demo", "-c", str(config))
    assert typed("campaign", "add", *words).status == 0
    command = ("campaign", "results", "spring", "-c", str(config), "-o")
    assert typed(*command, str(results)).status == 0
    before = results.read_text()
    assert "+4722000001" in before
    done = typed(*command, str(results))
    assert (done.status, results.read_text()) == (1, before)
    assert done.err == f"cordboard: {results} is there already; name another file\n"
    done = typed(*command, str(people / "results.csv"))
    assert done.status == 1
    assert done.err == f"cordboard: {people}/results.csv cannot be written: File exists\n"


def test_the_do_not_call_list_needs_no_campaign(tmp_path: Path, config: Path) -> None:
    done = typed("campaign", "block", "22 00 00 01", "-c", str(config))
    assert done.out == "1 numbers are new on the do-not-call list\n"


def test_what_is_wrong_makes_no_campaign(tmp_path: Path, config: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("number,bicycle\n+4722000001,blue\n")
    for arguments, message in (
        ((), "'bicycle' is unknown"),
        (("--context", "other"), "no such context; there are: demo"),
        (("--keys", "1x"), "other characters"),
        (("--zone", "Europe/Olso"), "there is no 'Europe/Olso'"),
    ):
        context = () if "--context" in arguments else ("--context", "demo")
        command = ("campaign", "add", "spring", str(people), *context, *arguments)
        done = typed(*command, "-c", str(config))
        assert done.status == 1, arguments
        assert message in done.err, done.err
    people.write_text("number\n+4722000001\n")
    good = ("campaign", "add", "spring", str(people), "--context", "demo", "-c", str(config))
    done = typed(*good, "--hours", "25:00-26:00")
    assert (done.status, "25:00" in done.err) == (1, True), done.err
    done = typed(*good)
    assert done.status == 0, done.err


def test_status_says_why_nobody_is_called(tmp_path: Path, config: Path) -> None:
    (tmp_path / "people.csv").write_text("number,name\n+4722000001,Kari\n")
    words = ("spring", str(tmp_path / "people.csv"), "--context", "demo", "-c", str(config))
    assert typed("campaign", "add", *words).status == 0
    assert typed("campaign", "status", "-c", str(config)).out == "spring: paused; 1 pending\n"
    assert typed("campaign", "start", "spring", "-c", str(config)).status == 0
    shown = typed("campaign", "status", "-c", str(config))
    assert "nobody is called now: outbound calls are off (outbound.enabled)" in shown.out
    config.write_text(config.read_text().replace("outbound: {", "outbound: {enabled: true, "))
    shown = typed("campaign", "status", "-c", str(config))
    assert f"no engine works off {tmp_path}/campaigns.db" in shown.out
    with (tmp_path / "campaigns.db.lock").open("w") as lock:  # as a running engine has it
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "no engine" not in typed("campaign", "status", "-c", str(config)).out
