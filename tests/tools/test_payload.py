from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cordboard.tools.payload import PayloadLimits, as_payload, cap
from cordboard.tools.tool import Status, ToolReply

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(["\ud800", "🌍" * 50]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=60,
)


@given(anything, st.integers(40, 2_000), st.integers(1, 5))
def test_whatever_comes_is_json_within_the_limits(data: Any, size: int, depth: int) -> None:
    capped, _ = cap(data, PayloadLimits(max_bytes=size, max_depth=depth))
    assert isinstance(capped, dict)
    assert len(orjson.dumps(capped)) <= size


def test_small_data_is_untouched() -> None:
    data = {"atis_text": "Alpha", "clouds": [{"base": 2500.5}], "none": None}
    assert cap(data) == (data, False)


def test_cuts_are_visible() -> None:
    capped, cut = cap({"rows": list(range(500)), "text": "x" * 20_000})
    assert cut
    assert capped["rows"][-1] == "… 400 more"
    assert capped["text"].endswith("…")


def test_a_million_rows_fit() -> None:
    capped, cut = cap({"rows": [{"name": "n" * 200, "more": {"a": [1, 2, 3]}}] * 100_000})
    assert cut
    assert len(orjson.dumps(capped)) <= 16_384
    assert capped["rows"][0]["name"]


def test_data_that_is_no_object_is_wrapped() -> None:
    assert cap([1, 2])[0] == {"result": [1, 2]}
    assert cap(None) == ({}, False)


def test_status_and_message_come_first() -> None:
    reply = ToolReply("1", "t", Status.OK, "Fine.", {"a": 1})
    assert list(as_payload(reply)) == ["status", "message", "data"]
    assert list(as_payload(ToolReply("1", "t", Status.ERROR, "No."))) == ["status", "message"]


def test_no_more_is_looked_at_than_can_be_kept() -> None:
    """A million small entries, a hundred at each level: all within the limit of items."""
    looked_at = 0

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().items()

    level: list[Any] = [Counted(name="x", more={"a": [1]})] * 100
    capped, cut = cap({"rows": [[level] * 100] * 100})
    assert cut
    assert len(orjson.dumps(capped)) <= 16_384
    assert capped["rows"][0][0][0]["name"] == "x"
    assert looked_at < 20_000
