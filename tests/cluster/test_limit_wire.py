"""The messages about shared limits: what one version writes another reads, poison is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.cluster import limit_wire as wire
from cordboard.cluster.limit_wire import Claim, Counted, MinuteCounts, NowCounts
from cordboard.cluster.wire import MOST_BYTES
from cordboard.errors import WireTooNew, WireUnreadable
from cordboard.firewall.blocks import BlockChange
from cordboard.firewall.counts import Amounts

MESSAGES: dict[str, tuple[bytes, Any, Any, Any]] = {
    "key": (b'{"v":1,"kind":"key","key":"0aff"}', b"\n\xff", wire.encode_key, wire.decode_key),
    "counted": (
        b'{"v":1,"kind":"counted","node":"a","hour":"2026-11-23T09:00",'
        b'"rows":[["in","total","",3,61.5,0.25]]}',
        Counted("a", "2026-11-23T09:00", {("in", "total", ""): Amounts(3, 61.5, 0.25)}),
        wire.encode_counted,
        wire.decode_counted,
    ),
    "now": (
        b'{"v":1,"kind":"now","node":"a","instance":"a-1","place":"p","number":7,"waits_for":6,'
        b'"seen":{"b-1":4},"calls":2,"rows":[["out","context","demo",2,29000000,1,3]]}',
        NowCounts("a", "a-1", "p", 7, 6, {"b-1": 4}, 2,
                  {("out", "context", "demo"): MinuteCounts(2, 29_000_000, 1, 3)}),
        wire.encode_now,
        wire.decode_now,
    ),
    "block": (
        b'{"v":1,"kind":"block","number":"+4722","at":1700000000.5,"blocked":true}',
        BlockChange("+4722", 1_700_000_000.5, True),
        wire.encode_block,
        wire.decode_block,
    ),
    "claim": (
        b'{"v":1,"kind":"claim","instance":"a-1","attempts":1,"not_before":0.0,"outcome":"",'
        b'"done":false}',
        Claim("a-1", 1),
        wire.encode_claim,
        wire.decode_claim,
    ),
}  # fmt: skip
"""As version 1 has written them; never change the bytes."""


@pytest.mark.parametrize("kind", MESSAGES)
def test_what_version_1_wrote_is_read_and_written_the_same(kind: str) -> None:
    data, value, encode, decode = MESSAGES[kind]
    assert decode(data) == value
    assert encode(value) == data
    assert decode(orjson.dumps(orjson.loads(data) | {"later": [1]})) == value, "more fields"


@pytest.mark.parametrize("kind", MESSAGES)
def test_other_versions_and_kinds_are_refused(kind: str) -> None:
    data, _, _, decode = MESSAGES[kind]
    for changed in ({"v": 2}, {"v": True}, {"v": 0}, {"kind": "lease"}):
        with pytest.raises(WireUnreadable):
            decode(orjson.dumps(orjson.loads(data) | changed))
    with pytest.raises(WireTooNew, match=r"version 2.*update it"):
        decode(orjson.dumps(orjson.loads(data) | {"v": 2}))
    with pytest.raises(WireUnreadable, match="longer than"):
        decode(data + b" " * MOST_BYTES)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(MESSAGES)), st.data())
def test_no_message_raises_anything_else(kind: str, data: st.DataObject) -> None:
    message, _, _, decode = MESSAGES[kind]
    fields = orjson.loads(message)
    name = data.draw(st.sampled_from(sorted(fields)))
    try:
        poison = orjson.dumps(fields | {name: data.draw(ANYTHING)})
    except TypeError:  # a surrogate, or too large a number
        poison = data.draw(st.binary())
    with suppress(WireUnreadable):
        decode(poison)
