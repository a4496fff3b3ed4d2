from __future__ import annotations

import asyncio
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools import large_json
from cordboard.tools.large_json import parse_large

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)
FRAGMENTS = [*'[]{},:" 1\\', '"a"', "null", '"a":', "[[", '{"b":1}', '"\\""']


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "SMALL_BYTES", 0)


@pytest.mark.usefixtures("any_size")
@given(JSON, st.sampled_from([None, 1]))
def test_a_large_text_is_the_same_value(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert parse_large(text) == orjson.loads(text)


def outcome(parse: Any, text: bytes) -> Any:
    try:
        return parse(text)
    except ValueError:
        return ValueError


@pytest.mark.usefixtures("any_size")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40))
def test_what_is_no_json_is_refused_as_by_any_parser(fragments: list[str]) -> None:
    text = "".join(fragments).encode()
    assert outcome(parse_large, text) == outcome(orjson.loads, text)


async def test_others_get_their_turn_meanwhile() -> None:
    rows = [{"id": number, "name": f"row {number}", "in": [1, 2]} for number in range(40_000)]
    parsing = asyncio.ensure_future(asyncio.to_thread(parse_large, json.dumps(rows).encode()))
    turns = 0
    while not parsing.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert await parsing == rows
    assert turns >= 10


def test_numbers_are_those_of_the_other_parser() -> None:
    text = b"[0,-0,1.5,1e3,-2E-2,18446744073709551616,123456789012345678901234567890,%s]" % (
        b",".join([b"7"] * 40_000)
    )
    assert list(map(repr, parse_large(text))) == list(map(repr, orjson.loads(text)))


@pytest.mark.parametrize(
    ("escaped", "is_text"),
    [
        (rb"\ud83d\ude00", True),
        (rb"\\ud83d", True),
        (rb"\u00d8", True),
        (rb"\ud83d", False),
        (rb"\ude00\ud83d", False),
        (rb"\\\ud83d", False),
        (rb"\ud83d\u0041", False),
    ],
)
def test_half_a_character_is_refused(escaped: bytes, is_text: bool) -> None:
    for text in (b'["%s",%s 0]', b'[{"%s": 1},%s 0]'):
        large = text % (escaped, b"1," * 40_000)
        assert outcome(parse_large, large) == outcome(orjson.loads, large)
        assert (outcome(parse_large, large) is not ValueError) == is_text


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"[" + b"[]," * 30_000 + b"1]",
        b'["' + b'\\"' * 200_000,
        b'["' + b"\\" * 200_001,
        b"[" + b'"' * 200_001,
        b"[1," * 50_000,
        b"[" + b"1," * 50_000 + b"]",
        b"[" + b" " * 200_000,
    ],
    ids=range(10),
)
def test_malice_is_refused(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "MAX_CONTAINERS", 25_000)
    with pytest.raises(ValueError, match=" "):
        parse_large(text)


def test_the_last_of_equal_names_counts() -> None:
    large = [0] * 40_000
    text = b'{"a":1,"b":2,"a":%s,"b":%s,"b":3}' % ((json.dumps(large).encode(),) * 2)
    assert parse_large(text) == {"a": large, "b": 3}
