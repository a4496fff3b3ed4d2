from __future__ import annotations

from typing import Any

import pytest

from cordboard.tools.result_cache import (
    MAX_ENTRY_BYTES,
    CacheKey,
    ResultCache,
    cache_key,
    canonical_arguments,
)
from cordboard.tools.tool import Status, ToolResult


def key(number: int = 0) -> CacheKey:
    return cache_key("http:quote", "quote", canonical_arguments({"n": number}))


def test_it_is_kept_for_its_time() -> None:
    cache = ResultCache()
    cache.put(key(), ToolResult(message="Five.", data={"price": 5}), now=100.0, ttl=10.0)
    assert cache.get(key(), 109.9) == ToolResult(message="Five.", data={"price": 5})
    assert cache.get(key(1), 100.0) is None
    assert cache.get(key(), 110.0) is None
    assert (len(cache), cache.bytes) == (0, 0)


def test_arguments_are_equal_in_any_order_and_tools_are_not() -> None:
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert canonical_arguments(one) == canonical_arguments(other)
    assert canonical_arguments({"a": 1}) != canonical_arguments({"a": "1"})
    assert cache_key("http:a", "x", b"") != cache_key("mcp:s:a", "x", b"")


def test_the_longest_unused_goes_first() -> None:
    cache = ResultCache(max_entries=3)
    for number in range(3):
        cache.put(key(number), ToolResult(data=number), 0.0, 60.0)
    assert cache.get(key(0), 1.0) is not None
    cache.put(key(3), ToolResult(data=3), 2.0, 60.0)
    assert [cache.get(key(n), 3.0) is not None for n in range(4)] == [True, False, True, True]


def test_bytes_are_bounded_and_counted_right() -> None:
    cache = ResultCache(max_bytes=100_000)
    for number in range(500):
        cache.put(key(number % 90), ToolResult(data={"text": "x" * 5_000}), float(number), 1e6)
        assert cache.bytes <= 100_000
    assert 15 < len(cache) < 20
    cache.clear()
    assert (len(cache), cache.bytes) == (0, 0)


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(Status.REFUSED, "No."),
        ToolResult(control={"call_ends": True}),
        ToolResult(data={1: 2}),
        ToolResult(data={"x": {1, 2}}),
        ToolResult(data=2**70),
        ToolResult(data="x" * (MAX_ENTRY_BYTES + 1)),
        ToolResult(data=[0] * 100_000),
    ],
)
def test_what_is_not_kept(result: Any) -> None:
    cache = ResultCache()
    cache.put(key(), result, 0.0, 60.0)
    assert cache.get(key(), 1.0) is None
    cache.put(key(), ToolResult(), 0.0, 0.0)
    assert len(cache) == 0
