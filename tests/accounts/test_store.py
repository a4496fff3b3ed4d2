"""Users, sessions, links and keys."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordboard.accounts import factors
from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role
from cordboard.accounts.store import ELEVATION_SECONDS, LINK_HOURS, Accounts
from cordboard.errors import AccountRefused, NotThere, StoreUnavailable


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(tmp_path: Path, clock: Clock) -> Iterator[Accounts]:
    made = Accounts(tmp_path / "admin", idle_seconds=600, whole_seconds=3_600, clock=clock)
    yield made
    made.close()


def anna(accounts: Accounts, role: Role = Role.ADMIN) -> str:
    accounts.add("anna", role, {Grant.LISTEN}, EVERYWHERE)
    accounts.use_link(accounts.reset("anna"), "hash-of-anna")
    return "anna"


def test_the_database_and_its_folder_are_closed_to_other_users(accounts: Accounts) -> None:
    anna(accounts)
    for file in accounts.path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert stat.S_IMODE(accounts.path.parent.stat().st_mode) == 0o700


def test_a_user_is_kept_with_role_grants_and_scope(accounts: Accounts, clock: Clock) -> None:
    accounts.add("bert", Role.OPERATOR, {Grant.PERSONAL}, ("sales-*", "demo"))
    again = Accounts(accounts.path.parent, clock=clock)
    (bert,) = again.users()
    again.close()
    assert (bert.name, bert.role, bert.grants) == ("bert", Role.OPERATOR, {Grant.PERSONAL})
    assert (bert.scope, bert.has_password, bert.disabled) == (("sales-*", "demo"), False, False)
    with pytest.raises(AccountRefused, match="already"):
        accounts.add("bert", Role.VIEWER, (), EVERYWHERE)


def test_a_link_works_once_and_until_it_expires(accounts: Accounts, clock: Clock) -> None:
    accounts.add("bert", Role.VIEWER, (), EVERYWHERE)
    first = accounts.reset("bert")
    second = accounts.reset("bert")
    for wrong in (first, second + "x", ""):
        assert accounts.link_owner(wrong) is None
        with pytest.raises(AccountRefused, match="replaced by a newer one"):
            accounts.use_link(wrong, "hash")
    assert accounts.password("bert") is None
    accounts.use_link(second, "hash")
    assert accounts.password("bert") == "hash"
    with pytest.raises(AccountRefused, match="used before"):
        accounts.use_link(second, "another")
    third = accounts.reset("bert")
    assert accounts.password("bert") is None, "a reset makes the old password useless"
    clock.now += LINK_HOURS * 3_600
    with pytest.raises(AccountRefused, match="expired"):
        accounts.use_link(third, "hash")


def test_a_session_ends_when_idle_and_after_its_whole_life(
    accounts: Accounts, clock: Clock
) -> None:
    anna(accounts)
    idle, busy = (accounts.begin_session("anna", "127.0.0.1") for _ in range(2))
    clock.now += 599
    assert accounts.session(busy) is not None
    clock.now += 1
    assert accounts.session(idle) is None
    for _ in range(5):
        clock.now += 500
        assert accounts.session(busy) is not None
    clock.now += 500
    assert accounts.session(busy) is None
    assert accounts.sessions() == []


def test_sessions_end_by_signing_out_by_id_and_with_their_user(accounts: Accounts) -> None:
    anna(accounts)
    accounts.add("eve", Role.ADMIN, (), EVERYWHERE)
    here, there, third = (accounts.begin_session("anna", address) for address in "abc")
    accounts.end_session(here)
    other = accounts.session(there)
    assert accounts.session(here) is None
    assert other is not None
    accounts.end_session_by_id(other.id)
    assert accounts.session(there) is None
    with pytest.raises(NotThere):
        accounts.end_session_by_id(other.id)
    accounts.change("anna", Role.ADMIN, (), EVERYWHERE, disabled=True)
    assert accounts.session(third) is None
    assert accounts.session(accounts.begin_session("anna", "d")) is None, "a sign-in under way"
    assert accounts.password("anna") is None
    with pytest.raises(AccountRefused, match="disabled"):
        accounts.reset("anna")


def test_a_new_password_ends_every_other_session(accounts: Accounts) -> None:
    anna(accounts)
    here, there = (accounts.begin_session("anna", address) for address in "ab")
    accounts.set_password("anna", "another", but=here)
    assert accounts.session(here) is not None
    assert accounts.session(there) is None


def test_elevation_has_a_new_token_and_ends(accounts: Accounts, clock: Clock) -> None:
    anna(accounts)
    token = accounts.begin_session("anna", "127.0.0.1")
    before = accounts.session(token)
    elevated = accounts.elevate(token)
    assert accounts.session(token) is None, "a token that was stolen before is not elevated"
    after = accounts.session(elevated)
    assert before is not None
    assert after is not None
    assert (before.id, before.elevated, after.elevated) == (after.id, False, True)
    clock.now += ELEVATION_SECONDS
    later = accounts.session(elevated)
    assert later is None or not later.elevated


def test_neither_tokens_nor_codes_are_in_the_file(accounts: Accounts, clock: Clock) -> None:
    anna(accounts)
    secret = accounts.begin_factor("anna")
    codes = accounts.confirm_factor("anna", factors.code_at(secret, int(clock.now) // 30))
    _, key = accounts.add_key("anna", "bot", (), EVERYWHERE, 9)
    accounts.add("bert", Role.VIEWER, (), EVERYWHERE)
    tokens = [accounts.begin_session("anna", "a"), accounts.reset("bert"), key, *codes]
    content = b"".join(file.read_bytes() for file in accounts.path.parent.iterdir())
    assert [token for token in tokens if token.encode() in content] == []


def test_a_second_factor_is_needed_once_confirmed_and_each_code_counts_once(
    accounts: Accounts, clock: Clock
) -> None:
    anna(accounts)
    assert accounts.take_code("anna", ""), "there is no factor yet"
    secret = accounts.begin_factor("anna")
    assert accounts.take_code("anna", ""), "it is not confirmed yet"
    with pytest.raises(AccountRefused, match="not right"):
        accounts.confirm_factor("anna", "000000x")
    recovery = accounts.confirm_factor("anna", factors.code_at(secret, int(clock.now) // 30))
    assert not accounts.take_code("anna", factors.code_at(secret, int(clock.now) // 30))
    clock.now += 30
    code = factors.code_at(secret, int(clock.now) // 30)
    assert [accounts.take_code("anna", code) for _ in range(2)] == [True, False]
    assert [accounts.take_code("anna", recovery[3].upper()) for _ in range(2)] == [True, False]
    accounts.remove_factor("anna")
    assert accounts.take_code("anna", "")
    assert not accounts.take_code("nobody", "")


def test_the_last_admin_stays(accounts: Accounts) -> None:
    anna(accounts)
    for role, disabled in ((Role.ADMIN, True), (Role.VIEWER, False)):
        with pytest.raises(AccountRefused, match="last admin"):
            accounts.change("anna", role, (), EVERYWHERE, disabled=disabled)
    accounts.add("eve", Role.ADMIN, (), EVERYWHERE)
    assert accounts.change("anna", Role.VIEWER, (), EVERYWHERE, disabled=False).role == "viewer"


def test_a_key_is_a_part_of_its_owners_present_rights(accounts: Accounts, clock: Clock) -> None:
    anna(accounts, Role.OPERATOR)
    wanted = {Permission.CALLS_READ, Permission.CALLS_CONTROL}
    key, token = accounts.add_key("anna", "dashboard", wanted, ("demo",), 100)
    found = accounts.key(token)
    assert found == key
    assert found.rights.permissions == wanted
    assert found.rights.covers("demo")
    assert not found.rights.covers("sales")
    accounts.change("anna", Role.VIEWER, (), EVERYWHERE, disabled=False)
    narrowed = accounts.key(token)
    assert narrowed is not None
    assert narrowed.rights.permissions == {Permission.CALLS_READ}
    accounts.add("eve", Role.ADMIN, (), EVERYWHERE)
    accounts.change("anna", Role.VIEWER, (), EVERYWHERE, disabled=True)
    assert accounts.key(token) is None
    accounts.change("anna", Role.VIEWER, (), EVERYWHERE, disabled=False)
    clock.now += 100
    assert accounts.key(token) is None


def test_a_key_with_more_than_its_owner_has_is_refused(accounts: Accounts, clock: Clock) -> None:
    anna(accounts, Role.VIEWER)
    for permission in (Permission.CALLS_CONTROL, Permission.PERSONAL):
        with pytest.raises(AccountRefused, match=permission):
            accounts.add_key("anna", "bot", {permission}, EVERYWHERE, 100)
    key, token = accounts.add_key("anna", "bot", (), EVERYWHERE, 1)
    accounts.remove_key(key.id)
    assert accounts.key(token) is None
    with pytest.raises(NotThere):
        accounts.remove_key(key.id)


def test_two_processes_use_the_file_at_once(accounts: Accounts, clock: Clock) -> None:
    """The engine and a command; here as two connections and four threads."""
    other = Accounts(accounts.path.parent, clock=clock)

    def add(made: Accounts, prefix: str) -> None:
        for number in range(20):
            made.add(f"{prefix}{number}", Role.VIEWER, (), EVERYWHERE)

    pairs = [(accounts, "a"), (other, "b"), (accounts, "c"), (other, "d")]
    threads = [threading.Thread(target=add, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert len(accounts.users()) == 80


def test_a_file_that_is_no_database_or_a_newer_one_is_refused(
    tmp_path: Path, accounts: Accounts
) -> None:
    (tmp_path / "accounts.db").write_bytes(b"this is not a database at all" * 100)
    with pytest.raises(StoreUnavailable, match=r"accounts\.db cannot be used"):
        Accounts(tmp_path)
    with sqlite3.connect(accounts.path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreUnavailable, match="newer version"):
        Accounts(accounts.path.parent)


def test_a_full_disk_is_a_clear_error_and_changes_nothing(accounts: Accounts) -> None:
    anna(accounts)
    database = accounts._database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}")

    def fill() -> None:
        for number in range(1_000):
            accounts.add(f"user{number}", Role.VIEWER, (), EVERYWHERE)

    with pytest.raises(StoreUnavailable, match="full"):
        fill()
    before = len(accounts.users())
    database.execute("PRAGMA max_page_count = 100000")
    accounts.add("later", Role.VIEWER, (), EVERYWHERE)
    assert len(accounts.users()) == before + 1


KILLED = """
import sys
from pathlib import Path
from cordboard.accounts.rights import EVERYWHERE, Role
from cordboard.accounts.store import Accounts
accounts = Accounts(Path(sys.argv[1]))
number = len(accounts.users())
while True:
    accounts.add(f"user{number}", Role.VIEWER, (), EVERYWHERE)
    print(f"user{number}", flush=True)
    number += 1
"""


def test_a_process_killed_at_any_moment_leaves_what_it_has_reported(accounts: Accounts) -> None:
    folder = str(accounts.path.parent)
    for lines in (1, 4, 9):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        reported = {writer.stdout.readline().strip() for _ in range(lines)}
        writer.kill()
        writer.wait()
        writer.stdout.close()
        assert reported <= {user.name for user in accounts.users()}
        accounts.add(f"later{lines}", Role.VIEWER, (), EVERYWHERE)
