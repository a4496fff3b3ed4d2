"""`cordboard users` and `cordboard audit`, as typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cordboard.accounts.store import Accounts

from .commands import Done, typed, user_without_a_name


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "admin: {token: '${UNSET}', ui: {data: '${DATA}', port: 15999}}\ncontexts: {demo: {}}\n"
    )
    return path


def run(config: Path, *arguments: str) -> Done:
    return typed(*arguments, "--config", str(config), DATA=str(config.parent / "admin"))


def token_in(done: Done) -> str:
    found = re.search(r"http://127\.0\.0\.1:15999/#link=(\S+)", done.out)
    assert found, done
    return found[1]


def test_the_first_user_is_an_admin_with_every_grant_and_later_ones_are_viewers(
    config: Path,
) -> None:
    first = run(config, "users", "add", "anna")
    assert first.status == 0
    assert "anna: admin, listen, recordings, personal, publish" in first.out
    scoped = ("--scope", "sales-*", "--grant", "listen")
    second = run(config, "users", "add", "bert", *scoped)
    assert "bert: viewer, listen" in second.out
    assert run(config, "users", "list").out.splitlines() == [
        "anna: admin, listen, personal, publish, recordings, no password yet",
        "bert: viewer, listen, only sales-*, no password yet",
    ]


def test_a_link_sets_a_password_and_a_reset_makes_another(config: Path) -> None:
    first = token_in(run(config, "users", "add", "anna"))
    accounts = Accounts(config.parent / "admin")
    assert accounts.use_link(first, "hash").name == "anna"
    second = token_in(run(config, "users", "reset", "anna"))
    assert accounts.password("anna") is None
    owner = accounts.link_owner(second)
    assert owner is not None
    assert owner.name == "anna"
    accounts.close()


def test_a_disabled_user_and_refusals(config: Path) -> None:
    run(config, "users", "add", "anna")
    run(config, "users", "add", "bert")
    assert run(config, "users", "disable", "bert").out == "bert is disabled\n"
    assert "bert: viewer, disabled" in run(config, "users", "list").out
    assert "last admin" in run(config, "users", "disable", "anna").err
    assert "there is no user eve" in run(config, "users", "reset", "eve").err
    assert "already" in run(config, "users", "add", "anna").err
    assert run(config, "users", "add", "Anna Karenina").status == 2
    assert run(config, "users", "add", "eve", "--role", "owner").status == 2


def test_every_change_is_in_the_audit_and_a_changed_line_is_found(config: Path) -> None:
    assert run(config, "audit", "verify").status == 1
    token = token_in(run(config, "users", "add", "anna"))
    run(config, "users", "add", "bert")
    run(config, "users", "reset", "bert")
    run(config, "users", "disable", "bert")
    path = config.parent / "admin" / "audit.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(entry["who"], entry["action"], entry["on"]) for entry in entries] == [
        ("machine", "user.add", "anna"),
        ("machine", "user.add", "bert"),
        ("machine", "user.reset", "bert"),
        ("machine", "user.change", "bert"),
    ]
    assert token not in path.read_text()
    good = run(config, "audit", "verify")
    assert (good.status, "4 lines in order" in good.out, entries[3]["hash"] in good.out) == (
        0,
        True,
        True,
    )
    path.write_text(path.read_text().replace('"on":"anna"', '"on":"nina"'))
    bad = run(config, "audit", "verify")
    assert (bad.status, "line 1: it was changed" in bad.err) == (1, True)


def test_a_system_user_without_a_name_is_in_the_audit_by_number(config: Path) -> None:
    with user_without_a_name() as number:
        assert run(config, "users", "add", "anna").status == 0
    (entry,) = (config.parent / "admin" / "audit.jsonl").read_text().splitlines()
    assert json.loads(entry)["detail"]["system_user"] == number


def test_a_section_that_is_not_in_order_is_named(config: Path) -> None:
    config.write_text("admin: {ui: {port: many}}\ncontexts: {demo: {}}\n")
    assert "admin.ui: it is not in order" in run(config, "users", "list").err
    config.write_text("admin: {ui: {data: '${NOWHERE}'}}\ncontexts: {demo: {}}\n")
    assert "set NOWHERE here" in run(config, "users", "list").err
