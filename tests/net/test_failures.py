"""The one table from statuses and transport errors to kinds of failure."""

from __future__ import annotations

import httpx2
import orjson
import pytest

from cordboard.errors import FailureKind
from cordboard.net.failures import kind_of_error, refused, words_of_error
from cordboard.net.proxy import ProxyFailed

STATUSES: list[tuple[int, FailureKind, bool]] = [
    (400, "refused", False),
    (401, "auth", False),
    (402, "quota", False),
    (403, "auth", False),
    (404, "refused", False),
    (408, "connect", True),
    (409, "refused", True),
    (422, "refused", False),
    (429, "quota", True),
    (500, "connect", True),
    (501, "connect", False),
    (502, "connect", True),
    (503, "connect", True),
    (504, "connect", True),
    (529, "quota", True),
]


@pytest.mark.parametrize(("status", "kind", "again"), STATUSES)
def test_a_status_means_the_same_everywhere(status: int, kind: FailureKind, again: bool) -> None:
    failure = refused("Acme", status, b"")
    assert (failure.kind, failure.again) == (kind, again)
    assert str(failure).startswith("Acme ")
    assert f"HTTP {status}" in str(failure)


def test_the_words_of_the_service_are_told_without_keys() -> None:
    body = orjson.dumps({"error": {"message": "no model\n sk-abcdef123 or hidden"}})
    assert str(refused("Acme", 404, body, key="hidden")) == (
        "Acme answers HTTP 404: no model *** or ***"
    )


@pytest.mark.parametrize("at", [0, 290, 299])
def test_a_key_is_not_told_in_part(at: int) -> None:
    key = "sk-abcdef/ghijkl+mnopqr"
    body = orjson.dumps({"error": {"message": f"{'x' * (at - 1)} {key} is odd"}})
    said = str(refused("Acme", 404, body, key=key))
    assert not any(key[i : i + 4] in said for i in range(len(key) - 3))


def test_what_a_refused_key_brings_is_not_repeated() -> None:
    body = orjson.dumps({"error": {"message": "Incorrect key: abcd****wxyz"}})
    assert str(refused("Acme", 401, body)) == "Acme does not accept the key (HTTP 401)"
    body = orjson.dumps({"detail": {"message": "the permission tts is missing"}})
    assert "permission tts" in str(refused("Acme", 401, body))


def test_a_key_may_be_refused_with_400() -> None:
    body = b'{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}'
    assert refused("Acme", 400, body).kind == "auth"


def test_an_empty_account_is_no_wrong_key_and_is_not_asked_again() -> None:
    body = orjson.dumps({"detail": {"message": "This request exceeds your quota."}})
    assert refused("Acme", 401, body).kind == "quota"
    body = orjson.dumps({"error": {"code": "insufficient_quota", "message": "x"}})
    assert refused("Acme", 429, body).again is False


@pytest.mark.parametrize(
    ("header", "seconds"), [("1.5", 1.5), ("-3", 0.0), ("Wed, 21 Oct 2026", None), (None, None)]
)
def test_the_pause_that_a_service_asks_for(header: str | None, seconds: float | None) -> None:
    assert refused("Acme", 503, b"", header).after == seconds


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"[" * 100_000, b'{"error": 3}', b'{"error": {"message": []}}']
)
def test_a_body_of_another_shape_has_no_words(body: bytes) -> None:
    assert words_of_error(body) == ""


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            chained(httpx2.ConnectError("x"), ConnectionRefusedError()),
            "connect",
            "cannot be reached (connection refused)",
        ),
        (httpx2.ConnectTimeout("x"), "connect", "cannot be reached (it does not answer)"),
        (
            httpx2.PoolTimeout("x"),
            "connect",
            "cannot be reached (too many requests are under way)",
        ),
        (
            httpx2.ProxyError("407 Who"),
            "connect",
            "cannot be reached (the proxy refused: 407 Who)",
        ),
        (ProxyFailed("the proxy is odd"), "connect", "cannot be reached (the proxy is odd)"),
        (httpx2.ReadTimeout("x"), "stalled", "has fallen silent (ReadTimeout)"),
        (httpx2.ReadError("x"), "dropped", "broke off (ReadError)"),
        (httpx2.RemoteProtocolError("x"), "dropped", "broke off (RemoteProtocolError)"),
        (httpx2.DecodingError("x"), "garbage", "sent an unreadable answer (DecodingError)"),
    ],
)
def test_a_transport_error_means_the_same_everywhere(
    error: Exception, kind: FailureKind, words: str
) -> None:
    failure = kind_of_error(error)
    assert (failure.kind, failure.words) == (kind, words)
