"""Events out of bytes, however they are cut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.net.server_events import ServerSentEvent, events_or_whole

from .answered_bytes import parsed


def parse(stream: bytes, size: int) -> list[ServerSentEvent]:
    return parsed(stream[start : start + size] for start in range(0, len(stream), size))


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
        ServerSentEvent("a", "{1\n2}"),
        ServerSentEvent("message", "x"),
    ]


def test_an_event_that_breaks_off_is_none() -> None:
    assert parse(b"data: x\n\ndata: y\n", 3) == [ServerSentEvent("message", "x")]


@pytest.mark.parametrize("endless", [[b"data: more\n"] * 20, [b"data: "] + [b"more"] * 50])
def test_an_event_without_an_end_is_refused(endless: list[bytes]) -> None:
    with pytest.raises(httpx2.SSEError):
        parsed(endless, most=100)


def test_another_media_type_is_read_all_the_same() -> None:
    """Gateways before language models send `text/plain` or none."""
    events = parsed([b"data: x\n\n"], kind="text/plain")
    assert events == [ServerSentEvent("message", "x")]
    assert parsed([b"<html>\n\n</html>"], kind="text/html") == []


def test_what_the_answer_says_of_its_encoding_does_not_count() -> None:
    events = parsed(["data: ö\n\n".encode()], kind="text/event-stream; charset=latin-1")
    assert events == [ServerSentEvent("message", "ö")]


WHOLE = b'{"a": "data: 1\\n\xc3\xb6",\n "b": 2}'


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("application/json", b"\n " + WHOLE + b"\n", [WHOLE.decode()]),
        ("application/json; charset=utf-8", b"\xef\xbb\xbf" + WHOLE, [WHOLE.decode()]),
        ("application/json", b'event: a\r\ndata: {"a":1}\r\n\r\ndata:x\n\ndata: y', None),
        ("text/event-stream", b'data: {"a":1}\n\ndata: x\n\ndata: y\n\n', None),
        ("application/json", b"", []),
        ("application/json", b"[1]\n", []),
    ],
)
async def test_an_answer_at_once_is_one_event(
    kind: str, body: bytes, told: list[str] | None, size: int
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    request = httpx2.Request("GET", "http://127.0.0.1/")
    headers = {"content-type": kind}
    response = httpx2.Response(200, headers=headers, content=pieces(), request=request)
    found = [event.data async for event in events_or_whole(response)]
    assert found == (['{"a":1}', "x", "y"] if told is None else told)


async def test_an_answer_at_once_without_an_end_is_refused() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"{" + b" " * 50

    response = httpx2.Response(200, headers={"content-type": "application/json"}, content=endless())
    with pytest.raises(httpx2.SSEError):
        async for _ in events_or_whole(response, 1_000):
            pass


@given(st.lists(st.sampled_from([b"data: a", b"event: b", b"\r", b"\n", b"\r\n", b":", b"x"])))
def test_pieces_change_nothing(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    assert parse(stream, 1) == parse(stream, max(1, len(stream)))


@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_bytes_are_too_strange(stream: bytes, size: int) -> None:
    for event in parse(stream, size):
        assert isinstance(event.data, str)
