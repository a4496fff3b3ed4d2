"""Signed requests: what a receiver computes by the page is what we send."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools.http.request import is_signed, signature_headers

SECRET = "correct horse battery"


def test_a_receiver_finds_it_right() -> None:
    sent = signature_headers(SECRET, 1_795_284_000.7, b'{"a":1}')
    timestamp = sent["X-Cordboard-Timestamp"]
    assert timestamp == "1795284000"
    expected = hmac.new(SECRET.encode(), timestamp.encode() + b'.{"a":1}', hashlib.sha256)
    assert sent["X-Cordboard-Signature"] == f"v1={expected.hexdigest()}"


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_another_body_is_not_signed(body: bytes, other: bytes) -> None:
    timestamp, signature = signature_headers(SECRET, 1_000, body).values()
    assert is_signed(SECRET, timestamp, signature, body, 1_200)
    assert is_signed(SECRET, timestamp, signature, other, 1_200) is (other == body)


def test_an_old_one_another_key_and_nonsense_are_not() -> None:
    timestamp, signature = signature_headers(SECRET, 1_000, b"x").values()
    assert not is_signed(SECRET, timestamp, signature, b"x", 1_301)
    assert not is_signed(SECRET, "1001", signature, b"x", 1_000)
    assert not is_signed("another secret", timestamp, signature, b"x", 1_000)
    assert not is_signed(SECRET, "yesterday", signature, b"x", 1_000)
    assert not is_signed(SECRET, timestamp, "v1=\udcff", b"x", 1_000)
