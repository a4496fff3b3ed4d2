from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cordboard.mcp.lines import KEPT_BYTES, Line, LineSplitter, OverlongBegan, OverlongEnded


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_how_the_bytes_arrive_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    whole = LineSplitter(20).feed(data)
    splitter = LineSplitter(20)
    parts = [event for piece in pieces(data, cuts) for event in splitter.feed(piece)]
    kinds = [type(event) for event in whole]
    assert [type(event) for event in parts] == kinds
    assert [e for e in parts if isinstance(e, Line)] == [e for e in whole if isinstance(e, Line)]


@given(st.lists(st.binary(max_size=40).filter(lambda b: b"\n" not in b), max_size=10))
def test_lines_within_the_cap_come_out_whole(lines: list[bytes]) -> None:
    events = LineSplitter(40).feed(b"".join(line + b"\n" for line in lines))
    assert [e.data for e in events if isinstance(e, Line)] == [
        line.strip() for line in lines if line.strip()
    ]
    assert len(events) == len([line for line in lines if line.strip()])


def test_an_overlong_line_is_told_at_once_and_costs_only_itself() -> None:
    splitter = LineSplitter(1_000)
    events = splitter.feed(b'{"id":7,' + b"x" * 5_000)
    assert isinstance(events[0], OverlongBegan)
    assert events[0].head.startswith(b'{"id":7,')
    assert splitter.feed(b"y" * 100_000) == []
    events = splitter.feed(b"end\nnext\n")
    assert isinstance(events[0], OverlongEnded)
    assert events[0].tail.endswith(b"yend")
    assert len(events[0].tail) == KEPT_BYTES
    assert events[1] == Line(b"next")
