"""The messages of a cluster: engines of neighbouring versions read each other, nobody falls over a
poisoned one."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.cluster.wire import (
    AdminFrame,
    AdminRequest,
    CallRecord,
    EngineLease,
    EventBatch,
    HandOverAnswer,
    HandOverStep,
    decode_answer,
    decode_batch,
    decode_frame,
    decode_lease,
    decode_record,
    decode_request,
    decode_step,
    encode_answer,
    encode_batch,
    encode_frame,
    encode_lease,
    encode_record,
    encode_request,
    encode_step,
    token,
)
from cordboard.errors import WireTooNew, WireUnreadable

LEASE_1 = (
    b'{"v":1,"kind":"lease","instance":"a-3f9c01","node":"a","version":"1.0","labels":["gpu"],'
    b'"region":"oslo","free_slots":7,"live_calls":3,"draining":false,'
    b'"address":"http://10.0.0.5:15000","asterisk":"127.0.0.1:8088","started_at":"2026-11-24T03:00:00+01:00","revoked_by":""}'
)
"""As version 1 has written it; never change these."""
CALL_1 = (
    b'{"v":1,"kind":"call","call_id":"c1","owner":"a-3f9c01","epoch":12,'
    b'"asterisk":"127.0.0.1:8088","caller_channel":"1700000.1","bridge":"b1","media_channel":"m1",'
    b'"context":"demo","provider":"local","caller_number":"+4722","caller_name":"Bo",'
    b'"called_number":"100","variables":{"AI_CONTEXT":"demo"},'
    b'"started_at":"2026-11-24T03:00:00+01:00","state":"talking","handing_over_to":"",'
    b'"labels":["gpu"]}'
)
NO_LONGER_WRITTEN = (b'"bridge":"b1","media_channel":"m1",', b'"address":"http://10.0.0.5:15000",')
"""Fields of `CALL_1` and `LEASE_1` that later programs of version 1 leave out."""
EVENTS_1 = (
    b'{"v":1,"kind":"events","call_id":"c1","epoch":12,"first":1,"count":2,"begin":0,"end":28}\n'
    b'{"at_ms":0}\n{"at_ms":200}\n'
)
REQUEST_1 = (
    b'{"v":1,"kind":"admin-request","session":"s1","sender":"a-3f9c01","node":"a",'
    b'"sent_ms":1700000000000,"method":"POST","path":"/calls/c1/say","query":"x=1",'
    b'"websocket":false,"request":"5f","headers":{"content-type":"application/json"},'
    b'"protocols":["p"],"who":"otto","role":"operator","holder":"session:1","client":"::1",'
    b'"permissions":["calls.control"],"scopes":["[\\"demo\\"]"]}\n{"text":"Hold.\\n"}'
)
FRAME_1 = (
    b'{"v":1,"kind":"admin-frame","number":3,"type":"start","code":200,"reason":"",'
    b'"headers":{"etag":"x"},"part":false,"more":true}\n\x00\n\xff'
)
STEP_1 = (
    b'{"v":1,"kind":"hand_over","step":"take","call_id":"c1","sender":"a-3f9c01","lines":12,'
    b'"why":""}'
)
ANSWER_1 = b'{"v":1,"kind":"hand_over_answer","agreed":false,"why":"it has no room"}'
LEASE = EngineLease(
    "a-3f9c01", "a", "1.0", ("gpu",), "oslo", 7, 3, False, "127.0.0.1:8088",
    "2026-11-24T03:00:00+01:00",
)  # fmt: skip
CALL = CallRecord(
    "c1", "a-3f9c01", 12, "127.0.0.1:8088", "1700000.1", "demo", "local", "+4722", "Bo",
    "100", {"AI_CONTEXT": "demo"}, "2026-11-24T03:00:00+01:00", "talking", "", ("gpu",),
)  # fmt: skip
REQUEST = AdminRequest(
    "s1", "a-3f9c01", "a", 1_700_000_000_000, "POST", "/calls/c1/say", "x=1", False, "5f",
    {"content-type": "application/json"}, ("p",), "otto", "operator", "session:1", "::1",
    ("calls.control",), ('["demo"]',), b'{"text":"Hold.\\n"}',
)  # fmt: skip
FRAME = AdminFrame(3, "start", 200, "", {"etag": "x"}, False, True, b"\x00\n\xff")
EVENTS = EventBatch("c1", 12, 1, 2, 0, 28, b'{"at_ms":0}\n{"at_ms":200}\n')


def test_what_version_1_wrote_is_read_and_written_the_same() -> None:
    assert decode_lease(LEASE_1) == LEASE
    assert encode_lease(LEASE) == LEASE_1.replace(NO_LONGER_WRITTEN[1], b"")
    assert decode_record(CALL_1) == CALL
    assert encode_record(CALL) == CALL_1.replace(NO_LONGER_WRITTEN[0], b"")
    assert decode_step(STEP_1) == HandOverStep("take", "c1", "a-3f9c01", 12)
    assert encode_step(HandOverStep("take", "c1", "a-3f9c01", 12)) == STEP_1
    assert decode_answer(ANSWER_1) == HandOverAnswer(False, "it has no room")
    assert encode_answer(HandOverAnswer(False, "it has no room")) == ANSWER_1
    assert decode_batch(EVENTS_1) == EVENTS
    assert encode_batch(EVENTS) == EVENTS_1
    assert decode_request(REQUEST_1) == REQUEST
    assert encode_request(REQUEST) == REQUEST_1
    assert decode_frame(FRAME_1) == FRAME
    assert encode_frame(FRAME) == FRAME_1


def changed(message: bytes, **fields: object) -> bytes:
    head, newline, rest = message.partition(b"\n")
    return orjson.dumps(orjson.loads(head) | fields) + newline + rest


def test_a_later_program_may_add_fields() -> None:
    assert decode_lease(changed(LEASE_1, weight=3, tags={"a": [1]})) == LEASE
    assert decode_record(changed(CALL_1, mood="calm")) == CALL
    assert decode_batch(changed(EVENTS_1, zipped=False)) == EVENTS
    assert decode_request(changed(REQUEST_1, mood="calm")) == REQUEST
    assert decode_frame(changed(FRAME_1, zipped=False)) == FRAME


def test_an_earlier_program_may_have_fewer_fields() -> None:
    assert decode_lease(b'{"v":1,"kind":"lease","instance":"a-1","node":"a"}') == EngineLease(
        "a-1", "a"
    )


@pytest.mark.parametrize("message", [LEASE_1, CALL_1, EVENTS_1])
def test_a_higher_version_is_refused_with_what_to_do(message: bytes) -> None:
    decode = {b"lea": decode_lease, b"cal": decode_record, b"eve": decode_batch}[message[15:18]]
    with pytest.raises(WireTooNew, match=r"version 2.*reads up to 1: update it"):
        decode(changed(message, v=2))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"null",
        b'{"v":true,"kind":"lease"}',
        b'{"v":0,"kind":"lease","instance":"a","node":"a"}',
        b'{"kind":"lease","instance":"a","node":"a"}',
        b'{"v":1,"kind":"call","instance":"a","node":"a"}',
        b'{"v":1,"kind":"lease","node":"a"}',
        b'{"v":1,"kind":"lease","instance":7,"node":"a"}',
        b'{"v":1,"kind":"lease","instance":"a","node":"a","free_slots":-1}',
        b'{"v":1,"kind":"lease","instance":"a","node":"a","free_slots":1e99}',
        b'{"v":1,"kind":"lease","instance":"a","node":"a","draining":1}',
        b'{"v":1,"kind":"lease","instance":"a","node":"a","labels":{"a":1}}',
        b'{"v":1,"kind":"lease","instance":"a","node":"a","labels":[1]}',
        b'{"v":1,"kind":"lease","instance":"a\xff","node":"a"}',
        b"[" * 100_000,
        LEASE_1 + b" " * 1_000_000,
    ],
)
def test_a_poisoned_message_is_refused(message: bytes) -> None:
    with pytest.raises(WireUnreadable):
        decode_lease(message)


@pytest.mark.parametrize(
    "message",
    [
        EVENTS_1[:-1],
        EVENTS_1 + b"{}\n",
        EVENTS_1.partition(b"\n")[0],
        changed(EVENTS_1, first=0),
        changed(EVENTS_1, begin=29),
        changed(EVENTS_1, count=3),
    ],
)
def test_a_batch_without_whole_lines_is_refused(message: bytes) -> None:
    with pytest.raises(WireUnreadable):
        decode_batch(message)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    st.binary()
    | st.dictionaries(
        st.sampled_from(["v", "kind", "instance", "node", "labels", "variables", "epoch", "lines"]),
        JSON | st.sampled_from(["lease", "call", "events", 1]),
    ).map(lambda value: orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
          if not _huge(value) else b"")
)  # fmt: skip
def test_no_message_raises_anything_else(message: bytes) -> None:
    for decode in (decode_lease, decode_record, decode_batch):
        try:
            decode(message)
        except WireUnreadable:
            continue


def _huge(value: object) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return True
    return False


@given(st.builds(CallRecord, st.text(), st.text(), variables=st.dictionaries(st.text(), st.text())))
def test_every_record_comes_back(record: CallRecord) -> None:
    assert decode_record(encode_record(record)) == record


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"") + b"\n"), min_size=1)
)
def test_every_batch_comes_back(lines: list[bytes]) -> None:
    text = b"".join(lines)
    batch = replace(EVENTS, count=len(lines), end=len(text), lines=text)
    assert decode_batch(encode_batch(batch)) == batch


def test_a_name_that_is_no_text_does_not_stop_the_record() -> None:
    record = replace(CALL, caller_name="B\ud800o")
    assert decode_record(encode_record(record)).caller_name == "B?o"


def test_only_names_without_a_meaning_to_the_bus_are_subjects() -> None:
    assert token("3f9c01aa-1111-2222-3333-444455556666")
    for name in ("", "a.b", "a*", ">", "a b", "ü", "a" * 129):
        with pytest.raises(ValueError, match="not a name for the bus"):
            token(name)
