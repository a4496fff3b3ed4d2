"""Secrets of the configuration are found in what a tool answers, however they are written."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, quote_plus

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.tools.known_secrets import INLINE_WEIGHT, KnownSecrets, without_parameters
from cordboard.tools.masking import MASK
from cordboard.tools.tool import ToolResult

TOKEN = "SECRETENV77"
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(), inner, max_size=5)
        | st.tuples(inner)
    ),
    max_leaves=30,
)
secrets = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=60)
WAYS = [
    lambda text: text,
    lambda text: f"your key is Bearer {text}.",
    lambda text: quote(text, safe=""),
    lambda text: quote_plus(text),
    lambda text: json.dumps({"key": text}),
    lambda text: b64encode(text.encode()).decode(),
    lambda text: b64encode(f"u:{text}".encode()).decode(),
    lambda text: b64encode(f"me:{text}:more".encode()).decode(),
    lambda text: urlsafe_b64encode(f"user:{quote_plus(text)}".encode()).decode(),
]


@given(values, secrets, st.sampled_from(WAYS))
@example([], "a+b/c?d>e", WAYS[8])
@example([], "******", WAYS[1])
def test_a_secret_is_found_however_it_is_written(data: Any, secret: str, write: Any) -> None:
    known = KnownSecrets([secret])
    written = write(secret)
    masked = known.data({"data": data, "more": [{written: 1}, (written,)]})
    names, (text,) = masked["more"]
    assert MASK in text
    assert MASK in next(iter(names))
    assert secret not in text.replace(MASK, "")
    assert known.text(written) == text


@given(values)
def test_data_without_a_secret_is_not_even_copied(data: Any) -> None:
    known = KnownSecrets(["hunter2-of-the-configuration"])
    assert known.data(data) is data
    assert KnownSecrets().data(data) is data


@pytest.mark.parametrize(
    ("configured", "answered"),
    [
        ("Bearer SECRETENV77", "SECRETENV77"),
        ("Basic " + b64encode(b"shop:pass:word").decode(), "pass:word"),
        ("Basic " + b64encode(b"shop:pass:word").decode(), "shop:pass:word"),
        ("-----BEGIN KEY-----\nMIIEabcdef\n-----END KEY-----\n", "it ends in MIIEabcdef"),
        ("4711471147", 4711471147),
        ("pa*ss*wo*rd", "password"),
        ("not-utf8-\udce9", "not-utf8-\udce9"),
    ],
)
def test_what_a_secret_consists_of(configured: str, answered: Any) -> None:
    assert MASK in str(KnownSecrets([configured]).data({"echo": answered}))


def test_short_values_and_words_of_a_header_stay() -> None:
    known = KnownSecrets(["1", "12345", "Bearer abc"])
    text = "1 of 12345 bearers, Bearer of abc"
    assert known.text(text) == text


def test_the_longest_is_masked_first() -> None:
    assert KnownSecrets(["abcdef", "abcdef-123456"]).text("<abcdef-123456>") == f"<{MASK}>"


def test_a_token_is_known_from_the_moment_it_is_fetched() -> None:
    tokens: list[str] = []
    known = KnownSecrets([TOKEN], lambda: tokens)
    assert known.text("token-1") == "token-1"
    tokens.append("token-1")
    assert known.text(f"token-1 {TOKEN}") == f"{MASK} {MASK}"
    tokens[:] = ["token-2"]
    assert known.text("token-1 token-2") == f"token-1 {MASK}"


def test_data_that_contains_itself_ends() -> None:
    inner: list[Any] = [TOKEN]
    inner.append(inner)
    assert KnownSecrets([TOKEN]).data(inner) == [MASK, MASK]
    assert KnownSecrets(["another"]).data(inner) is inner


@pytest.mark.parametrize("rows", [1, INLINE_WEIGHT, 20_000])
async def test_beside_the_loop_the_same_comes_out(rows: int) -> None:
    known = KnownSecrets([TOKEN])
    data: dict[str, Any] = {"rows": [{"n": n, "text": "x" * 40} for n in range(rows)]}
    assert (await known.masked(ToolResult(message="Fine.", data=data))).data is data
    data["rows"][-1]["text"] = f"key={TOKEN}"
    result = await known.masked(ToolResult(message=f"It is {TOKEN}.", data=data))
    assert result.message == f"It is {MASK}."
    assert result.data["rows"][-1]["text"] == f"key={MASK}"
    assert TOKEN.encode() not in orjson.dumps(result.data)
    assert result.data["rows"][:-1] == data["rows"][:-1]


async def test_names_that_are_no_texts_are_no_failure() -> None:
    result = ToolResult(data={1: {(2, 3): TOKEN}})
    assert (await KnownSecrets([TOKEN]).masked(result)).data == {"1": {"(2, 3)": MASK}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bad request for url: /v1?api_key=SK123&city=Oslo", "/v1?api_key=•••&city=Oslo"),
        ("POST /t?access_token=a.b-c failed", "/t?access_token=••• failed"),
        ('/v1?key=AIza123">', '/v1?key=•••">'),
        ("X-Api-Key=abc", "X-Api-Key=•••"),
        ("the token expired, pin=12", "the token expired, pin=•••"),
        ("city=Oslo&keyword=wind", "city=Oslo&keyword=wind"),
    ],
)
def test_secret_parameters_of_an_address(text: str, shown: str) -> None:
    assert without_parameters(text).endswith(shown)
