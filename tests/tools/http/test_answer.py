"""What of an answer counts."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.errors import HttpError
from cordboard.tools.http.answer import AnswerReader, HttpAnswer, content, media_type, unpacked

CUSTOMER = b'{"customer": {"name": "Ann", "orders": [{"id": 7}]}, "noise": 1}'


def test_the_result_is_what_the_paths_lead_to() -> None:
    paths = {"name": "customer.name", "first": "customer.orders.0.id", "none": "customer.phone"}
    reader = AnswerReader((), paths, None)
    answer = HttpAnswer(200, "application/json", body=CUSTOMER)
    assert reader.data(answer) == {"name": "Ann", "first": 7}


@pytest.mark.parametrize(
    ("kind", "body", "data"),
    [
        ("application/json", b"[1]", [1]),
        ("application/problem+json", b'{"a": 1}', {"a": 1}),
        ("", b'{"a": 1}', {"a": 1}),
        ("", b"Hello", {"text": "Hello"}),
        ("text/plain", b'{"a": 1}', {"text": '{"a": 1}'}),
        ("text/html", b"<p>Hi</p>", {"text": "<p>Hi</p>"}),
        ("application/xml", b"<a/>", {"text": "<a/>"}),
        ("application/json", b"", {}),
        ("application/json", b" \n", {}),
    ],
)
def test_json_is_data_and_other_text_is_text(kind: str, body: bytes, data: object) -> None:
    assert content(HttpAnswer(200, kind, body=body)) == data


@pytest.mark.parametrize("charset", ["idna", "undefined", "utf-8\0"])
def test_a_charset_of_python_that_is_none_of_the_web_is_no_failure(charset: str) -> None:
    assert content(HttpAnswer(200, "text/plain", charset, b"Blue.")) == {"text": "Blue."}


def test_a_charset_is_kept_to_and_an_unknown_one_is_no_failure() -> None:
    kind, charset = media_type('text/plain; charset="ISO-8859-1"; x=y')
    assert content(HttpAnswer(200, kind, charset, "blåbær".encode("latin-1"))) == {"text": "blåbær"}
    assert content(HttpAnswer(200, "text/plain", "klingon", b"Hi")) == {"text": "Hi"}


@pytest.mark.parametrize("body", [b"{", b"\x1f\x8b", b"[" * 100_000, b"<html>"])
def test_json_that_is_none_is_told(body: bytes) -> None:
    with pytest.raises(HttpError, match="says that it is JSON, and is not"):
        content(HttpAnswer(200, "application/json", body=body))


def test_a_picture_is_nothing_to_say() -> None:
    with pytest.raises(HttpError, match="image/png"):
        content(HttpAnswer(200, "image/png", body=b"\x89PNG"))


def test_which_statuses_are_a_success() -> None:
    usual, special = AnswerReader((), {}, None), AnswerReader((200, 404), {}, None)
    assert [usual.is_success(status) for status in (200, 204, 299, 304, 404)] == [True] * 3 + [
        False
    ] * 2
    assert special.is_success(404)
    assert not special.is_success(201)


def test_the_message_of_a_refusal() -> None:
    reader = AnswerReader((), {}, "error.detail")
    body = b'{"error": {"detail": " No table is free. "}}'
    assert reader.message(HttpAnswer(409, "application/json", body=body)) == "No table is free."
    for body in (b"{", b"[]", b'{"error": {"detail": 5}}'):
        assert reader.message(HttpAnswer(409, "application/json", body=body)) == ""


@given(st.binary(max_size=300))
def test_what_was_packed_is_unpacked(body: bytes) -> None:
    assert unpacked(gzip.compress(body), "GZip", 300) == body
    assert unpacked(zlib.compress(body), "deflate", 300) == body
    halves = gzip.compress(body[:7]) + gzip.compress(body[7:])
    assert unpacked(halves, "gzip", 300) == body


def test_a_bomb_does_not_unfold() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 60_000
    with pytest.raises(HttpError, match="longer than 1000 bytes"):
        unpacked(bomb, "gzip", 1_000)
    with pytest.raises(HttpError, match="broken"):
        unpacked(gzip.compress(b"") * 1_000, "gzip", 1_000)


@given(st.binary(min_size=1, max_size=60))
def test_a_broken_one_is_told(body: bytes) -> None:
    whole = gzip.compress(body)
    for broken in (whole[:-1], whole[:10], b"\x1f\x8b" + body, whole[:12] + b"\xff" + whole[13:]):
        try:
            found = unpacked(broken, "gzip", 1_000)
        except HttpError as error:
            found = str(error).encode()
        assert found == body or b"packed answer" in found


def test_another_packing_is_refused() -> None:
    with pytest.raises(HttpError, match="not asked for"):
        unpacked(b"x", "br", 100)
