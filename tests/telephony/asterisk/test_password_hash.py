"""Hashes of passwords, against those that `openssl passwd -6` prints."""

from __future__ import annotations

import pytest

from cordboard.telephony.asterisk.password_hash import hashed, sha512_crypt

LONG = "pässwörter and more than sixty-four bytes of text so that digests repeat, ok"


@pytest.mark.parametrize(
    ("password", "salt", "rounds", "expected"),
    [
        (
            "Hello world!",
            "saltstring",
            5_000,
            "svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
        (
            LONG,
            "abc",
            1_000,
            "E3IegjK9fqsr3wmCeA5XKvxO4dm5/8pFffsgdDkVyBqlwDfrySjA8VPvkZ3y/iMvbeASsnOGJaaBVhdE.ndQr/",
        ),
    ],
)
def test_a_hash_is_that_of_the_c_library(password, salt, rounds, expected):
    assert sha512_crypt(password, salt, rounds) == expected


def test_each_hash_has_a_salt_of_its_own():
    first, second = hashed("secret"), hashed("secret")
    assert first != second
    for text in (first, second):
        _, kind, rounds, salt, digest = text.split("$")
        assert (kind, rounds, len(salt)) == ("6", "rounds=1000", 16)
        assert digest == sha512_crypt("secret", salt, 1_000)
