"""The messages about MCP servers between the engines of a cluster, of neighbouring versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.cluster.wire import (
    BreakerReport,
    ServerAnswer,
    ServerHolder,
    ServerRequest,
    decode_holder,
    decode_report,
    decode_server_answer,
    decode_server_request,
    encode_holder,
    encode_report,
    encode_server_answer,
    encode_server_request,
)
from cordboard.errors import WireUnreadable

HOLDER_1 = (
    b'{"v":1,"kind":"mcp_holder","server":"shop","instance":"a-3f9c01","life":"0a1b2c",'
    b'"ready":true,"tools":"5f1c"}'
)
"""As version 1 has written it; never change these."""
REPORT_1 = b'{"v":1,"kind":"mcp_breaker","server":"shop","instance":"a-3f9c01"}'
REQUEST_1 = (
    b'{"v":1,"kind":"mcp_request","request_id":"b-77e210-0a1b2c-4","life":"0a1b2c",'
    b'"method":"tools/call","tool":"find_table","timeout_ms":4000,"patience_ms":60000,'
    b'"hidden":["1234"]}\n{"pin":"1234"}'
)
ANSWER_1 = b'{"v":1,"kind":"mcp_answer","outcome":"result","words":""}\n{"content":[]}'
ANSWER_1_OF = (
    b'{"v":1,"kind":"mcp_answer","outcome":"result","words":"",'
    b'"request_id":"b-77e210-0a1b2c-4"}\n{"content":[]}'
)
"""As later programs of version 1 write `ANSWER_1`."""
HOLDER = ServerHolder("shop", "a-3f9c01", "0a1b2c", True, "5f1c")
REPORT = BreakerReport("shop", "a-3f9c01")
REQUEST = ServerRequest(
    "b-77e210-0a1b2c-4", "0a1b2c", "tools/call", "find_table", 4_000, 60_000, ("1234",),
    b'{"pin":"1234"}',
)  # fmt: skip
ANSWER = ServerAnswer("result", "", "b-77e210-0a1b2c-4", b'{"content":[]}')
ALL: tuple[tuple[bytes, Any, Callable[[bytes], Any], Callable[[Any], bytes]], ...] = (
    (HOLDER_1, HOLDER, decode_holder, encode_holder),
    (REPORT_1, REPORT, decode_report, encode_report),
    (REQUEST_1, REQUEST, decode_server_request, encode_server_request),
    (ANSWER_1_OF, ANSWER, decode_server_answer, encode_server_answer),
)


def changed(message: bytes, **fields: object) -> bytes:
    head, newline, rest = message.partition(b"\n")
    return orjson.dumps(orjson.loads(head) | fields) + newline + rest


@pytest.mark.parametrize(("recorded", "message", "decode", "encode"), ALL)
def test_neighbouring_versions_read_each_other(
    recorded: bytes,
    message: Any,
    decode: Callable[[bytes], Any],
    encode: Callable[[Any], bytes],
) -> None:
    assert decode(recorded) == message
    assert encode(message) == recorded
    assert decode(changed(recorded, trace="t1", sizes={"a": [1]})) == message
    with pytest.raises(WireUnreadable, match=r"version 2.*reads up to 1: update it"):
        decode(changed(recorded, v=2))


def test_an_earlier_program_may_have_fewer_fields() -> None:
    few = b'{"v":1,"kind":"mcp_request","request_id":"x","life":"f","method":"tools/list"}'
    assert decode_server_request(few) == ServerRequest("x", "f", "tools/list")
    assert decode_server_answer(ANSWER_1) == replace(ANSWER, request_id="")


@settings(max_examples=40)
@given(
    st.binary()
    | st.tuples(
        st.dictionaries(
            st.sampled_from(["v", "kind", "server", "instance", "life", "method", "hidden"]),
            st.none() | st.integers(-1, 9) | st.text() | st.lists(st.text())
            | st.sampled_from(["mcp_holder", "mcp_request", "mcp_answer", "mcp_breaker"]),
        ).map(orjson.dumps),
        st.binary(),
    ).map(b"\n".join)
)  # fmt: skip
def test_no_message_raises_anything_else(message: bytes) -> None:
    for _, _, decode, _ in ALL:
        with contextlib.suppress(WireUnreadable):
            decode(message)
