from __future__ import annotations

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
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_json, "PIECE_BYTES", 8)


@pytest.mark.usefixtures("tiny_pieces")
@given(JSON, st.sampled_from([None, 1]))
def test_what_is_cut_into_pieces_is_the_same_value(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert parse_large(text) == orjson.loads(text)


def outcome(parse: Any, text: bytes) -> Any:
    try:
        return parse(text)
    except ValueError:
        return ValueError


@pytest.mark.usefixtures("tiny_pieces")
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40))
def test_what_is_no_json_is_refused_as_by_any_parser(fragments: list[str]) -> None:
    text = "".join(fragments).encode()
    assert outcome(parse_large, text) == outcome(orjson.loads, text)


def test_no_piece_is_long_so_that_others_get_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    class Measured:
        @staticmethod
        def loads(text: bytes) -> Any:
            sizes.append(len(text))
            return orjson.loads(text)

    rows = [{"id": number, "name": f"row {number}", "in": [1, 2]} for number in range(20_000)]
    text = json.dumps({"a": {"rows": rows, "more": [rows[:9_000]]}, "z": 1}).encode()
    monkeypatch.setattr(large_json, "orjson", Measured)
    assert parse_large(text) == {"a": {"rows": rows, "more": [rows[:9_000]]}, "z": 1}
    assert sum(sizes) < 1.01 * len(text), "nothing is parsed twice"
    assert max(sizes) < 3 * large_json.PIECE_BYTES


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
