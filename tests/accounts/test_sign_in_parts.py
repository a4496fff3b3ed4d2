"""Passwords, second factors and rights, without a database."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.accounts import factors, passwords
from cordboard.accounts.rights import (
    GRANTS,
    ROLES,
    Grant,
    Permission,
    Rights,
    Role,
    rights_of,
)
from cordboard.errors import AccountRefused

GOOD = "plum tangible orbit 41"


def test_a_password_is_recognised_by_its_hash_and_no_other_is() -> None:
    stored = passwords.hashed(GOOD)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert GOOD not in stored
    assert passwords.hashed(GOOD) != stored, "each hash has a salt of its own"
    assert passwords.is_right(GOOD, stored)
    assert not passwords.is_right(GOOD + " ", stored)
    assert not passwords.is_right("", stored)


def test_an_unknown_name_is_refused_by_the_same_work() -> None:
    """A hash that cannot be read would be refused at once, and tell which names exist."""
    parameters = passwords.hashed(GOOD).rpartition("$")[0].rpartition("$")[0]
    assert passwords.NOT_A_HASH.startswith(f"{parameters}$")
    assert not passwords.is_right(GOOD, passwords.NOT_A_HASH)


@pytest.mark.parametrize(
    ("password", "reason"),
    [
        ("short", "12 to 200 characters"),
        ("x" * 201, "12 to 200 characters"),
        ("ababababababab", "different characters"),
        ("i am Anna Karenina", "name of its user"),
        ("password123456", "usual passwords"),
        ("P@ssw0rd!2026", "usual passwords"),
        ("Welcome-2026!!", "usual passwords"),
        ("123456789012", "row of neighbouring"),
        ("qwertyuiopas", "usual passwords"),
        ("zxcvbnm12345", "row of neighbouring"),
        ("lkjhgfdsapoi", "row of neighbouring"),
    ],
)
def test_a_weak_password_is_refused_with_the_reason(password: str, reason: str) -> None:
    with pytest.raises(AccountRefused, match=reason):
        passwords.check_new(password, "anna")


@pytest.mark.parametrize("password", [GOOD, "my admin likes purple walls", "çédille-Ωmega-ß-42"])
def test_a_good_password_is_taken(password: str) -> None:
    passwords.check_new(password, "anna")


RFC_6238 = base64.b32encode(b"12345678901234567890").decode()


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_rfc_6238(at: int, code: str) -> None:
    """Appendix B; the last six of its eight digits."""
    assert factors.code_at(RFC_6238, at // 30) == code
    assert factors.step_of(RFC_6238, code, at, 0) == at // 30


def test_a_code_counts_once_and_within_half_a_minute_of_drift() -> None:
    code = factors.code_at(RFC_6238, 100)
    assert factors.step_of(RFC_6238, code, 99 * 30, 0) == 100
    assert factors.step_of(RFC_6238, code, 101 * 30 + 29, 0) == 100
    assert factors.step_of(RFC_6238, code, 102 * 30, 0) is None
    assert factors.step_of(RFC_6238, code, 98 * 30, 0) is None
    assert factors.step_of(RFC_6238, code, 100 * 30, used=100) is None


@given(st.text(max_size=20))
def test_any_text_as_a_code_is_only_refused(text: str) -> None:
    assert factors.step_of(RFC_6238, text, 59, 0) in (None, 0, 1, 2)


def test_recovery_codes_differ() -> None:
    codes = factors.new_recovery_codes()
    assert len(set(codes)) == len(codes) == factors.RECOVERY_CODES


def test_each_role_has_what_the_lower_one_has_and_no_role_has_a_grant() -> None:
    assert ROLES[Role.VIEWER] < ROLES[Role.OPERATOR] < ROLES[Role.ADMIN]
    assert not ROLES[Role.ADMIN] & set(GRANTS.values())
    assert ROLES[Role.ADMIN] | set(GRANTS.values()) == set(Permission)


def test_rights_are_role_and_grants_within_a_scope() -> None:
    rights = rights_of(Role.VIEWER, {Grant.LISTEN}, ("sales-*", "demo"))
    assert rights.may(Permission.CALLS_LISTEN)
    assert not rights.may(Permission.CALLS_CONTROL)
    assert [rights.covers(name) for name in ("sales-eu", "demo", "sales", "support")] == [
        True,
        True,
        False,
        False,
    ]
    assert not rights.everywhere


def test_a_key_is_within_its_owners_scope_and_permissions() -> None:
    owner = rights_of(Role.OPERATOR, (), ("sales-*",))
    key = owner.narrowed({Permission.CALLS_READ, Permission.PEOPLE_MANAGE}, ("*-eu",))
    assert key.permissions == {Permission.CALLS_READ}
    assert [key.covers(name) for name in ("sales-eu", "sales-us", "support-eu")] == [
        True,
        False,
        False,
    ]
    assert not Rights(frozenset(), ((),)).covers("demo"), "an empty scope is no scope"
