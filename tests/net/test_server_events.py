"""Events out of bytes, however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.net.server_events import (
    EventParser,
    EventsTooLong,
    ServerEvent,
)


def parse(stream: bytes, size: int) -> list[ServerEvent]:
    parser = EventParser()
    events = []
    for start in range(0, len(stream), size):
        events += parser.feed(stream[start : start + size])
    return events + parser.end()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_all_ends_of_lines_in_all_pieces(end: bytes, size: int) -> None:
    lines = [
        b"\xef\xbb\xbfevent: a",
        b"data: {1",
        b"data:2}",
        b"",
        b": still here",
        b"",
        b"data: x",
    ]
    assert parse(end.join([*lines, b"", b""]), size) == [
        ServerEvent("a", "{1\n2}"),
        ServerEvent("", "x"),
    ]


def test_the_last_event_needs_no_empty_line() -> None:
    assert parse(b"data: x", 3) == [ServerEvent("", "x")]
    assert parse(b"data: x\n", 3) == [ServerEvent("", "x")]


def test_an_event_without_an_end_is_refused() -> None:
    parser = EventParser(most=100)
    with pytest.raises(EventsTooLong):
        parser.feed(b"data: more\n" * 20)


@given(st.lists(st.sampled_from([b"data: a", b"event: b", b"\r", b"\n", b"\r\n", b":", b"x"])))
def test_pieces_change_nothing(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    assert parse(stream, 1) == parse(stream, max(1, len(stream)))


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_are_too_strange(stream: bytes, size: int) -> None:
    parse(stream, size)
